//! A tiny indexed base for the targets that ask questions.

use std::sync::{Arc, atomic::AtomicBool};

use agent::{
    ask::Analyst,
    dataset::{Home, ImportOptions, import_neutral},
    index::{IndexedBase, build},
    kb::Kb,
};

const NODES: &str = r#"{"id": 0, "type": "product", "name": "Summit Bottle", "details": {"price": 19.5, "added": "2025-03-01"}}
{"id": 1, "type": "product", "name": "Ridge Mug", "details": {"price": 9, "added": "2025-04-11"}}
{"id": 2, "type": "product", "name": "Harbor Bottle", "details": {"price": 12.25, "added": "2024-12-24"}}
{"id": 3, "type": "brand", "name": "Lark", "details": {"founded": 1987}}
{"id": 4, "type": "brand", "name": "Umbra", "details": {"founded": 2001}}
{"id": 5, "type": "color", "name": "red"}
{"id": 6, "type": "color", "name": "blue"}
"#;
const EDGES: &str = "src_id\trelation\tdst_id\n0\thas_brand\t3\n1\thas_brand\t3\n2\thas_brand\t4\n\
    0\thas_color\t5\n1\thas_color\t6\n2\thas_color\t6\n0\talso_bought\t1\n";

/// Builds the base, and opens it for questions, without a language model.
pub fn analyst() -> Analyst {
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("source");
    std::fs::create_dir(&source).expect("room for it");
    std::fs::write(source.join("nodes.jsonl"), NODES).expect("room for it");
    std::fs::write(source.join("edges.tsv"), EDGES).expect("room for it");
    let (home, stop) = (Home::new(dir.path().join("home")), AtomicBool::new(false));
    let options = ImportOptions::default();
    let report = import_neutral(&source, &home, "shop", &options, &mut |_| {}, &stop).expect("a base");
    let (kb, index) = (report.base.kb_dir(), report.base.index_dir());
    build(&Kb::open(&kb).expect("a base"), &index, &|_| {}, &stop).expect("an index");
    Analyst::new(Arc::new(IndexedBase::open(&kb, &index, "shop").expect("a base with its index")))
}
