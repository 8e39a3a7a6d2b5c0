;; take for ever
(module
    (import "agent" "take" (func $take (param i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32)  (loop $l (call $take (i32.const 0)) (br $l))))
