;; calls of two for ever
(module
    (memory (export "memory") 1)(func $f (param i32) (call $g (local.get 0)))(func $g (param i32) (call $f (local.get 0)))(func (export "retrieve") (param i32) (call $f (i32.const 1))))
