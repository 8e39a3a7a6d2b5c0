//! `agent query`, `agent verify`, and bundles as systems.

use std::{collections::BTreeMap, fs};

use agent::{
    bundle::{
        Bundle, Category, CategoryScore, Dataset, FORMAT, Fusion, LlmProvenance, Provenance,
        Validation,
        cutoff::{Cutoff, Expected},
        router::Router,
    },
    dataset::Home,
    eval::Interval,
    index::IndexedBase,
    infer::ParamValues,
    optimize::journal::Journal,
    program::Program,
};
use serde_json::json;

use crate::{
    model::{ModelServer, Mood},
    support::{Ran, World},
};

/// A bundle of one program for the tiny base, with the scores it has there.
fn bundle(world: &World, source: &str) -> Bundle {
    let base = Home::new(world.path("home")).get("tiny").unwrap();
    let opened = IndexedBase::open(&base.kb_dir(), &base.index_dir(), "tiny").unwrap();
    let mut baselines = BTreeMap::new();
    for system in ["bm25", "bm25+names", "dense", "hybrid"] {
        let eval = ["eval", "--dataset", "tiny", "--split", "val", "--system", system, "--json"];
        let mrr = world.run(eval).json_lines()[0]["metrics"]["mrr"].as_f64().unwrap();
        baselines.insert(system.to_owned(), mrr);
    }
    assert_eq!(baselines["bm25"], 1.0);
    Bundle {
        format: FORMAT,
        dataset: Dataset {
            name: "tiny".to_owned(),
            title: "Tiny".to_owned(),
            kb: opened.kb.fingerprint().to_owned(),
            index: opened.fingerprint().to_owned(),
            embedder: opened.embedder().describe(),
        },
        categories: vec![Category {
            name: "products by words".to_owned(),
            program: Program::new(source),
            params: ParamValues::from([("k".to_owned(), 4.0)]),
            proposed_by: "search".to_owned(),
            validation: Some(CategoryScore {
                n: 2,
                baseline: "bm25".to_owned(),
                baseline_mrr: 1.0,
                mrr: 1.0,
                difference: 0.0,
                ci95: Interval { low: 0.0, high: 0.0 },
            }),
        }],
        router: Router {
            n_categories: 1,
            weights: BTreeMap::from([("always".to_owned(), vec![0.5])]),
        },
        fusion: Fusion::of_scores(1, true),
        reranker: None,
        ensemble: Vec::new(),
        cutoff: None,
        phrasings: None,
        validation: Validation {
            n: 2,
            mrr: 1.0,
            baselines,
            held_out: None,
            best_program: None,
            proof: None,
        },
        provenance: Provenance {
            version: "0.1.0".to_owned(),
            seed: 0,
            steps: 0,
            n_train: 1,
            n_validation: 2,
            llm: None,
            without: Vec::new(),
            drift: Vec::new(),
            synthetic: false,
            baseline: None,
        },
        digest: String::new(),
    }
    .sealed()
}

pub(crate) const SEARCHES: &str = "fn params() { #{ k: #{ value: 5, min: 1, max: 10 } } }\n\
    fn retrieve(query, candidates, params) { search(query, \"product\", params.k) }\n";

/// A world with the bundle of `source` in `bundle.json`.
pub(crate) fn world_with(source: &str) -> (World, Bundle) {
    let world = World::indexed();
    let bundle = bundle(&world, source);
    bundle.write(&world.path("bundle.json")).unwrap();
    (world, bundle)
}

/// Installs a changed copy of the tiny base as `other`.
fn install_other(world: &World) {
    let nodes = world.path("tiny/nodes.jsonl");
    fs::write(&nodes, fs::read_to_string(&nodes).unwrap().replace("steel", "brass")).unwrap();
    world.run(["data", "import", "--name", "other", "--from", &world.source()]).done();
    world.run(["index", "other"]).done();
}

#[test]
fn a_bundle_answers_explains_and_is_measured() {
    let (world, bundle) = world_with(SEARCHES);
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny", "steel dart"];
    let answer = &world.run(query.into_iter().chain(["--json", "-k", "2"])).json_lines()[0];
    let keys: Vec<&String> = answer.as_object().unwrap().keys().collect();
    let published = [
        "query",
        "bundle",
        "recognised",
        "route",
        "hits",
        "cutoff",
        "expected",
        "understood",
        "stand_in",
        "timings",
    ];
    assert_eq!(keys, published);
    let hits = answer["hits"].as_array().unwrap();
    let keys: Vec<&String> = hits[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["rank", "id", "key", "type", "name", "score", "path", "words"]);
    assert_eq!((&hits[0]["rank"], &hits[0]["id"]), (&json!(1), &json!(0)));
    assert_eq!(hits[0]["key"], "0");
    let program = bundle.categories[0].program.short_id();
    let route = json!([
        { "category": "products by words", "probability": 1.0, "program": program }
    ]);
    assert_eq!((&answer["route"], &answer["bundle"]), (&route, &json!("bundle.json")));
    assert_eq!((&answer["query"], &answer["recognised"]), (&json!("steel dart"), &json!(true)));
    for stage in ["open_ms", "answer_ms", "understand_ms"] {
        assert!(answer["timings"][stage].as_f64().unwrap() > 0.0, "{stage}: {answer}");
    }
    // A bundle from before ends were learnt answers, and does not say where its answers end.
    assert!(
        [&answer["cutoff"], &answer["expected"], &answer["stand_in"]].iter().all(|v| v.is_null())
    );
    let shown = world.run(query).done();
    assert!(shown.contains("steel dart") && !shown.contains("answers likely"), "{shown}");
    let explained = world.run(query.into_iter().chain(["--explain"])).done();
    for word in ["products by words", bundle.categories[0].program.short_id(), "100.0 %"] {
        assert!(explained.contains(word), "{word} is not in {explained}");
    }
    assert!(explained.contains("line 2: search(\"steel dart\""), "{explained}");
    assert!(explained.contains("; this node "), "{explained}");
    let all = &world.run(query.into_iter().chain(["--explain", "--json"])).json_lines()[0];
    let first = &all["hits"][0];
    assert_eq!(first["explanation"]["children"][0]["name"], "rank");
    let call = &first["calls"][0];
    assert_eq!((&call["line"], &call["tool"]), (&json!(2), &json!("search")));
    assert_eq!(call["arguments"][0], "\"steel dart\"");
    assert!(call["value"].as_f64().unwrap() > 0.0, "{call}");
    let empty = ["query", "--bundle", "bundle.json", "--dataset", "tiny", " "];
    world.run(empty).fails(1, &["the query is empty"]);

    let eval = ["eval", "--dataset", "tiny", "--split", "val", "--system", "bundle:bundle.json"];
    let measured = &world.run(eval.into_iter().chain(["--json"])).json_lines()[0];
    assert_eq!(measured["metrics"]["mrr"], 1.0);
    let listed = world.run(["program", "list", "--bundle", "bundle.json", "--json"]).json_lines();
    assert_eq!(listed[0]["validation"], json!({"n": 2, "mrr": 1.0}));
    let lineage = ["program", "lineage", "products by words", "--bundle", "bundle.json"];
    world.run(lineage).fails(1, &["--run DIR"]);
}

#[test]
fn a_bundle_says_where_its_answers_end() {
    let (world, bundle) = world_with(SEARCHES);
    let expected = vec![Expected { from: 0.0, n: 12, precision: 0.75, recall: 0.5 }];
    let first = BTreeMap::from([("first".to_owned(), 9.0)]);
    let cutoff = Some(Cutoff { weights: first, expected });
    Bundle { cutoff, ..bundle }.sealed().write(&world.path("bundle.json")).unwrap();
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny"];
    let ask = |text: &'static str, more: &'static [&'static str]| {
        world.run(query.into_iter().chain([text]).chain(more.iter().copied()))
    };
    let shown = ask("steel dart", &[]).done();
    let lines: Vec<&str> = shown.lines().collect();
    let rule = "-- the answers likely end here (precision 75 %, recall 50 % in training)";
    assert_eq!(lines[1], rule, "{shown}");
    assert!(lines[0].starts_with("1  steel dart (product)  ") && lines.len() > 3, "{shown}");
    assert_eq!(ask("steel dart", &["--explain"]).done().matches(rule).count(), 1);
    let answer = &ask("steel dart", &["--json"]).json_lines()[0];
    assert_eq!(answer["cutoff"], 1);
    assert_eq!(answer["expected"], json!({ "precision": 0.75, "recall": 0.5 }));

    // Nothing of the base is named, and no word is found: no answer, so no end of it.
    let ran = ask("zyzzyx", &["--json"]);
    assert!(ran.stderr.contains("nothing in the question was recognised"), "{}", ran.stderr);
    let nothing = &ran.json_lines()[0];
    assert_eq!((&nothing["recognised"], &nothing["cutoff"]), (&json!(false), &json!(null)));
    assert_eq!(nothing["hits"], json!([]));

    let ran = ask("something electronic", &["--json"]);
    assert!(ran.stderr.contains("no name in the question was recognised"), "{}", ran.stderr);
    let by_words = &ran.json_lines()[0];
    assert_eq!((&by_words["recognised"], &by_words["cutoff"]), (&json!(false), &json!(1)));

    // One node where the answer goes on: the rank is that of the whole ranking.
    let last = BTreeMap::from([("rank".to_owned(), 99.0)]);
    let bundle = Bundle::read(&world.path("bundle.json")).unwrap();
    let cutoff = bundle.cutoff.clone().map(|cutoff| Cutoff { weights: last, ..cutoff });
    Bundle { cutoff, ..bundle }.sealed().write(&world.path("bundle.json")).unwrap();
    let shown = ask("steel dart", &["-k", "1"]).done();
    assert!(shown.contains("-- the answers likely continue to rank "), "{shown}");
    let all = ask("steel dart", &["--json"]).json_lines().pop().unwrap();
    assert_eq!(all["cutoff"], all["hits"].as_array().unwrap().len());
}

#[test]
fn sets_are_measured_of_systems_that_say_where_answers_end() {
    let (world, bundle) = world_with(SEARCHES);
    let eval = ["eval", "--dataset", "tiny", "--split", "val", "--metrics", "set", "--system"];
    let ran = world.run(eval.into_iter().chain(["bundle:bundle.json"]));
    let why = "-: bundle:bundle.json does not predict where its answers end";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    let table = ran.done();
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..6], ["bundle:bundle.json", "2", "-", "-", "-", "-"], "{table}");

    let expected = vec![Expected { from: 0.0, n: 12, precision: 0.75, recall: 0.5 }];
    let first = BTreeMap::from([("first".to_owned(), 9.0)]);
    let cutoff = Some(Cutoff { weights: first, expected });
    Bundle { cutoff, ..bundle }.sealed().write(&world.path("bundle.json")).unwrap();
    let lines = world.run(eval.into_iter().chain(["bundle:bundle.json", "--by", "kind", "--json"]));
    let line = lines.json_lines().pop().unwrap();
    let keys: Vec<&String> = line["metrics"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["precision", "recall", "f1", "exact"]);
    assert_eq!((&line["n"], &line["without_end"]), (&json!(2), &json!(0)));
    assert_eq!(line["metrics"]["precision"], 1.0, "{line}");
    let oracle = line["best_f1"].as_f64().unwrap();
    assert!(oracle >= line["best_fixed"]["f1"].as_f64().unwrap(), "{line}");
    assert_eq!(line["groups"]["llm"]["n"], 1);
    let markdown = world.run(eval.into_iter().chain(["bm25", "--format", "markdown"])).done();
    assert!(markdown.starts_with("| system | n | precision | recall | f1 | exact |"), "{markdown}");
}

#[test]
fn a_program_that_fails_is_replaced_by_the_baseline_and_reported() {
    let fails = SEARCHES.replace("search(query", "throw \"no\"; search(query");
    let (world, _) = world_with(&fails);
    let ran = world.run(["query", "--bundle", "bundle.json", "--dataset", "tiny", "steel dart"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("steel dart") && ran.stderr.contains("hybrid"), "{}", ran.stderr);
    fs::write(world.path("fails.rhai"), &fails).unwrap();
    for system in ["bundle:bundle.json", "program:fails.rhai"] {
        let eval = ["eval", "--dataset", "tiny", "--split", "val", "--system", system, "--json"];
        let ran = world.run(eval);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!((&line["n"], &line["failed"]), (&json!(2), &json!(2)));
        assert!(line["metrics"]["mrr"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn another_base_is_refused_unless_forced() {
    let (world, _) = world_with(SEARCHES);
    install_other(&world);
    let query = ["query", "--bundle", "bundle.json", "--dataset", "other", "dart"];
    world.run(query).fails(1, &["made for tiny", "--force"]);
    let forced = world.run(query.into_iter().chain(["--force"]));
    assert!(forced.stderr.contains("made for tiny"), "{}", forced.stderr);
    forced.done();
    let system = ["--system", "bundle:bundle.json"];
    world.run(["search", "other", "dart"].into_iter().chain(system)).fails(1, &["made for tiny"]);
    let ran = world.run(["verify", "bundle.json", "--dataset", "other"]);
    assert_eq!(ran.status, 1);
    let base = "FAILED   the bundle was made for \"tiny\", not for \"other\"";
    assert!(ran.stdout.contains(base), "{}", ran.stdout);
}

#[test]
fn a_bundle_has_no_directory_imported() {
    let (world, bundle) = world_with(SEARCHES);
    let installed = || fs::read_dir(world.path("home/bases")).unwrap().count();
    let before = installed();
    for name in [world.source(), "./tiny".to_owned(), "../x".to_owned(), "amazon".to_owned()] {
        let mut named = bundle.clone();
        named.dataset.name.clone_from(&name);
        named.sealed().write(&world.path("named.json")).unwrap();
        world.run(["query", "named.json", "dart"]).fails(1, &["--dataset N"]);
        world.run(["explain", "named.json"]).fails(1, &["--dataset N"]);
        world.run(["serve", "--bundle", "named.json", "--listen", "127.0.0.1:0"]).fails(1, &[]);
        fs::write(world.path("questions.jsonl"), "{\"query\": \"dart\"}\n").unwrap();
        let plan = ["unit", "plan", "units", "--bundle", "named.json", "--batch"];
        world.run(plan.into_iter().chain(["questions.jsonl"])).fails(1, &["--dataset N"]);
        assert_eq!(installed(), before, "{name}");
    }
    // Nor has a plan.
    let plan = ["unit", "plan", "units", "--bundle", "bundle.json", "--batch", "questions.jsonl"];
    world.run(plan).done();
    let file = world.path("units/plan.json");
    let text = fs::read_to_string(&file).unwrap();
    let path = serde_json::to_string(&world.source()).unwrap();
    fs::write(&file, text.replace("\"dataset\": \"tiny\"", &format!("\"dataset\": {path}")))
        .unwrap();
    world.run(["unit", "run", "units", "0"]).fails(1, &["--dataset N"]);
    assert_eq!(installed(), before);
}

#[test]
fn a_bundle_that_does_what_it_says_is_verified() {
    let (world, _) = world_with(SEARCHES);
    let checks = world.run(["verify", "bundle.json", "--json"]).json_lines();
    let names: Vec<&serde_json::Value> = checks.iter().map(|check| &check["check"]).collect();
    assert_eq!(names, ["file", "program", "router", "base", "replay"]);
    assert!(checks.iter().all(|check| check["status"] == "ok"), "{checks:?}");
    fs::remove_dir_all(world.path("home/bases/tiny/index")).unwrap();
    let skipped = world.run(["verify", "bundle.json"]).done();
    assert!(skipped.contains("skipped  tiny has no index"), "{skipped}");
    world.run(["verify", "bundle.json", "--dataset", "tiny"]).fails(1, &["no index"]);
    world.run(["data", "remove", "tiny"]).done();
    let skipped = world.run(["verify", "bundle.json"]).done();
    assert!(skipped.contains("skipped") && skipped.contains("--dataset N"), "{skipped}");
}

#[test]
fn what_does_not_hold_is_told() {
    let (world, whole) = world_with(SEARCHES);
    let file = world.path("bundle.json");
    let verify = |words: &[&str]| {
        let ran = world.run(["verify", "bundle.json"]);
        assert_eq!(ran.status, 1, "{}", ran.stdout);
        for word in words {
            assert!(ran.stdout.contains(word), "{word} is not in {}", ran.stdout);
        }
    };
    let mut bytes = fs::read(&file).unwrap();
    let at = bytes.windows(6).position(|window| window == b"params").unwrap();
    bytes[at] ^= 1;
    fs::write(&file, &bytes).unwrap();
    verify(&["FAILED"]);
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("qarams", "params")).unwrap();
    world.run(["verify", "bundle.json"]).done();
    fs::write(&file, fs::read_to_string(&file).unwrap().replace("Tiny", "Tidy")).unwrap();
    verify(&["has changed since it was frozen"]);
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny", "dart"];
    world.run(query).fails(1, &["has changed since it was frozen"]);

    let write = |change: &dyn Fn(&mut Bundle)| {
        let mut changed = whole.clone();
        change(&mut changed);
        changed.sealed().write(&file).unwrap();
    };
    write(&|bundle| bundle.validation.mrr = 0.75);
    verify(&["mrr: recorded 0.75, replayed 1"]);
    write(&|bundle| bundle.categories[0].validation = None);
    verify(&["products by words", "recorded null"]);
    write(&|bundle| {
        bundle.categories[0].params.insert("k".to_owned(), 11.0);
    });
    verify(&["k is 11, not from 1 to 10"]);
    write(&|bundle| {
        let unknown = SEARCHES.replace("search(", "seek(");
        bundle.categories[0].program = Program::new(&unknown);
    });
    verify(&["no function takes these arguments: seek"]);
}

#[test]
fn a_bundle_whose_programs_ask_is_measured_with_a_model_or_not_at_all() {
    let asks = SEARCHES.replace("{ search", "{ classify_by_llm(query, [\"a\", \"b\"]); search");
    let (world, mut bundle) = world_with(&asks);
    let (models, prompts) = (BTreeMap::new(), String::new());
    bundle.provenance.llm = Some(LlmProvenance { models, prompts, tools: true });
    let bundle = bundle.sealed();
    bundle.write(&world.path("bundle.json")).unwrap();
    let replay = |ran: Ran| {
        let line = ran.stdout.lines().find(|line| line.starts_with("replay")).map(str::to_owned);
        (ran.status, line.unwrap_or_default())
    };
    let (status, line) = replay(world.run(["verify", "bundle.json"]));
    assert!(status == 0 && line.contains("skipped") && line.contains("ask a language"), "{line}");
    let server = ModelServer::start(Mood::Works);
    let mut command = world.command(["verify", "bundle.json"]);
    command.env("AGENT_MODEL", "scripted").env("OPENAI_BASE_URL", server.url());
    let (status, line) = replay(Ran::of(command.output().unwrap()));
    assert!(status == 0 && line.contains("2 validation queries: mrr 100.0"), "{line}");

    let journal = Journal::create(&world.path("run"), &json!({"dataset": "tiny"})).unwrap();
    drop(journal);
    bundle.write(&world.path("run/bundle.json")).unwrap();
    let told = world.run(["report", "--run", "run"]).stderr;
    assert!(told.contains("the programs of the bundle ask a language model"), "{told}");

    fs::write(world.path("questions.jsonl"), "{\"query\": \"steel dart\"}\n").unwrap();
    let batch = ["--bundle", "bundle.json", "--batch", "questions.jsonl"];
    world.run(["unit", "plan", "units"].into_iter().chain(batch)).done();
    let why = ["no LLM configured", "the programs of the bundle ask a language model"];
    world.run(["unit", "run", "units", "0"]).fails(1, &why);
}

#[test]
fn a_program_that_does_not_compile_is_named_by_verify() {
    let (world, _) = world_with("fn retrieve(query, candidates, params) {\n    let = 3;\n}");
    let verified = world.run(["verify", "bundle.json"]);
    assert_eq!(verified.status, 1, "{}", verified.stderr);
    let lines: Vec<&str> = verified.stdout.lines().collect();
    let line = |check: &str| lines.iter().find(|line| line.starts_with(check)).copied();
    let program = line("program").unwrap_or_default();
    assert!(program.contains("FAILED") && program.contains("products by words"), "{lines:?}");
    assert!(program.contains("parse") && program.contains("line 2"), "{lines:?}");
    assert!(line("replay").is_some_and(|line| line.contains("does not compile")), "{lines:?}");
}
