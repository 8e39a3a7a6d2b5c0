//! Imports small bases written by the reference implementation, and compares them with its output
//! (`scripts/stark-fixtures.py`).

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Deserialize;

use super::*;
use crate::given;
use crate::{
    DatasetError, Home, ImportOptions, ImportReport, Phase, Progress, Split, error::Problems,
    ids::AnswerIds, install::Watch, load_split, load_test, load_test_tenth,
    queries::import_queries,
};
use agent_kb::{Direction, Kb, NodeId, RelationId, verify};

/// What the reference implementation outputs for a base.
#[derive(Deserialize)]
struct Golden {
    documents: Variants,
    /// Relations of each node in words; `None` if the reference fails.
    relations: Vec<Option<String>>,
    types: Vec<String>,
    candidates: Vec<NodeId>,
    /// The graph after the reference has made it undirected.
    merged: Graph,
    /// The graph as stored in the files.
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
    /// Neighbours of each node by relation; the relation `*` stands for any.
    neighbors: BTreeMap<String, Vec<Vec<NodeId>>>,
    tuples: Vec<[String; 3]>,
    num_edges: u64,
}

fn fixture(kind: Kind) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("tests/data/stark")
        .join(kind.name())
}

fn golden(kind: Kind) -> Golden {
    serde_json::from_slice(&fs::read(fixture(kind).join("golden.json")).unwrap()).unwrap()
}

fn import(source: &Path, home: &Home, mode: Mode) -> Result<ImportReport, DatasetError> {
    let stop = AtomicBool::new(false);
    import_stark((source, mode), home, "tiny", &ImportOptions::default(), &mut |_| {}, &stop)
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
    let mut all: Vec<NodeId> =
        ids.flat_map(|id| kb.neighbors(node, id, direction).into_owned()).collect();
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
        // Mode `exact` shows more "also viewed" products; otherwise the modes agree.
        for mode in [Mode::Faithful, Mode::Exact] {
            let (_dir, report, kb) = imported(kind, mode);
            let origin = report.base.record.stark.unwrap();
            // Only Prime is stored in both directions.
            assert_eq!(origin.one_way, kind == Kind::Prime && mode == Mode::Faithful);
            let documents = Documents::new(&kb, &origin);
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
            // The reference counts an edge in both directions, and duplicates unless it merges.
            let n_edges = if mode == Mode::Faithful && kind != Kind::Prime {
                let of_node = |node| {
                    graph.neighbors.keys().filter(|name| *name != "*").map(move |name| (node, name))
                };
                let pairs = (0..kb.n_nodes()).flat_map(of_node);
                pairs.map(|(node, name)| neighbors(&kb, node, name, direction).len() as u64).sum()
            } else {
                kb.n_edges() + report.duplicate_edges
            };
            assert_eq!(n_edges, graph.num_edges, "{kind} {mode:?}");
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
        let origin = Origin { kind, mode: Mode::Exact, derived_tenth, one_way: false };
        assert_eq!(base.record.stark, Some(origin));
        let (test, tenth) = (load_test(base).unwrap(), load_test_tenth(base).unwrap());
        assert_eq!(tenth, if derived_tenth { &test[..2] } else { &test[18..] });
        assert!(load_split(base, &Split::TestTenth).is_err());
        let human = load_split(base, &Split::Human).unwrap();
        assert_eq!(human[0].metadata["answer_ids_source"], "by hand");
        let train = load_split(base, &Split::Train).unwrap();
        assert!(train.iter().all(|query| query.answers.is_sorted()));
    }
}

/// Copies a folder, including its subfolders.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn every_layout_of_the_benchmark_gives_the_same_base() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    // The layout of the repository: packed bases in skb, queries in qa.
    for kind in [Kind::Amazon, Kind::Prime] {
        let (skb, qa) = (root.join("skb").join(kind.name()), root.join("qa").join(kind.name()));
        fs::create_dir_all(&skb).unwrap();
        fs::copy(fixture(kind).join("processed.zip"), skb.join("processed.zip")).unwrap();
        for folder in ["stark_qa", "split"] {
            copy(&fixture(kind).join(folder), &qa.join(folder));
        }
    }
    let home = Home::new(root.join("home"));
    let stop = AtomicBool::new(false);
    for kind in [Kind::Amazon, Kind::Prime] {
        let (_dir, expected, _) = imported(kind, Mode::Exact);
        let expected = &expected.base.record;
        let options = ImportOptions::default();
        for (source, name) in
            [(root.to_path_buf(), kind.name()), (root.join("skb").join(kind.name()), "other")]
        {
            let found =
                import_stark((&source, Mode::Exact), &home, name, &options, &mut |_| {}, &stop);
            let found = found.unwrap().base.record;
            assert_eq!(found.fingerprint, expected.fingerprint);
            assert_eq!(found.query_files, expected.query_files);
        }
    }
    let error = import(root, &home, Mode::Exact).unwrap_err().to_string();
    assert!(error.contains("several bases: amazon, prime"), "{error}");
    let error = import(&root.join("qa"), &home, Mode::Exact).unwrap_err().to_string();
    assert!(error.contains("processed.zip"), "{error}");
}

#[test]
fn a_wrong_file_is_named_and_nothing_is_installed() {
    let prime = fixture(Kind::Prime).join("processed");
    let read = |file: &str| fs::read(prime.join(file)).unwrap();
    let (nodes, node_types, edge_index) =
        (read("node_info.pkl"), read("node_types.pt"), read("edge_index.pt"));
    let mag_nodes = fs::read(fixture(Kind::Mag).join("processed/node_info.pkl")).unwrap();
    let cut = &nodes[..nodes.len() / 2];
    for (file, bytes, words) in [
        ("node_info.pkl", cut, "node_info.pkl: the pickle is truncated at byte"),
        ("node_info.pkl", mag_nodes.as_slice(), "node_info.pkl: node 0: it has no \"name\""),
        (
            "node_info.pkl",
            b"\x80\x04}K\x0f}s.",
            "node_info.pkl: a key is not one of the node ids 0 to 14",
        ),
        ("node_info.pkl", b"\x80\x04}X\x01\0\0\x000}s.", "a key is not one of the node ids"),
        ("node_info.pkl", b"\x80\x04}.", "node_info.pkl: node 0 of 15 is missing"),
        ("node_types.pt", b"text", "node_types.pt: "),
        ("node_type_dict.pkl", b"\x80\x04}.", "node_types.pt: node "),
        ("node_type_dict.pkl", b"\x80\x04].", "node_type_dict.pkl: it is not a dict"),
        (
            "edge_type_dict.pkl",
            b"\x80\x04}K\0X\x03\0\0\0a\rbs.",
            "edge_type_dict.pkl: entry 0, \"a\\rb\", contains a control character",
        ),
        ("edge_types.pt", &node_types, "edge_types.pt: 15 types, but 82 edges"),
        ("edge_types.pt", &edge_index, "edge_types.pt: its shape is [2, 82]"),
        ("edge_type_dict.pkl", b"\x80\x04}.", "edge_types.pt: it holds 0, which is not a relation"),
        ("edge_index.pt", &node_types, "edge_index.pt: its shape is [15]"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let processed = dir.path().join("prime/processed");
        copy(&prime, &processed);
        fs::write(processed.join(file), bytes).unwrap();
        let home = Home::new(dir.path().join("home"));
        let error = import(&dir.path().join("prime"), &home, Mode::Exact).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        let left = fs::read_dir(home.path().join("bases")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".lock"], "{error}");
    }
}

#[test]
fn an_import_stops_when_asked() {
    for phase in [Phase::Nodes, Phase::Edges, Phase::Graph, Phase::Queries] {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let mut on_progress = |at: Progress| stop.store(at.phase == phase, Ordering::Relaxed);
        let options = ImportOptions::default();
        let (source, home) = (fixture(Kind::Mag), Home::new(dir.path()));
        let stopped =
            import_stark((&source, Mode::Exact), &home, "mag", &options, &mut on_progress, &stop);
        assert!(matches!(stopped, Err(DatasetError::Stopped)), "{phase:?}: {stopped:?}");
        assert!(home.list().unwrap().is_empty());
    }
}

#[test]
fn the_official_queries_are_read() {
    let Some(data) = given::real_data("stark-qa") else { return };
    for (name, n_nodes, human, [train, val, test], most) in [
        ("amazon", 957_192, 81, [5910, 1548, 1642], 100),
        ("mag", 1_872_968, 84, [7993, 2665, 2665], 20),
        ("prime", 129_375, 109, [6162, 2241, 2801], 20),
    ] {
        let target = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let mut watch = Watch { on_progress: &mut |_| {}, stop: &stop };
        let sources = files::query_sources(&data.join(name));
        let mut problems = Problems::new(false);
        let target = target.path().join("queries");
        let stored = import_queries(
            &sources,
            &target,
            (AnswerIds::Numbers(n_nodes), false),
            &mut problems,
            &mut watch,
        );
        let stored = stored.unwrap();
        let tenth = test / 10;
        let splits =
            [("human", human), ("test", test), ("test-0.1", tenth), ("train", train), ("val", val)];
        assert_eq!(stored.splits, splits.map(|(name, n)| (name.to_string(), n)).into());
        assert_eq!(stored.n_queries, human + train + val + test);
        let csv = fs::read_to_string(target.join("qa.csv")).unwrap();
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let answers = reader.records().map(|row| row.unwrap()[2].split(',').count());
        assert_eq!(answers.max(), Some(most), "{name}");
    }
}
