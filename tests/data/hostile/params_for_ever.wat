;; params for ever
(module
    (memory (export "memory") 1)(func (export "params") (loop $l (br $l)))(func (export "retrieve") (param i32)))
