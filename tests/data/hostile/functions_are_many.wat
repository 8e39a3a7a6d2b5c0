;; functions are many
(module
    (memory (export "memory") 1)⟪10001*(func)⟫(func (export "retrieve") (param i32)))
