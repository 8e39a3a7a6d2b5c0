//! Imports small bases written by the reference implementation, and compares all that it says of
//! them (`scripts/stark-fixtures.py`).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use serde::Deserialize;

use super::*;
use crate::{
    dataset::{
        DatasetError, Home, ImportOptions, ImportReport, Split, load_split, load_test,
        load_test_tenth,
    },
    kb::{Direction, Kb, NodeId, RelationId, verify},
};

/// What the reference says of a base.
#[derive(Deserialize)]
struct Golden {
    documents: Variants,
    /// Null where the reference fails.
    relations: Vec<Option<String>>,
    types: Vec<String>,
    candidates: Vec<NodeId>,
    /// The graph as the reference makes it.
    merged: Graph,
    /// The graph as it is stored.
    stored: Graph,
}

#[derive(Deserialize)]
struct Variants {
    plain: Vec<String>,
    compact: Vec<String>,
    relations: Vec<String>,
    both: Vec<String>,
}

#[derive(Deserialize)]
struct Graph {
    /// By relation, `*` for any, then by node.
    neighbors: BTreeMap<String, Vec<Vec<NodeId>>>,
    tuples: Vec<[String; 3]>,
    num_edges: u64,
}

fn fixture(kind: Kind) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stark").join(kind.name())
}

fn golden(kind: Kind) -> Golden {
    serde_json::from_slice(&fs::read(fixture(kind).join("golden.json")).unwrap()).unwrap()
}

fn import(source: &Path, home: &Home, mode: Mode) -> Result<ImportReport, DatasetError> {
    let stop = AtomicBool::new(false);
    import_stark(source, home, "tiny", mode, &ImportOptions::default(), &mut |_| {}, &stop)
}

fn imported(kind: Kind, mode: Mode) -> (tempfile::TempDir, ImportReport, Kb) {
    let dir = tempfile::tempdir().unwrap();
    let report = import(&fixture(kind), &Home::new(dir.path()), mode).unwrap();
    let kb = Kb::open(&report.base.kb_dir()).unwrap();
    (dir, report, kb)
}

fn neighbors(kb: &Kb, node: NodeId, relation: &str, direction: Direction) -> Vec<NodeId> {
    let named = |id: &RelationId| relation == "*" || kb.relation_name(*id) == relation;
    let ids = (0..kb.relations().len() as u16).map(RelationId).filter(named);
    let mut all: Vec<NodeId> = ids.flat_map(|id| kb.neighbors(node, id, direction)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn tuples(kb: &Kb, both_ways: bool) -> Vec<[String; 3]> {
    let mut tuples = Vec::new();
    for tuple in kb.tuples() {
        let [source, target] = [tuple.source, tuple.target].map(|id| kb.type_name(id).to_string());
        let relation = kb.relation_name(tuple.relation).to_string();
        if both_ways {
            tuples.push([target.clone(), relation.clone(), source.clone()]);
        }
        tuples.push([source, relation, target]);
    }
    tuples.sort();
    tuples.dedup();
    tuples
}

#[test]
fn every_document_is_that_of_the_reference() {
    for kind in Kind::ALL {
        let golden = golden(kind);
        // Mode `exact` shows more of "also viewed"; elsewhere the modes agree.
        for mode in [Mode::Faithful, Mode::Exact] {
            let (_dir, _, kb) = imported(kind, mode);
            let documents = Documents::new(&kb, kind);
            assert_eq!(kb.n_nodes() as usize, golden.types.len());
            for node in 0..kb.n_nodes() {
                let at = node as usize;
                assert_eq!(kb.type_name(kb.node_type(node)), golden.types[at]);
                assert_eq!(kb.text(node), golden.documents.plain[at], "{kind} {node}");
                assert_eq!(documents.document(node, false, false), golden.documents.plain[at]);
                assert_eq!(documents.document(node, false, true), golden.documents.compact[at]);
                if kind == Kind::Amazon && mode == Mode::Exact {
                    continue;
                }
                assert_eq!(documents.document(node, true, false), golden.documents.relations[at]);
                assert_eq!(documents.document(node, true, true), golden.documents.both[at]);
                if let Some(relations) = &golden.relations[at] {
                    assert_eq!(documents.relations(node), *relations, "{kind} {node}");
                }
            }
        }
    }
}

#[test]
fn the_graph_is_that_of_the_reference() {
    for kind in Kind::ALL {
        let golden = golden(kind);
        for (mode, graph, direction) in [
            (Mode::Faithful, &golden.merged, Direction::Any),
            (Mode::Exact, &golden.stored, Direction::Out),
        ] {
            let (_dir, report, kb) = imported(kind, mode);
            for (relation, expected) in &graph.neighbors {
                for (node, expected) in (0..).zip(expected) {
                    let found = neighbors(&kb, node, relation, direction);
                    assert_eq!(found, *expected, "{kind} {mode:?} {relation} {node}");
                }
            }
            assert_eq!(tuples(&kb, mode == Mode::Faithful), graph.tuples, "{kind} {mode:?}");
            assert_eq!(kb.candidates(), golden.candidates);
            if mode == Mode::Exact {
                assert_eq!(kb.n_edges() + report.duplicate_edges, graph.num_edges);
            }
            verify(&report.base.kb_dir(), &mut |_| {}).unwrap();
        }
    }
}

#[test]
fn queries_have_their_splits_and_a_tenth_of_test() {
    for kind in Kind::ALL {
        let (_dir, report, _) = imported(kind, Mode::Exact);
        let base = &report.base;
        let splits = [("human", 3), ("test", 20), ("test-0.1", 2), ("train", 7), ("val", 3)];
        assert_eq!(base.record.splits, splits.map(|(name, n)| (name.to_string(), n)).into());
        let derived_tenth = kind != Kind::Amazon;
        assert_eq!(base.record.stark, Some(Origin { kind, mode: Mode::Exact, derived_tenth }));
        let (test, tenth) = (load_test(base).unwrap(), load_test_tenth(base).unwrap());
        assert_eq!(tenth, if derived_tenth { &test[..2] } else { &test[18..] });
        assert!(load_split(base, &Split::TestTenth).is_err());
        let human = load_split(base, &Split::Human).unwrap();
        assert_eq!(human[0].metadata["answer_ids_source"], "by hand");
        let train = load_split(base, &Split::Train).unwrap();
        assert!(train.iter().all(|query| query.answers.is_sorted()));
    }
}
