;; retrieve takes much
(module
    (memory (export "memory") 1)(func (export "retrieve") ⟪500*(param i32)⟫))
