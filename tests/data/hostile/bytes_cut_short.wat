;; bytes cut short
(module binary "\00asm\01\00\00\00\01\ff\ff\ff\7f")
