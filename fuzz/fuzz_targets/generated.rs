//! Fuzzes the host with valid modules that call its functions in any order, with any arguments.

#![no_main]

mod sandbox;

use std::sync::LazyLock;

use agent::sandbox::{Code, WasmSandbox};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use wasm_smith::{Config, Module};

static INSIDE: LazyLock<WasmSandbox> = LazyLock::new(sandbox::inside);

/// Settings of generated modules: possible imports, required exports, and enabled features.
static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let imports = r#"(module
        (import "agent" "take" (func (param i32)))
        (import "agent" "give" (func (param i32 i32)))
        (import "agent" "read" (func (param i32 i32 i32) (result i32)))
        (import "agent" "length" (func (param i32) (result i32)))
        (import "agent" "release" (func (param i32)))
        (import "agent" "print" (func (param i32 i32)))
        (import "agent" "fail" (func (param i32 i32)))
        (import "tools" "search" (func (param i32 i32) (result i32)))
        (import "tools" "top" (func (param i32 i32) (result i32)))
        (import "tools" "op_and" (func (param i32 i32) (result i32))))"#;
    let exports = r#"(module
        (memory (export "memory") 1)
        (func (export "retrieve") (param i32)))"#;
    Config {
        available_imports: Some(wat::parse_str(imports).expect("imports")),
        exports: Some(wat::parse_str(exports).expect("exports")),
        min_imports: 4,
        max_memories: 1,
        max_memory32_bytes: 64 << 20,
        memory64_enabled: false,
        simd_enabled: false,
        relaxed_simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        gc_enabled: false,
        exceptions_enabled: false,
        custom_page_sizes_enabled: false,
        wide_arithmetic_enabled: false,
        shared_everything_threads_enabled: false,
        ..Config::default()
    }
});

fuzz_target!(|bytes: &[u8]| {
    if let Ok(module) = Module::new(CONFIG.clone(), &mut Unstructured::new(bytes)) {
        let _ = sandbox::compile_and_run(&*INSIDE, Code::Wasm(&module.to_bytes()));
    }
});
