//! `agent eval`.

use std::{collections::BTreeSet, fs};

use crate::support::World;

#[test]
fn json_has_the_published_keys() {
    let world = World::indexed();
    let eval = ["eval", "--dataset", "tiny", "--split", "val", "--system", "bm25", "--json"];
    let line = &world.run(eval).json_lines()[0];
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    let published =
        ["dataset", "split", "system", "n", "failed", "metrics", "ci95", "latency_ms", "llm"];
    assert_eq!(keys, published);
    assert_eq!((&line["dataset"], &line["split"]), (&"tiny".into(), &"val".into()));
    assert_eq!((&line["n"], &line["failed"]), (&2.into(), &0.into()));
    assert_eq!(line["metrics"]["hit@1"], 1.0);
    assert_eq!(line["ci95"]["mrr"], serde_json::json!([1.0, 1.0]));
    assert!(line["latency_ms"]["p99"].as_f64().unwrap() > 0.0);
    let llm = serde_json::json!({"calls": 0, "tokens_in": 0, "tokens_out": 0, "usd": 0.0});
    assert_eq!(line["llm"], llm);
}

#[test]
fn several_systems_are_compared_with_the_first() {
    let world = World::indexed();
    let eval = ["eval", "--dataset", "tiny", "--split", "val,test"];
    let eval = eval.into_iter().chain(["--system", "bm25", "--system", "hybrid"]);
    let lines = world.run(eval.clone().chain(["--json"])).json_lines();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].get("versus").is_none());
    assert_eq!((&lines[1]["n"], &lines[1]["split"]), (&3.into(), &"val,test".into()));
    assert_eq!(lines[1]["versus"][0]["system"], "bm25");
    assert_eq!(lines[1]["versus"][0]["metric"], "hit@1");
    assert!(world.run(eval).done().contains("hybrid - bm25"));
}

#[test]
fn rankings_of_systems_are_printed_side_by_side() {
    let world = World::indexed();
    let compare = ["compare", "tiny", "light kite", "--system", "bm25"];
    let both = compare.into_iter().chain(["--system", "dense"]);
    let reply = world.run(both.clone().chain(["--json"])).json_lines().remove(0);
    for system in ["bm25", "dense"] {
        let search = ["search", "tiny", "light kite", "--system", system, "-k", "10", "--json"];
        let at = usize::from(system == "dense");
        let hits = serde_json::Value::from(world.run(search).json_lines());
        assert_eq!(reply["systems"][at]["hits"], hits);
    }
    let shown = world.run(both).done();
    assert!(shown.contains("bm25") && shown.contains("dense"), "{shown}");
    world.run(compare).fails(2, &["needs 2 to 8 systems; 1 given"]);
}

#[test]
fn queries_are_filtered_by_their_columns_and_rankings_written() {
    let world = World::indexed();
    let run_file = world.path("out.trec").display().to_string();
    let eval = ["eval", "--dataset", "tiny", "--split", "val", "--system", "bm25"];
    let kept = ["--where", "kind=llm", "--run-file", &run_file, "--json"];
    let lines = world.run(eval.into_iter().chain(kept)).json_lines();
    assert_eq!(lines[0]["n"], 1);
    let written = fs::read_to_string(&run_file).unwrap();
    assert!(written.starts_with("1 Q0 3 1 "), "{written}");

    let unknown = eval.into_iter().chain(["--where", "sort=llm"]);
    world.run(unknown).fails(1, &["no column \"sort\"", "kind"]);
    world.run(eval.into_iter().chain(["--where", "kind=x"])).fails(1, &["no query has kind=x"]);
    let two = eval.into_iter().chain(["--system", "dense", "--run-file", &run_file]);
    world.run(two).fails(2, &["one system", "{system}"]);
}

#[test]
fn queries_are_grouped_by_a_column_and_all_pairs_compared() {
    let world = World::indexed();
    let eval = ["eval", "--dataset", "tiny", "--split", "val", "--by", "kind", "--pairs"];
    let systems = ["bm25", "dense", "hybrid"].iter().flat_map(|system| ["--system", system]);
    let eval: Vec<&str> = eval.into_iter().chain(systems).collect();
    let lines = world.run(eval.iter().copied().chain(["--json"])).json_lines();
    assert_eq!(lines[0]["groups"]["llm"]["n"], 1);
    let others = |line: &serde_json::Value| {
        let versus = line.get("versus").map_or(&[][..], |rows| rows.as_array().unwrap());
        versus.iter().map(|row| row["system"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let others: Vec<BTreeSet<String>> = lines.iter().map(others).collect();
    let expected = [&[][..], &["bm25"], &["bm25", "dense"]];
    assert_eq!(others, expected.map(|names| names.iter().map(|&name| name.to_owned()).collect()));

    let unknown = ["eval", "--dataset", "tiny", "--split", "val", "--by", "category"];
    world.run(unknown.into_iter().chain(["--system", "bm25"])).fails(1, &["no column", "kind"]);
}

#[test]
fn results_are_written_for_other_tools() {
    let world = World::indexed();
    let path = |name: &str| world.path(name).display().to_string();
    let (runs, qrels, results) = (path("{system}.trec"), path("qrels"), path("results.csv"));
    let eval = ["eval", "--dataset", "tiny", "--split", "val", "--system", "bm25"];
    let files = ["--system", "bm25+names", "--run-file", &runs, "--qrels-file", &qrels];
    let files = files.into_iter().chain(["--results-file", &results]);
    let shown = world.run(eval.into_iter().chain(files).chain(["--format", "csv"])).done();
    let header = "dataset,split,queries,system,n,failed,metric,mean,ci95_low,ci95_high";
    assert_eq!(shown.lines().next(), Some(header));
    assert!(shown.contains("tiny,val,all,bm25,2,0,hit@1,1,1,1"), "{shown}");
    for system in ["bm25", "bm25+names"] {
        let run = fs::read_to_string(path(&format!("{system}.trec"))).unwrap();
        assert!(run.lines().all(|line| line.ends_with(system)), "{run}");
    }
    assert!(fs::read_to_string(qrels).unwrap().starts_with("1 0 3 1\n"));
    let results = fs::read_to_string(results).unwrap();
    assert_eq!(results.lines().count(), 1 + 2 * 2);

    let page = world.run(eval.into_iter().chain(["--format", "markdown"])).done();
    assert!(page.contains("| bm25 | 2 | 0 | 100.0 [100.0, 100.0] |"), "{page}");
}

#[test]
fn a_query_that_fails_is_reported_and_ends_in_status_1() {
    let world = World::indexed();
    let file = world.path("more.csv").display().to_string();
    let long = "kite ".repeat(4_000);
    fs::write(&file, format!("id,query,answer_ids\n1,light kite,[3]\n2,{long},[2]\n")).unwrap();
    let ran =
        world.run(["eval", "--dataset", "tiny", "--split", &file, "--system", "bm25", "--json"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("query 2 failed: the query has 1"), "{}", ran.stderr);
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&line["n"], &line["failed"]), (&2.into(), &1.into()));
    assert_eq!(line["metrics"]["hit@1"], 0.5);
}

#[test]
fn what_is_not_ranked_counts_as_the_definitions_say() {
    let world = World::indexed();
    let file = world.path("more.csv").display().to_string();
    // Node 0 has none of the words.
    fs::write(&file, "id,query,answer_ids\n1,light kite,\"[3, 0]\"\n").unwrap();
    let eval = |more: &[&str]| {
        let eval = ["eval", "--dataset", "tiny", "--split", &file, "--system", "bm25", "--json"];
        world.run(eval.into_iter().chain(more.iter().copied())).json_lines().remove(0)
    };
    let (stark, trec) = (eval(&[]), eval(&["--metrics", "trec"]));
    assert!(stark.get("definitions").is_none() && stark.get("depth").is_none());
    assert_eq!(trec["definitions"], "trec");
    let metric = |line: &serde_json::Value, name: &str| line["metrics"][name].as_f64().unwrap();
    assert_eq!((metric(&stark, "recall@5"), metric(&trec, "recall@5")), (1.0, 0.5));
    assert_eq!((metric(&stark, "mrr"), metric(&trec, "mrr")), (1.0, 1.0));
    assert_eq!(metric(&trec, "map"), 0.5);
    assert!(metric(&stark, "map") > 0.5);

    assert_eq!(eval(&["--depth", "1"])["depth"], 1);
    for (depth, n) in [("1", 1), ("2", 2)] {
        let run_file = world.path("deep.trec").display().to_string();
        fs::write(&file, "id,query,answer_ids\n1,toy,[3]\n").unwrap();
        let system = ["--system", "dense", "--depth", depth, "--run-file", &run_file];
        let eval = ["eval", "--dataset", "tiny", "--split", &file].into_iter().chain(system);
        world.run(eval).done();
        assert!(fs::read_to_string(&run_file).unwrap().lines().count() <= n);
    }
    world.run(["eval", "--depth", "0"]).fails(2, &["1..=100000"]);
}

#[test]
fn a_failed_query_is_told_in_quiet_mode_too() {
    let world = World::indexed();
    let file = world.path("more.csv").display().to_string();
    let long = "kite ".repeat(4_000);
    fs::write(&file, format!("id,query,answer_ids\n1,light kite,[3]\n2,{long},[2]\n")).unwrap();
    let eval = ["--quiet", "eval", "--dataset", "tiny", "--split", &file, "--system", "bm25"];
    let ran = world.run(eval);
    assert_eq!(ran.status, 1);
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("bm25: 1 of 2 queries failed"), "{}", ran.stderr);
}

#[test]
fn the_baseline_of_the_benchmark_counts_candidates_alone() {
    let world = World::indexed();
    let search = |system| {
        let search = ["search", "tiny", "light kite", "--system", system, "--json"];
        world.run(search).json_lines()
    };
    let (ours, theirs) = (search("bm25"), search("bm25:stark"));
    assert_eq!(ours[0]["id"], theirs[0]["id"]);
    assert_ne!(ours[0]["score"], theirs[0]["score"]);
    let explain = ["search", "tiny", "light kite", "--system", "bm25:stark", "--explain"];
    let explained = world.run(explain).done();
    assert!(explained.contains("words on average"), "{explained}");
}

#[test]
fn a_run_file_measures_as_the_system_that_wrote_it() {
    let world = World::indexed();
    let file = world.path("out.trec").display().to_string();
    let eval = |split: &str, more: &[&str]| {
        let eval = ["eval", "--dataset", "tiny", "--split", split, "--json"];
        world.run(eval.into_iter().chain(more.iter().copied()))
    };
    let wrote = eval("val,test", &["--system", "bm25+names", "--run-file", &file]).json_lines();
    let name = format!("run:{file}");
    let read = eval("val,test", &["--system", "bm25+names", "--system", &name]).json_lines();
    for key in ["n", "failed", "metrics", "ci95"] {
        assert_eq!(wrote[0][key], read[1][key], "{key}");
    }
    assert_eq!((&read[1]["system"], &read[1]["n"]), (&name.as_str().into(), &3.into()));
    assert_eq!(
        (&read[1]["versus"][0]["difference"], &read[1]["versus"][0]["ties"]),
        (&0.0.into(), &3.into())
    );
    // What is read can be built upon.
    let upon = eval("val", &["--system", &format!("prf=1,5,0:{name}")]).json_lines();
    assert_eq!(upon[0]["failed"], 0);

    // A query that the file lacks counts with an empty ranking, which is said.
    let lines = fs::read_to_string(&file).unwrap();
    let kept: Vec<&str> = lines.lines().filter(|line| line.starts_with("1 ")).collect();
    fs::write(&file, kept.join("\n")).unwrap();
    let lacking = eval("val", &["--system", &name]);
    assert!(lacking.stderr.contains("lacks 1 of 2 queries"), "{}", lacking.stderr);
    let lacking = lacking.json_lines();
    assert_eq!((&lacking[0]["n"], &lacking[0]["failed"]), (&2.into(), &0.into()));
    assert_eq!(lacking[0]["metrics"]["hit@1"], 0.5);

    eval("test", &["--system", &name]).fails(1, &["none of the 1 queries"]);
    fs::write(&file, "1 Q0 900 1 1.0 t\n").unwrap();
    eval("val", &["--system", &name]).fails(1, &["out.trec", "line 1: the node \"900\""]);
    let search = ["search", "tiny", "steel dart", "--system", &name];
    world.run(search).fails(1, &[&name, "agent eval"]);
}

#[test]
fn run_files_have_the_ids_of_the_user() {
    let world = World::keyed();
    let path = |name: &str| world.path(name).display().to_string();
    let (run, qrels) = (path("out.trec"), path("out.qrels"));
    let eval = |more: &[&str]| {
        let eval = ["eval", "--dataset", "keyed", "--split", "val", "--json"];
        world.run(eval.into_iter().chain(more.iter().copied()))
    };
    let files = ["--run-file", &run, "--qrels-file", &qrels];
    let wrote = eval(&[&["--system", "bm25"][..], &files].concat()).json_lines();
    assert_eq!(wrote[0]["metrics"]["hit@1"], 1.0);
    assert_eq!(fs::read_to_string(&qrels).unwrap(), "1 0 0 1\n2 0 kite,%20red 1\n");
    let text = fs::read_to_string(&run).unwrap();
    assert!(text.starts_with("1 Q0 0 1 ") && text.contains("\n2 Q0 kite,%20red 1 "), "{text}");
    let system = format!("run:{run}");
    let read = eval(&["--system", &system]).json_lines();
    for key in ["n", "failed", "metrics", "ci95"] {
        assert_eq!(wrote[0][key], read[0][key], "{key}");
    }
    // As it stands, where a node has that id.
    fs::write(&run, "1 Q0 B%204 1 2.0 t\n1 Q0 0 2 1.0 t\n").unwrap();
    eval(&["--system", &system]).done();
    fs::write(&run, "1 Q0 2 1 1.0 t\n").unwrap();
    let words = ["line 1", "no node has the id \"2\"", "ids look like \"D-1\""];
    eval(&["--system", &system]).fails(1, &words);
}
