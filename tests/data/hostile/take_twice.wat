;; take twice
(module
    (import "agent" "take" (func $take (param i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32)  (call $take (i32.const 0)) (call $take (i32.const 0)) (call $take (i32.const 65536))))
