;; trap of null function
(module
    (memory (export "memory") 1)(type $v (func))(table 4 funcref)(func (export "retrieve") (param i32) (call_indirect (type $v) (i32.const 3))))
