;; data huge
(module
    (memory (export "memory") 64)(data (i32.const 0) "⟪60000*0123456789abcdef0123456789abcdef⟫")(func (export "retrieve") (param i32)))
