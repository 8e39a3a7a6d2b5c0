;; tables are many
(module
    (memory (export "memory") 1)⟪10*(table 1000 funcref)⟫(func (export "retrieve") (param i32)))
