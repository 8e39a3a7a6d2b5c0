//! Fuzzes reading a file of tensors: one tensor, and a dict of tensors.

#![no_main]

use std::{io::Cursor, ops::ControlFlow};

use agent::dataset::stark::torch::{read_integers, read_tensors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_integers(Cursor::new(bytes), &mut |_| {});
    let _ = read_tensors(Cursor::new(bytes), &mut |_, tensor| {
        let _ = (tensor.to_i64(), tensor.to_f32());
        ControlFlow::Continue(())
    });
});
