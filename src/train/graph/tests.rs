//! Tests training on a made-up knowledge base with two relations between the same types; a word of
//! the query decides by which relation the answers are connected.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tempfile::TempDir;

use super::{
    net::{DType, Kinds, gradient, initial_weights, n_weights, scores},
    subgraph::{Edge, FEATURES, PHI, WorkingGraph},
    *,
};
use crate::{Progress, Source, Task, TrainError};
use agent_dataset::LabelledQuery;
use agent_index::{self as index, IndexedBase};
use agent_kb::{Kb, KbMeta, KbWriter, NodeId};

/// Number of places; there is a node for each pair of different places.
const PLACES: usize = 9;
const NAMES: [&str; PLACES] =
    ["Arlen", "Borsk", "Cadiz", "Dorne", "Elgin", "Fargo", "Genk", "Hilo", "Ipoh"];

struct World {
    dir: TempDir,
    base: Arc<IndexedBase>,
}

/// Returns all pairs of different places, in the order of the nodes that have them.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..PLACES * PLACES).map(|at| (at / PLACES, at % PLACES)).filter(|(a, b)| a != b)
}

impl World {
    /// Makes the base. From notes the built-in embedder knows the words that decide between the
    /// relations, as it knows the words of at least two documents.
    fn new(notes: &[&str]) -> World {
        let dir = tempfile::tempdir().unwrap();
        let (kb_dir, index_dir) = (dir.path().join("kb"), dir.path().join("index"));
        let mut writer = KbWriter::create(&kb_dir).unwrap();
        for name in NAMES {
            writer.push_node("place", name, "", &[]).unwrap();
        }
        for (made, sold) in pairs() {
            let thing = writer.push_node("thing", "thing", "a thing", &[]).unwrap();
            writer.push_edge(thing, "made_in", made as NodeId).unwrap();
            writer.push_edge(thing, "sold_in", sold as NodeId).unwrap();
        }
        for note in notes {
            writer.push_node("note", "note", note, &[]).unwrap();
        }
        let candidate_types = vec!["thing".to_owned()];
        let meta = KbMeta {
            title: "t".into(),
            licence: "none".into(),
            candidate_types,
            ..KbMeta::default()
        };
        writer.finish(&meta, &mut |_, _| true).unwrap();
        let (kb, stop) = (Kb::open(&kb_dir).unwrap(), AtomicBool::new(false));
        index::build(&kb, &index_dir, &|_| {}, &stop).unwrap();
        let base = Arc::new(IndexedBase::open(&kb_dir, &index_dir, "world").unwrap());
        World { dir, base }
    }

    fn given(&self, name: &str) -> Given {
        let (train, val) = (queries(["made in", "sold in"]), queries(["made near", "sold near"]));
        Given {
            source: Source::new("world", self.base.kb.fingerprint(), &train, &val),
            dir: self.dir.path().join("models").join(name),
            checkpoint: self.dir.path().join("models").join(format!(".{name}")),
            train,
            val,
        }
    }

    fn task<'a>(&'a self, given: &'a Given, settings: &'a Settings) -> Task<'a, Settings> {
        Task {
            base: &self.base,
            source: &given.source,
            train: &given.train,
            val: &given.val,
            settings,
            dir: &given.dir,
            checkpoint: &given.checkpoint,
            resume: false,
        }
    }
}

struct Given {
    train: Vec<LabelledQuery>,
    val: Vec<LabelledQuery>,
    source: Source,
    dir: std::path::PathBuf,
    checkpoint: std::path::PathBuf,
}

/// Returns a query for each place and relation, worded as `wordings` says for each relation.
fn queries(wordings: [&str; 2]) -> Vec<LabelledQuery> {
    let mut queries = Vec::new();
    for (at, name) in NAMES.iter().enumerate() {
        for (is_made, wording) in [true, false].into_iter().zip(wordings) {
            let things = (PLACES as NodeId..).zip(pairs());
            let answers = things.filter(|(_, pair)| at == if is_made { pair.0 } else { pair.1 });
            queries.push(LabelledQuery {
                id: queries.len() as i64,
                text: format!("things {wording} {name}"),
                answers: answers.map(|pair| pair.0).collect(),
                metadata: Default::default(),
            });
        }
    }
    queries
}

fn settings(ablation: Option<Ablation>) -> Settings {
    Settings { ablation, epochs: 60, patience: 60, batch: 6, rate: 1e-2, ..Settings::default() }
}

/// Trains a network of a variant, with relations and without, and returns the share of queries
/// whose first node is an answer.
fn hits(variant: Variant) -> Vec<f64> {
    let notes: &[&str] = match variant {
        Variant::Graph => &[],
        Variant::Qagnn => &["made", "made", "sold", "sold"],
    };
    let world = World::new(notes);
    let mut hits = Vec::new();
    for ablation in [None, Some(Ablation::Relations)] {
        let given = world.given("model");
        let settings = Settings { variant, ..settings(ablation) };
        let task = world.task(&given, &settings);
        let record = train(&task, &|_| {}, &AtomicBool::new(false)).unwrap();
        let (network, read) = GraphNetwork::open(&world.base, &given.dir, variant).unwrap();
        assert_eq!(record, read);
        assert_eq!(read.model.reached, [18, 18]);
        let queries = queries(["all made in", "all sold in"]);
        let is_hit = |query: &&LabelledQuery| {
            let ranked = network.rank(&world.base, &query.text, 10).unwrap();
            assert_eq!(ranked.ranking.len(), 10);
            query.answers.binary_search(&ranked.ranking[0].0).is_ok()
        };
        hits.push(queries.iter().filter(is_hit).count() as f64 / queries.len() as f64);
    }
    hits
}

#[test]
fn the_relation_that_a_query_asks_for_is_found_and_not_without_relations() {
    let hits = hits(Variant::Graph);
    assert!(hits[0] >= 0.9 && hits[1] <= 0.55, "{hits:?}");
}

fn files(given: &Given) -> [Vec<u8>; 2] {
    ["record.json", "weights"].map(|file| std::fs::read(given.dir.join(file)).unwrap())
}

#[test]
fn one_thread_two_and_an_interruption_give_the_same_bytes() {
    let world = World::new(&[]);
    let settings = Settings { epochs: 3, ..settings(None) };
    let bytes = |threads: usize, name: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let given = world.given(name);
        let task = world.task(&given, &settings);
        pool.install(|| train(&task, &|_| {}, &AtomicBool::new(false))).unwrap();
        files(&given)
    };
    let whole = bytes(1, "one");
    assert!(whole == bytes(2, "two"));
    let given = world.given("stopped");
    let mut task = world.task(&given, &settings);
    let (stop, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    let report = |at: Progress| {
        let is_batch = matches!(at, Progress::Learning { .. });
        if is_batch && batches.fetch_add(1, Ordering::Relaxed) == 6 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    assert!(matches!(train(&task, &report, &stop), Err(TrainError::Stopped)));
    assert!(!given.dir.exists() && given.checkpoint.exists());
    task.resume = true;
    train(&task, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(whole == files(&given));
    assert!(!given.checkpoint.exists());
    let path = given.dir.join("weights");
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, &good[..good.len() - 4]).unwrap();
    let damaged = GraphNetwork::open(&world.base, &given.dir, Variant::Graph).err().unwrap();
    assert!(matches!(damaged, TrainError::Damaged { .. }), "{damaged}");
}

/// Returns a working graph of two candidates, an entity, a node between them and the context node.
fn small(variant: Variant) -> (Kinds, WorkingGraph) {
    let edge = |source, target, kind| Edge { source, target, kind };
    let mut edges = vec![
        edge(0, 2, 0),
        edge(2, 0, 2),
        edge(1, 3, 1),
        edge(3, 1, 3),
        edge(3, 2, 0),
        edge(2, 3, 2),
        edge(4, 2, 4),
        edge(2, 4, 5),
        edge(4, 0, 6),
        edge(0, 4, 7),
        edge(4, 1, 6),
        edge(1, 4, 7),
    ];
    edges.sort_unstable();
    let number = |at: usize| ((at * 37 % 19) as f32 - 9.0) / 10.0;
    let features = (0..4).map(|of| std::array::from_fn(|at| number(of * FEATURES + at))).collect();
    let mut phi: Vec<f32> = vec![0.0; PHI];
    (phi[3], phi[77]) = (0.6, -0.8);
    let graph = WorkingGraph {
        nodes: vec![10, 11, 12, 13],
        n_candidates: 2,
        types: vec![0, 0, 1, 1, 2],
        features,
        edges,
        phi,
    };
    (Kinds { nodes: 3, edges: 8, phi: PHI, variant }, graph)
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    let cases = [None, Some(Ablation::Relations), Some(Ablation::Graph)];
    let cases = cases.map(|ablation| (Variant::Graph, ablation)).into_iter();
    for (variant, ablation) in cases.chain([(Variant::Qagnn, None)]) {
        let (kinds, graph) = small(variant);
        let mut weights = initial_weights(kinds, 5);
        assert_eq!(weights.len(), n_weights(kinds));
        let of =
            |weights: &[f64]| gradient(weights, kinds, &graph, &[1], ablation, DType::F64).unwrap();
        let (loss, found) = of(&weights);
        assert!(loss > 0.0 && found.iter().any(|part| *part != 0.0));
        // Only some numbers of each tensor, so that the test takes a second.
        for at in (0..weights.len()).step_by(61).chain([weights.len() - 1]) {
            let before = weights[at];
            let [up, down] = [1e-5, -1e-5].map(|by| {
                weights[at] = before + by;
                of(&weights).0
            });
            weights[at] = before;
            let measured = (up - down) / 2e-5;
            let part = found[at];
            assert!(
                (part - measured).abs() < 1e-5 * (1.0 + measured.abs()),
                "{at}: {part} {measured}"
            );
        }
    }
}

#[test]
fn the_order_of_nodes_and_edges_does_not_matter() {
    for variant in [Variant::Graph, Variant::Qagnn] {
        order_does_not_matter(variant);
    }
}

fn order_does_not_matter(variant: Variant) {
    let (kinds, graph) = small(variant);
    let weights = initial_weights(kinds, 5);
    let of = |graph: &WorkingGraph| scores(&weights, kinds, graph, None, DType::F64).unwrap();
    let places = [1u32, 0, 3, 2, 4];
    let swap = [1, 0, 3, 2];
    let mut swapped = graph.clone();
    swapped.nodes = swap.map(|at| graph.nodes[at]).to_vec();
    swapped.features = swap.map(|at| graph.features[at]).to_vec();
    for edge in &mut swapped.edges {
        edge.source = places[edge.source as usize];
        edge.target = places[edge.target as usize];
    }
    swapped.edges.reverse();
    let (one, other) = (of(&graph), of(&swapped));
    assert!((one[0] - other[1]).abs() < 1e-9 && (one[1] - other[0]).abs() < 1e-9);
    assert!((one[0] - one[1]).abs() > 1e-6);
}
