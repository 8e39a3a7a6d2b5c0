//! Imports of tiny bases that the tests write, and of real ones if they are at hand.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    time::Instant,
};

use crate::{
    dataset::{
        DatasetError, Home, ImportOptions, ImportReport, LabelledQuery, Phase, ProblemKind,
        Resolved, Split, import_neutral, load_split, load_test,
    },
    kb::{Direction, Kb, NodeId, verify},
};

/// The folder with real bases.
fn real_data() -> PathBuf {
    match std::env::var_os("AGENT_TEST_DATA") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
    }
}

fn import(source: &Path, home: &Home, lenient: bool) -> Result<ImportReport, DatasetError> {
    let options = ImportOptions { lenient };
    import_neutral(source, home, "tiny", &options, &mut |_| {}, &AtomicBool::new(false))
}

#[test]
fn real_bases_have_their_counts_and_open_quickly() {
    for (name, n_nodes, n_edges) in [
        ("products", 30_234, 95_666),
        ("biomed", 91_582, 1_932_666),
        ("papers", 286_190, 1_007_564),
    ] {
        let source = real_data().join(name);
        if !source.is_dir() {
            eprintln!("skipped: {} is not there", source.display());
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        let start = Instant::now();
        let report = import(&source, &home, false).unwrap();
        let imported = start.elapsed();
        assert_eq!((report.base.record.n_nodes, report.base.record.n_edges), (n_nodes, n_edges));
        assert_eq!(report.duplicate_edges, 0);
        let start = Instant::now();
        let kb = Kb::open(&report.base.kb_dir()).unwrap();
        let opened = start.elapsed();
        verify(&report.base.kb_dir(), &mut |_| {}).unwrap();
        for relation in 0..kb.relations().len() {
            let relation = crate::kb::RelationId(relation as u16);
            for node in (0..kb.n_nodes()).step_by(997) {
                for other in kb.neighbors(node, relation, Direction::Out).iter() {
                    assert!(kb.neighbors(*other, relation, Direction::In).contains(&node));
                }
            }
        }
        assert!(!load_test(&report.base).unwrap().is_empty());
        eprintln!("{name}: imported in {imported:?}, opened in {opened:?}");
    }
}
