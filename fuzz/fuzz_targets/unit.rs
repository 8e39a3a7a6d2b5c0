//! Fuzzes decoding the result of a unit that a worker of a pool wrote.

#![no_main]

use agent::app::unit::evaluate::decoded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, &[u8])| {
    let (n, bytes) = input;
    if let Some(rankings) = decoded(bytes, usize::from(n)) {
        assert_eq!(rankings.len(), usize::from(n));
        let pairs: usize = rankings.iter().flatten().map(Vec::len).sum();
        assert_eq!(bytes.len(), 4 * rankings.len() + 8 * pairs);
    }
});
