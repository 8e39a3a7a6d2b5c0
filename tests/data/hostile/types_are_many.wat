;; types are many
(module
    ⟪5000*(type (func (param i32 i32 i64)))⟫(memory (export "memory") 1)(func (export "retrieve") (param i32)))
