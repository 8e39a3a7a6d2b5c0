;; imports are many
(module
    ⟪3000*(import "agent" "take" (func (param i32)))⟫(memory (export "memory") 1)(func (export "retrieve") (param i32)))
