;; data outside
(module
    (memory (export "memory") 1)(data (i32.const 65535) "abc")(func (export "retrieve") (param i32)))
