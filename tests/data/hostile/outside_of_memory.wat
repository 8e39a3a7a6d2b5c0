;; outside of memory
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (drop (i32.load (i32.const -4)))))
