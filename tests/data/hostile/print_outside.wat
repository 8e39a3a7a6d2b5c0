;; print outside
(module
    (import "agent" "print" (func $print (param i32 i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32) (call $print (i32.const 65535) (i32.const 100))))
