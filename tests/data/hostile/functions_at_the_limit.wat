;; functions at the limit
(module
    (memory (export "memory") 1)⟪9990*(func (result i32) (i32.const %%))⟫(func (export "retrieve") (param i32)))
