;; memory is imported
(module
    (import "agent" "memory" (memory 1))(func (export "retrieve") (param i32)))
