;; give ranking of nan
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 1)(data (i32.const 0) "\0d\01\00\00\00\00\00\00\00\00\00\c0\7f")(func (export "retrieve") (param i32) (call $give (i32.const 0) (i32.const 13))))
