//! That a home travels as one file: what arrives is what left, or nothing arrives.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::support::{Ran, World, on_a_full_disk};

/// Names of an export, and of the home that takes it in.
const FILE: &str = "home.tar.zst";
const OTHER: &str = "other";
/// Kills at one moment or another of an import.
const KILLS: u64 = 12;

/// All files below a directory but locks, with their bytes.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(below) = dirs.pop() {
        for entry in fs::read_dir(&below).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            match path.is_dir() {
                true => dirs.push(path),
                false if name.ends_with("lock") => {}
                false => drop(found.insert(name, fs::read(path).unwrap())),
            }
        }
    }
    found
}

/// A home with an indexed base, a trained model, a finished run and a counted look at the test split.
fn full_world() -> World {
    let world = World::indexed();
    world.run(["eval", "--dataset", "tiny", "--split", "test", "--system", "bm25"]).done();
    let run = world.path("home/runs/tiny-0001").display().to_string();
    world.run(["optimize", "--dataset", "tiny", "--steps", "1", "--run", &run]).done();
    let model = world.path("home/models/mine");
    fs::create_dir_all(model.join("deep")).unwrap();
    fs::write(model.join("record.json"), "{}").unwrap();
    fs::write(model.join("deep/weights"), [7; 5_000]).unwrap();
    world
}

impl World {
    /// Runs in the other home.
    fn other<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Ran {
        Ran::of(self.other_command(args).output().unwrap())
    }

    fn other_command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = self.command(args);
        command.env("AGENT_HOME", self.path(OTHER));
        command
    }

    /// That there is nothing in the other home, but perhaps empty directories.
    #[track_caller]
    fn other_is_empty(&self) {
        let left: Vec<String> = files(&self.path(OTHER)).into_keys().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| format!("{} {}", line["kind"], line["name"]).replace('"', "");
    lines.iter().map(kind).collect()
}

#[test]
fn a_home_arrives_byte_for_byte() {
    let world = full_world();
    let all = ["home", "export", FILE, "--with-indexes", "--with-runs", "--json"];
    let told = world.run(all).json_lines();
    assert_eq!(kinds(&told), ["dataset tiny", "model mine", "run tiny-0001"]);
    let dry = world.other(["home", "import", FILE, "--dry-run", "--json"]).json_lines();
    assert_eq!(dry, told);
    world.other_is_empty();
    assert_eq!(world.other(["home", "import", FILE, "--json"]).json_lines(), told);
    let (here, there) = (files(&world.path("home")), files(&world.path(OTHER)));
    let differ = |name: &&String| here.get(*name) != there.get(*name);
    let differing: Vec<&String> = here.keys().chain(there.keys()).filter(differ).collect();
    assert!(differing.is_empty(), "{differing:?}");
    assert!(here.keys().any(|name| name.starts_with("openings/")));
    // Equal contents, equal bytes; and the copy answers as the original.
    let again = ["home", "export", "again.tar.zst", "--with-indexes", "--with-runs"];
    world.other(again).done();
    assert_eq!(fs::read(world.path(FILE)).unwrap(), fs::read(world.path("again.tar.zst")).unwrap());
    let search = ["search", "tiny", "durable sail", "--system", "hybrid", "--json"];
    assert_eq!(world.other(search).done(), world.run(search).done());
    let query = ["query", "tiny-0001", "a durable kite by Sky Toys"];
    assert_eq!(world.other(query).done(), world.run(query).done());
    world.other(["run", "show", "tiny-0001"]).done();
}

#[test]
fn what_is_asked_for_travels_and_nothing_else() {
    let world = full_world();
    let exported = |args: &[&str]| {
        let all = [&["home", "export", FILE, "--force", "--json"], args].concat();
        kinds(&world.run(all).json_lines())
    };
    assert_eq!(exported(&[]), ["dataset tiny", "model mine"]);
    assert_eq!(exported(&["--model", "mine"]), ["model mine"]);
    assert_eq!(exported(&["--run", "latest"]), ["run tiny-0001"]);
    let bundles = ["--dataset", "tiny", "--with-bundles"];
    assert_eq!(exported(&bundles), ["dataset tiny", "bundle tiny-0001"]);
    // Without its index, which is built anew, and its run, whose bundle answers.
    world.other(["home", "import", FILE]).done();
    world.other(["index", "tiny"]).done();
    let query = ["query", "latest", "a durable kite by Sky Toys"];
    assert_eq!(world.other(query).done(), world.run(query).done());
    assert!(world.other(["run", "list"]).done().contains("bundle alone"));
    world.run(["home", "export", FILE]).fails(1, &[FILE, "already exists", "--force"]);
    world.run(["home", "export", "f", "--dataset", "tin"]).fails(1, &["tin", "\"tiny\""]);
    world.run(["home", "export", "f", "--model", "other"]).fails(1, &["other", "models: mine"]);
    world.run(["home", "export", "f", "--run", "tiny-2"]).fails(1, &["tiny-2", "tiny-0001"]);
    world.run(["home", "export", "f", "--run", OTHER]).fails(1, &["other is not a run"]);
    world.other(["--home", "none", "home", "export", "f"]).fails(1, &["nothing to export"]);
    assert!(!world.path("f").exists());
}

#[cfg(unix)]
#[test]
fn a_link_is_not_followed_out_of_a_home() {
    let world = full_world();
    let link = world.path("home/models/mine/link");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    world.run(["home", "export", FILE]).fails(1, &["mine/link is neither", "remove it"]);
    assert!(!world.path(FILE).exists());
}

#[test]
fn what_is_there_is_replaced_only_when_asked() {
    let world = full_world();
    world.run(["home", "export", FILE, "--with-runs"]).done();
    let before = files(&world.path("home"));
    let refused = ["bases/tiny, models/mine, runs/tiny-0001 already exist", "--replace"];
    world.run(["home", "import", FILE]).fails(1, &refused);
    assert_eq!(files(&world.path("home")), before);
    fs::remove_file(world.path("home/models/mine/deep/weights")).unwrap();
    // One more look here than there.
    world.run(["eval", "--dataset", "tiny", "--split", "test", "--system", "bm25"]).done();
    let openings = |all: &BTreeMap<String, Vec<u8>>| {
        let (_, count) = all.iter().find(|(name, _)| name.starts_with("openings/")).unwrap();
        String::from_utf8(count.clone()).unwrap()
    };
    world.run(["home", "import", FILE, "--replace"]).done();
    let after = files(&world.path("home"));
    let path = "models/mine/deep/weights";
    assert_eq!(after.get(path), before.get(path));
    assert_eq!((openings(&before).as_str(), openings(&after).as_str()), ("1\n", "2\n"));
    // It was exported without its index.
    world.run(["search", "tiny", "sail"]).fails(1, &["agent index tiny"]);
    // A bundle does not take a run's journal away.
    world.run(["home", "export", "b", "--run", "latest", "--force"]).done();
    world.run(["home", "export", FILE, "--dataset", "tiny", "--with-bundles", "--force"]).done();
    let whole = ["runs/tiny-0001 is a complete run", "another home"];
    world.run(["home", "import", FILE, "--replace"]).fails(1, &whole);
}

#[test]
fn a_changed_or_cut_file_brings_nothing() {
    let world = full_world();
    world.run(["home", "export", FILE, "--with-indexes"]).done();
    let whole = fs::read(world.path(FILE)).unwrap();
    for at in [0, 5, 200, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 0xff;
        for bytes in [&flipped, &whole[..at]] {
            fs::write(world.path(FILE), bytes).unwrap();
            world.other(["home", "import", FILE]).fails(1, &[FILE]);
            world.other_is_empty();
        }
    }
    fs::write(world.path(FILE), "a text").unwrap();
    world.other(["home", "import", FILE]).fails(1, &["agent home export"]);
    world.other(["home", "import", "none"]).fails(1, &["none"]);
    world.other_is_empty();
}

#[test]
fn a_killed_import_leaves_nothing_that_answers() {
    let world = full_world();
    world.run(["home", "export", FILE, "--with-indexes"]).done();
    for moment in 0..KILLS {
        let import = ["--quiet", "home", "import", FILE];
        let mut child = world.other_command(import).stdout(Stdio::null()).spawn().unwrap();
        // Somewhere between its start and its end, whichever that is on this machine.
        thread::sleep(Duration::from_millis(moment * 3));
        child.kill().unwrap();
        child.wait().unwrap();
        let visible = |name: &str| world.path(OTHER).join(name).exists();
        if visible("models/mine") {
            world.other(["search", "tiny", "sail"]).done();
            fs::remove_dir_all(world.path(OTHER)).unwrap();
        } else if visible("bases/tiny") {
            // Each thing appears whole, one after another.
            world.other(["search", "tiny", "sail"]).done();
            world.other(["data", "remove", "tiny"]).done();
        }
    }
    // What was left behind is cleared away, and is in nobody's way.
    let left = world.path(OTHER).join(".import-left");
    fs::create_dir_all(left.join("bases/tiny")).unwrap();
    fs::write(left.join(".agent-directory"), "import\n").unwrap();
    // A directory of such a name that another made stays.
    fs::create_dir_all(world.path(OTHER).join(".import-mine/letters")).unwrap();
    world.other(["home", "import", FILE]).done();
    let hidden = fs::read_dir(world.path(OTHER)).unwrap().map(|entry| entry.unwrap().file_name());
    let hidden: Vec<_> = hidden.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert_eq!(hidden, [".import-mine"]);
}

#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing() {
    let world = full_world();
    world.run(["home", "export", FILE]).done();
    // The model has more than two kibibytes.
    let full = |plain| Ran::of(on_a_full_disk(&world, plain, 2).output().unwrap());
    full(world.other_command(["home", "import", FILE])).fails(1, &["cannot write", "weights"]);
    world.other_is_empty();
    full(world.command(["home", "export", "f"])).fails(1, &["cannot write f"]);
    assert!(!world.path("f").exists());
    let left = fs::read_dir(world.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| !name.to_string_lossy().starts_with('.')));
}
