//! What the module exports. Each function gets the length of a message to take.

use crate::sandbox::{host, rhai};

/// Sets up the engine; the message describes the tools.
#[unsafe(no_mangle)]
extern "C" fn init(len: usize) {
    rhai::init(&host::take(len));
}

/// Parses a program; the message has limits and source.
#[unsafe(no_mangle)]
extern "C" fn compile(len: usize) {
    rhai::compile(&host::take(len));
}

/// Calls `params()`; the message has limits.
#[unsafe(no_mangle)]
extern "C" fn params(len: usize) {
    rhai::params(&host::take(len));
}

/// Calls `retrieve`; the message has limits, query, candidates and params.
#[unsafe(no_mangle)]
extern "C" fn retrieve(len: usize) {
    rhai::retrieve(&host::take(len));
}

/// Gives what a stopped call had used.
#[unsafe(no_mangle)]
extern "C" fn spent() {
    rhai::spent();
}
