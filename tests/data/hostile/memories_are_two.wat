;; memories are two
(module
    (memory (export "memory") 1)(memory 1)(func (export "retrieve") (param i32)))
