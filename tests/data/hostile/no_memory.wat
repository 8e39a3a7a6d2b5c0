;; no memory
(module
    (func (export "retrieve") (param i32) ))
