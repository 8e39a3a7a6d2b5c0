;; endless start
(module
    (memory (export "memory") 1)(func $s (loop $l (br $l))) (start $s)(func (export "retrieve") (param i32) ))
