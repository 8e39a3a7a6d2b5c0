//! Fuzzes programs in Rhai in both engines: the ranking is the same, and nothing panics.

#![no_main]

mod sandbox;

use std::sync::LazyLock;

use agent::sandbox::{Code, RhaiSandbox, WasmSandbox};
use libfuzzer_sys::fuzz_target;

static HERE: LazyLock<RhaiSandbox> = LazyLock::new(|| RhaiSandbox::new(sandbox::workers()));
static INSIDE: LazyLock<WasmSandbox> = LazyLock::new(sandbox::inside);

fuzz_target!(
    init: {
        // Compiles the engine in advance, which takes seconds.
        sandbox::compile_and_run(&*INSIDE, Code::Rhai("")).expect_err("no program");
    },
    |source: &str| {
        let here = sandbox::compile_and_run(&*HERE, Code::Rhai(source));
        let inside = sandbox::compile_and_run(&*INSIDE, Code::Rhai(source));
        if let (Ok(here), Ok(inside)) = (here, inside) {
            assert_eq!(here.ranking, inside.ranking);
        }
    }
);
