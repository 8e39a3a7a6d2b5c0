;; calls by table for ever
(module
    (memory (export "memory") 1)(type $v (func))(table funcref (elem $f))(func $f (type $v) (call_indirect (type $v) (i32.const 0)))(func (export "retrieve") (param i32) (call $f)))
