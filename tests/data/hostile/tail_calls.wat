;; tail calls
(module
    (memory (export "memory") 1)(func $f (return_call $f))(func (export "retrieve") (param i32) (call $f)))
