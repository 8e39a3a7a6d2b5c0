//! Modules, written as WebAssembly text, against the host: what they may do, and how each kind of
//! failure ends a call.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{Code, Failure, FailureKind, Input, Limits, Outcome, Sandbox, WasmSandbox, Workers};
use agent_kb::{NodeId, NodeSet, Scores};
use agent_tools::{ArgSpec, Args, Kind, NodeFlow, ToolError, ToolHost, ToolSpec, Value};

const N_NODES: usize = 100;

type Tool = fn(&Args<'_>) -> Result<Value, ToolError>;

const fn arg(name: &'static str, kind: Kind, default: Option<&'static str>) -> ArgSpec {
    ArgSpec { name, kind, default }
}

const fn spec(name: &'static str, args: &'static [ArgSpec], result: Kind) -> ToolSpec {
    ToolSpec {
        name,
        group: "test",
        args,
        result,
        flow: NodeFlow::Carry,
        cost: "none",
        doc: "",
        example: "",
        cached: false,
        run: |_, _| Err(ToolError::Internal("run by the host of these tests".to_owned())),
    }
}

const NODES: &[ArgSpec] = &[arg("a", Kind::Nodes, None), arg("b", Kind::Nodes, None)];
const SCORES: &[ArgSpec] = &[arg("a", Kind::Scores, None), arg("b", Kind::Number, None)];

static SPECS: [ToolSpec; 7] = [
    spec("all", &[], Kind::Nodes),
    spec("some", &[arg("k", Kind::Int, Some("2"))], Kind::Scores),
    spec("&", NODES, Kind::Nodes),
    spec("*", SCORES, Kind::Scores),
    spec("fails", &[], Kind::Unit),
    spec("panics", &[], Kind::Unit),
    spec("waits", &[], Kind::Unit),
];

const TOOLS: [Tool; 7] = [
    |_| Ok(Value::nodes((0..N_NODES as NodeId).collect::<NodeSet>())),
    |args| {
        let k = if matches!(args.value(0), Value::Unit) { 2 } else { args.count(0)? };
        let pairs = (0..k as NodeId).map(|id| (id, 1.0 / (id + 1) as f32));
        Ok(Value::scores(Scores::new(pairs.collect())))
    },
    |args| Ok(Value::nodes(args.nodes(0)?.intersection(&*args.nodes(1)?))),
    |args| Ok(Value::scores(args.scores(0)?.scale(args.number(1)? as f32))),
    |_| Err(ToolError::NotFound("no such thing".to_owned())),
    |_| std::panic::resume_unwind(Box::new("on purpose")),
    |_| {
        std::thread::sleep(Duration::from_millis(400));
        Ok(Value::Unit)
    },
];

struct TestHost;

impl ToolHost for TestHost {
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError> {
        (TOOLS[tool])(&Args::new(&args))
    }
}

fn sandbox() -> WasmSandbox {
    WasmSandbox::with_tools(Arc::new(Workers::new(1).expect("threads")), &SPECS, None)
}

fn run_bytes(bytes: &[u8], limits: &Limits) -> Result<Outcome, Failure> {
    let sandbox = sandbox();
    let program = sandbox.compile(Code::Wasm(bytes), limits)?;
    let params = BTreeMap::new();
    let input = Input { query: "red", candidates: &[5, 3], params: &params, n_nodes: N_NODES };
    sandbox.run(&program, Box::new(TestHost), input, limits).0
}

fn run_text(text: &str, limits: &Limits) -> Result<Outcome, Failure> {
    run_bytes(&wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{text}")), limits)
}

/// Returns the text of a module that imports all functions of the host and consists of `parts`.
fn with(parts: &str) -> String {
    format!(
        r#"(module
            (import "agent" "take" (func $take (param i32)))
            (import "agent" "give" (func $give (param i32 i32)))
            (import "agent" "read" (func $read (param i32 i32 i32) (result i32)))
            (import "agent" "length" (func $length (param i32) (result i32)))
            (import "agent" "release" (func $release (param i32)))
            (import "agent" "print" (func $print (param i32 i32)))
            (import "agent" "fail" (func $fail (param i32 i32)))
            (import "tools" "all" (func $all (param i32 i32) (result i32)))
            (import "tools" "some" (func $some (param i32 i32) (result i32)))
            (import "tools" "op_and" (func $and (param i32 i32) (result i32)))
            (import "tools" "op_mul" (func $mul (param i32 i32) (result i32)))
            (import "tools" "fails" (func $fails (param i32 i32) (result i32)))
            (import "tools" "panics" (func $panics (param i32 i32) (result i32)))
            (import "tools" "waits" (func $waits (param i32 i32) (result i32)))
            (memory (export "memory") 1)
            ;; An empty list of arguments; an empty map; two nodes with scores.
            (data (i32.const 0) "\09\00\00\00\00")
            (data (i32.const 8) "\0a\00\00\00\00")
            (data (i32.const 16) "\0d\02\00\00\00\03\00\00\00\00\00\00\3f\05\00\00\00\00\00\80\3f")
            {parts})"#
    )
}

/// Returns the text of a module whose `retrieve` has the body `text`.
fn body(text: &str) -> String {
    with(&format!(r#"(func (export "retrieve") (param $n i32) {text})"#))
}

fn run(text: &str) -> Result<Outcome, Failure> {
    run_text(&body(text), &Limits::default())
}

fn kind(text: &str) -> FailureKind {
    run(text).expect_err(text).kind
}

const GIVES: &str = "(call $give (i32.const 16) (i32.const 21))";

#[test]
fn a_module_gives_a_ranking() {
    let outcome = run(GIVES).expect("runs");
    assert_eq!(outcome.ranking, [(5, 1.0), (3, 0.5)]);
    assert_eq!((outcome.usage.tool_calls, outcome.usage.leaked_bytes), (0, 0));
    assert_eq!(outcome.usage.peak_bytes, 64 << 10);
    assert_eq!(run("(call $give (i32.const 8) (i32.const 5))").expect("runs").ranking, []);
}

#[test]
fn what_it_is_told_and_what_tools_give_are_taken() {
    // The last byte of the query's text, as the score of node 3: `d` is 100.
    let text = r#"
        (call $take (i32.const 100))
        (f32.store (i32.const 25) (f32.convert_i32_u (i32.load8_u (i32.const 112))))
        (call $give (i32.const 16) (i32.const 21))"#;
    assert_eq!(run(text).expect("runs").ranking, [(3, 100.0), (5, 1.0)]);
    // The scores that a tool returned are the result.
    let text = r#"
        (local $got i32)
        (local.set $got (call $some (i32.const 0) (i32.const 5)))
        (call $take (i32.const 100))
        (call $give (i32.const 100) (local.get $got))"#;
    let outcome = run(text).expect("runs");
    assert_eq!((outcome.ranking, outcome.usage.tool_calls), (vec![(0, 1.0), (1, 0.5)], 1));
    // Two handles in a list of arguments for an operator; the length and content of the result.
    let text = r#"
        (local $got i32)
        (drop (call $all (i32.const 0) (i32.const 5)))
        (call $take (i32.const 205))
        (i32.store8 (i32.const 200) (i32.const 9))
        (i32.store (i32.const 201) (i32.const 2))
        (i64.store (i32.const 214) (i64.load (i32.const 205)))
        (i32.store8 (i32.const 222) (i32.load8_u (i32.const 213)))
        (local.set $got (call $and (i32.const 200) (i32.const 23)))
        (call $take (i32.const 300))
        (if (i32.ne (call $length (i32.load (i32.const 301))) (i32.const 100)) (then unreachable))
        (if (i32.ne (call $read (i32.load (i32.const 301)) (i32.const 400) (i32.const 8))
                    (i32.const 8)) (then unreachable))
        (if (i32.ne (i32.load (i32.const 404)) (i32.const 1)) (then unreachable))
        (call $release (i32.load (i32.const 301)))
        (call $give (i32.const 8) (i32.const 5))"#;
    assert_eq!(run(text).expect("runs").usage.tool_calls, 2);
}

#[test]
fn every_way_to_end_has_its_kind() {
    for (text, expected) in [
        ("(loop $l (br $l))", FailureKind::Operations),
        ("unreachable", FailureKind::Runtime),
        ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", FailureKind::Runtime),
        ("(drop (i32.load (i32.const 65536)))", FailureKind::Runtime),
        ("(drop (call $fails (i32.const 0) (i32.const 5)))", FailureKind::Tool),
        ("(drop (call $panics (i32.const 0) (i32.const 5)))", FailureKind::Panic),
        ("(call $fail (i32.const 0) (i32.const 0))", FailureKind::Runtime),
        // No result; one that is cut; one outside of memory; one that names an unknown handle.
        ("", FailureKind::Result),
        ("(call $give (i32.const 16) (i32.const 20))", FailureKind::Result),
        ("(call $give (i32.const 65530) (i32.const 20))", FailureKind::Runtime),
        ("(call $give (i32.const -1) (i32.const -1))", FailureKind::Memory),
        (
            "(i32.store8 (i32.const 16) (i32.const 7)) (call $give (i32.const 16) (i32.const 9))",
            FailureKind::Result,
        ),
        // Handles that are not held.
        ("(drop (call $length (i32.const 65536)))", FailureKind::Runtime),
        ("(call $release (i32.const 0))", FailureKind::Runtime),
        ("(drop (call $read (i32.const -1) (i32.const 0) (i32.const 4)))", FailureKind::Runtime),
        // Arguments that are not a list, too many, or outside of memory.
        ("(drop (call $all (i32.const 8) (i32.const 5)))", FailureKind::Tool),
        ("(drop (call $and (i32.const 0) (i32.const 5)))", FailureKind::Tool),
        ("(drop (call $all (i32.const 65535) (i32.const 5)))", FailureKind::Runtime),
        (
            "(loop $l (drop (call $all (i32.const 0) (i32.const 5))) (br $l))",
            FailureKind::ToolBudget,
        ),
        ("(loop $l (call $print (i32.const 0) (i32.const 1000)) (br $l))", FailureKind::Output),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn memory_tables_and_stack_are_bounded() {
    // The module sees that growth was refused; if it traps after that, the failure is `Memory`.
    let grows = "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 256)) (i32.const -1))))";
    let failure = run(&format!("{grows} unreachable")).expect_err("too large");
    assert_eq!(failure.kind, FailureKind::Memory);
    assert!(failure.message.contains("more than 288 MiB"), "{}", failure.message);
    let outcome = run(&format!("{grows} {GIVES}")).expect("goes on");
    assert!(outcome.usage.peak_bytes <= Limits::default().memory_bytes + (32 << 20));

    let deep = with(
        r#"(func $f (param i32) (result i32) (i32.add (i32.const 1) (call $f (local.get 0))))
           (func (export "retrieve") (param i32) (drop (call $f (local.get 0))))"#,
    );
    assert_eq!(run_text(&deep, &Limits::default()).expect_err("deep").kind, FailureKind::Depth);

    let first = r#"(module (memory (export "memory") 65536)
        (func (export "retrieve") (param i32)))"#;
    assert_eq!(run_text(first, &Limits::default()).expect_err("big").kind, FailureKind::Memory);
    let table = r#"(module (memory (export "memory") 1) (table 10000000 funcref)
        (func (export "retrieve") (param i32)))"#;
    assert!(run_text(table, &Limits::default()).is_err());
    let two = r#"(module (memory (export "memory") 1) (memory 1)
        (func (export "retrieve") (param i32)))"#;
    assert_eq!(run_text(two, &Limits::default()).expect_err("two").kind, FailureKind::Parse);
}

#[test]
fn time_is_bounded_and_that_of_tools_does_not_count() {
    let limits = Limits {
        deadline: Duration::from_millis(200),
        operations: u64::MAX / 1_000,
        ..Limits::default()
    };
    let failure = run_text(&body("(loop $l (br $l))"), &limits).expect_err("late");
    assert_eq!(failure.kind, FailureKind::Deadline);
    assert!(failure.usage.ms >= 200.0 && failure.usage.ms < 5_000.0, "{}", failure.usage.ms);
    let waits = format!("(drop (call $waits (i32.const 0) (i32.const 5))) {GIVES}");
    let outcome = run_text(&body(&waits), &limits).expect("a tool may take its time");
    assert!(outcome.usage.ms >= 400.0);
    // The time of a module's start function counts too.
    let starts =
        with("(func $s (loop $l (br $l))) (start $s) (func (export \"retrieve\") (param i32))");
    assert_eq!(run_text(&starts, &limits).expect_err("late").kind, FailureKind::Deadline);
}

#[test]
fn fuel_is_the_same_on_any_number_of_threads() {
    let text = body(&format!(
        "(local $i i32) (loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
         (br_if $l (i32.lt_u (local.get $i) (i32.const 1000000)))) {GIVES}"
    ));
    let bytes = wat::parse_str(text).expect("a module");
    let limits = Limits::default();
    let used = |threads: usize| {
        let workers = Arc::new(Workers::new(threads).expect("threads"));
        let sandbox = WasmSandbox::with_tools(workers, &SPECS, None);
        let program = sandbox.compile(Code::Wasm(&bytes), &limits).expect("compiles");
        let used = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..2 * threads)
                .map(|_| {
                    scope.spawn(|| {
                        let params = BTreeMap::new();
                        let (query, candidates) = ("red", &[][..]);
                        let input = Input { query, candidates, params: &params, n_nodes: N_NODES };
                        sandbox.run(&program, Box::new(TestHost), input, &limits).0
                    })
                })
                .collect();
            runs.into_iter()
                .map(|run| run.join().expect("no panic").expect("runs").usage.operations)
                .collect::<Vec<u64>>()
        });
        assert!(used.iter().all(|operations| *operations == used[0]), "{used:?}");
        used[0]
    };
    assert_eq!(used(1), used(2));
}

#[test]
fn modules_that_cannot_be_run_are_refused() {
    let limits = Limits::default();
    let kind = |text: &str| run_text(text, &limits).expect_err(text).kind;
    let module = |parts: &str| format!("(module {parts})");
    let retrieve = "(func (export \"retrieve\") (param i32))";
    assert_eq!(kind("(module)"), FailureKind::MissingFunction);
    assert_eq!(kind(&module(retrieve)), FailureKind::MissingFunction);
    let memory = "(memory (export \"memory\") 1)";
    let wrong = [
        "(func (export \"retrieve\"))",
        "(func (export \"retrieve\") (param i64))",
        "(func (export \"retrieve\") (param i32) (result i32) i32.const 0)",
    ];
    for wrong in wrong {
        assert_eq!(kind(&module(&format!("{memory} {wrong}"))), FailureKind::MissingFunction);
    }
    for import in [
        "(import \"wasi_snapshot_preview1\" \"fd_write\" (func))",
        "(import \"tools\" \"nothing\" (func (param i32 i32) (result i32)))",
        "(import \"tools\" \"all\" (func (param i64)))",
        "(import \"rhai\" \"call\" (func (param i32 i32 i32) (result i32)))",
        "(import \"env\" \"memory\" (memory 1))",
    ] {
        let text = module(&format!("{import} {memory} {retrieve}"));
        assert_eq!(kind(&text), FailureKind::Parse, "{import}");
    }
    for bytes in [
        &b""[..],
        b"\0asm",
        b"fn retrieve(query, candidates, params) {}",
        b"\0asm\x01\0\0\0\x0a\x01",
    ] {
        assert_eq!(run_bytes(bytes, &limits).expect_err("no module").kind, FailureKind::Parse);
    }
    let small = Limits { module_bytes: 10, ..limits.clone() };
    let failure = run_text(&module(retrieve), &small).expect_err("too long");
    assert_eq!(failure.kind, FailureKind::Parse);
}

#[test]
fn a_module_declares_its_parameters() {
    // #{ k: 7 } as a fixed integer.
    let text = with(
        r#"(data (i32.const 500) "\0a\01\00\00\00\01\00\00\00k\03\07\00\00\00\00\00\00\00")
           (func (export "params") (call $give (i32.const 500) (i32.const 19)))
           (func (export "retrieve") (param i32) (call $give (i32.const 8) (i32.const 5)))"#,
    );
    let (sandbox, limits) = (sandbox(), Limits::default());
    let bytes = wat::parse_str(text).expect("a module");
    let program = sandbox.compile(Code::Wasm(&bytes), &limits).expect("compiles");
    let declared = sandbox.declared_params(&program, &limits).expect("declared");
    assert_eq!((declared.len(), declared[0].name.as_str(), declared[0].value), (1, "k", 7.0));
    assert!(declared[0].integer && sandbox.reads_candidates(&program));
    // Tools cannot be called in `params`.
    let text = with(
        r#"(func (export "params") (drop (call $all (i32.const 0) (i32.const 5))))
           (func (export "retrieve") (param i32))"#,
    );
    assert_eq!(run_text(&text, &limits).expect_err("no tools").kind, FailureKind::Tool);
}

#[test]
fn a_module_of_the_largest_functions_is_compiled_or_given_up() {
    // As many functions of almost 128 KiB as are allowed, each with the most variables.
    let step = "local.get 1 local.get 0 i64.extend_i32_u i64.add local.set 1 ";
    let function =
        format!("(func (param i32){} {})", " (local i64)".repeat(29), step.repeat(14_000));
    let text = format!(
        "(module (memory (export \"memory\") 1) {} (func (export \"retrieve\") (param i32)))",
        function.repeat(6)
    );
    let bytes = wat::parse_str(text).expect("a module");
    let limits = Limits::default();
    assert!(bytes.len() > 600 << 10 && bytes.len() < limits.module_bytes, "{}", bytes.len());
    let began = std::time::Instant::now();
    let compiled = sandbox().compile(Code::Wasm(&bytes), &limits);
    let took = began.elapsed();
    assert!(compiled.is_ok() || took >= limits.compile_deadline);
    assert!(took < limits.compile_deadline + Duration::from_secs(30), "{took:?}");
}
