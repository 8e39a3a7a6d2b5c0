//! `agent explain`: each kind of loss, planted at a known line, is named with its line.

use std::{collections::BTreeMap, fs};

use agent::{
    bundle::{Bundle, Category, Dataset, FORMAT, Fusion, Provenance, Validation, router::Router},
    dataset::Home,
    index::IndexedBase,
    program::Program,
};
use serde_json::{Value, json};

use crate::support::World;

/// Query 1 names brand 4 and describes product 2 of brand 5, its only answer.
const DURABLE: &str = "id,query,answer_ids\n1,durable Dart World,[2]\n";

/// A program whose `retrieve` has these lines; the first is line 2.
fn program(lines: &[&str]) -> String {
    format!("fn retrieve(query, candidates, params) {{\n{}\n}}\n", lines.join("\n"))
}

/// What `agent explain --json` says of a program on labelled queries.
fn explain(world: &World, source: &str, queries: &str) -> Value {
    fs::write(world.path("program.rhai"), source).unwrap();
    fs::write(world.path("queries.csv"), queries).unwrap();
    let command = ["explain", "--program", "program.rhai", "--dataset", "tiny"];
    let rest = ["--split", "queries.csv", "--json"];
    world.run(command.into_iter().chain(rest)).json_lines().remove(0)
}

/// Checks kind, line and function of the loss of the only query.
#[track_caller]
fn loses(world: &World, lines: &[&str], queries: &str, expected: (&str, u64, &str)) -> Value {
    let told = explain(world, &program(lines), queries);
    let query = &told["queries"][0];
    let loss = &query["loss"];
    let (kind, line, function) = expected;
    assert_eq!(
        (&loss["kind"], &loss["line"], &loss["function"]),
        (&json!(kind), &json!(line), &json!(function)),
        "{loss}"
    );
    let (rank, gain) = (query["reciprocal_rank"].as_f64().unwrap(), loss["gain"].as_f64().unwrap());
    assert!((0.0..=1.0).contains(&(rank + gain)), "{query}");
    assert_eq!(told["kinds"], json!({ kind: 1 }));
    assert_eq!(told["categories"][0]["causes"][0]["gain"], loss["gain"]);
    loss.clone()
}

#[test]
fn planted_losses_are_named_with_kind_line_and_function() {
    let world = World::indexed();
    let found = "    let found = search(\"durable\", \"product\", 4);";
    let made = "    let made = hop(link(query, \"brand\", 1), \"has_brand\", \"in\");";

    loses(
        &world,
        &["    // The next line fails.", "    throw \"no\""],
        DURABLE,
        ("failed", 3, "runtime"),
    );
    let loss = loses(
        &world,
        &["    let brands = link(query, \"brand\", 1);", "    hop(brands, \"has_brand\", \"in\")"],
        DURABLE,
        ("not_linked", 2, "link"),
    );
    assert!(loss["why"].as_str().unwrap().contains("Sky Toys"), "{loss}");
    loses(
        &world,
        &["    search(\"light\", \"product\", 4)"],
        DURABLE,
        ("not_reached", 2, "search"),
    );
    for (line, function) in [
        ("    found & nodes(made)", "&"),
        ("    found * made", "*"),
        ("    found - nodes([2])", "-"),
        ("    restrict(found, made)", "restrict"),
        ("    without(found, nodes([2, 3]))", "without"),
        ("    at_least(found, 1000.0)", "at_least"),
        ("    of_type(found, \"brand\")", "of_type"),
        ("    uniform(with_field(found, \"feature\", \"steel\"))", "with_field"),
    ] {
        loses(&world, &[found, made, line], DURABLE, ("filtered", 4, function));
    }
    // Steel and durable: the answer is second.
    let search = "search(\"durable steel\", \"product\"";
    let top = ["    let found = ", search, ", 4);"].concat();
    let loss = loses(&world, &[&top, "    top(found, 1)"], DURABLE, ("cut", 3, "top"));
    // From the second place on: nodes that are not ranked come after those that are, by id.
    assert!((loss["gain"].as_f64().unwrap() - (1.0 / 2.0 - 1.0 / 3.0)).abs() < 1e-6, "{loss}");
    let few = ["    ", search, ", 1)"].concat();
    loses(&world, &[&few], DURABLE, ("cut", 2, "search"));
    let favours = [found, "    found", "        + uniform(nodes([0, 1]), 100.0)"];
    let loss = loses(&world, &favours, DURABLE, ("ranked_low", 4, "uniform"));
    assert!(loss["why"].as_str().unwrap().contains("\"steel dart\" is first"), "{loss}");
}

#[test]
fn linked_entities_are_followed_back_over_metapaths() {
    let world = World::indexed();
    // Both brands are named; the right one is dropped before the metapath.
    let both = "id,query,answer_ids\n1,Dart World and Sky Toys,[2]\n";
    let lines = [
        "    let brands = link(query, \"brand\", 2);",
        "    let one = without(brands, nodes([5]));",
        "    let made = hop(one, \"has_brand\", \"in\");",
        "    top(made * 2.0 + made, 10)",
    ];
    let loss = loses(&world, &lines, both, ("filtered", 3, "without"));
    assert!(loss["why"].as_str().unwrap().contains("linked entity"), "{loss}");
    // Two metapaths one after another, from a product over its brand.
    let lines = [
        "    let known = search(\"soft\", \"product\", 1);",
        "    walk(known, [\"has_brand:out\", \"has_brand:in\"])",
    ];
    loses(&world, &lines, DURABLE, ("not_linked", 2, "search"));
    // What a program picks by itself comes from all before it.
    let lines = [
        "    let ids = [];",
        "    for id in link(\"Dart World\", \"brand\", 1) { ids.push(id); }",
        "    let found = search(\"durable\", \"product\", 4);",
        "    hop(nodes(ids), \"has_brand\", \"in\")",
    ];
    loses(&world, &lines, DURABLE, ("not_linked", 3, "link"));
    let lines = ["    walk(link(\"Sky Toys\", \"brand\", 1), [\"has_brand\"], 0)"];
    loses(&world, &lines, DURABLE, ("cut", 2, "walk"));
}

#[test]
fn a_map_that_a_program_computes_is_followed_as_well() {
    let world = World::indexed();
    let lines = [
        "    let found = search(\"durable steel\", \"product\", 4);",
        "    let best = top(found, 1);",
        "    let result = #{};",
        "    for id in best { result[id.to_string()] = best[id] * 3.0; }",
        "    result",
    ];
    loses(&world, &lines, DURABLE, ("cut", 3, "top"));
}

/// A bundle of two programs of which the router always asks the first.
fn routed(world: &World, first: &str, second: &str) {
    let base = Home::new(world.path("home")).get("tiny").unwrap();
    let opened = IndexedBase::open(&base.kb_dir(), &base.index_dir(), "tiny").unwrap();
    let category = |name: &str, source: &str| Category {
        name: name.to_owned(),
        program: Program::new(source),
        params: BTreeMap::new(),
        proposed_by: "search".to_owned(),
        validation: None,
    };
    Bundle {
        format: FORMAT,
        dataset: Dataset {
            name: "tiny".to_owned(),
            title: "Tiny".to_owned(),
            kb: opened.kb.fingerprint().to_owned(),
            index: opened.fingerprint().to_owned(),
            embedder: opened.embedder().describe(),
        },
        categories: vec![category("by brand", first), category("by words", second)],
        router: Router {
            n_categories: 2,
            weights: BTreeMap::from([("always".to_owned(), vec![9.0, -9.0])]),
        },
        fusion: Fusion::of_scores(1, true),
        reranker: None,
        ensemble: Vec::new(),
        cutoff: None,
        phrasings: None,
        validation: Validation {
            n: 2,
            mrr: 1.0,
            baselines: BTreeMap::new(),
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
            without: Vec::new(),
            drift: Vec::new(),
            synthetic: false,
            baseline: None,
            llm: None,
        },
        digest: String::new(),
    }
    .sealed()
    .write(&world.path("bundle.json"))
    .unwrap();
}

#[test]
fn a_bundle_names_the_category_that_would_have_answered() {
    let world = World::indexed();
    let brand = program(&["    hop(link(query, \"brand\", 1), \"has_brand\", \"in\")"]);
    routed(&world, &brand, &program(&["    search(\"durable nylon\", \"product\", 4)"]));
    fs::write(world.path("queries.csv"), DURABLE).unwrap();
    let command = ["explain", "--bundle", "bundle.json", "--dataset", "tiny"];
    let split = ["--split", "queries.csv", "--json"];
    let told = world.run(command.into_iter().chain(split)).json_lines().remove(0);
    let query = &told["queries"][0];
    assert_eq!(
        (&query["category"], &query["loss"]["kind"]),
        (&json!("by brand"), &json!("not_routed"))
    );
    assert!(query["loss"]["why"].as_str().unwrap().contains("by words"), "{query}");
    let gain = query["loss"]["gain"].as_f64().unwrap();
    assert!((gain - (1.0 - 1.0 / 3.0)).abs() < 1e-6, "from the third place to the first: {gain}");
    assert_eq!(
        (&query["within"]["kind"], &query["within"]["line"]),
        (&json!("not_linked"), &json!(2))
    );
    // Where no other program does better, the line of the own one is told.
    routed(&world, &brand, &brand.replace("query, \"brand\"", "\"x\", \"brand\""));
    let told = world.run(command.into_iter().chain(split)).json_lines().remove(0);
    assert_eq!(told["queries"][0]["loss"]["kind"], "not_linked");
    assert_eq!(told["categories"][0]["name"], "by brand");
}

#[test]
fn causes_are_summed_up_and_marked_in_the_program() {
    let world = World::indexed();
    let queries = "id,query,answer_ids,kind\n1,durable steel,[2],a\n2,durable steel,[0],a\n3,durable light,[1],b\n";
    fs::write(world.path("queries.csv"), queries).unwrap();
    let source = program(&["    let found = search(query, \"product\", 9);", "    top(found, 1)"]);
    fs::write(world.path("program.rhai"), format!("//! category: by words\n{source}")).unwrap();
    let command =
        ["explain", "--program", "program.rhai", "--dataset", "tiny", "--split", "queries.csv"];
    let ran = world.run(command);
    assert!(
        ran.stderr.contains("2 of 3 queries have no correct answer at rank 1"),
        "{}",
        ran.stderr
    );
    let id = Program::new(&format!("//! category: by words\n{source}"));
    let expected = format!(
        "\
category  n   mrr  lost         line  function  queries  gain
by words  3  55.6  not reached     3  search          1  22.2
                   cut             4  top             1   5.6

{}  by words
   1  //! category: by words
   2  fn retrieve(query, candidates, params) {{
   3      let found = search(query, \"product\", 9);   <-- 1 not reached, gain 22.2
   4      top(found, 1)   <-- 1 cut, gain 5.6
   5  }}
",
        id.short_id()
    );
    assert_eq!(ran.done(), expected);
    let kept = world.run(command.into_iter().chain(["--where", "kind=b", "--json"])).json_lines();
    assert_eq!((&kept[0]["n"], &kept[0]["kinds"]), (&json!(1), &json!({"not_reached": 1})));

    let one = world.run(command.into_iter().chain(["--query", "1"])).done();
    for words in
        ["cut: top, line 4: received an answer, \"red kite\"", "3  search(\"durable steel\""]
    {
        assert!(one.contains(words), "{words} is not in {one}");
    }
    let text = &command[..5];
    let given = text.iter().copied().chain(["durable steel", "--answers", "2", "--json"]);
    let told = &world.run(given).json_lines()[0];
    assert_eq!(
        (&told["split"], &told["queries"][0]["calls"][1]["line"]),
        (&Value::Null, &json!(4))
    );
    let given = |rest: [&'static str; 3]| world.run(text.iter().copied().chain(rest));
    for unknown in ["99", "x", ""] {
        let told = format!("no node has the id {unknown:?}");
        given(["durable", "--answers", unknown]).fails(1, &[&told, "ids are 0 to 5"]);
    }
    given([" ", "--answers", "1"]).fails(1, &["the query is empty"]);
    given(["--query", "77", "--json"]).fails(1, &["val has no query 77"]);
    world.run(["explain", "--dataset", "tiny"]).fails(2, &["agent explain latest"]);
    let alone = ["explain", "--program", "program.rhai", "durable", "--answers", "1"];
    world.run(alone).fails(2, &["--dataset N"]);
}

#[test]
fn answers_are_given_by_the_ids_of_the_user() {
    let world = World::keyed();
    fs::write(world.path("program.rhai"), program(&["    search(query, \"product\", 4)"])).unwrap();
    let explain = |answers: &str| {
        let command = ["explain", "--program", "program.rhai", "--dataset", "keyed", "light sail"];
        world.run(command.into_iter().chain(["--answers", answers, "--json"]))
    };
    for (answers, rank) in [("0", 1.0), ("3,0", 1.0), ("'kite, red'", 0.5), ("product:0", 1.0)] {
        let told = explain(answers).json_lines().remove(0);
        assert_eq!(told["queries"][0]["reciprocal_rank"], rank, "{answers}: {told}");
    }
    explain("2").fails(1, &["no node has the id \"2\"", "ids look like \"D-1\"", "--json"]);
}
