;; import of wrong type
(module
    (import "tools" "search" (func (param i64) (result i64)))(memory (export "memory") 1)(func (export "retrieve") (param i32)))
