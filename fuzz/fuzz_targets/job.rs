//! Fuzzes the plan of a job of units, with an input and a result: the job is refused, or read
//! within its directory.

#![no_main]

use std::fs;

use agent::units::Units;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8], &[u8])| {
    let (plan, items, result) = input;
    let dir = tempfile::tempdir().expect("a directory");
    let job = dir.path().join("job");
    for folder in ["in", "out", "claims"] {
        fs::create_dir_all(job.join(folder)).expect("room for it");
    }
    fs::write(job.join("plan.json"), plan).expect("room for it");
    fs::write(job.join("in/0"), items).expect("room for it");
    fs::write(job.join("out/0"), result).expect("room for it");
    let Ok(units) = Units::open(&job) else { return };
    let _ = (units.task(), units.file(), units.remaining());
    for unit in 0..units.len().min(3) {
        let _ = (units.items(unit), units.range(unit), units.read(unit, 1 << 16));
    }
    let _ = units.collect(&mut Vec::new());
});
