;; bytes of a component
(module binary "\00asm\0d\00\01\00")
