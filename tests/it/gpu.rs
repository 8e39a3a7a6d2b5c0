//! The kernels of a CUDA device, run on the CPU by an emulator of threads and barriers.

use std::{path::Path, process::Command};

#[test]
#[expect(clippy::disallowed_methods, reason = "the test compiles the kernels")]
fn kernels_compute_what_plain_loops_compute() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("kernels");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/kernels.cpp");
    let compile = ["-std=c++20", "-O1", "-pthread", "-o"];
    let Ok(built) = Command::new("c++").args(compile).arg(&program).arg(source).output() else {
        eprintln!("skipped: no C++ compiler");
        return;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
}
