//! Fuzzes the bytes that a module sends: its result, and the arguments of any tool. Both may
//! contain handles.
//!
//! Modules are compiled once; the bytes reach them as letters of the query, one letter for four
//! bits.

#![no_main]

mod sandbox;

use std::sync::LazyLock;

use agent::{
    sandbox::{Code, CompiledProgram, Sandbox, WasmSandbox},
    tools::registry,
};
use libfuzzer_sys::fuzz_target;

static INSIDE: LazyLock<WasmSandbox> = LazyLock::new(sandbox::inside);

/// Tools that modules import under other names.
const OPERATORS: [&str; 6] = ["&", "|", "-", "+", "*", "/"];

/// A module for each tool, and one that returns the bytes as its result.
static MODULES: LazyLock<Vec<CompiledProgram>> = LazyLock::new(|| {
    let named = registry().iter().map(|spec| spec.name).filter(|name| !OPERATORS.contains(name));
    let tools = named.chain(["op_and", "op_or", "op_sub", "op_add", "op_mul", "op_div"]);
    let calls = tools.map(|tool| {
        let import =
            format!(r#"(import "tools" "{tool}" (func $use (param i32 i32) (result i32)))"#);
        module(&import, "(drop (call $use (i32.const 1000000) (local.get $n)))")
    });
    let gives = module("", "(call $give (i32.const 1000000) (local.get $n))");
    calls.chain([gives]).collect()
});

/// Compiles a module that decodes the query to `$n` bytes at address 1,000,000, holds two handles,
/// and runs `then`.
fn module(import: &str, then: &str) -> CompiledProgram {
    let text = format!(
        r#"(module
            {import}
            (import "tools" "search" (func $search (param i32 i32) (result i32)))
            (import "agent" "take" (func $take (param i32)))
            (import "agent" "give" (func $give (param i32 i32)))
            (memory (export "memory") 32)
            (data (i32.const 1900000) "\09\02\00\00\00\05\01\00\00\00x\05\01\00\00\00y")
            (func (export "retrieve") (param i32) (local $n i32) (local $i i32)
                (call $take (i32.const 0))
                ;; A list of three, then the query: kind, length, letters.
                (local.set $n (i32.shr_u (i32.load (i32.const 6)) (i32.const 1)))
                (block $done
                    (loop $next
                        (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
                        (i32.store8
                            (i32.add (local.get $i) (i32.const 1000000))
                            (i32.or
                                (i32.shl
                                    (i32.and
                                        (i32.load8_u offset=10 (i32.shl (local.get $i) (i32.const 1)))
                                        (i32.const 15))
                                    (i32.const 4))
                                (i32.and
                                    (i32.load8_u offset=11 (i32.shl (local.get $i) (i32.const 1)))
                                    (i32.const 15))))
                        (local.set $i (i32.add (local.get $i) (i32.const 1)))
                        (br $next)))
                (drop (call $search (i32.const 1900000) (i32.const 17)))
                (drop (call $search (i32.const 1900000) (i32.const 17)))
                {then}))"#
    );
    let bytes = wat::parse_str(text).expect("a module");
    INSIDE.compile(Code::Wasm(&bytes), &sandbox::limits()).expect("a module that compiles")
}

fuzz_target!(
    init: {
        LazyLock::force(&MODULES);
    },
    |bytes: &[u8]| {
        let Some((first, rest)) = bytes.split_first() else { return };
        let modules = &*MODULES;
        let module = &modules[usize::from(*first) % modules.len()];
        // '`' is 0x60 and 'o' is 0x6f.
        let letters = rest.iter().take(200_000).flat_map(|byte| [byte >> 4, byte & 15]);
        let query: String = letters.map(|bits| char::from(b'`' + bits)).collect();
        let _ = sandbox::run(&*INSIDE, module, &query);
    }
);
