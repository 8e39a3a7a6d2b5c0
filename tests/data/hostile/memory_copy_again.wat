;; memory copy again
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32)  (loop $l (memory.copy (i32.const 1) (i32.const 0) (i32.const 65535)) (br $l))))
