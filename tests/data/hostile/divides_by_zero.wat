;; divides by zero
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (drop (i64.rem_s (i64.const 1) (i64.const 0)))))
