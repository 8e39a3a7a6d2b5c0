;; tool arguments outside
(module
    (import "tools" "search" (func $search (param i32 i32) (result i32)))(memory (export "memory") 1)(data (i32.const 0) "\09\03\00\00\00\05\0a\00\00\00warm socks\05\07\00\00\00product") (data (i32.const 32) "\03\05\00\00\00\00\00\00\00")(func (export "retrieve") (param i32) (drop (call $search (i32.const 65530) (i32.const 41)))))
