//! Whole runs where no change can help, and where a change truly helps, on one base and with the
//! same questions: a run must not believe in the first more often than it says, and must believe
//! in the second. They differ in the answers of validation queries alone: training queries speak
//! for changes in both, so that there is something to test.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, sync::atomic::AtomicBool};

use agent::{
    bundle::Proof,
    dataset::{Home, LabelledQuery},
    index::IndexedBase,
    kb::NodeId,
    optimize::{
        Actors, Inputs, Options, e_value::ERROR_RATE, journal::Journal, mine::DEFAULT_HOPS, run,
    },
    sandbox::SandboxOptions,
};
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::support::World;

/// Runs where nothing helps.
const SEEDS: u64 = 40;
/// Runs where a change helps.
const HELPED_SEEDS: u64 = 6;
/// How many of these are accepted at least; by chance so many are with a chance of 0.002.
const HELPED: u64 = 5;
/// Training and validation queries of a run.
const QUERIES: [usize; 2] = [40, 32];
/// Steps of a run.
const STEPS: usize = 12;
/// Answers of a validation query where nothing helps: so many that one is first often enough for a
/// sequential test to be won by chance.
const RANDOM_ANSWERS: usize = 16;
/// The chance that the bound on accepted runs is passed though the error rate holds.
const BOUND_FAILS: f64 = 1e-4;

const CITIES: [&str; 6] = ["Arendal", "Bergamo", "Cordoba", "Dresden", "Esbjerg", "Fukuoka"];
const STUFFS: [&str; 6] = ["walnut", "granite", "copper", "leather", "bamboo", "linen"];
const DYES: [&str; 6] = ["crimson", "indigo", "ochre", "turquoise", "violet", "ivory"];
/// Things between a product and what a query names, for each of these.
const BETWEEN: usize = 2;
const PRODUCTS: usize = 160;
/// First node of each kind.
const STUFF: usize = CITIES.len();
const DYE: usize = STUFF + STUFFS.len();
const MAKER: usize = DYE + DYES.len();
const PART: usize = MAKER + BETWEEN * CITIES.len();
const PACK: usize = PART + BETWEEN * STUFFS.len();
const PRODUCT: usize = PACK + BETWEEN * DYES.len();

/// City, stuff and dye of every product.
type Traits = Vec<[usize; 3]>;

/// A base of products with a maker in a city, a part of a stuff and a pack of a dye; words of a
/// product say none of them. Gives what each product has.
fn write(dir: &Path) -> Traits {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (mut nodes, mut edges) = (String::new(), String::from("src_id\trelation\tdst_id\n"));
    let mut node = |id: usize, kind: &str, name: &str| {
        nodes +=
            &format!("{{\"id\":{id},\"type\":\"{kind}\",\"name\":\"{name}\",\"details\":{{}}}}\n");
    };
    let named = [(0, "city", CITIES), (STUFF, "stuff", STUFFS), (DYE, "dye", DYES)];
    for (first, kind, names) in named {
        names.iter().enumerate().for_each(|(at, name)| node(first + at, kind, name));
    }
    let between = [
        (MAKER, "maker", "based_in", 0),
        (PART, "part", "made_of", STUFF),
        (PACK, "pack", "dyed", DYE),
    ];
    for (first, kind, relation, to) in between {
        for at in 0..BETWEEN * CITIES.len() {
            node(first + at, kind, &format!("{kind} {}", 100 + at));
            edges += &format!("{}\t{relation}\t{}\n", first + at, to + at / BETWEEN);
        }
    }
    let mut traits = Vec::new();
    for at in 0..PRODUCTS {
        let drawn = [0; 3].map(|_| rng.random_range(0..BETWEEN * CITIES.len()));
        node(PRODUCT + at, "product", &format!("article {}", 1_000 + at));
        let relations = [(MAKER, "made_by"), (PART, "has_part"), (PACK, "packed_in")];
        for ((first, relation), drawn) in relations.into_iter().zip(drawn) {
            edges += &format!("{}\t{relation}\t{}\n", PRODUCT + at, first + drawn);
        }
        traits.push(drawn.map(|drawn| drawn / BETWEEN));
    }
    fs::create_dir_all(dir).unwrap();
    let toml = "title = \"Null\"\ncandidate_types = [\"product\"]\n";
    for (file, text) in [("nodes.jsonl", &*nodes), ("edges.tsv", &edges), ("dataset.toml", toml)] {
        fs::write(dir.join(file), text).unwrap();
    }
    traits
}

/// Queries that name a city, a stuff and a dye. They want the products that have all three, or
/// [`RANDOM_ANSWERS`] drawn at random.
fn queries(traits: &Traits, n: usize, at_random: bool, rng: &mut ChaCha8Rng) -> Vec<LabelledQuery> {
    (0..n)
        .map(|at| {
            let [city, stuff, dye] = traits[rng.random_range(0..traits.len())];
            let has = (0..traits.len()).filter(|&product| traits[product] == [city, stuff, dye]);
            let mut wanted: Vec<usize> = has.collect();
            if at_random {
                let mut all: Vec<usize> = (0..traits.len()).collect();
                all.shuffle(rng);
                all.truncate(RANDOM_ANSWERS);
                wanted = all;
            }
            wanted.sort_unstable();
            let (city, stuff, dye) = (CITIES[city], STUFFS[stuff], DYES[dye]);
            LabelledQuery {
                id: at as i64,
                text: format!("goods from {city} with {stuff} in {dye}"),
                answers: wanted.into_iter().map(|at| (PRODUCT + at) as NodeId).collect(),
                metadata: BTreeMap::new(),
            }
        })
        .collect()
}

/// The base, imported and indexed, and what its products have.
fn base(world: &World) -> (Arc<IndexedBase>, Traits) {
    let source = world.path("null");
    let traits = write(&source);
    let source = source.display().to_string();
    world.run(["data", "import", "--name", "null", "--from", &source]).done();
    world.run(["index", "null"]).done();
    let base = Home::new(world.path("home")).get("null").unwrap();
    (Arc::new(IndexedBase::open(&base.kb_dir(), &base.index_dir(), "null").unwrap()), traits)
}

/// The sequential test of a whole run, if there was one.
fn sequential_test(
    world: &World,
    base: &Arc<IndexedBase>,
    traits: &Traits,
    seed: u64,
    helpless: bool,
) -> Option<Proof> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let train = queries(traits, QUERIES[0], false, &mut rng);
    let validation = queries(traits, QUERIES[1], helpless, &mut rng);
    let options = Options {
        dataset: "null".to_owned(),
        seed,
        steps: STEPS,
        hops: DEFAULT_HOPS,
        actors: Actors { search: true, llm: false },
        llm_steps: 0,
        llm_tools: false,
        avatar_tools: false,
        sandbox: SandboxOptions::default(),
        programs: Vec::new(),
        without: Vec::new(),
        budget: None,
    };
    let dir = world.path(&format!("run-{seed}-{helpless}"));
    fs::create_dir_all(&dir).unwrap();
    let mut journal = Journal::create(&dir, &json!({})).unwrap();
    let outcome = run(Inputs {
        base: base.clone(),
        assistant: None,
        train,
        validation,
        options: &options,
        dir: &dir,
        journal: &mut journal,
        threads: 2,
        evaluators: None,
        watch: &mut |_| {},
        waited: Arc::default(),
        stop: &Arc::new(AtomicBool::new(false)),
    });
    let proof = outcome.unwrap().bundle.validation.proof;
    drop(journal);
    fs::remove_dir_all(dir).unwrap();
    proof
}

/// The least number that as many independent trials reach with a chance of [`BOUND_FAILS`] at most.
fn too_many(trials: u64, rate: f64) -> u64 {
    let mut chance = (1.0 - rate).powf(trials as f64);
    let (mut below, mut n) = (chance, 0);
    while 1.0 - below > BOUND_FAILS && n < trials {
        chance *= (trials - n) as f64 / (n + 1) as f64 * rate / (1.0 - rate);
        below += chance;
        n += 1;
    }
    n + 1
}

#[test]
fn runs_where_nothing_helps_accept_no_more_than_the_error_rate_allows() {
    let world = World::new();
    let (base, traits) = base(&world);
    let tests: Vec<Proof> = (1..=SEEDS)
        .filter_map(|seed| sequential_test(&world, &base, &traits, seed, true))
        .collect();
    let accepted = tests.iter().filter(|proof| proof.any()).count() as u64;
    let largest = tests.iter().map(|proof| proof.e).fold(0.0, f64::max);
    let on: usize = tests.iter().map(|proof| proof.n).sum();
    let gained: f64 = tests.iter().map(|proof| proof.difference * proof.n as f64).sum();
    eprintln!(
        "of {SEEDS} runs {} made a test, on {on} queries in all with a mean difference of {:+.4}; \
         {accepted} accepted, largest e-value {largest:.2}; {} would be too many",
        tests.len(),
        gained / on.max(1) as f64,
        too_many(SEEDS, ERROR_RATE)
    );
    assert!(tests.len() as u64 * 4 >= SEEDS, "{} of {SEEDS} runs made a test", tests.len());
    assert!(accepted < too_many(SEEDS, ERROR_RATE), "{accepted} of {SEEDS} accepted");
}

#[test]
fn runs_where_a_change_helps_accept_it_more_often_than_the_error_rate() {
    let world = World::new();
    let (base, traits) = base(&world);
    let proofs: Vec<Option<Proof>> = (1..=HELPED_SEEDS)
        .map(|seed| sequential_test(&world, &base, &traits, seed, false))
        .collect();
    let accepted = proofs.iter().flatten().filter(|proof| proof.any()).count() as u64;
    eprintln!("of {HELPED_SEEDS} runs {accepted} accepted: {proofs:?}");
    assert!(accepted >= HELPED, "{proofs:?}");
}

#[test]
fn the_bound_is_that_of_a_binomial_distribution() {
    assert_eq!(too_many(1, 0.2), 2);
    // P(X >= 37) = 6e-5 and P(X >= 36) = 1.5e-4 for 100 trials at 0.2, by exact summation.
    assert_eq!(too_many(100, 0.2), 37);
}
