//! `agent data` and `agent doctor`.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

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
    assert!(
        lenient.stderr.contains("left out 1 lines: edge to an unknown node"),
        "{}",
        lenient.stderr
    );
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
    let is_fine = |check: &serde_json::Value| {
        check["status"] == "ok" || check["detail"] == "no model is configured"
    };
    assert!(checks.iter().all(is_fine), "{checks:?}");

    fs::create_dir(world.path("home/bases/tiny/index/.building-x")).unwrap();
    let left = world.run(["doctor"]).done();
    assert!(left.contains("unfinished") && left.contains(".building-x"), "{left}");

    fs::write(world.path("home/bases/tiny/base.json"), "{").unwrap();
    let ran = world.run(["doctor"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("BROKEN") && ran.stdout.contains("data import --name tiny"));
}

#[test]
fn a_base_of_the_benchmark_is_imported_shown_and_measured() {
    let world = World::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stark/mag");
    let import = ["data", "import", "--name", "mag", "--from", source, "--format", "stark"];
    let imported = &world.run(import.into_iter().chain(["--json"])).json_lines()[0];
    assert_eq!((&imported["nodes"], &imported["duplicate_edges"]), (&18.into(), &1.into()));
    let shown = &world.run(["data", "show", "mag", "--json"]).json_lines()[0];
    let origin = serde_json::json!({"kind": "mag", "mode": "exact", "derived_tenth": true});
    assert_eq!((&shown["stark"], &shown["candidates"]), (&origin, &6.into()));
    let shown = world.run(["data", "show", "mag"]).done();
    assert!(shown.contains("STaRK mag, the stored edges; test-0.1 is the first tenth of test"));

    world.run(["index", "mag"]).done();
    for (split, n) in [("test-0.1", 2), ("human", 3), ("test", 20)] {
        let eval = ["eval", "--dataset", "mag", "--split", split, "--system", "bm25", "--json"];
        assert_eq!(world.run(eval).json_lines()[0]["n"], n, "{split}");
    }

    let faithful = world.run(import.into_iter().chain(["--mode", "faithful"]));
    assert!(
        faithful.stderr.contains("stays current until `agent index mag`"),
        "{}",
        faithful.stderr
    );
    faithful.done();
    let shown = &world.run(["data", "show", "mag", "--json"]).json_lines()[0];
    assert_eq!(shown["stark"]["mode"], "exact");
    world.run(["index", "mag"]).done();
    let shown = &world.run(["data", "show", "mag", "--json"]).json_lines()[0];
    assert_eq!(shown["stark"]["mode"], "faithful");
    let neutral = ["data", "import", "--name", "t", "--from", &world.source(), "--mode", "exact"];
    world.run(neutral).fails(2, &["--mode requires --format stark"]);
    let elsewhere =
        ["data", "import", "--name", "t", "--from", &world.source(), "--format", "stark"];
    world.run(elsewhere).fails(1, &["tiny: found neither processed.zip nor a folder"]);
}

#[test]
fn a_failed_import_does_not_say_that_it_replaced_anything() {
    let world = World::new();
    let import = ["data", "import", "--name", "tiny", "--from", &world.source()];
    world.run(import).done();
    let again = world.run(import);
    assert!(again.stderr.contains("replaced the installed \"tiny\""), "{}", again.stderr);
    fs::write(world.path("tiny/edges.tsv"), "").unwrap();
    let failed = world.run(import);
    assert_eq!(failed.status, 1);
    assert!(!failed.stderr.contains("replac"), "{}", failed.stderr);
}

#[test]
fn questions_are_answered_while_a_dataset_is_imported_again_and_indexed() {
    let world = World::indexed();
    let search = ["search", "tiny", "dart", "--system", "hybrid", "--json"];
    let old = world.run(search).done();
    let nodes = world.path("tiny/nodes.jsonl");
    let text = fs::read_to_string(&nodes).unwrap().replace("steel dart", "brass dart for pubs");
    fs::write(&nodes, text).unwrap();
    let over = AtomicBool::new(false);
    let answers = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut answers = Vec::new();
            while !over.load(Ordering::Relaxed) {
                answers.push(world.run(search).done());
            }
            answers
        });
        let import = ["data", "import", "--name", "tiny", "--from", &world.source(), "--json"];
        let imported = world.run(import).json_lines();
        let waiting = world.run(search);
        let indexed = world.run(["index", "tiny"]);
        over.store(true, Ordering::Relaxed);
        assert_eq!(imported[0]["current"], false);
        assert!(waiting.stderr.contains("`agent index tiny` has indexed"), "{}", waiting.stderr);
        assert_eq!(waiting.done(), old);
        assert!(indexed.stderr.contains("uses the new import"), "{}", indexed.stderr);
        indexed.done();
        asking.join().unwrap()
    });
    let after = world.run(search);
    assert!(!after.stderr.contains("agent index"), "{}", after.stderr);
    let new = after.done();
    assert!(old != new && new.contains("brass dart for pubs"), "{new}");
    assert!(answers.iter().all(|answer| *answer == old || *answer == new), "{answers:?}");
    // Killed between the index and the renaming: the next run only renames.
    fs::write(world.path("home/bases/tiny/current"), "1").unwrap();
    assert_eq!(world.run(search).done(), old);
    assert!(world.run(["index", "tiny"]).stderr.contains("uses the new import"));
    assert_eq!(world.run(search).done(), new);
}

#[cfg(unix)]
#[test]
fn files_of_a_home_have_the_mode_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt;

    fn check(dir: &Path, modes: [u32; 2]) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, modes[usize::from(path.is_dir())], "{}", path.display());
            if path.is_dir() {
                check(&path, modes);
            }
        }
    }
    let world = World::indexed();
    world.run(["data", "import", "--name", "tiny", "--from", &world.source()]).done();
    world.run(["index", "tiny"]).done();
    fs::write(world.path("plain"), "").unwrap();
    fs::create_dir(world.path("folder")).unwrap();
    let mode = |name| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o777;
    check(&world.path("home/bases"), [mode("plain"), mode("folder")]);
}
