;; first memory too large
(module
    (memory (export "memory") 65536)(func (export "retrieve") (param i32) ))
