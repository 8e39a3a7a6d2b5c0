;; trap of conversion
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (drop (i32.trunc_f64_s (f64.const nan)))))
