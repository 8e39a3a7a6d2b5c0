;; memory of 64 bits
(module
    (memory (export "memory") i64 1)(func (export "retrieve") (param i32)))
