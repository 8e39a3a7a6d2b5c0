;; function of many results
(module
    (memory (export "memory") 1)(func $f (result ⟪999*i32 ⟫) ⟪999*i32.const 1 ⟫)(func (export "retrieve") (param i32) call $f ⟪999*drop ⟫))
