;; function of many branches
(module
    (memory (export "memory") 1)(func (export "retrieve") (param i32) ⟪2000*block ⟫ local.get 0 br_table ⟪2000*%% ⟫ 0 ⟪2000*end ⟫))
