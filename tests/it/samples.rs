//! Built-in samples.

use crate::support::World;

#[test]
fn a_sample_is_generated_once_and_names_the_full_data() {
    let world = World::new();
    let sample = ["data", "sample", "mag", "--scale", "0.0001", "--json"];
    let sampled = &world.run(sample).json_lines()[0];
    assert_eq!(sampled["name"], "mag");
    // The index of a sample is built unasked.
    let search = ["search", "mag", "papers on networks", "--json"];
    let first = world.run(search);
    assert!(first.stderr.contains("agent data pull mag"), "{}", first.stderr);
    assert!(first.stderr.contains("building the index"));
    let again = world.run(search);
    assert!(!again.stderr.contains("building the index"));
    assert_eq!(again.stdout, first.stdout);
    assert!(!first.json_lines().is_empty());
    let left = std::fs::read_dir(world.path("home")).unwrap().count();
    assert_eq!(left, 1, "something beside the bases was left in the home");
}

#[test]
fn the_files_of_a_sample_are_those_that_are_installed() {
    let world = World::new();
    let files = world.path("files").display().to_string();
    let sample = ["data", "sample", "mag", "--scale", "0.0001"];
    world.run(sample.into_iter().chain(["--to", &files])).done();
    let import = ["data", "import", "--name", "own", "--from", &files, "--json"];
    let imported = &world.run(import).json_lines()[0];
    let sampled = &world.run(sample.into_iter().chain(["--json"])).json_lines()[0];
    assert_eq!(imported["fingerprint"], sampled["fingerprint"]);
}

#[test]
fn the_name_of_a_sample_is_enough() {
    let world = World::new();
    let eval = ["eval", "--dataset", "amazon", "--split", "val", "--system", "bm25+names"];
    let lines = world.run(eval.into_iter().chain(["--json"])).json_lines();
    assert_eq!(lines[0]["dataset"], "amazon");
    assert!(lines[0]["n"].as_u64().unwrap() > 0);
}
