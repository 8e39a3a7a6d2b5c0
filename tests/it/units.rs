//! `agent unit`: however work is cut and whatever is killed, the collected bytes are one machine's.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use agent::{dataset::Home, units::Units};
use serde_json::{Value, json};

use crate::{
    bundles::{SEARCHES, world_with},
    embedders::Service,
    support::{Ran, World},
};

/// Runs what a plan says is left, with two processes of `xargs`.
#[allow(clippy::disallowed_methods, reason = "the engine is a program of the system")]
fn run_rest(world: &World, dir: &str) {
    let listed = world.run(["unit", "plan", dir]).done();
    fs::write(world.path("rest"), listed).unwrap();
    let own = world.command(["unit", "run", dir]);
    let mut xargs = Command::new("xargs");
    xargs.arg("-a").arg(world.path("rest")).args(["-P2", "-n1"]);
    xargs.arg(own.get_program()).args(own.get_args()).stderr(Stdio::null());
    if let Some(place) = own.get_current_dir() {
        xargs.current_dir(place);
    }
    for (name, value) in own.get_envs() {
        match value {
            Some(value) => xargs.env(name, value),
            None => xargs.env_remove(name),
        };
    }
    assert!(xargs.status().unwrap().success());
}

/// Leaves a result cut short, as a disk that was full.
fn cut_a_result(world: &World, dir: &str) {
    let result = fs::read_dir(world.path(dir).join("out")).unwrap().flatten();
    let result = result.map(|entry| entry.path()).min().unwrap();
    let bytes = fs::read(&result).unwrap();
    fs::write(&result, &bytes[..bytes.len() / 2]).unwrap();
}

/// A line of a batch without what differs from run to run, or names a file.
fn lasting(line: &str) -> Value {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let object = line.as_object_mut().unwrap();
    object.remove("timings");
    object.remove("bundle");
    line
}

#[test]
fn a_batch_in_units_is_that_of_one_machine() {
    let (world, _) = world_with(SEARCHES);
    let questions: Vec<String> = (0..40)
        .map(|at| match at {
            11 => String::new(),
            20 => "no json".to_owned(),
            _ => format!("{{\"id\": {at}, \"query\": \"durable {}\"}}", ["dart", "kite"][at % 2]),
        })
        .collect();
    fs::write(world.path("questions.jsonl"), questions.join("\n")).unwrap();
    let what = ["--bundle", "bundle.json", "--dataset", "tiny", "--batch", "questions.jsonl"];
    let whole = world.run(["query"].into_iter().chain(what));
    let mut all = Vec::new();
    for n in ["1", "3", "7"] {
        let dir = format!("jobs-{n}");
        let plan = ["unit", "plan", &dir, "--units", n];
        let listed = world.run(plan.into_iter().chain(what)).done();
        assert_eq!(listed.lines().count(), n.parse::<usize>().unwrap());
        // One is killed while it works, one leaves a cut result.
        let mut killed = world.command(["unit", "run", &dir, "0"]);
        let mut killed = killed.stderr(Stdio::null()).spawn().unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        run_rest(&world, &dir);
        cut_a_result(&world, &dir);
        let collect = ["unit", "collect", &dir, "--out", "answers.jsonl"];
        world.run(collect).fails(1, &["have no complete result", "agent unit plan"]);
        assert!(!world.path("answers.jsonl").exists());
        run_rest(&world, &dir);
        assert_eq!(world.run(["unit", "plan", &dir]).done(), "", "nothing is left");
        let collected = world.run(collect);
        assert_eq!(collected.status, 1, "line 21 is no question");
        assert!(collected.stderr.contains("line 21"), "{}", collected.stderr);
        all.push(fs::read_to_string(world.path("answers.jsonl")).unwrap());
        fs::remove_file(world.path("answers.jsonl")).unwrap();
    }
    assert!(all[0] == all[1] && all[0] == all[2]);
    let lines = |text: &str| text.lines().map(lasting).collect::<Vec<_>>();
    assert_eq!(lines(&all[0]).len(), 39);
    assert_eq!(lines(&all[0]), lines(&whole.stdout));
}

#[test]
fn rankings_in_units_are_the_run_file_of_an_evaluation() {
    let world = World::shop();
    let programs = [("finds", "search(q)"), ("fails", "throw \"no\"")];
    for (name, body) in programs {
        let source = format!("fn retrieve(q, candidates, params) {{ {body} }}");
        fs::write(world.path(&format!("{name}.rhai")), source).unwrap();
    }
    let systems = [("bm25+names", 0), ("program:finds.rhai", 0), ("program:fails.rhai", 1)];
    for (system, status) in systems {
        let eval = ["eval", "--dataset", "shop", "--split", "val", "--system", system];
        let whole = world.run(eval.into_iter().chain(["--run-file", "whole.trec"]));
        assert_eq!(whole.status, status, "{}", whole.stderr);
        let whole = fs::read(world.path("whole.trec")).unwrap();
        assert!(whole.len() > 1_000);
        for n in ["1", "3", "7"] {
            let dir = format!("{}-{n}", system.replace([':', '.'], "-"));
            let plan = ["unit", "plan", &dir, "--units", n];
            let what = ["--dataset", "shop", "--split", "val", "--system", system];
            world.run(plan.into_iter().chain(what)).done();
            run_rest(&world, &dir);
            let collected = world.run(["unit", "collect", &dir, "--out", "units.trec"]);
            assert_eq!(collected.status, status, "{}", collected.stderr);
            assert_eq!(collected.stderr.contains("25 items failed"), status == 1);
            assert!(fs::read(world.path("units.trec")).unwrap() == whole, "{system} in {n}");
        }
    }
    // What was planned for another base, or is planned otherwise, is refused.
    let what = ["--dataset", "shop", "--split", "val", "--system", "hybrid"];
    let plan = |dir| ["unit", "plan", dir].into_iter().chain(what);
    world.run(plan("bm25+names-3")).fails(1, &["another plan"]);
    world.run(["unit", "run", "bm25+names-3", "3"]).fails(1, &["no unit 3", "has 3"]);
    world.run(plan("left")).done();
    world.run(["data", "import", "--name", "shop", "--from", &world.source()]).done();
    world.run(["index", "shop"]).done();
    world
        .run(["unit", "run", "left", "0"])
        .fails(1, &["differs from the plan", "index the same data"]);
    let model = ["--dataset", "shop", "--split", "val", "--system", "expand:hyde"];
    let model = ["unit", "plan", "new"].into_iter().chain(model);
    world.run(model).fails(2, &["cannot run expand:hyde", "language model"]);
    world.run(["unit", "plan", "nowhere"]).fails(1, &["no plan of units", "give --bundle B"]);
}

/// The files of the index of a base, by their names.
fn index_of(world: &World, base: &str) -> BTreeMap<String, Vec<u8>> {
    fn gather(dir: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = format!("{prefix}{}", name.to_string_lossy());
            match path.is_dir() {
                true => gather(&path, &format!("{name}/"), files),
                false => drop(files.insert(name, fs::read(&path).unwrap())),
            }
        }
    }
    let mut files = BTreeMap::new();
    let dir = index_dir(world, base);
    if dir.exists() {
        gather(&dir, "", &mut files);
    }
    files
}

fn index_dir(world: &World, base: &str) -> PathBuf {
    Home::new(world.path("home")).get(base).unwrap().index_dir()
}

#[test]
fn documents_in_units_are_the_index_of_one_machine() {
    let world = World::shop();
    let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/encoder/mean");
    let embedder = format!("candle:{}", encoder.display());
    let with = ["shop", "--embedder", &embedder];
    for scope in [&["--candidates-only"][..], &[]] {
        world.run(["index"].into_iter().chain(with).chain(scope.iter().copied())).done();
        let whole = index_of(&world, "shop");
        assert!(whole.len() > 10 && whole["vectors/vectors"].len() > 100_000);
        for n in ["1", "3", "7"] {
            world.run(["index", "shop", "--embedder", "builtin"]).done();
            let before = index_of(&world, "shop");
            assert!(before != whole);
            let dir = format!("vectors-{n}-{}", scope.len());
            let plan = ["unit", "plan", &dir, "--units", n, "--index"].into_iter().chain(with);
            let listed = world.run(plan.chain(scope.iter().copied())).done();
            assert_eq!(listed.lines().count(), n.parse::<usize>().unwrap());
            run_rest(&world, &dir);
            cut_a_result(&world, &dir);
            let collect = ["unit", "collect", &dir];
            world.run(collect).fails(1, &["have no complete result", "agent unit plan"]);
            assert!(index_of(&world, "shop") == before, "nothing is written");
            run_rest(&world, &dir);
            world.run(collect).done();
            assert!(index_of(&world, "shop") == whole, "{scope:?} in {n}");
        }
    }
    // A machine that has the base, and no index of it.
    let whole = index_of(&world, "shop");
    let other = World::new();
    let sample = world.path("sample");
    let import = ["data", "import", "--name", "shop", "--from", sample.to_str().unwrap()];
    other.run(import).done();
    let jobs = other.path("jobs");
    let jobs = jobs.to_str().unwrap();
    let plan = ["unit", "plan", jobs, "--units", "2", "--index"];
    world.run(plan.into_iter().chain(with)).done();
    other.run(["unit", "run", jobs, "0"]).done();
    world.run(["unit", "run", jobs, "1"]).done();
    other.run(["unit", "collect", jobs]).done();
    assert!(index_of(&other, "shop") == whole);
    other.run(["search", "shop", "bottle", "--system", "dense"]).done();
}

#[test]
fn units_embed_with_what_was_planned_or_not_at_all() {
    let (world, service) = (World::indexed(), Service::start());
    let plan = ["unit", "plan", "jobs", "--units", "2", "--index", "tiny"];
    let planned = |more: [&'static str; 2]| plan.into_iter().chain(more);
    world.run(plan).fails(2, &["builtin is trained on the whole base", "agent index tiny"]);
    let import = ["--embedder", "import:."];
    world.run(planned(import)).fails(2, &["reads existing vectors"]);
    let letters = ["--embedder", "openai:letters"];
    world.run(planned(letters)).fails(1, &["openai:letters needs OPENAI_API_KEY"]);
    assert!(!world.path("jobs").exists());

    // A service is paid by the units alone; one machine needs it to collect no more.
    let served = |args: &[&'static str]| {
        let mut command = world.command(args.iter().copied());
        service.offer(&mut command);
        Ran::of(command.output().unwrap())
    };
    served(&planned(letters).collect::<Vec<_>>()).done();
    world.run(["unit", "run", "jobs", "0"]).fails(1, &["openai:letters needs OPENAI_API_KEY"]);
    let ran = served(&["unit", "run", "jobs", "0", "1"]);
    assert!(ran.stderr.contains("paid tokens"), "{}", ran.stderr);
    world.run(["unit", "collect", "jobs", "--out", "file"]).fails(2, &["make an index"]);
    world.run(["unit", "collect", "jobs"]).done();
    let collected = index_of(&world, "tiny");
    served(&["index", "tiny", "--force"]).done();
    assert!(index_of(&world, "tiny") == collected);

    // Another model in the same place, and another base of the same name.
    let encoder = |model: &str| {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/encoder").join(model);
        fs::create_dir_all(world.path("model/1_Pooling")).unwrap();
        for name in fs::read_dir(&from).unwrap().flatten().map(|entry| entry.file_name()) {
            if from.join(&name).is_file() {
                fs::copy(from.join(&name), world.path("model").join(&name)).unwrap();
            }
        }
        let pooling = "1_Pooling/config.json";
        fs::copy(from.join(pooling), world.path("model").join(pooling)).unwrap();
    };
    encoder("mean");
    let plan = ["unit", "plan", "local", "--index", "tiny", "--embedder", "candle:model"];
    world.run(plan).done();
    world.run(["unit", "run", "local", "0"]).done();
    encoder("first");
    world.run(["unit", "run", "local", "1"]).fails(1, &["differs from the model", "same files"]);
    fs::remove_dir_all(world.path("model")).unwrap();
    world
        .run(["unit", "run", "local", "1"])
        .fails(1, &["model", "path given in the plan on every machine"]);
    let nodes = world.path("tiny/nodes.jsonl");
    let text = fs::read_to_string(&nodes).unwrap();
    fs::write(&nodes, text.replacen("kite", "kites", 1)).unwrap();
    world.run(["data", "import", "--name", "tiny", "--from", "tiny"]).done();
    served(&["index", "tiny"]).done();
    world
        .run(["unit", "run", "local", "1"])
        .fails(1, &["differs from the plan", "import the same data"]);
    world.run(["unit", "collect", "jobs"]).fails(1, &["differs from the plan"]);
}

#[test]
fn words_in_units_are_the_index_of_one_machine() {
    let world = World::shop();
    let whole = index_of(&world, "shop");
    let sample = world.path("sample");
    let import = ["data", "import", "--name", "shop", "--from", sample.to_str().unwrap()];
    for n in ["1", "3", "7"] {
        let other = World::new();
        other.run(import).done();
        let plan = ["unit", "plan", "words", "--units", n, "--index", "shop", "--words"];
        assert_eq!(other.run(plan).done().lines().count(), n.parse::<usize>().unwrap());
        run_rest(&other, "words");
        cut_a_result(&other, "words");
        let collect = ["unit", "collect", "words"];
        other.run(collect).fails(1, &["have no complete result", "agent unit plan"]);
        assert!(index_of(&other, "shop").is_empty(), "nothing is written");
        run_rest(&other, "words");
        other.run(["unit", "collect", "words", "--out", "file"]).fails(2, &["make an index"]);
        let collected = other.run(collect);
        assert!(collected.stderr.contains("no vectors yet; create them with `agent index shop`"));
        collected.done();
        let words = index_of(&other, "shop");
        assert!(words.len() > 5 && words.keys().all(|name| name.starts_with("words/")));
        let built = fs::metadata(index_dir(&other, "shop").join("words")).unwrap();
        other.run(["index", "shop"]).done();
        assert!(index_of(&other, "shop") == whole, "in {n}");
        let kept = fs::metadata(index_dir(&other, "shop").join("words")).unwrap();
        assert_eq!(
            built.modified().unwrap(),
            kept.modified().unwrap(),
            "words are not built again"
        );
    }
    let both = ["unit", "plan", "w", "--index", "shop", "--words", "--candidates-only"];
    world.run(both).fails(2, &["--words", "cannot be used with"]);
    // Another version of the words.
    world.run(["unit", "plan", "left", "--index", "shop", "--words"]).done();
    let path = world.path("left/plan.json");
    let mut plan: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let format = plan["task"]["format"].as_u64().unwrap();
    plan["task"]["format"] = (format - 1).into();
    fs::write(&path, plan.to_string()).unwrap();
    world
        .run(["unit", "run", "left", "0"])
        .fails(1, &["another format of words", "the same version"]);
}

/// Runs in one of which a worker has to get its turn.
const TRIES: usize = 3;

/// How many rankings of a run came from workers.
fn from_workers(stderr: &str) -> u32 {
    let line = stderr.lines().find(|line| line.contains("rankings came from workers")).unwrap();
    let words = line.split_whitespace().map(|word| word.replace(',', ""));
    words.filter_map(|word| word.parse().ok()).next().unwrap()
}

#[test]
fn a_run_with_workers_freezes_the_bundle_of_one_process() {
    let world = World::shop();
    let optimize = ["optimize", "--dataset", "shop", "--seed", "1", "--steps", "2", "--run"];
    world.run(optimize.into_iter().chain(["alone"])).done();
    let bundle = |run: &str| fs::read(world.path(run).join("bundle.json")).unwrap();
    let names = |dir: &str| {
        let entries = fs::read_dir(world.path(dir)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.starts_with('.')).count()
    };
    // Rankings that came from workers, of a run with so many of them.
    let run_with = |n: usize, at: usize| {
        let (run, pool) = (format!("with-{n}-{at}"), format!("pool-{n}-{at}"));
        let work = || {
            let mut work = world.command(["unit", "work", &pool, "--idle", "60"]);
            work.stderr(Stdio::null()).spawn().unwrap()
        };
        let mut workers: Vec<Child> = (0..n).map(|_| work()).collect();
        while names(&format!("{pool}/workers")) < n {
            assert!(workers.iter_mut().all(|worker| worker.try_wait().unwrap().is_none()));
            thread::sleep(Duration::from_millis(5));
        }
        let mut command = world.command(optimize.into_iter().chain([&*run, "--pool", &pool]));
        let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if n == 3 {
            // One dies as soon as there is work, another is replaced.
            while names(&format!("{pool}/jobs")) == 0 && running.try_wait().unwrap().is_none() {
                thread::sleep(Duration::from_millis(1));
            }
            for mut worker in workers.drain(..2) {
                worker.kill().unwrap();
                worker.wait().unwrap();
            }
            workers.push(work());
        }
        let ran = Ran::of(running.wait_with_output().unwrap());
        for mut worker in workers {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(ran.stderr.contains("no live worker"), n == 0, "{}", ran.stderr);
        assert!(bundle(&run) == bundle("alone"), "with {n}");
        assert_eq!(names(&format!("{pool}/jobs")), 0, "jobs are removed");
        from_workers(&ran.stderr)
    };
    assert_eq!(run_with(0, 0), 0);
    for n in [1, 3] {
        // On a busy machine a run may have done all by itself before a worker gets its turn.
        assert!((0..TRIES).any(|at| run_with(n, at) > 0), "{n} workers ranked nothing");
    }
    // A pool belongs to one run, and a worker without work ends.
    let used = fs::File::create(world.path("pool-0-0/run")).unwrap();
    used.lock().unwrap();
    let again = optimize.into_iter().chain(["other", "--pool", "pool-0-0"]);
    world.run(again).fails(1, &["another run uses the pool", "directory of its own"]);
    let idle = world.run(["unit", "work", "pool-0-0", "--idle", "0"]);
    assert!(idle.stderr.contains("ran 0 units"), "{}", idle.stderr);
    // A job with an item that is no query does not end a worker.
    let alone: Value = serde_json::from_slice(&bundle("alone")).unwrap();
    let task = json!({"kind": "evaluate", "dataset": "shop", "params": {},
                      "fingerprint": alone["dataset"]["index"]});
    let job = world.path("pool-0-0/jobs/000000001");
    let program = b"fn retrieve(query, candidates, params) { candidates }";
    Units::plan(&job, &task, &["{}".to_owned()], 1, Some(("program", program))).unwrap();
    let ran = world.run(["unit", "work", "pool-0-0", "--idle", "0"]);
    let told = ["jobs/000000001, unit 0: an item of the plan is not a query", "job skipped"];
    assert!(ran.status == 0 && told.iter().all(|text| ran.stderr.contains(text)), "{}", ran.stderr);
}

#[test]
fn a_pool_takes_no_directory_of_others() {
    let world = World::shop();
    fs::create_dir(world.path("mine")).unwrap();
    world.run(["unit", "plan", "mine/jobs", "--index", "shop", "--words"]).done();
    let optimize = ["optimize", "--dataset", "shop", "--run", "run", "--pool", "mine"];
    let other = ["is not a pool", "new or empty directory"];
    world.run(optimize).fails(1, &other);
    world.run(["unit", "work", "mine", "--idle", "0"]).fails(1, &other);
    assert!(world.path("mine/jobs/plan.json").exists());
}
