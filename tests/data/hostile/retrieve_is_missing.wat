;; retrieve is missing
(module
    (memory (export "memory") 1))
