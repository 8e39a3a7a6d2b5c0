//! Bases whose right program is known: one relation answers all queries, and a run must find it.

use std::{fs, path::Path};

use rand::{RngExt, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::support::World;

/// Queries of a base by split: training, validation, test.
const SPLITS: [(&str, usize); 3] = [("train", 40), ("val", 16), ("test", 12)];

const CITIES: [&str; 10] = [
    "Arendal", "Bergamo", "Cordoba", "Dresden", "Esbjerg", "Fukuoka", "Grenoble", "Hobart",
    "Izmir", "Kaunas",
];
const BRANDS: [&str; 15] = [
    "Quorvex", "Zimbrel", "Talvoni", "Pexaro", "Ondurel", "Marvik", "Lostera", "Kelbrun",
    "Jovanta", "Ivrendi", "Hastoro", "Gelvani", "Fendrik", "Elowest", "Dravona",
];
const THINGS: [&str; 15] = [
    "lamp", "kettle", "saddle", "whistle", "ladder", "violin", "tent", "scale", "anvil", "basket",
    "candle", "drum", "easel", "funnel", "goblet",
];
const LOOKS: [&str; 4] = ["plain", "folding", "heavy", "narrow"];
const ASKED: [&str; 4] = [
    "what can I buy that comes from {}",
    "goods whose maker sits in {}",
    "something produced by a company of {}",
    "which articles are from firms in {}",
];

/// Said of every product, so that words find all of them for any query.
const ABOUT: &str = "an article of a company, produced by its maker; goods that one can buy";

/// Writes a base of 10 cities, 15 brands in a city each, and 60 products of a brand each, all drawn
/// from the seed, with queries that name a city. They want what brands of that city make.
fn write(dir: &Path, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (brands, products) = (CITIES.len(), CITIES.len() + BRANDS.len());
    let (mut nodes, mut edges) = (String::new(), String::from("src_id\trelation\tdst_id\n"));
    let mut node = |id: usize, kind: &str, name: &str| {
        let details = if kind == "product" { json!({ "about": ABOUT }) } else { json!({}) };
        let node = json!({ "id": id, "type": kind, "name": name, "details": details });
        nodes += &format!("{node}\n");
    };
    for (at, name) in CITIES.iter().enumerate() {
        node(at, "city", name);
    }
    // Every city has a brand and every brand a product, so that every query has an answer.
    let mut seats: Vec<usize> = (0..BRANDS.len())
        .map(|at| if at < brands { at } else { rng.random_range(0..brands) })
        .collect();
    seats.shuffle(&mut rng);
    for (at, name) in BRANDS.iter().enumerate() {
        node(brands + at, "brand", name);
        edges += &format!("{}\tbased_in\t{}\n", brands + at, seats[at]);
    }
    let n_products = LOOKS.len() * THINGS.len();
    let mut makers: Vec<usize> = (0..n_products).map(|at| at % BRANDS.len()).collect();
    makers.shuffle(&mut rng);
    for (at, maker) in makers.iter().enumerate() {
        let name = format!("{} {}", LOOKS[at / THINGS.len()], THINGS[at % THINGS.len()]);
        node(products + at, "product", &name);
        edges += &format!("{}\tmade_by\t{}\n", products + at, brands + maker);
    }
    let mut queries = String::from("id,query,answer_ids\n");
    let n_queries: usize = SPLITS.iter().map(|split| split.1).sum();
    for at in 0..n_queries {
        let city = rng.random_range(0..CITIES.len());
        let made = (0..n_products).filter(|&product| seats[makers[product]] == city);
        let answers: Vec<String> = made.map(|product| (products + product).to_string()).collect();
        let text = ASKED[at % ASKED.len()].replace("{}", CITIES[city]);
        queries += &format!("{at},{text},\"[{}]\"\n", answers.join(", "));
    }
    fs::create_dir_all(dir.join("split")).unwrap();
    let toml = "title = \"Planted\"\ncandidate_types = [\"product\"]\n";
    let files = [("nodes.jsonl", &*nodes), ("edges.tsv", &edges), ("qa.csv", &queries)];
    for (file, text) in files.into_iter().chain([("dataset.toml", toml)]) {
        fs::write(dir.join(file), text).unwrap();
    }
    let mut first = 0;
    for (split, n) in SPLITS {
        let ids: String = (first..first + n).map(|id| format!("{id}\n")).collect();
        fs::write(dir.join(format!("split/{split}.index")), ids).unwrap();
        first += n;
    }
}

/// A base of a seed in a world; the line that a run on it ends with.
fn optimized(world: &World, seed: u64) -> Value {
    let name = format!("planted{seed}");
    let source = world.path(&name);
    write(&source, seed);
    let source = source.display().to_string();
    let run = ["optimize", "--dataset", &source, "--steps", "8", "--json"];
    world.run(run).json_lines().pop().unwrap()
}

/// Types and relations of the base, and what they are called in other scripts: with vowel signs of
/// Thai, Hindi and Arabic, with accents of their own, soft hyphens and joiners, with quotes. Two
/// types have as many letters.
const SCRIPTS: [(&str, &str); 5] = [
    ("\"city\"", "\"\u{e17}\u{e35}\u{e48}\u{e15}\u{e31}\u{e49}\u{e07}\""),
    ("\"brand\"", "\"\u{928}\u{93f}\u{930}\u{94d}\u{92e}\u{93e}\u{924}\""),
    ("\"product\"", "\"\u{633}\u{650}\u{644}\u{652}\u{639}\u{64e}\u{629}\u{200d}\u{ad}\""),
    ("based_in", "situe\u{301}e_a\u{300} \"la ville\""),
    ("made_by", "fabrique\u{301}\u{ad}e\\par\u{200f}"),
];

#[test]
fn the_relation_is_found_whatever_the_script_of_its_name() {
    let world = World::new();
    let source = world.path("scripts");
    write(&source, 1);
    for file in ["nodes.jsonl", "edges.tsv", "dataset.toml"] {
        let text = fs::read_to_string(source.join(file)).unwrap();
        let renamed = SCRIPTS.iter().fold(text, |text, (from, to)| text.replace(from, to));
        fs::write(source.join(file), renamed).unwrap();
    }
    let source = source.display().to_string();
    world.run(["data", "import", "--name", "scripts", "--from", &source]).done();
    world.run(["index", "scripts"]).done();
    let run = ["optimize", "--dataset", "scripts", "--steps", "8", "--json"];
    let line = world.run(run).json_lines().pop().unwrap();
    let bundle = format!("bundle:{}", line["bundle"].as_str().unwrap());
    let eval = ["eval", "--dataset", "scripts", "--split", "test", "--system", &bundle, "--json"];
    let measured = world.run(eval).json_lines().pop().unwrap();
    assert_eq!((&measured["metrics"]["hit@1"], &measured["failed"]), (&1.0.into(), &0.into()));
}

#[test]
fn the_relation_that_answers_all_queries_is_found() {
    let world = World::new();
    for seed in 1..=2 {
        let line = optimized(&world, seed);
        let bundle = format!("bundle:{}", line["bundle"].as_str().unwrap());
        let name = format!("planted{seed}");
        let eval = ["eval", "--dataset", &name, "--split", "test", "--system", &bundle, "--json"];
        let measured = world.run(eval).json_lines().pop().unwrap();
        assert_eq!(measured["metrics"]["hit@1"], 1.0, "seed {seed}: {measured}");
        assert!(line["validation"]["held_out"]["mrr"].as_f64().unwrap() > 0.95, "{line}");
        // Answers are clean sets, all that is made in the city and nothing else, though words find
        // more and cities differ in how many they are.
        let sets = eval.into_iter().chain(["--metrics", "set"]);
        let sets = world.run(sets).json_lines().pop().unwrap();
        assert_eq!(sets["metrics"]["f1"], 1.0, "seed {seed}: {sets}");
        assert!(sets["best_fixed"]["f1"].as_f64().unwrap() < 0.95, "seed {seed}: {sets}");
        // That of the relation does better than any words, on its queries and on all.
        let first = line["first_better"].as_array().unwrap();
        let moments =
            first.iter().map(|of| (of["what"].as_str().unwrap(), of["n"].as_u64().unwrap()));
        assert_eq!(moments.collect::<Vec<_>>(), [("program", 40), ("together", 40)], "{line}");
        assert!(line["seconds_to_first_better"].as_f64().unwrap() > 0.0, "{line}");
        let router = &line["router"];
        assert!(router["n"] == 16 && router["observed"].as_f64().unwrap() > 0.9, "{router}");
    }
}
