//! Programs in both engines on the example base: equal answers, equal failures, equal counts of
//! operations on any number of threads.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{Arc, LazyLock},
    thread,
};

use agent::{
    infer::{ParamValues, Runtime},
    program::Program,
    sandbox::{Failure, FailureKind, Outcome, Place, SandboxOptions, Workers},
    tools::EXAMPLE_QUERY,
};
use proptest::{prelude::*, strategy::ValueTree as _};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::{
    support::{self, World},
    toolkit,
};

/// Compiled code of all tests of this binary.
static CODE: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// The example base with programs inside WebAssembly.
pub(crate) static INSIDE: LazyLock<Runtime> = LazyLock::new(|| inside(2));

fn inside(threads: usize) -> Runtime {
    let options = SandboxOptions { place: Place::Wasm, code_dir: Some(CODE.path().to_owned()) };
    let workers = Arc::new(Workers::new(threads).unwrap());
    Runtime::in_sandbox(toolkit::RUNTIME.base().clone(), workers, None, &options)
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn run(runtime: &Runtime, program: &Program, query: &str) -> Result<Outcome, Failure> {
    let compiled = runtime.compile(program)?;
    runtime.run(&compiled, &ParamValues::new(), query, None).unwrap()
}

/// What a program must do alike in both engines.
pub(crate) type Alike = Result<(Vec<(u32, f32)>, u64, u64), FailureKind>;

fn alike(ran: Result<Outcome, Failure>) -> Alike {
    ran.map(|outcome| (outcome.ranking, outcome.usage.operations, outcome.usage.tool_calls))
        .map_err(|failure| failure.kind)
}

pub(crate) fn both(source: &str, query: &str) -> (Alike, Alike) {
    let program = Program::new(source);
    (alike(run(&toolkit::RUNTIME, &program, query)), alike(run(&INSIDE, &program, query)))
}

#[test]
fn examples_of_the_toolkit_rank_alike_in_both_engines() {
    let mut n = 0;
    for entry in fs::read_dir(root().join("toolkits/stark/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rhai") {
            let source = fs::read_to_string(&path).unwrap();
            let (here, inside) = both(&source, EXAMPLE_QUERY);
            assert!(here.is_ok(), "{}: {here:?}", path.display());
            assert_eq!(here, inside, "{}", path.display());
            n += 1;
        }
    }
    assert!(n >= 4);
    for spec in agent::tools::registry() {
        let source = format!(
            "fn retrieve(query, candidates, params) {{ let x = {}; print(x); #{{}} }}",
            spec.example
        );
        let (here, inside) = both(&source, EXAMPLE_QUERY);
        assert_eq!(here, inside, "{}", spec.example);
    }
}

/// Text of an expression that may or may not work.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("query".to_owned()),
        Just("candidates".to_owned()),
        Just("params".to_owned()),
        Just("x".to_owned()),
        Just("search(query, \"product\", 5)".to_owned()),
        Just("link(query)".to_owned()),
        Just("uniform(candidates)".to_owned()),
        Just("#{ \"1\": 0.5 }".to_owned()),
        Just("[1, 2.5, \"t\"]".to_owned()),
        (-3i64..9).prop_map(|number| number.to_string()),
        (-2i8..9).prop_map(|number| format!("{number}.5")),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let operators = ["+", "-", "*", "/", "&", "|", "==", "<", "%", "in", "&&"];
        prop_oneof![
            (inner.clone(), 0..operators.len(), inner.clone())
                .prop_map(move |(a, at, b)| format!("({a} {} {b})", operators[at])),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            inner.clone().prop_map(|a| format!("{a}.len()")),
            inner.clone().prop_map(|a| format!("top({a}, 3)")),
            inner.clone().prop_map(|a| format!("normalize({a})")),
            inner.clone().prop_map(|a| format!("nodes({a})")),
            inner.clone().prop_map(|a| format!("similarity(query, {a})")),
            inner.clone().prop_map(|a| format!("{a}.to_string()")),
            inner.clone().prop_map(|a| format!("[{a}].map(|y| y)")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("(if {a} {{ {b} }} else {{ {c} }})")),
        ]
    })
}

/// Text of a whole program.
fn program_text() -> impl Strategy<Value = String> {
    let statement = prop_oneof![
        expression().prop_map(|a| format!("x = {a};")),
        expression().prop_map(|a| format!("for y in {a} {{ x = y; n += 1; }}")),
        expression().prop_map(|a| format!("if n < 3 {{ n += 1; x = {a}; }}")),
        expression().prop_map(|a| format!("try {{ x = {a}; }} catch {{ n += 1; }}")),
        expression().prop_map(|a| format!("m[`${{n}}`] = {a};")),
    ];
    let end = prop_oneof![Just("m".to_owned()), Just("x".to_owned()), expression()];
    (prop::collection::vec(statement, 0..5), end).prop_map(|(statements, end)| {
        let body = statements.join("\n    ");
        format!(
            "fn retrieve(query, candidates, params) {{\n    let x = 1; let n = 0; let m = #{{}};\n    \
             {body}\n    {end}\n}}"
        )
    })
}

#[test]
fn generated_programs_do_alike_in_both_engines() {
    let (ranked, n) = (Cell::new(0), Cell::new(0));
    let config = ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let checked = runner.run(&program_text(), |source| {
        let (here, inside) = both(&source, EXAMPLE_QUERY);
        ranked.set(ranked.get() + u32::from(here.is_ok()));
        n.set(n.get() + 1);
        prop_assert_eq!(here, inside, "{}", source);
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
    let (ranked, n) = (ranked.get(), n.get());
    assert!(ranked * 20 > n, "only {ranked} of {n} programs rank anything");
}

/// The process's memory, bytes; `None` where the system does not say.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Programs of which equal counts are asked.
const COUNTED: usize = 400;

/// Programs that hop, search and loop, one for each number.
fn counting_program(number: usize) -> String {
    let (turns, k) = (number * 7 % 50, 1 + number % 10);
    let weight = (number % 8) as f64 / 4.0;
    let body = match number / 4 % 4 {
        0 => format!("search(query, \"product\", {k}) + uniform(candidates) * {weight:.2}"),
        1 => format!("hop(link(query, \"brand\", {k}), \"has_brand\", \"in\").normalize()"),
        2 => format!(
            "let m = #{{}}; for id in candidates {{ if m.len() < {k} {{ m[`${{id}}`] = {weight:.2} }} }} m"
        ),
        _ => format!(
            "let s = uniform(candidates); for i in 0..{turns} {{ s = top(s * {weight:.2} + match_text(query, candidates), {k}) }} s"
        ),
    };
    format!(
        "fn retrieve(query, candidates, params) {{\n    let n = 0;\n    \
         for i in 0..{turns} {{ if i % 3 == 0 {{ n += `${{i}}`.len() }} else {{ n -= 1 }} }}\n    \
         {body}\n}}"
    )
}

/// Operations, tool calls and rankings are the same on one thread and on two that share a runtime,
/// in both engines: fuel depends on nothing but program, query and base.
#[test]
fn generated_programs_count_alike_on_any_number_of_threads_and_in_both_engines() {
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let generated = program_text();
    let programs: Vec<Program> = (0..COUNTED)
        .map(|number| match number % 4 {
            0..3 => Program::new(&counting_program(number)),
            _ => Program::new(&generated.new_tree(&mut runner).unwrap().current()),
        })
        .collect();
    let alone = Workers::new(1).unwrap();
    let alone = Runtime::new(toolkit::RUNTIME.base().clone(), Arc::new(alone), None);
    let expected: Vec<Alike> =
        programs.iter().map(|program| alike(run(&alone, program, EXAMPLE_QUERY))).collect();
    let ranked = expected.iter().filter(|ran| ran.is_ok()).count();
    assert!(ranked * 3 > COUNTED * 2, "only {ranked} of {COUNTED} programs rank anything");
    for (engine, runtime) in [("this process", &*toolkit::RUNTIME), ("WebAssembly", &*INSIDE)] {
        // From both ends, so that at any time the two threads run different programs.
        let forth: Vec<usize> = (0..COUNTED).collect();
        let back: Vec<usize> = forth.iter().rev().copied().collect();
        thread::scope(|scope| {
            for order in [forth, back] {
                let (programs, expected) = (&programs, &expected);
                scope.spawn(move || {
                    for at in order {
                        let ran = alike(run(runtime, &programs[at], EXAMPLE_QUERY));
                        assert_eq!(ran, expected[at], "{engine}: {}", programs[at].source());
                    }
                });
            }
        });
    }
}

/// Calls of which a twentieth is hostile; `AGENT_SOAK_CALLS` sets another number.
#[test]
fn many_calls_leave_nothing_behind() {
    let calls = std::env::var("AGENT_SOAK_CALLS").ok();
    let calls: usize = calls.map_or(20_000, |calls| calls.parse().unwrap());
    let runtime = inside(1);
    let good = "fn retrieve(query, candidates, params) {\n    \
                normalize(search(query, \"product\", 10)) + uniform(candidates) * 0.1\n}";
    let good = runtime.compile(&Program::new(good)).unwrap();
    let bad: Vec<_> = [
        "let a = []; loop { a.push(1) }",
        "throw \"no\"",
        "#{ \"999999\": 1.0 }",
        "let s = \"x\"; loop { s += s }",
        "search(query, \"nothing of that type\", 1)",
        "let a = []; a.pad(10000, 7); let f = || a; a.push(f); throw \"leak\"",
    ]
    .iter()
    .map(|body| {
        let body = body.replace("loop { a.push(1) }", "for i in 0..2000 { a.push(1) } throw 1");
        let source = format!("fn retrieve(query, candidates, params) {{ {body} }}");
        runtime.compile(&Program::new(&source)).unwrap()
    })
    .collect();
    let none = ParamValues::new();
    let answer = |program| runtime.run(program, &none, EXAMPLE_QUERY, None).unwrap();
    let expected = answer(&good).unwrap().ranking;
    let mut before = None;
    for call in 0..calls {
        if call % 20 == 7 {
            assert!(answer(&bad[call / 20 % bad.len()]).is_err());
        } else {
            assert_eq!(answer(&good).unwrap().ranking, expected);
        }
        if call == calls / 10 {
            before = resident();
        }
    }
    // Other tests of this process hold memory meanwhile, so the bound is checked where it runs alone.
    if let (Some(before), Some(after), true) =
        (before, resident(), std::env::var_os("AGENT_SOAK_CALLS").is_some())
    {
        let grown = after.saturating_sub(before);
        eprintln!("{calls} calls: memory grew by {} kB", grown >> 10);
        assert!(grown < 10 << 20, "memory grew by {grown} bytes");
    }
}

#[test]
fn the_built_engine_is_what_its_sources_say() {
    let dir = root().join("sandboxes/wasm");
    let noted = fs::read_to_string(dir.join("rhai.digest")).unwrap();
    let noted: BTreeMap<&str, &str> =
        noted.lines().filter_map(|line| line.split_once("  ")).map(|(a, b)| (b, a)).collect();
    assert!(noted.len() > 15, "{noted:?}");
    for (file, digest) in noted {
        let bytes = fs::read(root().join(file)).unwrap();
        let now: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            now, digest,
            "{file} changed since the engine was built; run sandboxes/wasm/build.sh"
        );
    }
    assert!(fs::metadata(dir.join("rhai.wasm")).unwrap().len() < 2_500_000);
}

/// The examples in other languages find what their Rhai twin finds.
#[test]
fn modules_of_other_languages_rank_as_the_example_in_rhai() {
    let source = fs::read_to_string(root().join("sandboxes/wasm/examples/brand_then_text.rhai"));
    let expected = run(&toolkit::RUNTIME, &Program::new(&source.unwrap()), EXAMPLE_QUERY).unwrap();
    assert!(!expected.ranking.is_empty());
    for file in ["rust.wasm", "assemblyscript.wasm"] {
        let bytes = fs::read(root().join("sandboxes/wasm/examples").join(file)).unwrap();
        assert!(bytes.len() < 50_000, "{file} has {} bytes", bytes.len());
        let program = Program::module(&bytes);
        let compiled = INSIDE.compile(&program).unwrap();
        let declared = INSIDE.declared_params(&compiled).unwrap();
        let names: Vec<&str> = declared.iter().map(|param| param.name.as_str()).collect();
        assert_eq!(names, ["k", "w_text"], "{file}");
        let ran = run(&toolkit::RUNTIME, &program, EXAMPLE_QUERY);
        let ran = ran.unwrap_or_else(|failure| panic!("{file}: {failure}"));
        assert_eq!(ran.ranking, expected.ranking, "{file}");
        assert_eq!(ran.usage.tool_calls, expected.usage.tool_calls, "{file}");
        let params = ParamValues::from([("k".to_owned(), 1.0)]);
        let one = INSIDE.run(&compiled, &params, EXAMPLE_QUERY, None).unwrap().unwrap();
        assert_eq!(one.ranking, expected.ranking[..1], "{file}");
    }
}

#[test]
fn the_command_line_runs_modules_and_chooses_the_engine() {
    let world = World::indexed();
    let source = "fn retrieve(query, candidates, params) { search(query, \"product\", 5) }";
    fs::write(world.path("program.rhai"), source).unwrap();
    let module = r#"(module
        (import "tools" "search" (func $search (param i32 i32) (result i32)))
        (import "agent" "take" (func $take (param i32)))
        (import "agent" "give" (func $give (param i32 i32)))
        (memory (export "memory") 1)
        (data (i32.const 0) "\09\03\00\00\00\05\0a\00\00\00steel dart\05\07\00\00\00product")
        (data (i32.const 32) "\03\05\00\00\00\00\00\00\00")
        (func (export "retrieve") (param i32) (local $got i32)
            (local.set $got (call $search (i32.const 0) (i32.const 41)))
            (call $take (i32.const 100))
            (call $give (i32.const 100) (local.get $got))))"#;
    fs::write(world.path("program.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let ran = |args: &[&str]| {
        let always = ["--dataset", "tiny", "--query", "steel dart", "--json"];
        let all = ["program", "run"].iter().chain(args).chain(&always).copied();
        let ran = world.run(all);
        assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
        let ran: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        ran["ranking"].clone()
    };
    let expected = ran(&["program.rhai", "--sandbox", "rhai"]);
    assert!(expected.as_array().is_some_and(|ranking| !ranking.is_empty()));
    assert_eq!(ran(&["program.rhai", "--sandbox", "wasm"]), expected);
    assert_eq!(ran(&["program.rhai"]), expected);
    assert_eq!(ran(&["program.wasm"]), expected);
    // Compiled code is kept, for the owner only.
    let code = support::state().join("code");
    let kept = fs::read_dir(code).map_or(0, |files| files.count());
    assert!(kept >= 3, "{kept} files: a key, the engine, the module");
    let eval = ["eval", "--dataset", "tiny", "--system", "program:program.rhai", "--split", "val"];
    world.run(eval.into_iter().chain(["--sandbox", "other"])).fails(2, &["rhai, wasm"]);
}
