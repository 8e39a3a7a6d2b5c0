;; endless loop
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (loop $l (br $l))))
