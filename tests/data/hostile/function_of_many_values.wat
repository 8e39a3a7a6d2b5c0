;; function of many values
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) ⟪9000*i32.const %% ⟫ ⟪9000*drop ⟫))
