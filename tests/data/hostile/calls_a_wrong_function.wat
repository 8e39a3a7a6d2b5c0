;; calls a wrong function
(module
    (memory (export "memory") 1)(type $t (func (param f64))) (table funcref (elem $x)) (func $x)(func (export "retrieve") (param i32) (call_indirect (type $t) (f64.const 1) (i32.const 0))))
