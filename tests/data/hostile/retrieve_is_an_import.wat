;; retrieve is an import
(module
    (import "agent" "take" (func $take (param i32)))(memory (export "memory") 1)(export "retrieve" (func $take)))
