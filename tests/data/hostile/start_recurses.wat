;; start recurses
(module
    (memory (export "memory") 1)(func $s (call $s))(start $s)(func (export "retrieve") (param i32)))
