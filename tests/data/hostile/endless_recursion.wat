;; endless recursion
(module
    (memory (export "memory") 1)(func $f (call $f))(func (export "retrieve") (param i32) (call $f)))
