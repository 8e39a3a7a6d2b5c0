;; wants the other engine
(module
    (import "rhai" "fail" (func (param i32 i32)))(memory (export "memory") 1)(func (export "retrieve") (param i32) ))
