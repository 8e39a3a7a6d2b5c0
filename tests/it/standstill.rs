//! No command waits for ever: programs that call every tool, asked more queries than there are
//! threads, on an index of every kind of embedder; the commands of the loop on an index of a sentence
//! encoder, with few and with many threads; and more threads than any machine has.
//!
//! A run that takes too long is killed, and its test fails.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use agent::tools::{Kind, TOOLKIT, ToolSpec, registry};
use serde_json::Value;

use crate::{
    embedders::{Service, write_dict},
    support::{Ran, World, ended_within},
};

/// Longest a run may take; reached only when it stands still.
const PATIENCE: Duration = Duration::from_secs(240);
/// Products that are added to the toolkit's base: more than one thread scores at a time.
const N_SPARE: usize = 4_500;
/// Queries of the base; runs have two threads.
const N_QUERIES: u32 = 12;

/// The toolkit's base with many more products, and queries of every one of which the vector may be
/// known.
fn write_roomy(dir: &Path) {
    let toolkit = Path::new(env!("CARGO_MANIFEST_DIR")).join("toolkits").join(TOOLKIT).join("base");
    fs::create_dir_all(dir.join("split")).unwrap();
    for name in ["dataset.toml", "edges.tsv"] {
        fs::copy(toolkit.join(name), dir.join(name)).unwrap();
    }
    let mut nodes = fs::read_to_string(toolkit.join("nodes.jsonl")).unwrap();
    let first = nodes.lines().count();
    for id in first..first + N_SPARE {
        let text = format!("spare part {} for bottle {}", id % 97, id % 89);
        let node = serde_json::json!(
            {"id": id, "type": "product", "name": format!("Spare {id}"), "details": {"description": text}}
        );
        writeln!(nodes, "{node}").unwrap();
    }
    fs::write(dir.join("nodes.jsonl"), nodes).unwrap();
    let mut queries = "id,query,answer_ids\n".to_owned();
    for id in 0..=N_QUERIES {
        writeln!(queries, "{id},durable steel bottle number {id} from Northpeak,[0]").unwrap();
    }
    fs::write(dir.join("qa.csv"), queries).unwrap();
    let all: String = (0..N_QUERIES).map(|id| format!("{id}\n")).collect();
    fs::write(dir.join("split/val.index"), &all).unwrap();
    fs::write(dir.join("split/train.index"), format!("{N_QUERIES}\n")).unwrap();
}

/// A world with that base, indexed with the built-in embedder.
fn roomy() -> World {
    let world = World::new();
    write_roomy(&world.path("roomy"));
    world.run(["data", "import", "--name", "roomy", "--from", "roomy"]).done();
    world.run(["index", "roomy"]).done();
    world
}

/// A call of a tool with all products wherever it takes nodes or scores, if it takes nothing else
/// that must be given.
fn on_all(spec: &ToolSpec) -> Option<String> {
    let given: Option<Vec<&str>> = spec
        .args
        .iter()
        .filter(|arg| arg.default.is_none())
        .map(|arg| match arg.kind {
            Kind::Text => Some("query"),
            Kind::Nodes => Some("all"),
            Kind::Scores => Some("uniform(all)"),
            _ => None,
        })
        .collect();
    let given = given?;
    match (spec.is_operator(), &given[..]) {
        (true, [left, right]) => Some(format!("{left} {} {right}", spec.name)),
        (true, _) => None,
        (false, _) => Some(format!("{}({})", spec.name, given.join(", "))),
    }
}

/// Programs that each call one tool, as systems of `eval`, with whether each must succeed.
fn write_programs(world: &World) -> Vec<(String, bool)> {
    fs::create_dir(world.path("programs")).unwrap();
    let mut systems = Vec::new();
    for (at, spec) in registry().iter().enumerate() {
        let example = Some(spec.example.to_owned());
        for (kind, call) in [("example", example), ("all", on_all(spec))] {
            let Some(call) = call else { continue };
            let file = format!("programs/{at}-{kind}.rhai");
            let source = format!(
                "// {}\nfn retrieve(query, candidates, params) {{\n    \
                 let all = nodes(get_node_ids_by_type(\"product\"));\n    \
                 let given = {call};\n    #{{}}\n}}\n",
                spec.name
            );
            fs::write(world.path(&file), source).unwrap();
            // No language model is configured, the index has no part `query`, and what a call on all
            // costs is not the matter here.
            let must = spec.group != "llm" && spec.name != "find" && kind == "example"
                || ["similarity", "search_vectors"].contains(&spec.name);
            systems.push((format!("program:{file}"), must));
        }
    }
    systems
}

/// Measures all programs in both sandboxes; all that must do so succeed on every query, unless the
/// embedder knows the queries alone.
#[track_caller]
fn every_tool_ends(world: &World, systems: &[(String, bool)], knows: Knows, service: &Service) {
    for sandbox in ["rhai", "wasm"] {
        let fixed =
            ["eval", "--dataset", "roomy", "--split", "val", "--json", "--sandbox", sandbox];
        let named = systems.iter().flat_map(|(system, _)| ["--system", system]);
        let mut command = world.command(fixed.into_iter().chain(named));
        service.offer(&mut command);
        let ran = ended_within(&mut command, PATIENCE);
        let measured: Vec<Value> =
            ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(measured.len(), systems.len(), "{}", ran.stderr);
        for (measured, (system, must)) in measured.iter().zip(systems) {
            assert_eq!(measured["n"], N_QUERIES, "{measured}");
            let failed = measured["failed"].as_u64().unwrap();
            let excused = !must || knows == Knows::QueriesAlone;
            assert!(excused || failed == 0, "{sandbox}, {system}: {measured}\n{}", ran.stderr);
        }
    }
}

/// Which texts an embedder has vectors for.
#[derive(Clone, Copy, PartialEq)]
enum Knows {
    AllTexts,
    QueriesAlone,
}

fn encoder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/encoder/mean")
}

#[test]
fn every_tool_ends_on_every_embedder_with_more_queries_than_threads() {
    let (world, service) = (roomy(), Service::start());
    let systems = write_programs(&world);
    every_tool_ends(&world, &systems, Knows::AllTexts, &service);

    let candle = format!("candle:{}", encoder().display());
    let nodes: Vec<(u32, [f32; 2])> = product_ids().map(|id| (id, [1.0, id as f32])).collect();
    write_dict(&world.path("emb/doc/candidate_emb_dict.pt"), &nodes);
    let queries: Vec<(u32, [f32; 2])> = (0..=N_QUERIES).map(|id| (id, [1.0, id as f32])).collect();
    write_dict(&world.path("emb/query/query_emb_dict.pt"), &queries);
    let others = [
        (candle.as_str(), Knows::AllTexts),
        ("import:emb", Knows::QueriesAlone),
        ("openai:letters", Knows::AllTexts),
    ];
    for (embedder, knows) in others {
        let mut index = world.command(["index", "roomy", "--embedder", embedder]);
        service.offer(&mut index);
        ended_within(&mut index, PATIENCE).done();
        every_tool_ends(&world, &systems, knows, &service);
    }
}

/// The products of the base: nine of the toolkit's, and those that were added.
fn product_ids() -> impl Iterator<Item = u32> {
    (0..9).chain(16..16 + N_SPARE as u32)
}

#[test]
fn the_loop_ends_on_a_sentence_encoder_whatever_the_number_of_threads() {
    let world = World::shop();
    let candle = format!("candle:{}", encoder().display());
    world.run(["index", "shop", "--embedder", &candle]).done();
    let mut first: Option<Vec<u8>> = None;
    for threads in ["1", "2", "8"] {
        let run = |args: &[&str]| -> Ran {
            let mut command = world.command(args.iter().copied());
            command.env("RAYON_NUM_THREADS", threads);
            ended_within(&mut command, PATIENCE)
        };
        let dir = format!("run-{threads}");
        let bundle = format!("{dir}/bundle.json");
        let system = format!("bundle:{bundle}");
        run(&["optimize", "--dataset", "shop", "--steps", "2", "--run", &dir]).done();
        run(&["eval", "--dataset", "shop", "--split", "val", "--system", &system]).done();
        run(&["explain", "--dataset", "shop", "--bundle", &bundle, "--split", "val"]).done();
        run(&["verify", &bundle, "--dataset", "shop"]).done();
        run(&["query", "--dataset", "shop", "--bundle", &bundle, "a durable bottle"]).done();
        run(&["report", "--run", &dir]).done();
        let bytes = fs::read(world.path(&bundle)).unwrap();
        match &first {
            None => first = Some(bytes),
            Some(first) => assert!(*first == bytes, "another bundle with {threads} threads"),
        }
    }
}

/// Asks for far more threads than are of use.
const MANY: &str = "100000";
/// Longest time from a signal to the end.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

#[test]
fn threads_are_bounded_whatever_is_asked_for() {
    let world = World::indexed();
    let mut doctor = world.command(["doctor", "--json"]);
    let ran = ended_within(doctor.env("RAYON_NUM_THREADS", MANY), STOPS_WITHIN);
    assert!(ran.stderr.contains("100000 threads exceed the limit of 256"), "{}", ran.stderr);
    let threads = ran.json_lines().into_iter().find(|check| check["check"] == "threads").unwrap();
    assert_eq!(threads["detail"], "256");
}

#[cfg(unix)]
#[test]
#[allow(clippy::disallowed_methods, reason = "the test sends a signal to the binary")]
fn a_run_that_asks_for_many_threads_can_be_stopped() {
    let world = World::shop();
    let run = ["optimize", "--dataset", "shop", "--steps", "1000", "--run", "run"];
    let mut command = world.command(run);
    let child = command.env("RAYON_NUM_THREADS", MANY).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(Duration::from_secs(1));
    let mut send = Command::new("kill");
    assert!(send.args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(status_within(child, STOPS_WITHIN), Some(130));
}

/// The exit status of a process that ends in time; else it is killed.
fn status_within(mut child: Child, limit: Duration) -> Option<i32> {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() && began.elapsed() < limit {
        thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    child.wait().unwrap().code()
}
