;; fail with escapes
(module
    (import "agent" "fail" (func $fail (param i32 i32)))(memory (export "memory") 1)(data (i32.const 0) "\1b[2J\00\ff\0a")(func (export "retrieve") (param i32) (call $fail (i32.const 0) (i32.const 7))))
