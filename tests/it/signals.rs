//! Ctrl-C while a command works: it ends soon, says 130, and leaves nothing that a later command
//! takes for whole or has to clear away by hand. For `optimize` see `durability`.

#![cfg(target_os = "linux")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use agent::dataset::sample::{SampleKind, SampleOptions, generate};

use crate::support::{Ran, World};

/// Size of the base: enough nodes that work on them goes on for longer than a signal takes.
const SCALE: f64 = 0.004;
/// Longest from the signal to the end: a second, and what a crowded machine adds.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
/// Longest until a command is at work; reached only when it hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(120);

/// A world with the files of a shop, imported nowhere.
fn shop_files() -> World {
    let world = World::new();
    let options = SampleOptions { seed: 0, scale: Some(SCALE) };
    generate(SampleKind::Amazon, options, &world.path("files"), &mut |_| {}).unwrap();
    world
}

fn import(world: &World) -> Command {
    world.command(["data", "import", "--name", "shop", "--from", "files"])
}

/// Starts a command and waits until it is seen at work.
fn at_work(command: &mut Command, seen: impl Fn(&Child) -> bool) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !seen(&child) {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it was seen at work");
        assert!(began.elapsed() < BEGINS_WITHIN, "it does not begin");
        thread::sleep(Duration::from_millis(1));
    }
    child
}

#[allow(clippy::disallowed_methods, reason = "the standard library sends no signal but SIGKILL")]
fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Sends Ctrl-C and checks that the command ends soon, and how.
#[track_caller]
fn ends_when_interrupted(mut child: Child) {
    interrupt(&child);
    let sent = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if sent.elapsed() > ENDS_WITHIN {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("no end within {ENDS_WITHIN:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
    eprintln!("ended after {:?}", sent.elapsed());
    Ran::of(child.wait_with_output().unwrap()).fails(130, &["interrupted"]);
}

/// The names in a directory that begin like this; none if it is not there.
fn names(dir: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// What `data list` says of the index of the one base.
fn index_state(world: &World) -> String {
    let listed = world.run(["data", "list", "--json"]).json_lines();
    assert_eq!(listed.len(), 1);
    listed[0]["index"].as_str().unwrap().to_owned()
}

#[test]
fn an_import_that_is_interrupted_installs_nothing_and_the_next_clears_up() {
    let world = shop_files();
    let bases = world.path("home").join("bases");
    let is_at_work = |_: &Child| !names(&bases, ".new-").is_empty();
    ends_when_interrupted(at_work(&mut import(&world), is_at_work));
    assert_eq!(world.run(["data", "list", "--json"]).done(), "");
    let mut child = at_work(&mut import(&world), is_at_work);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!names(&bases, ".new-").is_empty(), "what is killed clears nothing away");
    Ran::of(import(&world).output().unwrap()).done();
    assert_eq!(names(&bases, ".new-"), [""; 0]);
    assert_eq!(index_state(&world), "none");
}

#[test]
fn an_index_that_is_interrupted_is_none_and_the_next_clears_up() {
    let world = shop_files();
    Ran::of(import(&world).output().unwrap()).done();
    let index = world.path("home").join("bases/shop/index");
    let is_at_work = |_: &Child| !names(&index, ".building-").is_empty();
    ends_when_interrupted(at_work(&mut world.command(["index", "shop"]), is_at_work));
    assert_eq!(index_state(&world), "none");
    let mut child = at_work(&mut world.command(["index", "shop"]), is_at_work);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!names(&index, ".building-").is_empty(), "what is killed clears nothing away");
    world.run(["index", "shop"]).done();
    assert_eq!(names(&index, ".building-"), [""; 0]);
    assert_eq!(index_state(&world), "ready");

    // One that is built again answers as before until it is whole.
    let again = ["index", "shop", "--force"];
    let mut child = at_work(&mut world.command(again), is_at_work);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(index_state(&world), "ready");
    world.run(["index", "shop"]).done();
    assert_eq!(names(&index, ".building-"), [""; 0], "nothing was to be built");
    world.run(["search", "shop", "steel bottle"]).done();
}

/// Whether a thread of the process has this name.
fn has_thread(child: &Child, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten();
    tasks.flatten().any(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    })
}

#[test]
fn an_eval_of_programs_that_never_end_is_interrupted() {
    let world = World::shop();
    let source = "fn retrieve(query, candidates, params) { let x = 0; loop { x += 1; } }";
    let tools = "fn retrieve(query, candidates, params) { loop { link(query); } }";
    for (name, source) in [("spins", source), ("links", tools)] {
        let file = format!("{name}.rhai");
        fs::write(world.path(&file), source).unwrap();
        for sandbox in ["rhai", "wasm"] {
            let system = format!("program:{file}");
            let mut command = world.command([
                "eval",
                "--dataset",
                "shop",
                "--split",
                "val",
                "--system",
                &system,
                "--sandbox",
                sandbox,
            ]);
            let child = at_work(&mut command, |child| has_thread(child, "program-0"));
            ends_when_interrupted(child);
        }
    }
    assert_eq!(index_state(&world), "ready");
}
