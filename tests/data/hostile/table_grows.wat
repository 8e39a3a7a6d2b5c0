;; table grows
(module
    (memory (export "memory") 1)(table $t 1 funcref)(func (export "retrieve") (param i32) (loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 1000)) (i32.const -1)))) unreachable))
