;; exceptions
(module
    (memory (export "memory") 1)(tag $t)(func (export "retrieve") (param i32) (throw $t)))
