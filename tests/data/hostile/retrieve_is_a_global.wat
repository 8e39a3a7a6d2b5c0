;; retrieve is a global
(module
    (memory (export "memory") 1)(global (export "retrieve") i32 (i32.const 0)))
