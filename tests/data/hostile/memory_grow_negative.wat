;; memory grow negative
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (drop (memory.grow (i32.const -1))) unreachable))
