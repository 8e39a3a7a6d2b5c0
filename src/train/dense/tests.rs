//! Tests training on a made-up knowledge base whose documents and queries share no words.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use rand::{SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

mod tuned;

use super::{
    table::Table,
    words::{Bag, Words},
    *,
};
use crate::{Progress, Record, Source, Task, TrainError};
use agent_dataset::LabelledQuery;
use agent_index::{self as index, IndexedBase, TextPart};
use agent_kb::{Kb, KbMeta, KbWriter, NodeId};

/// Number of concepts; each has separate words for documents and for queries.
const CONCEPTS: usize = 16;
const SYNONYMS: usize = 10;

struct World {
    dir: TempDir,
    base: Arc<IndexedBase>,
}

/// Draws `n` words of a concept, from those for documents or those for queries, as `side` says.
fn words_of(concept: usize, side: char, n: usize, random: &mut ChaCha8Rng) -> String {
    let words: Vec<String> = (0..SYNONYMS).map(|at| format!("{side}{concept}x{at}")).collect();
    words.sample(random, n).cloned().collect::<Vec<_>>().join(" ")
}

/// Returns all pairs of different concepts, in the order of the nodes that have them.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..CONCEPTS).flat_map(|a| (a + 1..CONCEPTS).map(move |b| (a, b)))
}

impl World {
    /// Creates a knowledge base with a node for each pair of concepts.
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (kb_dir, index_dir) = (dir.path().join("kb"), dir.path().join("index"));
        let mut writer = KbWriter::create(&kb_dir).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for (a, b) in pairs() {
            let [a, b] = [a, b].map(|concept| words_of(concept, 'd', 5, &mut random));
            writer.push_node("thing", "thing", &format!("{a} {b}"), &[]).unwrap();
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

    fn given(&self, name: &str) -> Given {
        let (train, val) = (queries(1), queries(2).into_iter().step_by(3).collect::<Vec<_>>());
        Given {
            source: Source::new("world", self.base.kb.fingerprint(), &train, &val),
            dir: self.dir.path().join("models").join(name),
            checkpoint: self.dir.path().join("models").join(format!(".{name}")),
            train,
            val,
        }
    }

    /// Returns the share of held-out queries whose first-ranked node is an answer.
    fn hit(&self, search: impl Fn(&str) -> Vec<(NodeId, f32)>) -> f64 {
        let queries = queries(3);
        let is_hit = |query: &&LabelledQuery| {
            search(&query.text).first().is_some_and(|first| query.answers == [first.0])
        };
        queries.iter().filter(is_hit).count() as f64 / queries.len() as f64
    }
}

struct Given {
    train: Vec<LabelledQuery>,
    val: Vec<LabelledQuery>,
    source: Source,
    dir: std::path::PathBuf,
    checkpoint: std::path::PathBuf,
}

/// Returns two queries for each node, which use only the words for queries.
fn queries(seed: u64) -> Vec<LabelledQuery> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut queries = Vec::new();
    for (node, (a, b)) in (0..).zip(pairs()) {
        for _ in 0..2 {
            let [a, b] = [a, b].map(|concept| words_of(concept, 'q', 3, &mut random));
            queries.push(LabelledQuery {
                id: queries.len() as i64,
                text: format!("{a} {b}"),
                answers: vec![node],
                metadata: Default::default(),
            });
        }
    }
    queries
}

fn settings(negatives: Negatives) -> Settings {
    Settings { negatives, made: 200, epochs: 16, rate: 5e-3, refresh: 2, ..Settings::default() }
}

#[test]
fn words_that_queries_and_documents_do_not_share_are_brought_together() {
    let world = World::new();
    let lexical = |query: &str| world.base.text.search(query, TextPart::DocumentWithNames, &[], 10);
    assert_eq!(world.hit(lexical), 0.0);
    for negatives in [Negatives::Bm25, Negatives::Own] {
        let given = world.given(negatives.name());
        for (epochs, bounds) in [(0, 0.0..=0.1), (16, 0.9..=1.0)] {
            let settings = Settings { epochs, ..settings(negatives) };
            let task = world.task(&given, &settings);
            let record = train(&task, &|_| {}, &AtomicBool::new(false)).unwrap();
            let (encoder, read) = Encoder::open(&world.base, &given.dir).unwrap();
            assert_eq!(record, read);
            let hit = world.hit(|query| encoder.search(&world.base, query, 10).unwrap());
            assert!(bounds.contains(&hit), "{negatives:?} {epochs}: {hit}");
        }
    }
}

fn files(given: &Given) -> [Vec<u8>; 3] {
    ["record.json", "words", "vectors"].map(|file| std::fs::read(given.dir.join(file)).unwrap())
}

#[test]
fn one_thread_two_and_an_interruption_give_the_same_bytes() {
    let world = World::new();
    let settings = Settings { epochs: 4, ..settings(Negatives::Own) };
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
        if is_batch && batches.fetch_add(1, Ordering::Relaxed) == 12 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    assert!(matches!(train(&task, &report, &stop), Err(TrainError::Stopped)));
    assert!(!given.dir.exists() && given.checkpoint.exists());
    task.resume = true;
    let other = Settings { seed: 2, ..settings.clone() };
    let changed = Task { settings: &other, ..world.task(&given, &settings) };
    let changed = Task { resume: true, ..changed };
    let refused = train(&changed, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(refused, TrainError::NoCheckpoint { .. }), "{refused}");
    train(&task, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(whole == files(&given));
    assert!(!given.checkpoint.exists());
    let none = train(&task, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(none, TrainError::NoCheckpoint { .. }), "{none}");
}

#[test]
fn a_damaged_model_another_base_and_missing_queries_are_told() {
    let world = World::new();
    let settings = Settings { epochs: 0, made: 0, ..settings(Negatives::Bm25) };
    let mut given = world.given("model");
    train(&world.task(&given, &settings), &|_| {}, &AtomicBool::new(false)).unwrap();
    for file in ["record.json", "words"] {
        let path = given.dir.join(file);
        let good = std::fs::read(&path).unwrap();
        for end in [0, 20, good.len() - 2] {
            std::fs::write(&path, &good[..end]).unwrap();
            let error = Encoder::open(&world.base, &given.dir).err().unwrap();
            assert!(matches!(error, TrainError::Damaged { .. }), "{file} {end}: {error}");
        }
        std::fs::write(&path, &good).unwrap();
    }
    let path = given.dir.join("vectors");
    let good = std::fs::read(&path).unwrap();
    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert!(Encoder::open(&world.base, &given.dir).is_err());
    let mfar = crate::mfar::Mfar::read(&given.dir).err().unwrap();
    assert!(matches!(mfar, TrainError::OtherSystem { .. }), "{mfar}");
    given.source.base = "another".to_owned();
    train(&world.task(&given, &settings), &|_| {}, &AtomicBool::new(false)).unwrap();
    let other = Encoder::open(&world.base, &given.dir).err().unwrap();
    assert!(matches!(other, TrainError::OtherBase { .. }), "{other}");
    given.val.clear();
    let none = train(&world.task(&given, &settings), &|_| {}, &AtomicBool::new(false));
    assert!(matches!(none, Err(TrainError::NoQueries("val"))));
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    let (rows, dim) = (7, 3);
    let numbers = (0..rows * dim).map(|at| ((at * 37 % 23) as f32 - 11.0) / 8.0).collect();
    let mut table = Table { dim, numbers };
    let bag = |rows: &[(u32, f32)]| -> Bag { rows.to_vec() };
    let queries = [bag(&[(0, 1.0), (2, 0.5)]), bag(&[(1, 2.0)]), bag(&[(3, 1.0), (4, 1.5)])];
    let documents = [
        bag(&[(2, 1.0), (5, 0.5)]),
        bag(&[(1, 0.5), (6, 1.0)]),
        bag(&[(0, 0.25)]),
        bag(&[(5, 1.0)]),
    ];
    let (queries, documents) = (queries.each_ref(), documents.each_ref());
    let is_hidden = |query: usize, at: usize| (query, at) == (0, 1);
    let of = |table: &Table| table.gradient(&queries, &documents, &is_hidden, 0.5);
    let found = of(&table);
    assert_eq!(found.rows.len(), rows);
    // A power of two, so that `f32` numbers move by exactly this step.
    let step = 1.0 / 1_024.0;
    for (row, gradient) in found.rows {
        for (at, part) in gradient.into_iter().enumerate() {
            let place = row as usize * dim + at;
            let before = table.numbers[place];
            let [up, down] = [step, -step].map(|by| {
                table.numbers[place] = before + by;
                of(&table).loss
            });
            table.numbers[place] = before;
            let measured = (up - down) / f64::from(2.0 * step);
            assert!((part - measured).abs() < 1e-5 * (1.0 + measured.abs()), "{part} {measured}");
        }
    }
}

#[test]
fn a_text_is_its_words_weighed_by_how_often_and_how_rare() {
    let world = World::new();
    let words = Words::of_base(&world.base, ["unheard words"].into_iter());
    assert!(words.stems.is_sorted() && words.stems.iter().any(|stem| stem == "unheard"));
    let node = words.of_node(&world.base, 0);
    let query = words.of_query(&world.base, world.base.kb.text(0));
    assert_eq!(node, query);
    let repeated = words.of_query(&world.base, "unheard, unheard");
    let once = words.of_query(&world.base, "unheard");
    assert_eq!(repeated[0].0, once[0].0);
    assert!((repeated[0].1 / once[0].1 - (1.0 + 2f32.ln())).abs() < 1e-6);
}
