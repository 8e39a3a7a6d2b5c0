;; give text that is none
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 1)(data (i32.const 0) "\05\02\00\00\00\ff\fe")(func (export "retrieve") (param i32) (call $give (i32.const 0) (i32.const 7))))
