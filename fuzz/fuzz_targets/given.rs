//! Any bytes as what a module gives: its result, and the arguments of a tool. Both name handles.

#![no_main]

mod sandbox;

use std::sync::LazyLock;

use agent::sandbox::{Code, WasmSandbox};
use libfuzzer_sys::fuzz_target;

static INSIDE: LazyLock<WasmSandbox> =
    LazyLock::new(|| WasmSandbox::new(sandbox::workers(), None));

/// A module that calls `tool` with these bytes, unless the first says otherwise, and gives them.
fn module(tool: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = bytes.split_first()?;
    let data: String = rest.iter().map(|byte| format!("\\{byte:02x}")).collect();
    let length = rest.len();
    let call = match first % 2 {
        0 => format!("(drop (call $tool (i32.const 8) (i32.const {length})))"),
        _ => format!("(call $give (i32.const 8) (i32.const {length}))"),
    };
    let text = format!(
        r#"(module
            (import "tools" "{tool}" (func $tool (param i32 i32) (result i32)))
            (import "tools" "search" (func $search (param i32 i32) (result i32)))
            (import "agent" "give" (func $give (param i32 i32)))
            (memory (export "memory") 2)
            (data (i32.const 8) "{data}")
            (data (i32.const 100000) "\09\02\00\00\00\05\01\00\00\00x\05\01\00\00\00y")
            (func (export "retrieve") (param i32)
                (drop (call $search (i32.const 100000) (i32.const 17)))
                {call}))"#
    );
    wat::parse_str(text).ok()
}

fuzz_target!(|bytes: &[u8]| {
    for tool in ["top", "op_and"] {
        if let Some(module) = module(tool, bytes.get(..90_000).unwrap_or(bytes)) {
            let _ = sandbox::run(&*INSIDE, Code::Wasm(&module));
        }
    }
});
