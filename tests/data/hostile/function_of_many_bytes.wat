;; function of many bytes
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) ⟪140000*nop ⟫))
