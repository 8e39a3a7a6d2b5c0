//! Fuzzes reading a pickle: whole, and item by item.

#![no_main]

use std::ops::ControlFlow;

use agent::dataset::stark::pickle::{Limits, read, read_dict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    let _ = read(bytes, &limits);
    let _ = read_dict(|| Ok(bytes), &limits, &mut |_, _| ControlFlow::Continue(()));
});
