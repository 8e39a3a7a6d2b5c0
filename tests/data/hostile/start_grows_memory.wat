;; start grows memory
(module
    (memory (export "memory") 1)(func $s (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable)(start $s)(func (export "retrieve") (param i32)))
