;; fail outside
(module
    (import "agent" "fail" (func $fail (param i32 i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32) (call $fail (i32.const 65535) (i32.const 100))))
