;; tool arguments of many values
(module
    (import "tools" "search" (func $search (param i32 i32) (result i32)))(memory (export "memory") 16)(func (export "retrieve") (param i32) (i32.store8 (i32.const 0) (i32.const 9)) (i32.store (i32.const 1) (i32.const 900000)) (drop (call $search (i32.const 0) (i32.const 900005)))))
