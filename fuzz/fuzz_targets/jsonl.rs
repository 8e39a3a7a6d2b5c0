//! Fuzzes the import of `nodes.jsonl` of a base in neutral format.

#![no_main]

mod import;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| import::import("nodes.jsonl", bytes));
