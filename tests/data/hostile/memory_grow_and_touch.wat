;; memory grow and touch
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) (local $p i32) (loop $l (local.set $p (memory.grow (i32.const 64))) (if (i32.eq (local.get $p) (i32.const -1)) (then unreachable)) (memory.fill (i32.mul (local.get $p) (i32.const 65536)) (i32.const 1) (i32.const 4194304)) (br $l))))
