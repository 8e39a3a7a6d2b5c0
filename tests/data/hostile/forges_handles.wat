;; forges handles
(module
    (import "agent" "length" (func $n (param i32) (result i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32) (local $i i32) (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1))) (drop (call $n (local.get $i))) (br $l))))
