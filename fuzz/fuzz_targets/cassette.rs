//! Fuzzes reading a cassette of recorded replies.

#![no_main]

use agent::llm::cassette::Cassette;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("cassette.jsonl");
    std::fs::write(&path, bytes).expect("a file");
    if let Ok(cassette) = Cassette::open(&path) {
        assert_eq!(cassette.unused().len(), cassette.recorded().count());
    }
});
