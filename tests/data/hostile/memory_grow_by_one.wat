;; memory grow by one
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (loop $l (drop (memory.grow (i32.const 1))) (br $l))))
