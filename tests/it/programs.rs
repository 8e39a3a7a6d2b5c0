//! `agent program`.

use std::fs;

use agent::{
    infer::ParamValues,
    optimize::{
        Decision,
        journal::Journal,
        trial::{Origin, Trial},
    },
    program::Program,
};
use serde_json::{Value, json};

use crate::support::World;

/// A program that searches, with one number.
const SEARCHES: &str = "//! category: products by words\n\
    fn params() { #{ k: #{ value: 5, min: 1, max: 10 } } }\n\
    fn retrieve(query, candidates, params) {\n    print(\"ran\");\n    \
    search(query, \"product\", params.k)\n}\n";

/// Runs a source with `--json`; its status and the one object it prints.
fn run_json(world: &World, source: &[u8]) -> (i32, Value) {
    fs::write(world.path("program.rhai"), source).unwrap();
    let run = ["program", "run", "program.rhai", "--dataset", "tiny", "--query", "steel dart"];
    let ran = world.run(run.into_iter().chain(["--json"]));
    assert_eq!(ran.stdout.lines().count(), 1, "{}", ran.stdout);
    (ran.status, serde_json::from_str(&ran.stdout).unwrap())
}

#[test]
fn a_program_ranks_and_says_what_it_used() {
    let world = World::indexed();
    let (status, ran) = run_json(&world, SEARCHES.as_bytes());
    let keys: Vec<&String> = ran.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["status", "kind", "message", "position", "ranking", "usage", "output"]);
    assert_eq!((status, &ran["status"], &ran["output"]), (0, &json!("ok"), &json!("ran\n")));
    assert_eq!(ran["ranking"][0][0], 0);
    assert!(ran["ranking"][0][1].as_f64().unwrap() > 0.0);
    let usage: Vec<&String> = ran["usage"].as_object().unwrap().keys().collect();
    assert_eq!(usage, ["operations", "tool_calls", "ms", "peak_bytes"]);
    assert_eq!(ran["usage"]["tool_calls"], 1);

    let run = ["program", "run", "program.rhai", "--dataset", "tiny", "--query", "dart"];
    let table = world.run(run.into_iter().chain(["--params", r#"{"k": 1}"#]));
    assert!(table.stderr.contains("1 tool calls"), "{}", table.stderr);
    assert_eq!(table.done().lines().count(), 2);
    let unknown = world.run(run.into_iter().chain(["--params", r#"{"z": 1}"#]));
    unknown.fails(1, &["no parameter is named z", "k"]);
    world.run(run.into_iter().chain(["--params", "[1]"])).fails(2, &["JSON object of numbers"]);
    world.run(run[..6].iter().copied().chain([" "])).fails(1, &["the query is empty"]);
}

#[test]
fn every_way_to_fail_has_its_kind() {
    let world = World::indexed();
    let slow = "let s = \"x\"; s.pad(1000000, 'y'); let n = 0; loop { n += s.index_of(\"yyyz\") }";
    for (kind, body) in [
        ("operations", "loop { }"),
        ("deadline", slow),
        ("memory", "let s = \"x\"; loop { s += s; }"),
        ("depth", "fn deeper(n) { deeper(n + 1) } deeper(0)"),
        ("output", "loop { print(\"0123456789\") }"),
        ("tool_budget", "loop { search(query, \"product\", 1) }"),
        ("tool", "search(query, \"nothing of that type\", 1)"),
        ("result", "#{ \"99\": 1.0 }"),
        ("runtime", "throw \"no\""),
    ] {
        let (before, body) = match body.split_once("} ") {
            Some((function, call)) if kind == "depth" => (format!("{function}}}\n"), call),
            _ => (String::new(), body),
        };
        let source = format!("{before}fn retrieve(query, candidates, params) {{\n{body}\n}}\n");
        let (status, ran) = run_json(&world, source.as_bytes());
        assert_eq!((status, &ran["status"], &ran["kind"]), (1, &json!("error"), &json!(kind)));
        assert_eq!(ran["ranking"], json!([]));
        assert!(ran["message"].is_string() && ran["usage"]["ms"].is_f64(), "{ran}");
    }
    let too_long = format!("{SEARCHES}//{}", "x".repeat(64 << 10));
    for (kind, source) in [
        ("parse", &b"fn retrieve(query, candidates, params) { let = }"[..]),
        ("parse", b" \n"),
        ("parse", b"fn retrieve(q, c, p) { \"\xff\" }"),
        ("parse", too_long.as_bytes()),
        ("missing_function", b"fn other() { 1 }"),
    ] {
        let (status, ran) = run_json(&world, source);
        assert_eq!((status, &ran["kind"]), (1, &json!(kind)), "{ran}");
    }
    let (_, ran) = run_json(&world, b"fn retrieve(query, candidates, params) { let = }");
    assert_eq!(ran["position"]["line"], 1);

    let run = |file| ["program", "run", file, "--dataset", "tiny", "--query", "dart"];
    world.run(run("absent.rhai")).fails(1, &["parse: cannot read absent.rhai"]);
    world.run(run("absent.wasm")).fails(1, &["parse: cannot read absent.wasm"]);
    fs::write(world.path("text.wasm"), "fn retrieve(query, candidates, params) { #{} }").unwrap();
    world.run(run("text.wasm")).fails(1, &["parse: the bytes are not a WebAssembly module"]);
    world.run(run("program.rhai")).fails(1, &["error: parse:", "program.rhai:1:"]);
}

/// Writes a run of three programs: the first, a change of it that was accepted, another that was
/// not; the second was also tuned.
fn write_run(world: &World) -> [Program; 3] {
    let first = Program::new(SEARCHES);
    let second = Program::new(&SEARCHES.replace("value: 5", "value: 7"));
    let third = Program::new(&SEARCHES.replace("value: 5", "value: 9"));
    let dir = world.path("run");
    let mut journal = Journal::create(&dir, &json!({})).unwrap();
    let tuned = ParamValues::from([("k".to_owned(), 3.0)]);
    let none = ParamValues::new();
    let trials = [
        (&first, &none, None, "train", 0.25),
        (&first, &none, None, "validation", 0.25),
        (&second, &none, Some(&first), "validation", 0.5),
        (&third, &none, Some(&first), "validation", 0.2),
        (&second, &tuned, Some(&second), "validation", 1.0),
    ];
    for (at, (program, params, parent, pool, rank)) in trials.into_iter().enumerate() {
        let trial = Trial {
            program: program.id().to_owned(),
            params: params.clone(),
            pool: pool.to_owned(),
            origin: Origin {
                proposed_by: "search".to_owned(),
                change: "more nodes".to_owned(),
                parent: parent.map(|parent| parent.id().to_owned()),
            },
            queries: vec![0, 1],
            reciprocal_ranks: vec![rank, rank],
            failed: 0,
            failure: None,
        };
        journal.commit("trial", &at.to_string(), &trial, std::slice::from_ref(program)).unwrap();
    }
    let decide = |from: &Program, to: &Program, params: &ParamValues, change: &str, accepted| {
        let (from, to) = (from.id().to_owned(), to.id().to_owned());
        let (category, change, params) = (String::new(), change.to_owned(), params.clone());
        Decision {
            category,
            from,
            to,
            params,
            change,
            n: 2,
            difference: 0.25,
            gain: 0.5,
            p: 0.125,
            e: 1.25,
            needed: Some(9),
            accepted,
        }
    };
    for (at, decision) in [
        decide(&first, &second, &none, "more nodes", true),
        decide(&first, &third, &none, "more nodes", false),
        decide(&second, &second, &tuned, "tuned parameters", true),
    ]
    .iter()
    .enumerate()
    {
        journal.commit("decision", &at.to_string(), decision, &[]).unwrap();
    }
    [first, second, third]
}

#[test]
fn programs_of_a_run_are_listed_shown_compared_and_traced() {
    let world = World::new();
    let [first, second, third] = write_run(&world);
    let list = world.run(["program", "list", "--run", "run", "--json"]).json_lines();
    assert_eq!(list.len(), 4);
    assert_eq!(list[0]["id"], first.id());
    assert_eq!(list[0]["train"], json!({"n": 2, "mrr": 0.25}));
    assert_eq!((&list[3]["tuned"], &list[3]["validation"]["mrr"]), (&json!(1), &json!(1.0)));
    let table = world.run(["program", "list", "--run", "run"]).done();
    assert!(table.contains(second.short_id()) && table.contains("50.0"), "{table}");
    // One id is one program with its parameters, and names it.
    let variants: std::collections::BTreeSet<&str> =
        list.iter().map(|one| one["variant"].as_str().unwrap()).collect();
    assert_eq!(variants.len(), list.len(), "{list:?}");
    let tuned = list[3]["variant"].as_str().unwrap();
    assert!(tuned.starts_with(list[3]["id"].as_str().unwrap().get(..12).unwrap()), "{tuned}");
    let shown = &world.run(["program", "show", tuned, "--run", "run", "--json"]).json_lines()[0];
    assert_eq!(shown["id"], list[3]["id"], "{shown}");

    // The parameters that were accepted last belong to a program.
    let show = ["program", "show", second.short_id(), "--run", "run"];
    let shown = world.run(show).done();
    assert!(shown.starts_with(second.source()), "{shown}");
    assert!(shown.ends_with("//   k: 3 (declared 7, 1 to 10)\n"), "{shown}");
    let shown = &world.run(show.into_iter().chain(["--json"])).json_lines()[0];
    assert_eq!((&shown["source"], &shown["params"]), (&json!(second.source()), &json!({"k": 3.0})));
    let several = ["program", "show", "by words", "--run", "run"];
    world.run(several).fails(1, &["matches 3 programs", first.short_id()]);
    world.run(["program", "show", "abcdef", "--run", "run"]).fails(1, &["no program \"abcdef\""]);

    let diff = ["program", "diff", first.short_id(), second.short_id(), "--run", "run"];
    let text = world.run(diff).done();
    assert!(text.contains("-fn params() { #{ k: #{ value: 5"), "{text}");
    let answers = "parameters:\n  k: 5 -> 3\n\n\
        val, from the journal: 2 queries, mrr 75.0 [75.0, 75.0] points, p 0.5000; better 2, worse 0, equal 0\n  \
        better: query number 1, 0.250 -> 1.000  \n  better: query number 2, 0.250 -> 1.000  \n";
    assert!(text.ends_with(answers), "{text}");
    let back = ["program", "diff", second.short_id(), third.short_id(), "--run", "run", "--json"];
    let told = &world.run(back).json_lines()[0]["answers"];
    assert_eq!((&told["from_journal"], &told["losses"]), (&json!(true), &json!(2)));
    assert_eq!((&told["lost"][0]["at"], &told["lost"][0]["id"]), (&json!(0), &Value::Null));
    world.run(diff.into_iter().chain(["--measure", "--dataset", "none"])).fails(1, &["none"]);

    let lineage = ["program", "lineage", second.short_id(), "--run", "run"];
    let chain = world.run(lineage.into_iter().chain(["--json"])).json_lines();
    let ids: Vec<&Value> = chain.iter().map(|ancestor| &ancestor["id"]).collect();
    assert_eq!(ids, [first.id(), second.id()]);
    assert_eq!(chain[1]["parent"], first.id());
    assert_eq!(
        (&chain[1]["tests"][0]["p"], &chain[1]["tests"][1]["change"]),
        (&json!(0.125), &json!("tuned parameters"))
    );
    let table = world.run(["program", "lineage", third.id(), "--run", "run"]).done();
    assert_eq!(table.lines().count(), 3, "{table}");
    assert!(table.contains("+25.0") && table.trim_end().ends_with("no"), "{table}");

    world.run(["program", "list"]).fails(2, &["--run"]);
    world.run(["program", "list", "--run", "nowhere"]).fails(1, &["nowhere"]);
}

/// Writes a run on the tiny base: a program that searches, and a change of it in two places that
/// loses an answer.
fn write_changed_run(world: &World) -> [Program; 2] {
    let first = Program::new(
        "fn params() { #{ k: #{ value: 2, min: 1, max: 4 }, w: 1.0 } }\n\
         fn retrieve(query, candidates, params) {\n    \
         let found = search(query, \"product\", 4);\n    \
         let made = found * params.w;\n    \
         top(made, params.k)\n}\n",
    );
    let changed = first
        .source()
        .replace("search(query", "search(\"blue\"")
        .replace("top(made", "top(found * -1.0");
    let second = Program::new(&changed);
    let dir = world.path("run");
    let mut journal = Journal::create(&dir, &json!({ "dataset": "tiny" })).unwrap();
    for (at, program) in [&first, &second].into_iter().enumerate() {
        let trial = Trial {
            program: program.id().to_owned(),
            params: ParamValues::new(),
            pool: "train".to_owned(),
            origin: Origin {
                proposed_by: "search".to_owned(),
                change: "other words".to_owned(),
                parent: None,
            },
            queries: vec![0],
            reciprocal_ranks: vec![1.0],
            failed: 0,
            failure: None,
        };
        journal.commit("trial", &at.to_string(), &trial, std::slice::from_ref(program)).unwrap();
    }
    [first, second]
}

#[test]
fn programs_are_compared_by_running_them_and_each_change_alone() {
    let world = World::indexed();
    let [first, second] = write_changed_run(&world);
    let diff = ["program", "diff", first.short_id(), second.short_id(), "--run", "run"];
    let only = world.run(diff);
    assert!(only.stderr.contains("--measure runs them"), "{}", only.stderr);
    assert!(!only.done().contains("queries"));

    let told = &world.run(diff.into_iter().chain(["--ablate", "--json"])).json_lines()[0];
    let answers = &told["answers"];
    assert_eq!(
        (&answers["on"], &answers["losses"], &answers["ties"]),
        (&json!("val"), &json!(1), &json!(1))
    );
    let lost = &answers["lost"][0];
    assert_eq!((&lost["id"], &lost["query"]), (&json!(2), &json!("a durable kite by Sky Toys")));
    let cost = answers["cost"].as_array().unwrap();
    assert_eq!((&cost[0]["tool_calls"], &cost[0]["failed"]), (&json!(3.0), &json!(0)));
    let effects = told["effects"].as_array().unwrap();
    let lines: Vec<&Value> = effects.iter().map(|effect| &effect["line"]).collect();
    assert_eq!(lines, [3, 5]);
    assert!(effects[0]["change"].as_str().unwrap().contains("+    let found = search(\"blue\""));
    for effect in effects {
        let (difference, ci95) = (&effect["alone"]["difference"], &effect["alone"]["ci95"]);
        let (low, high) = (ci95[0].as_f64().unwrap(), ci95[1].as_f64().unwrap());
        assert!((low..=high).contains(&difference.as_f64().unwrap()), "{effect}");
    }
    // One after another, the changes end in the second program.
    let sum: f64 =
        effects.iter().map(|effect| effect["after_others"]["difference"].as_f64().unwrap()).sum();
    assert!((sum - answers["difference"].as_f64().unwrap()).abs() < 1e-6, "{told}");
    let text = world.run(diff.into_iter().chain(["--ablate", "--on", "train"])).done();
    for words in ["train: 1 queries", "cost: tool calls", "each change, mrr", "line 5: alone "] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
}

#[test]
fn the_effect_of_each_number_is_told() {
    let world = World::indexed();
    let [first, _] = write_changed_run(&world);
    let sensitivity = ["program", "sensitivity", first.short_id(), "--run", "run"];
    let rows = world.run(sensitivity.into_iter().chain(["--on", "val", "--json"])).json_lines();
    let values: Vec<&Value> = rows.iter().map(|row| &row["value"]).collect();
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0], "a fixed number is not moved, an integer is rounded");
    assert_eq!((&rows[1]["difference"], &rows[1]["now"]), (&json!(0.0), &json!(2.0)));
    assert_eq!((&rows[1]["wins"], &rows[1]["losses"]), (&json!(0), &json!(0)));
    let still = world.run(sensitivity.into_iter().chain(["--values", "2"]));
    assert!(still.stderr.contains("no rank changes with k"), "{}", still.stderr);
    assert!(still.stderr.contains("too few queries for reliable results"), "{}", still.stderr);
    assert_eq!(still.done(), "");
    world
        .run(sensitivity.into_iter().chain(["--number", "z"]))
        .fails(1, &["no parameter \"z\"", "k, w"]);
    world.run(sensitivity.into_iter().chain(["--values", "99"])).fails(2, &["--values"]);
}
