;; vectors of bytes
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (drop (v128.const i32x4 1 2 3 4))))
