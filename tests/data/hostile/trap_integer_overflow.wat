;; trap integer overflow
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (drop (i64.div_s (i64.const -9223372036854775808) (i64.const -1)))))
