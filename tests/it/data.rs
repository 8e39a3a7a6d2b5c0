//! `agent data` and `agent doctor`.

use std::fs;

use crate::support::World;

#[test]
fn a_dataset_is_imported_listed_shown_and_removed() {
    let world = World::new();
    assert_eq!(world.run(["data", "list"]).done(), "");
    let import = ["data", "import", "--name", "tiny", "--from", &world.source(), "--json"];
    let imported = &world.run(import).json_lines()[0];
    assert_eq!((&imported["nodes"], &imported["edges"]), (&6.into(), &4.into()));
    assert_eq!(imported["splits"], serde_json::json!({"test": 1, "train": 1, "val": 2}));

    let listed = world.run(["data", "list", "--json"]).json_lines();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["name"], &listed[0]["index"]), (&"tiny".into(), &"none".into()));
    let shown = &world.run(["data", "show", "tiny", "--json"]).json_lines()[0];
    assert_eq!(shown["types"], serde_json::json!({"brand": 2, "product": 4}));
    assert_eq!(shown["relations"], serde_json::json!({"has_brand": 4}));
    assert_eq!(shown["candidate_types"], serde_json::json!(["product"]));
    assert!(world.run(["data", "show", "tiny"]).done().contains("has_brand"));

    assert_eq!(world.run(["data", "remove", "tiny"]).done(), "");
    assert_eq!(world.run(["data", "list", "--json"]).done(), "");
    world.run(["data", "remove", "tiny"]).fails(1, &["no dataset \"tiny\" is installed"]);
}

#[test]
fn a_failed_import_names_file_and_line_and_leaves_nothing() {
    let world = World::new();
    let edges = world.path("tiny/edges.tsv");
    fs::write(&edges, fs::read_to_string(&edges).unwrap() + "0\thas_brand\t77\n").unwrap();
    let import = ["data", "import", "--name", "tiny", "--from", &world.source()];
    world.run(import).fails(1, &["error:", "edges.tsv:6", "77"]);
    assert_eq!(world.run(["data", "list"]).done(), "");
    let lenient = world.run(import.into_iter().chain(["--lenient"]));
    assert!(lenient.stderr.contains("edge to an unknown node: 1 lines"), "{}", lenient.stderr);
    lenient.done();
}

#[test]
fn an_index_is_kept_unless_forced() {
    let world = World::indexed();
    assert!(world.run(["index", "tiny"]).stderr.contains("--force"));
    assert!(world.run(["index", "tiny", "--force"]).stderr.contains("indexed 6 nodes"));
    assert_eq!(world.run(["index", "tiny", "--force", "--quiet"]).stderr, "");
}

#[test]
fn the_doctor_finds_what_is_broken() {
    let world = World::indexed();
    let checks = world.run(["doctor", "--json"]).json_lines();
    assert!(checks.iter().all(|check| check["status"] == "ok"), "{checks:?}");

    fs::create_dir(world.path("home/bases/tiny/index/.building-x")).unwrap();
    let left = world.run(["doctor"]).done();
    assert!(left.contains("unfinished") && left.contains(".building-x"), "{left}");

    fs::write(world.path("home/bases/tiny/base.json"), "{").unwrap();
    let ran = world.run(["doctor"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("BROKEN") && ran.stdout.contains("data import --name tiny"));
}
