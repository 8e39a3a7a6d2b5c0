;; give ranking too long
(module
    (import "agent" "give" (func $give (param i32 i32)))(memory (export "memory") 4)(func (export "retrieve") (param i32) (i32.store8 (i32.const 0) (i32.const 13)) (i32.store (i32.const 1) (i32.const 20000)) (call $give (i32.const 0) (i32.const 160005))))
