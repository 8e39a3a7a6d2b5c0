;; give for ever
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32)  (loop $l (call $give (i32.const 0) (i32.const 65536)) (br $l))))
