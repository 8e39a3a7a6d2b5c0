;; huge table
(module
    (memory (export "memory") 1)(table 10000000 funcref)(func (export "retrieve") (param i32) ))
