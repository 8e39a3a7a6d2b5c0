;; memory init outside
(module
    (memory (export "memory") 1)(data $d "abc")(func (export "retrieve") (param i32) (memory.init $d (i32.const 65534) (i32.const 0) (i32.const 3))))
