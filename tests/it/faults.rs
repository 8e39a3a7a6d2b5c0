//! Wrong command lines and missing things: status, empty stdout, and a message that helps.

use crate::support::World;

#[test]
fn wrong_command_lines_end_in_status_2() {
    let world = World::new();
    for args in [
        &["frobnicate"][..],
        &["data"],
        &["search", "tiny"],
        &["search", "tiny", "dart", "-k", "0"],
        &["data", "import", "--name", "tiny"],
        &["eval", "--dataset", "tiny", "--split", "val"],
        &["--quiet", "--verbose", "doctor"],
        &["data", "sample", "imdb"],
        &["program", "show", "abcdef"],
        &["program", "list", "--run", "a", "--bundle", "b"],
        &["query", "--dataset", "tiny", "dart"],
    ] {
        world.run(args.iter().copied()).fails(2, &["--help"]);
    }
    let embedder = ["index", "tiny", "--embedder", "magic"];
    world.run(embedder).fails(2, &["unknown embedder \"magic\"", "use builtin"]);
    let world = World::indexed();
    world.run(["search", "tiny", "dart", "--system", "bm52"]).fails(2, &["bm25+names"]);
}

#[test]
fn an_unknown_dataset_is_answered_with_the_installed_ones() {
    let world = World::indexed();
    let suggestion = ["no dataset \"tinny\"", "hint: did you mean \"tiny\"?", "installed: tiny"];
    world.run(["data", "show", "tinny"]).fails(1, &suggestion);
    world.run(["search", "tinny", "dart"]).fails(1, &suggestion);
    let eval = ["eval", "--dataset", "tinny", "--split", "val", "--system", "bm25"];
    world.run(eval).fails(1, &suggestion);
    world.run(["search", "./nowhere", "dart"]).fails(1, &["./nowhere", "agent data list"]);
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let world = World::new();
    world.run(["data", "import", "--name", "tiny", "--from", &world.source()]).done();
    world.run(["search", "tiny", "dart"]).fails(1, &["no index", "agent index tiny"]);
    world.run(["search", "tiny", "  "]).fails(1, &["the query is empty"]);
    let human = ["eval", "--dataset", "tiny", "--split", "human", "--system", "bm25"];
    world.run(human).fails(1, &["no human split", "test, train, val"]);
    world
        .run(["index", "tiny", "--embedder", "candle:x"])
        .fails(1, &["cannot open the directory x"]);
    let bundle = ["eval", "--dataset", "tiny", "--split", "val", "--system", "bundle:x"];
    world.run(bundle).fails(1, &["no index"]);
}

#[test]
fn an_index_of_another_base_is_refused() {
    let world = World::indexed();
    let nodes = world.path("tiny/nodes.jsonl");
    let text = std::fs::read_to_string(&nodes).unwrap().replace("steel", "brass");
    std::fs::write(&nodes, text).unwrap();
    world.run(["data", "import", "--name", "other", "--from", &world.source()]).done();
    let bases = world.path("home/bases");
    std::fs::rename(bases.join("tiny/index"), bases.join("other/index")).unwrap();
    world.run(["search", "other", "dart"]).fails(1, &["another knowledge base", "--force"]);
    world.run(["index", "other"]).done();
    world.run(["search", "other", "dart"]).done();
}

#[cfg(unix)]
#[test]
#[allow(clippy::disallowed_methods, reason = "the test makes a pipe that nobody writes to")]
fn pipes_and_devices_are_not_read() {
    let world = World::indexed();
    let pipe = world.path("pipe").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for file in [pipe.as_str(), "/dev/zero"] {
        let refused = [file, "it is not a regular file"];
        let query = ["query", "--bundle", file, "--dataset", "tiny", "dart"];
        world.run(query).fails(1, &refused);
        let eval = ["eval", "--dataset", "tiny", "--split", file, "--system", "bm25"];
        world.run(eval).fails(1, &refused);
        let run = ["program", "run", file, "--dataset", "tiny", "--query", "dart"];
        let ran = world.run(run);
        assert!(ran.status == 1 && ran.stderr.contains("not a regular file"), "{}", ran.stderr);
        let settings = ["--config", file, "doctor"];
        let ran = world.run(settings);
        assert!(ran.stdout.contains("not a regular file"), "{}{}", ran.stdout, ran.stderr);
    }
    for part in ["index/words/terms", "index/vectors/model", "kb/nodes.arrow"] {
        let file = world.path("home/bases/tiny").join(part);
        let aside = file.with_extension("aside");
        std::fs::rename(&file, &aside).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success(), "{part}");
        let told = world.run(["doctor"]);
        assert!(told.stdout.contains("not a regular file"), "{part}: {}", told.stdout);
        world.run(["search", "tiny", "dart"]).fails(1, &["not a regular file"]);
        std::fs::remove_file(&file).unwrap();
        std::fs::rename(&aside, &file).unwrap();
    }
    world.run(["search", "tiny", "dart"]).done();
}

#[cfg(target_os = "linux")]
#[test]
#[allow(clippy::disallowed_methods, reason = "the test limits the process it is about")]
fn refused_threads_are_told() {
    use std::os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    };

    // A directory that everybody may enter: the one that the binary was built in may be private.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = dir.path().join("agent");
    // By another process: while one of this process, forked elsewhere, has the file open for
    // writing, it cannot be run.
    let copied =
        std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_agent")).arg(&agent).status();
    assert!(copied.unwrap().success());
    let mut command = std::process::Command::new("bash");
    let list = "ulimit -u 1; exec \"$0\" data list --home /nowhere";
    command.args(["-c", list]).arg(&agent).env_clear().current_dir("/");
    // The limit does not hold for root.
    if std::fs::metadata(&agent).unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let ran = crate::support::Ran::of(command.output().unwrap());
    ran.fails(1, &["error: ", "thread", "ulimit -u"]);
}

#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "the test limits the process it is about")]
#[test]
fn small_limits_of_the_system_end_with_a_line_or_do_not_matter() {
    let world = World::indexed();
    let within = |limit: &str, args: &[&str]| {
        let command = world.command(args.iter().copied());
        let mut within = std::process::Command::new("bash");
        within.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]);
        within.arg(command.get_program()).args(command.get_args()).env_clear();
        within.env("AGENT_HOME", world.path("home")).current_dir(world.path(""));
        crate::support::Ran::of(within.output().unwrap())
    };
    let found = within("-s 64", &["search", "tiny", "a steel dart", "--system", "bm25"]);
    assert!(found.done().contains("dart"));
    within("-f 1", &["index", "tiny", "--force"]).fails(1, &["error: "]);
}

#[test]
fn a_log_without_a_terminal_has_no_colours_and_numbers_few_digits() {
    let world = World::indexed();
    let mut command = world.command(["search", "tiny", "a steel dart", "--system", "bm25", "-vv"]);
    command.env("AGENT_LOG", "trace").env_remove("NO_COLOR");
    let ran = crate::support::Ran::of(command.output().unwrap());
    assert!(!ran.stderr.is_empty() && !ran.stderr.contains('\u{1b}'), "{}", ran.stderr);
    let ran = world.run(["data", "sample", "amazon", "--scale", "1e308"]);
    assert!(ran.stderr.contains("1e308") && !ran.stderr.contains("00000"), "{}", ran.stderr);
}
