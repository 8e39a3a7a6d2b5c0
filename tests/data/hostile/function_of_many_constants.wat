;; function of many constants
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) ⟪10000*(drop (f64.sqrt (f64.const %%.5)))⟫))
