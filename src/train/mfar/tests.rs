//! Tests training on a made-up knowledge base where a word of the query decides which field is
//! relevant.

use std::sync::{Arc, atomic::AtomicBool};

use tempfile::TempDir;

use super::{
    examples::{Example, Features, Response, Standard, conditions, n_conditions, vocabulary},
    fit::{Case, Weights, gradient},
    *,
};
use crate::{Source, TrainError};
use agent_dataset::LabelledQuery;
use agent_index::{self as index, IndexedBase, Part, Plan};
use agent_kb::{Kb, KbMeta, KbWriter, NodeId};

/// Number of values of a field.
const VALUES: usize = 10;

struct World {
    dir: TempDir,
    base: Arc<IndexedBase>,
}

fn value(at: usize) -> String {
    format!("value{at}")
}

impl World {
    /// Creates a knowledge base with a node for each pair of different values: the node has one
    /// value in the field `upper`, the other as the name of a neighbour.
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let (kb_dir, index_dir) = (dir.path().join("kb"), dir.path().join("index"));
        let mut writer = KbWriter::create(&kb_dir).unwrap();
        for at in 0..VALUES {
            writer.push_node("place", &value(at), "", &[]).unwrap();
        }
        for (upper, lower) in pairs() {
            let fields = [("upper".to_owned(), value(upper))];
            let text = format!("- upper: {}\n", value(upper));
            let thing = writer.push_node("thing", "thing", &text, &fields).unwrap();
            writer.push_edge(thing, "lower", lower as NodeId).unwrap();
        }
        let candidate_types = vec!["thing".to_owned()];
        let meta = KbMeta {
            title: "t".into(),
            licence: "none".into(),
            candidate_types,
            ..KbMeta::default()
        };
        writer.finish(&meta, &mut |_, _| true).unwrap();
        let plan = Plan { parts: &[Part::Fields, Part::FieldVectors], ..Plan::complete() };
        let (kb, stop) = (Kb::open(&kb_dir).unwrap(), AtomicBool::new(false));
        let watch = index::Watch { report: &|_| {}, stop: &stop };
        index::build_parts(&kb, &index_dir, &plan, &watch).unwrap();
        let base = Arc::new(IndexedBase::open(&kb_dir, &index_dir, "world").unwrap());
        World { dir, base }
    }

    fn scorers(&self, variant: Variant) -> Scorers {
        Scorers::open(self.base.clone(), variant).unwrap()
    }

    fn mfar(&self, model: &Mfar, mask: &str, query: &str) -> Vec<NodeId> {
        let scorers = self.scorers(model.variant());
        let mask = Mask::read(mask, &scorers).unwrap();
        let found = model.search(&scorers, &mask, query, 1_000, 0).unwrap();
        found.ranking.into_iter().map(|pair| pair.0).collect()
    }
}

/// Returns all pairs of different values, in the order of the nodes that have them.
fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..VALUES * VALUES).map(|at| (at / VALUES, at % VALUES)).filter(|(a, b)| a != b)
}

/// Returns a query for each value and field. The answers have the value in that field; equally many
/// other nodes have the value in the other field.
fn queries(from: i64, wordings: [&str; 2]) -> Vec<LabelledQuery> {
    let mut queries = Vec::new();
    for at in 0..VALUES {
        for (is_upper, wording) in [true, false].into_iter().zip(wordings) {
            let things = (VALUES as NodeId..).zip(pairs());
            let answers = things.filter(|(_, pair)| at == if is_upper { pair.0 } else { pair.1 });
            queries.push(LabelledQuery {
                id: from + queries.len() as i64,
                text: format!("{wording} {}", value(at)),
                answers: answers.map(|pair| pair.0).collect(),
                metadata: Default::default(),
            });
        }
    }
    queries
}

fn trained(scorers: &Scorers, conditioning: Option<Conditioning>) -> TrainedModel {
    let settings = Settings { conditioning, steps: 60, ..Settings::default() };
    let (train_queries, val) =
        (queries(0, ["above", "below"]), queries(100, ["found above", "found below"]));
    train(scorers, &train_queries, &val, &settings, &|_| {}, &AtomicBool::new(false)).unwrap()
}

/// Returns the mean reciprocal rank of `model`, with `mask`, on the held-out queries.
fn mrr(world: &World, model: &Mfar, mask: &str) -> f64 {
    let queries = queries(200, ["all above", "all below"]);
    let one = |query: &LabelledQuery| {
        let ranking = world.mfar(model, mask, &query.text);
        let first = ranking.iter().position(|node| query.answers.binary_search(node).is_ok());
        first.map_or(0.0, |at| 1.0 / (at + 1) as f64)
    };
    queries.iter().map(one).sum::<f64>() / queries.len() as f64
}

#[test]
fn the_field_that_a_query_asks_for_is_found_and_missed_when_it_is_masked() {
    let world = World::new();
    let scorers = world.scorers(Variant::Lexical);
    assert_eq!(scorers.names(), ["upper", "name", "lower.out"]);
    let trained = trained(&scorers, None);
    let [none, words, _] = trained.cross_validation.as_slice() else { panic!() };
    assert!(words.mrr > 0.99 && none.mrr < 0.8, "{words:?} {none:?}");
    let model = &trained.model;
    assert_eq!(model.conditioning(), Conditioning::Words);
    assert_eq!(mrr(&world, model, ""), 1.0);
    // The other field's nodes remain.
    for (mask, left) in [("upper", "below"), ("lower.out:lexical", "above"), ("relations", "above")]
    {
        let masked = mrr(&world, model, mask);
        assert!((0.4..0.7).contains(&masked), "{mask}: {masked}");
        let query = format!("{left} {}", value(3));
        assert_eq!(world.mfar(model, mask, &query), world.mfar(model, "", &query)[..VALUES - 1]);
    }
    assert!(world.mfar(model, "details,relations", "above value3").is_empty());
    let weights = |query: &str| model.weights_of(&scorers, query, &[]).unwrap();
    let (above, below) = (weights("above"), weights("below"));
    assert!(above[0] > 2.0 * above[2] && below[2] > 2.0 * below[0], "{above:?} {below:?}");
    for weights in [above, below] {
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
}

#[test]
fn vectors_of_fields_find_what_words_find() {
    let world = World::new();
    for (variant, names) in [
        (Variant::Dense, &["upper:dense", "lower.out:dense"][..]),
        (Variant::All, &["upper", "name", "lower.out", "upper:dense", "lower.out:dense"]),
        (Variant::OnePlusN, &["document", "upper:dense", "lower.out:dense"]),
    ] {
        let scorers = world.scorers(variant);
        let known = |name: &&String| name.as_str() != "name:dense";
        assert_eq!(scorers.names().iter().filter(known).collect::<Vec<_>>(), names);
        let model = trained(&scorers, Some(Conditioning::Words)).model;
        let found = mrr(&world, &model, "");
        assert!(found > 0.99, "{variant:?}: {found}");
        let at = |name: &str| scorers.names().iter().position(|one| one == name).unwrap();
        let (upper, lower) = (at("upper:dense"), at("lower.out:dense"));
        let weights = |query: &str| model.weights_of(&scorers, query, &[]).unwrap();
        let (above, below) = (weights("above value3"), weights("below value3"));
        assert!(above[upper] > above[lower] && below[lower] > below[upper], "{variant:?}");
    }
    // The document alone does not tell the fields apart.
    let whole = trained(&world.scorers(Variant::Two), None);
    assert_eq!(world.scorers(Variant::Two).names(), ["document", "document:dense"]);
    assert!(mrr(&world, &whole.model, "") < 0.9);
    let scorers = world.scorers(Variant::All);
    let model = trained(&scorers, Some(Conditioning::Words)).model;
    for mask in ["lexical", "dense", "upper:lexical,lower.out:lexical"] {
        assert_eq!(mrr(&world, &model, mask), 1.0, "{mask}");
    }
    assert!(mrr(&world, &model, "upper") < 0.7);
}

#[test]
fn the_vector_of_a_query_tells_its_field() {
    let world = World::new();
    let scorers = world.scorers(Variant::Dense);
    // Even values belong to one field, odd values to the other.
    let asked: Vec<LabelledQuery> = queries(0, ["", ""])
        .chunks(4)
        .flat_map(|of_two| of_two.iter().step_by(3).cloned())
        .collect();
    assert_eq!(asked.len(), VALUES);
    let best = |conditioning| {
        let settings = Settings { conditioning: Some(conditioning), ..Settings::default() };
        let stop = AtomicBool::new(false);
        let trained = train(&scorers, &asked, &asked, &settings, &|_| {}, &stop).unwrap();
        trained.curve.iter().map(|point| point.mrr).fold(0.0, f64::max)
    };
    assert_eq!(best(Conditioning::Encoder), 1.0);
    assert!(best(Conditioning::None) < 0.9);
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_one_thread_and_two() {
    let world = World::new();
    let scorers = world.scorers(Variant::All);
    let bytes = |threads: usize, name: &str| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let dir = world.dir.path().join("models").join(name);
        let TrainedModel { model, cross_validation, curve } =
            pool.install(|| trained(&scorers, None));
        let (train, val) = (queries(0, ["a", "b"]), queries(1, ["a", "b"]));
        let source = Source::new("world", world.base.kb.fingerprint(), &train, &val);
        let record =
            model.save(&dir, &source, &Settings::default(), cross_validation, curve).unwrap();
        let (read, again) = Mfar::read(&dir).unwrap();
        assert_eq!((&read, &again), (&model, &record));
        assert!(read.scorers(&again, &world.base, &dir).is_ok());
        ["record.json", "weights.json"].map(|file| std::fs::read(dir.join(file)).unwrap())
    };
    assert!(bytes(1, "one") == bytes(2, "two"));
    let files = std::fs::read_dir(world.dir.path().join("models")).unwrap();
    assert_eq!(files.count(), 2, "nothing is left beside the models");
}

#[test]
fn a_damaged_model_and_a_wrong_mask_are_errors() {
    let world = World::new();
    let scorers = world.scorers(Variant::Lexical);
    let model = trained(&scorers, Some(Conditioning::None)).model;
    let dir = world.dir.path().join("model");
    let source = Source::new("world", "another", &[], &[]);
    let record = model.save(&dir, &source, &Settings::default(), Vec::new(), Vec::new()).unwrap();
    let other = model.scorers(&record, &world.base, &dir);
    assert!(matches!(other, Err(TrainError::OtherBase { .. })));
    for file in ["record.json", "weights.json"] {
        let good = std::fs::read(dir.join(file)).unwrap();
        for end in [0, 20, good.len() - 2] {
            std::fs::write(dir.join(file), &good[..end]).unwrap();
            assert!(matches!(Mfar::read(&dir), Err(TrainError::Damaged { .. })), "{file} {end}");
        }
        std::fs::write(dir.join(file), &good).unwrap();
    }
    assert!(Mfar::read(&dir).is_ok());
    for (mask, expected) in [
        (
            "uper",
            "\"uper\" in the mask is not a field; use document, details, relations, lexical, dense or one of \
             upper, name",
        ),
        ("upper:dense", "upper has no scorer \"dense\"; use lexical"),
    ] {
        let error = Mask::read(mask, &scorers).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn training_ends_when_it_is_stopped_and_needs_queries_of_both_splits() {
    let world = World::new();
    let scorers = world.scorers(Variant::Lexical);
    let some = queries(0, ["above", "below"]);
    let train_on = |train_queries: &[LabelledQuery], val: &[LabelledQuery], stop: bool| {
        let stop = AtomicBool::new(stop);
        train(&scorers, train_queries, val, &Settings::default(), &|_| {}, &stop).err().unwrap()
    };
    assert!(matches!(train_on(&some, &some, true), TrainError::Stopped));
    assert!(matches!(train_on(&[], &some, false), TrainError::NoQueries("train")));
    assert!(matches!(train_on(&some, &[], false), TrainError::NoQueries("val")));
}

/// Returns the examples of two queries with few candidates; no scorer found the answer of the
/// second query.
fn small() -> Vec<Example> {
    let response = |&(scorer, score): &(u32, f32)| Response { scorer, score };
    let example = |rows: &[&[(u32, f32)]], answers: &[bool], n_found, stem: &str| {
        let mut bounds = vec![0];
        rows.iter().for_each(|row| bounds.push(bounds[bounds.len() - 1] + row.len()));
        Example {
            bounds,
            responses: rows.concat().iter().map(response).collect(),
            answers: answers.to_vec(),
            n_found,
            features: Features {
                stems: vec![stem.to_owned()],
                best: vec![1.5, 0.5, 2.0],
                vector: [0.5, -0.25].into(),
            },
        }
    };
    vec![
        example(
            &[&[(0, 0.5), (1, 0.1)], &[(1, 0.5), (2, 2.0)], &[(0, 1.5)]],
            &[false, true, true],
            3,
            "a",
        ),
        example(&[&[(0, 0.25)], &[(2, 0.75), (0, 0.1)], &[]], &[false, false, true], 2, "b"),
    ]
}

#[test]
fn the_gradient_is_that_of_finite_differences() {
    let examples = small();
    let words = ["a".to_owned(), "b".to_owned()];
    let standard = Standard { means: vec![0.0; 3], scales: vec![1.0; 3] };
    for conditioning in Conditioning::ALL {
        let of = |one: &Example| conditions(conditioning, &words, &one.features, &standard);
        let phis: Vec<_> = examples.iter().map(of).collect();
        let cases: Vec<Case<'_>> =
            examples.iter().zip(&phis).map(|(example, phi)| Case { example, phi }).collect();
        let mut weights = Weights::equal(n_conditions(conditioning, &words, 3, 2), 3);
        for (at, weight) in weights.all.iter_mut().enumerate() {
            *weight += 0.3 * ((at * 7 % 5) as f64 - 2.0);
        }
        const RIDGE: f64 = 0.01;
        let objective = |weights: &Weights| {
            let (rows, gammas) = weights.all.split_at(weights.all.len() - 3);
            let penalty: f64 = rows.iter().map(|w| w * w).sum::<f64>()
                + gammas.iter().map(|g| (g - 1.0) * (g - 1.0)).sum::<f64>();
            -gradient(&cases, weights, RIDGE).0 - RIDGE / 2.0 * penalty
        };
        let (_, found) = gradient(&cases, &weights, RIDGE);
        for (at, part) in found.iter().enumerate() {
            let moved = |by: f64| {
                let mut weights = weights.clone();
                weights.all[at] += by;
                objective(&weights)
            };
            let measured = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!(
                (part - measured).abs() < 1e-6 * (1.0 + measured.abs()),
                "{at}: {part} {measured}"
            );
        }
    }
}

#[test]
fn words_that_enough_queries_have_condition_weights() {
    let examples = small();
    let some: Vec<&Example> = examples.iter().cycle().take(7).collect();
    assert_eq!(vocabulary(&some), ["a"], "four times, and three");
    let features = Features {
        stems: vec!["a".to_owned(), "c".to_owned()],
        best: vec![1.0, 0.0, 7.0],
        vector: [0.5, -0.25].into(),
    };
    let standard = Standard { means: vec![0.0, 0.0, -1.0], scales: vec![1.0, 1.0, 2.0] };
    let of = |conditioning| conditions(conditioning, &["a".to_owned()], &features, &standard);
    assert_eq!(of(Conditioning::None), [(0, 1.0)]);
    assert_eq!(of(Conditioning::Words), [(0, 1.0), (1, 1.0)]);
    assert_eq!(of(Conditioning::Responses), [(0, 1.0), (1, 0.25), (3, 1.0)]);
    assert_eq!(of(Conditioning::Encoder), [(0, 1.0), (1, 1.5), (2, -0.75)]);
}
