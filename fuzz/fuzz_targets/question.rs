//! Fuzzes questions over many nodes.

#![no_main]

mod base;

use std::sync::LazyLock;

use agent::ask::Analyst;
use libfuzzer_sys::fuzz_target;

static ANALYST: LazyLock<Analyst> = LazyLock::new(base::analyst);

fuzz_target!(init: { LazyLock::force(&ANALYST); }, |question: &str| {
    let _ = ANALYST.ask(question);
});
