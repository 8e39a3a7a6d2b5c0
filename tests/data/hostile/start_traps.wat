;; start traps
(module
    (memory (export "memory") 1)(func $s unreachable)(start $s)(func (export "retrieve") (param i32)))
