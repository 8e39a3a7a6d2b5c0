;; globals are many
(module
    (memory (export "memory") 1)⟪10000*(global i64 (i64.const 0))⟫(func (export "retrieve") (param i32)))
