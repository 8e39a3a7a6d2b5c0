;; bytes of unknown section
(module binary "\00asm\01\00\00\00\63\01\00")
