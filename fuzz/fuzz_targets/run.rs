//! Fuzzes reading the journal of a run.

#![no_main]

use agent::optimize::record::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("run.sqlite"), bytes).expect("a file");
    if let Ok(record) = Record::read(dir.path()) {
        let _ = (record.standings(record.bundle().as_ref()), record.cost(), record.kinds());
    }
});
