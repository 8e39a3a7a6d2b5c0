;; import of a global
(module
    (import "env" "x" (global i32))(memory (export "memory") 1)(func (export "retrieve") (param i32)))
