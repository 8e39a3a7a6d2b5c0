;; threads and atomics
(module
    (memory (export "memory") 1 1 shared)(func (export "retrieve") (param i32) (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))))
