;; memory copy outside
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (memory.copy (i32.const 65535) (i32.const 0) (i32.const -1))))
