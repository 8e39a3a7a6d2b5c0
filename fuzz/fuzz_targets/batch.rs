//! Fuzzes the body of a batch: any bytes, in parts of any sizes, give the lines of the whole body.

#![no_main]

use agent::serve::fuzz::{MAX_LINE, batch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (body, sizes) = input;
    let (mut parts, mut rest) = (Vec::new(), body.as_slice());
    for size in sizes {
        let (part, behind) = rest.split_at(rest.len().min(usize::from(size)));
        parts.push(part.to_vec());
        rest = behind;
    }
    parts.push(rest.to_vec());
    let lines = batch(parts);
    if body.len() < MAX_LINE {
        let whole = body.split(|byte| *byte == b'\n').enumerate();
        let whole: Vec<_> = whole.filter(|(_, line)| !line.trim_ascii().is_empty()).collect();
        assert_eq!(lines.len(), whole.len());
        for ((number, line), (at, expected)) in lines.iter().zip(whole) {
            assert_eq!(*number, at as u64 + 1);
            assert_eq!(line.as_deref().map(<[u8]>::trim_ascii), Some(expected.trim_ascii()));
        }
    }
});
