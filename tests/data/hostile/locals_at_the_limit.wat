;; locals at the limit
(module
    (memory (export "memory") 1)(func $f (local ⟪1990*i64 ⟫) (call $f))(func (export "retrieve") (param i32) (call $f)))
