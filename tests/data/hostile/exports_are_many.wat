;; exports are many
(module
    (memory (export "memory") 1)(func $f (param i32))⟪5000*(export "e%%" (func $f))⟫(export "retrieve" (func $f)))
