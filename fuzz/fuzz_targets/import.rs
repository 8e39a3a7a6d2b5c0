//! Imports a base with one file of fuzzed bytes; shared by the targets that read a directory.

use std::{fs, sync::atomic::AtomicBool};

use agent::dataset::{Home, ImportOptions, import_neutral};

/// Imports a small base in which `file` has these bytes, strictly and leniently. `TMPDIR` should be
/// in memory.
pub fn import(file: &str, bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let source = dir.path().join("source");
    fs::create_dir(&source).expect("room for it");
    let nodes =
        "{\"id\":0,\"type\":\"a\",\"name\":\"b\"}\n{\"id\":1,\"type\":\"a\",\"name\":\"c\"}\n";
    for (name, content) in [
        ("nodes.jsonl", nodes.as_bytes()),
        ("edges.tsv", b"src_id\trelation\tdst_id\n"),
        (file, bytes),
    ] {
        fs::write(source.join(name), content).expect("room for it");
    }
    let home = Home::new(dir.path().join("home"));
    for lenient in [false, true] {
        let (options, stop) =
            (ImportOptions { lenient, ..ImportOptions::default() }, AtomicBool::new(false));
        let _ = import_neutral(&source, &home, "base", &options, &mut |_| {}, &stop);
    }
}
