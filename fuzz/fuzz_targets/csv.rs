//! Fuzzes the import of `qa.csv` of a base in neutral format.

#![no_main]

mod import;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| import::import("qa.csv", bytes));
