//! What `agent query --json` prints keeps its schema, and answers that are values are measured.

use std::fs;

use serde_json::Value;

use crate::{
    bundles::{SEARCHES, world_with},
    model::{ModelServer, Mood},
    support::{Ran, World},
};

/// The schema of a file in `docs`.
pub(crate) fn schema(name: &str) -> jsonschema::Validator {
    let path = format!("{}/docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn answers_are_as_their_schema_says() {
    let (world, _) = world_with(SEARCHES);
    let schema = schema("answer.schema.json");
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny", "--json"];
    for more in [&["steel dart"][..], &["steel dart", "--explain"], &["zyzzyx"]] {
        let answer =
            world.run(query.into_iter().chain(more.iter().copied())).json_lines().remove(0);
        let wrong: Vec<String> = schema.iter_errors(&answer).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{more:?}: {wrong:?}");
        let mut hurt = answer;
        hurt["hits"] = Value::Null;
        assert!(!schema.is_valid(&hurt));
    }
}

#[test]
fn a_failed_program_is_told_in_an_answer_of_the_same_schema() {
    let (world, _) = world_with(&SEARCHES.replace("search(query", "throw \"no\"; search(query"));
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny", "--json", "--explain"];
    let ran = world.run(query.into_iter().chain(["steel dart"]));
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let answer: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert!(schema("answer.schema.json").is_valid(&answer), "{answer}");
    assert!(answer["stand_in"].as_str().unwrap().contains("no"), "{answer}");
    assert!(answer["hits"][0]["explanation"]["children"].is_array(), "{answer}");
}

#[test]
fn lines_fit_the_terminal() {
    let (world, _) = world_with(SEARCHES);
    let query = ["query", "--bundle", "bundle.json", "--dataset", "tiny"];
    for more in [&["steel dart by Dart World, durable"][..], &["steel dart", "--explain"]] {
        let mut command = world.command(query.into_iter().chain(more.iter().copied()));
        let shown = Ran::of(command.env("COLUMNS", "60").output().unwrap()).done();
        let longest = shown.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(longest <= 60, "{longest}: {shown}");
    }
}

#[test]
fn answers_that_are_values_are_measured_apart() {
    let world = World::indexed();
    let file = world.path("values.csv");
    let rows = "id,query,answer_ids,answer_value,source\n1,how many darts,[],2,synthetic\n\
                2,which brand,[],Sky Toys,\n3,a steel dart,[0],,\n";
    fs::write(&file, rows).unwrap();
    let file = file.display().to_string();
    let eval = ["eval", "--dataset", "tiny", "--system", "bm25", "--split", &file];
    let values = world.run(eval.into_iter().chain(["--metrics", "value", "--json"]));
    let line = values.json_lines().remove(0);
    assert_eq!((&line["n"], &line["failed"]), (&2.into(), &0.into()));
    assert_eq!(line["synthetic"], true);
    // A ranking is no value.
    assert_eq!(line["exact"]["mean"], 0.0);
    assert_eq!((&line["numeric"]["n"], &line["table_f1"]), (&1.into(), &Value::Null));
    let table = world.run(eval.into_iter().chain(["--metrics", "value"])).done();
    let headings: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        headings,
        ["system", "n", "failed", "exact", "numeric", "table", "f1", "p50", "ms", "p95", "ms"]
    );
    let ranked = world.run(eval.into_iter().chain(["--json"])).json_lines().remove(0);
    assert_eq!(ranked["n"], 1, "only the query whose answers are nodes");
    let none = ["eval", "--dataset", "tiny", "--system", "bm25", "--split", "val"];
    let ran = world.run(none.into_iter().chain(["--metrics", "value"]));
    ran.fails(1, &["no query in val has an answer_value"]);
    let twice = format!("{file},{file}");
    let twice = ["eval", "--dataset", "tiny", "--system", "bm25", "--split", &twice];
    let ran = world.run(twice.into_iter().chain(["--metrics", "value"]));
    ran.fails(1, &["query 1 of", "also in another of these splits"]);
}

#[test]
fn values_are_not_measured_by_a_service_that_gives_no_answer() {
    let (world, refusing) = (World::indexed(), ModelServer::start(Mood::Refuses));
    let rows = "id,query,answer_ids,answer_value\n1,How many products are made of steel?,[],1\n";
    fs::write(world.path("values.csv"), rows).unwrap();
    let eval = ["eval", "--dataset", "tiny", "--system", "ask", "--split", "values.csv", "--json"];
    let model = ["--effort", "1", "--model", "scripted", "--no-cache"];
    let mut command = world.command(eval.into_iter().chain(model));
    let ran = Ran::of(command.env("OPENAI_BASE_URL", refusing.url()).output().unwrap());
    assert!(ran.stderr.contains("this evaluation is invalid"), "{}", ran.stderr);
    let line: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(line["invalid"], "a service did not reply for 1 of 1 queries");
}
