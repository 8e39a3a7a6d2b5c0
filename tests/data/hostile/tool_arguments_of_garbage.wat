;; tool arguments of garbage
(module
    (import "tools" "search" (func $search (param i32 i32) (result i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32) (drop (call $search (i32.const 0) (i32.const 100)))))
