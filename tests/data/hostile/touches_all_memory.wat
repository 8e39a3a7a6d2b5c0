;; touches all memory
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (drop (memory.grow (i32.const 4000))) (memory.fill (i32.const 0) (i32.const 7) (i32.const 262144000)) (loop $l (br $l))))
