//! Files that a stranger wrote: where their programs run, which bytes of them are believed, and what
//! of them reaches a terminal.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use agent::bundle::{Bundle, MAX_CATEGORIES, Member, router::Router};

use crate::{
    bundles::{SEARCHES, world_with},
    support::{Ran, World, state},
};

const IN_PROCESS: &str = "programs in Rhai run in this process";
const IN_WASM: &str = "programs run inside WebAssembly";
/// Longest wait for something that another process does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where programs ran, as the details say; each command says it at least once, and always the same.
#[track_caller]
fn place(ran: &Ran) -> &'static str {
    match [IN_PROCESS, IN_WASM].map(|line| ran.stderr.contains(line)) {
        [true, false] => IN_PROCESS,
        [false, true] => IN_WASM,
        said => panic!("{said:?}: {}", ran.stderr),
    }
}

#[test]
fn a_bundle_of_a_stranger_runs_inside_webassembly_in_every_command() {
    let (world, _) = world_with(SEARCHES);
    fs::write(world.path("program.rhai"), SEARCHES).unwrap();
    let bundle = ["--bundle", "bundle.json"];
    let shown = ["--bundle", "bundle.json", "products by words"];
    let commands: [(&[&str], &[&str]); 9] = [
        (&["query", "a light kite", "--dataset", "tiny"], &bundle),
        (&["eval", "--dataset", "tiny", "--split", "val"], &["--system", "bundle:bundle.json"]),
        (&["eval", "--dataset", "tiny", "--split", "val"], &["--system", "program:program.rhai"]),
        (&["search", "tiny", "a light kite"], &["--system", "bundle:bundle.json"]),
        (&["search", "tiny", "a light kite"], &["--system", "program:program.rhai"]),
        (&["verify", "bundle.json"], &[]),
        (&["explain", "--dataset", "tiny", "--split", "val"], &bundle),
        (&["program", "show"], &shown),
        (&["program", "sensitivity", "--on", "val"], &shown),
    ];
    for (command, more) in commands {
        let all = || ["-v"].into_iter().chain(command.iter().chain(more).copied());
        let ran = world.run(all());
        assert_eq!((ran.status, place(&ran)), (0, IN_WASM), "{command:?}: {}", ran.stderr);
        let inside = ran.stdout;
        // The user may say otherwise, everywhere by the same option, and gets the same.
        let ran = world.run(all().chain(["--sandbox", "rhai"]));
        assert_eq!((ran.status, place(&ran)), (0, IN_PROCESS), "{command:?}: {}", ran.stderr);
        if !command.contains(&"eval") {
            assert_eq!(ran.stdout, inside, "{command:?}");
        }
    }
    let run = ["-v", "program", "run", "program.rhai", "--dataset", "tiny", "--query", "kite"];
    assert_eq!(place(&world.run(run)), IN_WASM);
}

/// Copies the code that other tests compiled into the state directory of a user of this test.
fn share_code(user: &Path) {
    fs::create_dir_all(user.join("code")).unwrap();
    for file in fs::read_dir(state().join("code")).into_iter().flatten() {
        let file = file.unwrap();
        // A file that another test is just replacing is compiled anew.
        let _ = fs::copy(file.path(), user.join("code").join(file.file_name()));
    }
}

#[test]
fn what_was_frozen_here_is_trusted_here_alone() {
    let world = World::shop();
    let (here, there) = (world.path("here"), world.path("there"));
    let run = |state: &Path, args: &[&str]| {
        let mut command = world.command(["-v"].into_iter().chain(args.iter().copied()));
        Ran::of(command.env("AGENT_STATE", state).output().unwrap())
    };
    let optimize = ["optimize", "--dataset", "shop", "--steps", "1", "--run", "run"];
    let ran = run(&here, &optimize);
    assert_eq!((ran.status, place(&ran)), (0, IN_PROCESS), "{}", ran.stderr);
    let query = ["query", "--bundle", "run/bundle.json", "--dataset", "shop", "a light jacket"];
    let ran = run(&here, &query);
    assert_eq!((ran.status, place(&ran)), (0, IN_PROCESS), "{}", ran.stderr);
    assert!(!here.join("code").exists(), "nothing was compiled");
    assert!(!world.path("home/cache/code").exists(), "no code in the home");
    for command in [&["report", "--run", "run"][..], &["verify", "run/bundle.json"]] {
        let ran = run(&here, command);
        assert_eq!((ran.status, place(&ran)), (0, IN_PROCESS), "{}", ran.stderr);
    }
    let resume = ["optimize", "--dataset", "shop", "--run", "run", "--resume"];
    assert_eq!(place(&run(&here, &resume)), IN_PROCESS);
    for state in [&here, &there] {
        share_code(state);
    }

    // Who copies the home gets neither the notes nor the key.
    assert_eq!(place(&run(&there, &query)), IN_WASM);
    assert_eq!(place(&run(&there, &resume)), IN_WASM);
    // A run that was copied, or changed hands, is somebody else's.
    let status = fs::create_dir(world.path("copy")).and_then(|()| {
        for file in ["run.sqlite", "bundle.json"] {
            fs::copy(world.path("run").join(file), world.path("copy").join(file))?;
        }
        Ok(())
    });
    status.unwrap();
    let resume = ["optimize", "--dataset", "shop", "--run", "copy", "--resume"];
    assert_eq!(place(&run(&here, &resume)), IN_WASM);
    // The content of a bundle is what is trusted, wherever it lies; another content is not.
    let query = ["query", "--bundle", "copy/bundle.json", "--dataset", "shop", "a light jacket"];
    assert_eq!(place(&run(&here, &query)), IN_PROCESS);
    let mut changed = Bundle::read(&world.path("run/bundle.json")).unwrap();
    changed.provenance.seed += 1;
    changed.sealed().write(&world.path("copy/bundle.json")).unwrap();
    assert_eq!(place(&run(&here, &query)), IN_WASM);
}

#[test]
fn programs_of_others_are_not_trusted_once_they_are_frozen() {
    let world = World::shop();
    let program = "//! category: mine\nfn retrieve(query, candidates, params) { search(query, \"product\", 20) }";
    fs::write(world.path("mine.rhai"), program).unwrap();
    // What another run froze here, whatever it holds, is noted elsewhere.
    share_code(&world.path("state"));
    let run = |args: &[&str]| {
        let mut command = world.command(["-v"].into_iter().chain(args.iter().copied()));
        Ran::of(command.env("AGENT_STATE", world.path("state")).output().unwrap())
    };
    let ran = run(&[
        "optimize",
        "--dataset",
        "shop",
        "--steps",
        "0",
        "--run",
        "run",
        "--program",
        "mine.rhai",
    ]);
    assert_eq!((ran.status, place(&ran)), (0, IN_WASM), "{}", ran.stderr);
    let query = ["query", "--bundle", "run/bundle.json", "--dataset", "shop", "a jacket"];
    assert_eq!(place(&run(&query)), IN_WASM);
}

#[test]
fn a_bundle_has_a_bounded_number_of_categories() {
    let (world, bundle) = world_with(SEARCHES);
    let with = |n: usize| {
        let mut bundle = bundle.clone();
        bundle.categories = vec![bundle.categories[0].clone(); n];
        bundle.router.n_categories = n;
        bundle.router.weights.insert("always".to_owned(), vec![0.5; n]);
        bundle.sealed().write(&world.path("many.json")).unwrap();
        Bundle::read(&world.path("many.json"))
    };
    assert!(with(MAX_CATEGORIES).is_ok());
    let error = with(MAX_CATEGORIES + 1).unwrap_err().to_string();
    assert!(error.contains("65 categories exceed the limit of 64"), "{error}");
}

#[test]
fn members_of_an_ensemble_have_categories_of_the_bundle_and_no_others() {
    let (world, bundle) = world_with(SEARCHES);
    let of_one = |categories: &[usize]| Member {
        categories: categories.to_vec(),
        router: Router { n_categories: categories.len(), weights: BTreeMap::new() },
        fusion: bundle.fusion,
        reranker: None,
    };
    let with = |ensemble: Vec<Member>| {
        let many = Bundle { ensemble, ..bundle.clone() };
        many.sealed().write(&world.path("many.json")).unwrap();
        Bundle::read(&world.path("many.json")).map_err(|error| error.to_string())
    };
    assert_eq!(with(vec![of_one(&[0])]).unwrap().members().len(), 2);
    let checked = world.run(["verify", "many.json", "--dataset", "tiny"]).done();
    assert!(checked.contains("all scores match the bundle"), "{checked}");
    for wrong in [vec![of_one(&[1])], vec![of_one(&[0, 0])], vec![of_one(&[])]] {
        let error = with(wrong).unwrap_err();
        assert!(error.contains("its routers do not match its categories"), "{error}");
    }
    assert!(with(vec![of_one(&[0]); 4]).is_err(), "five members");
    let mut huge = bundle.clone();
    huge.router.n_categories = usize::MAX;
    huge.sealed().write(&world.path("many.json")).unwrap();
    assert!(Bundle::read(&world.path("many.json")).is_err());
}

#[test]
fn what_programs_leave_behind_in_one_process_is_bounded() {
    let world = World::shop();
    let leaks = "fn retrieve(query, candidates, params) {\n\
        let big = []; big.pad(100000, 7); let more = []; more.pad(100000, 7);\n\
        let last = []; last.pad(100000, 7);\n\
        let f = (); let g = || { f; big; more; last }; f = g; search(query, \"product\", 5) }";
    fs::write(world.path("leaks.rhai"), leaks).unwrap();
    // Each call leaves some megabytes; so many queries, each several times, leave far too much.
    let systems: Vec<String> =
        (0..4).map(|at| format!("program:./{}leaks.rhai", "./".repeat(at))).collect();
    let eval = ["eval", "--dataset", "shop", "--split", "train", "--sandbox", "rhai"];
    let systems = systems.iter().flat_map(|name| ["--system", name.as_str()]);
    let ran = world.run(eval.into_iter().chain(systems));
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("programs leaked more than"), "{}", ran.stderr);
    let eval = ["eval", "--dataset", "shop", "--split", "train", "--system", "program:leaks.rhai"];
    world.run(eval).done();
}

/// All files below a directory.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(self::files(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

#[test]
fn one_changed_byte_in_any_file_of_a_base_is_found() {
    let world = World::indexed();
    let base = world.path("home/bases/tiny");
    world.run(["doctor"]).done();
    let mut n = 0;
    for path in files(&base) {
        let whole = fs::read(&path).unwrap();
        if whole.is_empty() {
            continue;
        }
        let mut changed = whole.clone();
        let at = changed.len() / 2;
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        let ran = world.run(["doctor"]);
        assert_eq!(ran.status, 1, "{} changed unnoticed: {}", path.display(), ran.stdout);
        assert!(ran.stdout.contains("BROKEN"), "{}", ran.stdout);
        fs::write(&path, &whole).unwrap();
        n += 1;
    }
    assert!(n >= 20, "{n} files");
    let told = world.run(["doctor"]).done();
    assert!(told.matches("all digests match").count() == 2, "{told}");
}

#[test]
fn verify_finds_a_changed_byte_of_the_words() {
    let (world, _) = world_with(SEARCHES);
    world.run(["verify", "bundle.json"]).done();
    let words = files(&world.path("home/bases/tiny/index/words"));
    let path = words.iter().find(|path| !path.ends_with("record.json")).unwrap();
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
    let ran = world.run(["verify", "bundle.json"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains("its digest does not match"), "{}", ran.stdout);
}

#[test]
fn a_module_that_takes_too_much_to_compile_is_refused_in_words() {
    let world = World::indexed();
    let (locals, blocks) = (" i32".repeat(2_000), "(block (nop))".repeat(6_500));
    let module = format!(
        "(module (memory (export \"memory\") 1) \
         (func (export \"retrieve\") (param i32) (local{locals}) {blocks}))"
    );
    fs::write(world.path("heavy.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let run = ["program", "run", "heavy.wasm", "--dataset", "tiny", "--query", "kite"];
    world.run(run).fails(1, &["variables times bytes", "compiling it would take too much memory"]);
}

#[test]
fn both_engines_refuse_too_large_a_result_alike() {
    let world = World::indexed();
    let program = "fn retrieve(query, candidates, params) {\n\
        let one = get_text_embedding(query)[0]; let few = []; few.pad(20, one);\n\
        let many = []; many.pad(60000, one); compute_cosine_similarity(few, many); #{} }";
    fs::write(world.path("large.rhai"), program).unwrap();
    let kind = |sandbox: &str| {
        let run = ["program", "run", "large.rhai", "--dataset", "tiny", "--query", "kite"];
        let ran = world.run(run.into_iter().chain(["--sandbox", sandbox, "--json"]));
        let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        told["kind"].as_str().unwrap().to_owned()
    };
    // More pairs than one call may compare: the tool refuses before anything is built.
    assert_eq!((kind("rhai").as_str(), kind("wasm").as_str()), ("tool", "tool"));
}

#[test]
fn a_text_of_a_module_has_a_mebibyte_at_most_and_is_counted() {
    // Calls `search` with a text of so many bytes, all zeros, and gives an empty map.
    let module = |bytes: u32| {
        let text = format!(
            "(i32.store8 (i32.const 0) (i32.const 9)) (i32.store (i32.const 1) (i32.const 1))
            (i32.store8 (i32.const 5) (i32.const 5)) (i32.store (i32.const 6) (i32.const {bytes}))"
        );
        format!(
            "(module (import \"tools\" \"get_text_embedding\" (func $tool (param i32 i32) (result i32)))
             (import \"agent\" \"give\" (func $give (param i32 i32)))
             (memory (export \"memory\") 300)
             (func (export \"retrieve\") (param i32) {text}
               (drop (call $tool (i32.const 0) (i32.const {})))
               (i32.store8 (i32.const 0) (i32.const 10)) (i32.store (i32.const 1) (i32.const 0))
               (call $give (i32.const 0) (i32.const 5))))",
            bytes + 10
        )
    };
    let world = World::indexed();
    let run = |bytes: u32| {
        fs::write(world.path("text.wasm"), wat::parse_str(module(bytes)).unwrap()).unwrap();
        let run = ["program", "run", "text.wasm", "--dataset", "tiny", "--query", "kite", "--json"];
        let ran = world.run(run);
        serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap()
    };
    let (memory, text) = (300 * 65_536, 1 << 20);
    let told = run(text);
    assert_eq!(told["status"], "ok", "{told}");
    assert!(
        told["usage"]["peak_bytes"].as_u64().unwrap() >= memory + 2 * u64::from(text),
        "{told}"
    );
    let told = run(text + 1);
    assert_eq!(told["kind"], "memory", "{told}");
    assert!(told["message"].as_str().unwrap().contains("1048577 bytes of text"), "{told}");
}

/// Whether nothing in a text could steer a terminal.
fn is_clean(text: &str) -> bool {
    let turns = ['\u{202e}', '\u{2067}', '\u{200f}'];
    !text.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || turns.contains(&c))
}

#[test]
fn names_of_a_stranger_reach_no_terminal_as_commands() {
    const HOSTILE: &str = "a\u{1b}]0;title\u{7}\u{202e}b";
    let world = World::new();
    let escaped = "a\\u001b]0;title\\u0007\\u202eb";
    let change = |file: &str, from: &str, to: &str| {
        let path = world.path("tiny").join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(&path, text.replace(from, to)).unwrap();
    };
    // An error of an import quotes what is wrong.
    change("edges.tsv", "0\thas_brand", &format!("{HOSTILE}\thas_brand"));
    let import = ["data", "import", "--name", "tiny", "--from", &world.source()];
    let ran = world.run(import);
    assert_eq!(ran.status, 1);
    assert!(is_clean(&ran.stderr), "{:?}", ran.stderr);
    change("edges.tsv", HOSTILE, "0");
    // Titles, names of nodes, and values of further columns may hold anything.
    change("nodes.jsonl", "\"name\":\"steel dart\"", &format!("\"name\":\"dart {escaped}\""));
    change("dataset.toml", "\"Tiny\"", &format!("\"{escaped}\""));
    change("qa.csv", ",template", &format!(",{HOSTILE}"));
    world.run(import).done();
    world.run(["index", "tiny"]).done();
    let eval = ["eval", "--dataset", "tiny", "--split", "train,val", "--system", "bm25"];
    for command in [
        &["data", "show", "tiny"][..],
        &["search", "tiny", "dart"],
        &[&eval[..], &["--by", "kind"]].concat(),
        &[&eval[..], &["--by", "kind", "--format", "markdown"]].concat(),
        &[&eval[..], &["--by", HOSTILE]].concat(),
        &["program", "run", HOSTILE, "--dataset", "tiny", "--query", "x"],
    ] {
        let ran = world.run(command.iter().copied());
        assert!(is_clean(&ran.stdout), "{command:?}: {:?}", ran.stdout);
        assert!(is_clean(&ran.stderr), "{command:?}: {:?}", ran.stderr);
    }
    // JSON says exactly what is there.
    let hits = world.run(["search", "tiny", "dart", "--json"]).json_lines();
    assert!(hits.iter().any(|hit| hit["name"] == format!("dart {HOSTILE}")), "{hits:?}");
}

#[test]
fn a_source_reaches_a_file_byte_for_byte() {
    let source = format!("{SEARCHES}// \u{1b}[31m red \u{202e}\n");
    let (world, _) = world_with(&source);
    let shown = world.run(["program", "show", "products by words", "--bundle", "bundle.json"]);
    assert!(shown.done().starts_with(&source));
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_is_cut_short_while_it_is_mapped_is_named() {
    let world = World::shop();
    let nodes = world.path("home/bases/shop/kb/nodes.arrow");
    let mut command = world.command(["optimize", "--dataset", "shop", "--run", "run"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let maps = format!("/proc/{}/maps", child.id());
    let began = Instant::now();
    let is_mapped = || fs::read_to_string(&maps).unwrap_or_default().contains("nodes.arrow");
    while !is_mapped() {
        assert!(began.elapsed() < PATIENCE, "the base is never mapped");
        thread::sleep(Duration::from_millis(1));
    }
    fs::OpenOptions::new().write(true).open(&nodes).unwrap().set_len(0).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let named = ran.stderr.contains("nodes.arrow was cut short");
    assert!(named && ran.stderr.contains("agent doctor"), "{}", ran.stderr);
}
