//! Bases for tests: a directory in neutral format, or its lines, imported and indexed.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use crate::{
    dataset::{Home, ImportOptions, import_neutral},
    index::{IndexedBase, build},
    kb::Kb,
};

/// The base of a directory in neutral format, indexed.
pub(crate) fn imported(source: &Path, name: &str) -> Arc<IndexedBase> {
    let dir = tempfile::tempdir().unwrap();
    let (home, stop) = (Home::new(dir.path()), AtomicBool::new(false));
    let options = ImportOptions::default();
    let report = import_neutral(source, &home, name, &options, &mut |_| {}, &stop).unwrap();
    let (kb_dir, index) = (report.base.kb_dir(), report.base.index_dir());
    build(&Kb::open(&kb_dir).unwrap(), &index, &|_| {}, &stop).unwrap();
    // What is mapped stays readable after its files are gone.
    Arc::new(IndexedBase::open(&kb_dir, &index, name).unwrap())
}

/// A base of these lines of `nodes.jsonl` and `edges.tsv`, whose answers are of one type.
pub(crate) fn base_of(nodes: &str, edges: &str, candidates: &str) -> Arc<IndexedBase> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nodes.jsonl"), nodes).unwrap();
    let edges = format!("src_id\trelation\tdst_id\n{edges}");
    fs::write(dir.path().join("edges.tsv"), edges).unwrap();
    let toml =
        format!("title = \"Planted\"\nlicence = \"CC0\"\ncandidate_types = [{candidates:?}]\n");
    fs::write(dir.path().join("dataset.toml"), toml).unwrap();
    imported(dir.path(), "planted")
}
