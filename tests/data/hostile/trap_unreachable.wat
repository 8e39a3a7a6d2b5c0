;; trap unreachable
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  unreachable))
