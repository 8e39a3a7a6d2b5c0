//! Runs and bundles named as people name them, and what is written for shells and `man`.

use std::fs;

use agent::optimize::journal::Journal;
use serde_json::json;

use crate::support::World;

#[test]
fn runs_and_bundles_are_known_by_name_and_the_latest_by_that_word() {
    let world = World::shop();
    world.run(["optimize", "--dataset", "shop", "--steps", "2"]).done();
    let shown = world.run(["run", "show", "shop-0001", "--json"]).done();
    assert_eq!(world.run(["run", "show", "latest", "--json"]).done(), shown);

    let bundle = world.path("home/runs/shop-0001/bundle.json").display().to_string();
    let whole = ["query", "--bundle", &bundle, "--dataset", "shop", "a steel bottle"];
    let answer = world.run(whole).done();
    assert!(!answer.is_empty());
    for short in [
        vec!["query", "latest", "a steel bottle"],
        vec!["query", "shop-0001", "a", "steel", "bottle"],
        vec!["query", "--bundle", "latest", "a steel bottle"],
        vec!["query", "home/runs/shop-0001", "a steel bottle"],
    ] {
        assert_eq!(world.run(short.clone()).done(), answer, "{short:?}");
    }
    let joined = world.run(["query", "latest", "a", "steel", "bottle"]);
    assert!(joined.stderr.contains("quote it next time"), "{}", joined.stderr);
    world.run(["explain", "latest"]).done();
    world.run(["verify", "latest"]).done();
    world.run(["program", "list", "--run", "latest"]).done();
    let by_name = ["eval", "--dataset", "shop", "--split", "val", "--system", "bundle:latest"];
    world.run(by_name).done();
    world
        .run(["query", "shop-0002", "a bottle"])
        .fails(1, &["shop-0002", "did you mean shop-0001"]);
    world.run(["query", "latest"]).fails(2, &["agent query latest"]);

    fs::remove_file(&bundle).unwrap();
    let resume = "agent optimize --dataset shop --run home/runs/shop-0001 --resume";
    world.run(["query", "home/runs/shop-0001", "a bottle"]).fails(1, &["no bundle yet", resume]);
    world.run(resume.split(' ').skip(1)).done();
    assert!(fs::exists(&bundle).unwrap());

    world.run(["run", "remove", "latest"]).done();
    assert!(!world.path("home/runs/shop-0001").exists());
    assert_eq!(fs::read_dir(world.path("home/runs")).unwrap().count(), 0);
    world.run(["run", "show", "latest"]).fails(1, &["does not hold a run", "agent optimize"]);
}

#[test]
fn only_runs_of_the_home_are_removed() {
    let world = World::new();
    fs::create_dir_all(world.path("mine")).unwrap();
    fs::write(world.path("mine/letter"), "dear").unwrap();
    world.run(["run", "remove", "mine"]).fails(2, &["mine is not in", "yourself"]);
    assert!(world.path("mine/letter").exists());
    let runs = world.path("home/runs");
    fs::create_dir_all(runs.join("letters")).unwrap();
    fs::write(runs.join("letters/letter"), "dear").unwrap();
    world.run(["run", "remove", "letters"]).fails(2, &["is not a run", "yourself"]);
    assert!(runs.join("letters/letter").exists());
    // Of a link the entry is removed, and not where it leads.
    #[cfg(unix)]
    {
        fs::write(world.path("mine/bundle.json"), "{}").unwrap();
        std::os::unix::fs::symlink(world.path("mine"), runs.join("link")).unwrap();
        world.run(["run", "remove", "mine"]).done();
        assert!(world.path("mine/letter").exists() && !runs.join("link").exists());
    }
}

#[test]
fn a_run_that_is_written_is_not_removed_though_it_was_frozen() {
    let world = World::new();
    let dir = world.path("home/runs/shop-0001");
    let mut journal = Journal::create(&dir, &json!({"dataset": "shop"})).unwrap();
    journal.commit("bundle", "a", &"minutes", &[]).unwrap();
    let shown = world.run(["run", "show", "shop-0001", "--json"]).done();
    assert!(shown.contains("finished"), "{shown}");
    let process = format!("process {}", std::process::id());
    world.run(["run", "remove", "shop-0001"]).fails(1, &["being written", &process, "interrupt"]);
    drop(journal);
    // What an interrupted removal left is no run, and not in the way of the next.
    let left = world.path("home/runs/.removed-shop-0001");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("bundle.json"), "{}").unwrap();
    assert_eq!(world.run(["run", "list", "--json"]).json_lines().len(), 1);
    world.run(["run", "remove", "shop-0001"]).done();
    assert!(!dir.exists() && !left.exists());
}

#[test]
fn a_split_that_is_none_is_answered_with_those_there_are() {
    let world = World::indexed();
    let wrong = ["eval", "--dataset", "tiny", "--split", "tset", "--system", "bm25"];
    world.run(wrong).fails(1, &["no tset split", "train, val"]);
}

#[test]
fn shells_and_man_are_told_of_every_command() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run(["completions", shell]).done();
        assert!(script.contains("optimize") && script.contains("sensitivity"), "{shell}");
    }
    world.run(["man", "pages"]).done();
    let page = |name: &str| fs::read_to_string(world.path("pages").join(name)).unwrap();
    assert!(page("agent-program-diff.1").contains("Examples"));
    assert!(page("agent.1").contains("optimize"));
}
