;; read of unknown handle
(module
    (import "agent" "read" (func $read (param i32 i32 i32) (result i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32) (drop (call $read (i32.const 7) (i32.const 0) (i32.const 8)))))
