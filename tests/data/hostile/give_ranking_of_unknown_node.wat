;; give ranking of unknown node
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 1)(data (i32.const 0) "\0d\01\00\00\00\ff\ff\ff\7f\00\00\80\3f")(func (export "retrieve") (param i32) (call $give (i32.const 0) (i32.const 13))))
