;; memory of no pages
(module
    (memory (export "memory") 0)(func (export "retrieve") (param i32) (i32.store (i32.const 0) (i32.const 1))))
