;; give list of lies
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 1)(data (i32.const 0) "\0a\ff\ff\ff\ff")(func (export "retrieve") (param i32) (call $give (i32.const 0) (i32.const 5))))
