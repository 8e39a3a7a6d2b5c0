;; params take an argument
(module
    (memory (export "memory") 1)(func (export "params") (param i32))(func (export "retrieve") (param i32)))
