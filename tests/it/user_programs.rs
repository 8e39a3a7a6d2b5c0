//! `agent optimize --program`: programs of the user compete with those that are found, are tuned,
//! frozen and served, and are part of what a run is.

use std::{
    fs,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use agent::optimize::journal::Journal;
use serde_json::Value;

use crate::support::{Ran, World};

/// Longest wait for anything a run does; reached only when it hangs.
const PATIENCE: Duration = Duration::from_secs(240);
/// Ranks by words that name neighbours.
const BY_NAMES: &str = "fn params() { #{ k: #{ value: 40, min: 1, max: 100 } } }\n\
    fn retrieve(query, candidates, params) {\n    \
    search_with_names(query, \"product\", params.k)\n}\n";

/// The module that finds a brand and ranks its products.
fn module() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read(root.join("sandboxes/wasm/examples/rust.wasm")).unwrap()
}

/// A home with the sample, and two programs of the user beside it. With fewer validation queries the
/// baseline may be frozen in place of the programs.
fn world() -> World {
    let world = World::shop_with(60);
    fs::create_dir_all(world.path("mine")).unwrap();
    fs::write(world.path("mine/brand.wasm"), module()).unwrap();
    fs::write(world.path("mine/names.rhai"), BY_NAMES).unwrap();
    world
}

/// Optimizes in a directory; without mining, so that the user's programs answer best.
fn optimize(world: &World, dir: &str, args: &[&str]) -> Ran {
    world.run(arguments(world, dir).iter().map(String::as_str).chain(args.iter().copied()))
}

fn arguments(world: &World, dir: &str) -> Vec<String> {
    let dir = world.path(dir).display().to_string();
    let fixed = ["optimize", "--dataset", "shop", "--steps", "2", "--without", "mining", "--run"];
    fixed.into_iter().map(str::to_owned).chain([dir]).collect()
}

const BOTH: [&str; 4] = ["--program", "mine/brand.wasm", "--program", "mine/names.rhai"];

#[test]
fn programs_of_the_user_are_tried_tuned_frozen_and_served() {
    let world = world();
    let ran = optimize(&world, "run", &[&BOTH[..], &["--json"]].concat());
    for told in ["2 of your programs", "brand.wasm: mrr", "names.rhai: mrr"] {
        assert!(ran.stderr.contains(told), "{told:?} is not in: {}", ran.stderr);
    }
    let line = ran.json_lines().remove(0);
    let bundle = line["bundle"].as_str().unwrap();
    let frozen: Value = serde_json::from_slice(&fs::read(bundle).unwrap()).unwrap();
    let categories = frozen["categories"].as_array().unwrap();
    let of = |name: &str| {
        let found = categories.iter().find(|category| category["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not in {line}"))
    };
    for name in ["brand.wasm", "names.rhai"] {
        assert_eq!(of(name)["proposed_by"], "user", "{name}");
    }
    assert!(of("brand.wasm")["program"].as_str().unwrap().starts_with("wasm:"));
    assert_eq!(of("names.rhai")["program"], BY_NAMES);

    // The origin of a trial names the user and the file, and parameters of the module were tuned.
    let steps = Journal::open_read_only(&world.path("run")).unwrap().steps().unwrap();
    let tried = |file: &str| {
        let of_user = |step: &&agent::optimize::journal::StepRecord| {
            step.kind == "trial"
                && step.body["origin"]["proposed_by"] == "user"
                && step.body["origin"]["change"] == file
        };
        steps.iter().filter(of_user).count()
    };
    assert_eq!((tried("brand.wasm"), tried("names.rhai")), (1, 1));
    let tuned = steps.iter().filter(|step| step.kind == "tune").count();
    assert_eq!(tuned, categories.len());

    // All that looks at a bundle or a run shows a module.
    let listed = world.run(["program", "list", "--bundle", bundle, "--json"]).json_lines();
    let listed = listed.iter().find(|one| one["category"] == "brand.wasm").unwrap();
    let id = listed["id"].as_str().unwrap().to_owned();
    assert_eq!(id, blake3::hash(&module()).to_hex().as_str());
    let run = world.path("run").display().to_string();
    for place in [["--bundle", bundle], ["--run", &run]] {
        let show = ["program", "show", &id].into_iter().chain(place);
        let shown = world.run(show.clone()).done();
        assert!(shown.contains("a module of WebAssembly") && shown.contains(&id), "{shown}");
        let shown = world.run(show.chain(["--json"])).json_lines().remove(0);
        assert!(shown["source"].as_str().unwrap().starts_with("wasm:"));
        let names: Vec<&str> = shown["declared"]
            .as_array()
            .unwrap()
            .iter()
            .map(|param| param["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["k", "w_text"]);
    }
    let lineage = world.run(["program", "lineage", &id, "--run", &run]).done();
    assert!(lineage.contains("brand.wasm"), "{lineage}");
    let names = of("names.rhai")["program"].as_str().unwrap();
    let names = blake3::hash(names.as_bytes()).to_hex().to_string();
    let diff = world.run(["program", "diff", &names, &id, "--run", &run]).done();
    assert!(diff.contains("+// a module of WebAssembly"), "{diff}");
    world.run(["run", "log", &run]).done();

    // Other processes answer with it, alike in both engines, and it verifies.
    let system = format!("bundle:{bundle}");
    let eval = |sandbox| {
        let args = ["eval", "--dataset", "shop", "--split", "val", "--system", &system];
        let all = args.into_iter().chain(["--sandbox", sandbox, "--json"]);
        let measured = world.run(all).json_lines().remove(0);
        assert_eq!(measured["failed"], 0, "{measured}");
        measured["metrics"]["mrr"].as_f64().unwrap()
    };
    let mrr = eval("rhai");
    assert_eq!(mrr, eval("wasm"));
    let validation = frozen["validation"]["mrr"].as_f64().unwrap();
    assert!((mrr - validation).abs() < 1e-6, "{mrr} is not {validation}");
    let queries = fs::read_to_string(world.path("sample/qa.csv")).unwrap();
    let asked = csv::Reader::from_reader(queries.as_bytes()).records().next().unwrap().unwrap();
    let query = ["query", "--bundle", bundle, "--dataset", "shop", &asked[1], "--json"];
    assert_ne!(world.run(query).done(), "", "{asked:?}");
    world.run(["verify", bundle, "--dataset", "shop"]).done();
}

#[test]
fn a_run_goes_on_with_the_programs_that_it_was_begun_with() {
    let world = world();
    let bundle = |dir: &str| fs::read(world.path(dir).join("bundle.json")).unwrap();
    optimize(&world, "run", &BOTH).done();
    let whole = bundle("run");

    // Killed and continued without the files, on one thread, inside WebAssembly: the same bundle.
    let args = arguments(&world, "killed");
    let mut command = world.command(args.iter().map(String::as_str).chain(BOTH));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (began, dir) = (Instant::now(), world.path("killed"));
    while !Journal::open_read_only(&dir).is_ok_and(|run| run.steps().unwrap().len() >= 4) {
        assert!(began.elapsed() < PATIENCE, "no step was made");
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!dir.join("bundle.json").exists());
    fs::rename(world.path("mine"), world.path("moved")).unwrap();
    optimize(&world, "killed", &["--resume", "--threads", "1", "--sandbox", "wasm"]).done();
    assert!(bundle("killed") == whole, "the bundles differ");
    fs::rename(world.path("moved"), world.path("mine")).unwrap();

    optimize(&world, "run", &[&BOTH[..], &["--resume"]].concat()).done();
    let others: [&[&str]; 2] = [&BOTH[..2], &["--program", "mine/names.rhai"]];
    for others in others {
        let ran = optimize(&world, "run", &[others, &["--resume"]].concat());
        ran.fails(1, &["other programs", "--run DIR"]);
    }
    assert!(bundle("run") == whole, "a refused run changed the bundle");
    optimize(&world, "without", &[]).done();
    let ran = optimize(&world, "without", &[&BOTH[..], &["--resume"]].concat());
    ran.fails(1, &["other programs"]);
}

#[test]
fn what_is_no_program_is_refused_before_a_run_is_begun() {
    let world = World::indexed();
    let write = |file: &str, bytes: &[u8]| fs::write(world.path(file), bytes).unwrap();
    write("good.rhai", BY_NAMES.as_bytes());
    write("broken.rhai", b"// first line\nfn retrieve(query, candidates, params) { let = }\n");
    write("other.rhai", b"fn other() { 1 }\n");
    write("numbers.rhai", b"fn params() { #{ k: \"five\" } }\nfn retrieve(q, c, p) { #{} }\n");
    write("text.wasm", BY_NAMES.as_bytes());
    write("empty.wasm", &wat::parse_str("(module)").unwrap());
    write("letters.rhai", b"fn retrieve(q, c, p) { \"\xff\" }");
    let run = |args: &[&str]| {
        let fixed = ["optimize", "--dataset", "tiny", "--run", "run"];
        world.run(fixed.into_iter().chain(args.iter().copied()))
    };
    for (file, words) in [
        ("broken.rhai", &["broken.rhai:2:", "parse"][..]),
        ("other.rhai", &["other.rhai: missing_function"]),
        ("numbers.rhai", &["numbers.rhai", "result", "k"]),
        ("text.wasm", &["text.wasm: parse: the bytes are not a WebAssembly module"]),
        ("empty.wasm", &["empty.wasm: missing_function", "memory"]),
        ("letters.rhai", &["letters.rhai is not UTF-8"]),
        ("absent.rhai", &["cannot read absent.rhai"]),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let given = ["--program", "good.rhai", "--program", file];
            run(&[&given[..], more].concat()).fails(1, words);
        }
    }
    let many = ["--program", "good.rhai"].repeat(33);
    run(&many).fails(2, &["33 times, more than 32"]);
    assert!(!world.path("run").exists(), "a run was begun that cannot go on");
    run(&["--program", "good.rhai", "--dry-run"]).done();
}

#[test]
fn a_program_that_always_fails_is_told_and_left_out() {
    let world = world();
    fs::write(world.path("mine/fails.rhai"), "fn retrieve(q, c, p) { throw \"no\" }\n").unwrap();
    let args = ["--program", "mine/fails.rhai", "--program", "mine/names.rhai"];
    let ran = optimize(&world, "run", &args);
    for told in ["fails.rhai: skipped, since it failed on all", "fails.rhai: runtime: no (line 1)"]
    {
        assert!(ran.stderr.contains(told), "{told:?} is not in: {}", ran.stderr);
    }
    ran.done();
    let frozen = fs::read(world.path("run/bundle.json")).unwrap();
    let frozen: Value = serde_json::from_slice(&frozen).unwrap();
    assert!(!frozen["categories"].to_string().contains("throw"), "{frozen}");
}
