;; retrieve takes floats
(module
    (memory (export "memory") 1)(func (export "retrieve") (param f32)))
