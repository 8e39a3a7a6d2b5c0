;; params give nothing
(module
    (memory (export "memory") 1)(func (export "params"))(func (export "retrieve") (param i32)))
