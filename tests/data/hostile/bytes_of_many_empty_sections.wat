;; bytes of many empty sections
(module binary "\00asm\01\00\00\00⟪100000*\00\01\00⟫")
