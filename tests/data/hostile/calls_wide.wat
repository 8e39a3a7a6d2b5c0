;; calls wide
(module
    (memory (export "memory") 1)(func $f (param i32) (if (local.get 0) (then (call $f (i32.sub (local.get 0) (i32.const 1))) (call $f (i32.sub (local.get 0) (i32.const 1))))))(func (export "retrieve") (param i32) (call $f (i32.const 60))))
