;; tool arguments of wrong kind
(module
    (import "tools" "search" (func $search (param i32 i32) (result i32)))(memory (export "memory") 1)(data (i32.const 0) "\09\01\00\00\00\01")(func (export "retrieve") (param i32) (drop (call $search (i32.const 0) (i32.const 6)))))
