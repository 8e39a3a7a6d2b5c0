//! `agent eval`.

use std::fs;

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
    assert_eq!(lines[1]["versus"]["system"], "bm25");
    assert_eq!(lines[1]["versus"]["comparisons"][0]["metric"], "hit@1");
    assert!(world.run(eval).done().contains("hybrid - bm25"));
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
    world.run(two).fails(2, &["one system"]);
}

#[test]
fn a_query_that_fails_is_reported_and_ends_in_status_1() {
    let world = World::indexed();
    let file = world.path("more.csv").display().to_string();
    fs::write(&file, "id,query,answer_ids\n1,light kite,[3]\n2,  ,[2]\n").unwrap();
    let ran =
        world.run(["eval", "--dataset", "tiny", "--split", &file, "--system", "bm25", "--json"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("query 2 failed: the query is empty"), "{}", ran.stderr);
    let line: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&line["n"], &line["failed"]), (&2.into(), &1.into()));
    assert_eq!(line["metrics"]["hit@1"], 0.5);
}
