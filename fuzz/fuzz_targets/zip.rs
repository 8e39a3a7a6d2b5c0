//! Fuzzes reading a zip file: each member to its end, or its first 16 MiB.

#![no_main]

use std::io::{Read, Write, copy, sink};

use agent::dataset::stark::archive::{Archive, ArchiveLimits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("room for it");
    let Ok(archive) = Archive::open(file.path(), &ArchiveLimits::default()) else { return };
    for (name, size) in archive.files() {
        let Ok(member) = archive.read(name) else { continue };
        if let Ok(n) = copy(&mut member.take(16 << 20), &mut sink()) {
            assert_eq!(n, size.min(16 << 20));
        }
    }
});
