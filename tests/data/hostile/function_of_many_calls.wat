;; function of many calls
(module
    (memory (export "memory") 1)(func $f)(func (export "retrieve") (param i32) ⟪30000*call $f ⟫))
