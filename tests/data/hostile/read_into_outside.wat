;; read into outside
(module
    (import "tools" "search" (func $search (param i32 i32) (result i32)))(import "agent" "take" (func $take (param i32)))(import "agent" "read" (func $read (param i32 i32 i32) (result i32)))(memory (export "memory") 1)(data (i32.const 0) "\09\03\00\00\00\05\0a\00\00\00warm socks\05\07\00\00\00product") (data (i32.const 32) "\03\05\00\00\00\00\00\00\00")(func (export "retrieve") (param i32) (drop (call $search (i32.const 0) (i32.const 41))) (call $take (i32.const 200)) (drop (call $read (i32.load (i32.const 201)) (i32.const 65530) (i32.const 1000)))))
