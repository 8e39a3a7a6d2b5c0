;; table grows for ever
(module
    (memory (export "memory") 1)(table $t 1 funcref)(func (export "retrieve") (param i32) (loop $l (drop (table.grow $t (ref.null func) (i32.const 1))) (br $l))))
