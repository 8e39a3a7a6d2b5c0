;; memory is a function
(module
    (func (export "memory"))(func (export "retrieve") (param i32)))
