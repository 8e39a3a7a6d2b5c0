//! Fuzzes compiling and running any bytes as a module.

#![no_main]

mod sandbox;

use std::sync::LazyLock;

use agent::sandbox::{Code, WasmSandbox};
use libfuzzer_sys::fuzz_target;

static INSIDE: LazyLock<WasmSandbox> = LazyLock::new(sandbox::inside);

fuzz_target!(|bytes: &[u8]| {
    let _ = sandbox::compile_and_run(&*INSIDE, Code::Wasm(bytes));
});
