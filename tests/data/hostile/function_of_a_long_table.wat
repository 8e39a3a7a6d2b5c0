;; function of a long table
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (loop $l (block $a (block $b (br_table ⟪50000*$a $b ⟫ $a (local.get 0))) ) (br $l))))
