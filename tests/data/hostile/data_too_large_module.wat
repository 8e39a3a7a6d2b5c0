;; data too large module
(module
    (memory (export "memory") 100)(data (i32.const 0) "⟪140000*0123456789abcdef0123456789abcdef⟫")(func (export "retrieve") (param i32)))
