;; table fill again
(module
    (memory (export "memory") 1)(table $t 50000 funcref)(func (export "retrieve") (param i32) (loop $l (table.fill $t (i32.const 0) (ref.null func) (i32.const 50000)) (br $l))))
