;; function of deep blocks
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) ⟪20000*block ⟫ ⟪20000*end ⟫))
