;; trap of large conversion
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (drop (i64.trunc_f64_u (f64.const 1e300)))))
