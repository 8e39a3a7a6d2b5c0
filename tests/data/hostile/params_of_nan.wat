;; params of nan
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 1)(data (i32.const 0) "\0a\01\00\00\00\01\00\00\00k\04\00\00\00\00\00\00\f8\7f")(func (export "params") (call $give (i32.const 0) (i32.const 19)))(func (export "retrieve") (param i32)))
