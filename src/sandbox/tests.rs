//! Ordinary and hostile programs, run by the hardened engine in this process and inside
//! WebAssembly.

mod literals;
mod twin;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crate::{
    Code, CompiledProgram, Failure, FailureKind, Input, Limits, Outcome, RhaiSandbox, Sandbox,
    Workers,
};
use agent_kb::{Combine, NodeId, NodeSet, Scores};
use agent_tools::{ArgSpec, Args, Kind, NodeFlow, ToolError, ToolHost, ToolSpec, Value};

const N_NODES: usize = 10_000;
/// Maximum time by which one step of the engine may overrun a deadline.
const LATE: Duration = Duration::from_millis(250);
/// Maximum number of bytes by which one step of the engine may overrun a heap budget.
const OVER: u64 = 64 << 20;

const fn arg(name: &'static str, kind: Kind, default: Option<&'static str>) -> ArgSpec {
    ArgSpec { name, kind, default }
}

/// Function of a test tool, which does not use the base.
type Tool = fn(&Args<'_>) -> Result<Value, ToolError>;

const fn spec(
    name: &'static str,
    args: &'static [ArgSpec],
    result: Kind,
    run: Tool,
) -> (ToolSpec, Tool) {
    let spec = ToolSpec {
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
    };
    (spec, run)
}

const N_TOOLS: usize = 14;

static SPECS: [ToolSpec; N_TOOLS] = {
    let mut specs = [TOOLS[0].0; N_TOOLS];
    let mut at = 1;
    while at < N_TOOLS {
        specs[at] = TOOLS[at].0;
        at += 1;
    }
    specs
};

const TOOLS: [(ToolSpec, Tool); N_TOOLS] = [
    spec(
        "search",
        &[arg("query", Kind::Text, None), arg("k", Kind::Int, Some("3"))],
        Kind::Scores,
        |args| {
            let k = if matches!(args.value(1), Value::Unit) { 3 } else { args.count(1)? };
            let pairs = (0..k as NodeId).map(|id| (id, 1.0 / (id + 1) as f32)).collect();
            args.text(0)?;
            Ok(Value::scores(Scores::new(pairs)))
        },
    ),
    spec("all", &[], Kind::Nodes, |_| {
        Ok(Value::nodes((0..N_NODES as NodeId).collect::<NodeSet>()))
    }),
    spec("set", &[arg("ids", Kind::Nodes, None)], Kind::Nodes, |args| {
        Ok(Value::Nodes(args.nodes(0)?))
    }),
    spec(
        "top",
        &[arg("scores", Kind::Scores, None), arg("k", Kind::Int, None)],
        Kind::Scores,
        |args| Ok(Value::scores(args.scores(0)?.top(args.count(1)?))),
    ),
    spec("&", &[arg("a", Kind::Nodes, None), arg("b", Kind::Nodes, None)], Kind::Nodes, |args| {
        Ok(Value::nodes(args.nodes(0)?.intersection(&*args.nodes(1)?)))
    }),
    spec(
        "+",
        &[arg("a", Kind::Scores, None), arg("b", Kind::Scores, None)],
        Kind::Scores,
        |args| Ok(Value::scores(args.scores(0)?.combine(args.scores(1)?, Combine::Sum))),
    ),
    spec(
        "*",
        &[arg("a", Kind::Scores, None), arg("by", Kind::Number, None)],
        Kind::Scores,
        |args| Ok(Value::scores(args.scores(0)?.scale(args.number(1)? as f32))),
    ),
    spec("echo", &[arg("value", Kind::Any, None)], Kind::Any, |args| Ok(args.value(0).clone())),
    spec("kind", &[arg("value", Kind::Any, None)], Kind::Text, |args| {
        Ok(Value::text(args.value(0).describe()))
    }),
    spec("fails", &[], Kind::Unit, |_| Err(ToolError::NotFound("no such thing".to_owned()))),
    spec("broke", &[], Kind::Unit, |_| Err(ToolError::Budget("no tokens left".to_owned()))),
    spec("panics", &[arg("value", Kind::Any, Some("0"))], Kind::Unit, |_| {
        std::panic::resume_unwind(Box::new("on purpose"))
    }),
    spec("vector", &[], Kind::Vector, |_| Ok(Value::Vector(Arc::from([0.5f32, 2.0])))),
    spec("big", &[], Kind::Scores, |_| {
        Ok(Value::scores(Scores::new((0..1_000_000).map(|id| (id, 1.0)).collect())))
    }),
];

/// Host that calls the tools above and records each call.
#[derive(Default)]
struct TestHost {
    calls: Vec<usize>,
}

impl ToolHost for TestHost {
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError> {
        self.calls.push(tool);
        (TOOLS[tool].1)(&Args::new(&args))
    }
}

fn sandbox() -> &'static RhaiSandbox {
    static SANDBOX: OnceLock<RhaiSandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        RhaiSandbox::with_tools(Arc::new(Workers::new(2).expect("threads")), &SPECS)
    })
}

/// Returns a program whose `retrieve` has the body `text`.
fn body(text: &str) -> String {
    format!("fn retrieve(query, candidates, params) {{\n{text}\n}}")
}

fn run_with(
    program: &CompiledProgram,
    params: &BTreeMap<String, f64>,
    limits: &Limits,
) -> Result<Outcome, Failure> {
    let input = Input { query: "red shoes", candidates: &[5, 3, 9], params, n_nodes: N_NODES };
    let (result, _) = sandbox().run(program, Box::<TestHost>::default(), input, limits);
    let usage = match &result {
        Ok(outcome) => outcome.usage,
        Err(failure) => failure.usage,
    };
    // The deadline is processor time, and `usage.ms` is wall time of the call alone: waiting for a
    // worker that is busy with another test is not counted.
    let most = (limits.deadline + LATE) * agent_ground::clock::WALL_PER_WORK;
    assert!(usage.ms <= most.as_secs_f64() * 1e3, "took {} ms", usage.ms);
    assert!(usage.peak_bytes <= limits.memory_bytes + OVER, "held {} bytes", usage.peak_bytes);
    result
}

/// Runs a source in this process and inside WebAssembly, compares the results, and returns the one
/// of this process.
fn run_source(source: &str, limits: &Limits) -> Result<Outcome, Failure> {
    let none = BTreeMap::new();
    let program = sandbox().compile(Code::Rhai(source), limits);
    let ran = program.and_then(|program| run_with(&program, &none, limits));
    let program = twin::inside().compile(Code::Rhai(source), limits);
    let twin = program.and_then(|program| twin::run_inside(&program, &none, limits));
    twin::compare(source, &ran, &twin);
    ran
}

fn run(text: &str) -> Result<Outcome, Failure> {
    run_source(&body(text), &Limits::default())
}

fn kind(text: &str) -> FailureKind {
    kind_with(text, &Limits::default())
}

fn kind_with(text: &str, limits: &Limits) -> FailureKind {
    match run_source(&body(text), limits) {
        Ok(outcome) => panic!("ran: {outcome:?}\n{text}"),
        Err(failure) => failure.kind,
    }
}

fn printed(text: &str) -> String {
    run(&format!("{text}; #{{}}")).expect(text).output
}

#[test]
fn a_program_ranks_by_score_then_id() {
    let outcome = run(
        "let m = #{}; for id in candidates { m[id.to_string()] = if id == 9 { 2 } else { 1.5 } } m",
    )
    .expect("runs");
    assert_eq!(outcome.ranking, [(9, 2.0), (3, 1.5), (5, 1.5)]);
    assert!(outcome.usage.operations > 10 && outcome.usage.peak_bytes > 0);
    assert_eq!((outcome.usage.tool_calls, outcome.usage.leaked_bytes), (0, 0));
}

#[test]
fn tools_are_functions_methods_and_operators() {
    let outcome = run("let s = search(query) + search(query, 2) * 10; s.top(2)").expect("runs");
    assert_eq!(outcome.ranking, [(0, 11.0), (1, 5.5)]);
    assert_eq!(outcome.usage.tool_calls, 5);
    assert_eq!(printed("print((all() & [3, 7, 5]).len)"), "3\n");
    assert_eq!(printed("print(1 + 1); print([1] + [2]); print(6 & 3)"), "2\n[1, 2]\n2\n");
}

#[test]
fn handles_behave_like_values_of_the_language() {
    assert_eq!(
        printed("let n = set([9, 2]); print(n); print(n[0] + n[-1]); print(9 in n); print(4 in n)"),
        "nodes(2)\n11\ntrue\nfalse\n"
    );
    assert_eq!(
        printed("let s = search(query); print(s); print(s[1]); print(s[77]); print(s[\"0\"])"),
        "scores(3)\n0.5\n0.0\n1.0\n"
    );
    assert_eq!(
        printed(
            "for id in search(query) { print(id) } for (id, i) in set([4, 2]) { print(`${i}:${id}`) }"
        ),
        "0\n1\n2\n0:2\n1:4\n"
    );
    assert_eq!(
        printed("print(vector()); print(vector()[1]); print([all()])"),
        "vector(2)\n2.0\n[nodes(10000)]\n"
    );
    assert_eq!(
        printed("print(type_of(all())); print(set([1]) == set([1])); print(set([1]) == set([2]))"),
        "nodes\ntrue\nfalse\n"
    );
    assert_eq!(kind("set([1])[1]"), FailureKind::Runtime);
}

#[test]
fn values_cross_to_tools_and_back() {
    assert_eq!(
        printed("print(echo([1, 2.5, true, \"x\", 'c', (), #{a: [1]}, 1..3, 1..=3]))"),
        "[1, 2.5, true, \"x\", \"c\", (), #{\"a\": [1]}, [1, 2], [1, 2, 3]]\n"
    );
    assert_eq!(printed("let x = 1; let f = || x; x += 1; print(kind(x))"), "int\n");
    let failure = run("echo(|x| x)").expect_err("closures stay inside");
    assert_eq!(failure.kind, FailureKind::Tool);
    assert!(failure.message.starts_with("echo: "), "{}", failure.message);
    assert_eq!(failure.position.map(|at| at.line), Some(2));
    assert_eq!(kind("echo(0..1000000)"), FailureKind::Tool);
    assert_eq!(kind("echo(0..=9223372036854775807)"), FailureKind::Tool);
}

#[test]
fn parameters_are_declared_bound_and_checked() {
    let source = format!(
        "fn params() {{ #{{ w: #{{ value: 1.0, min: 0.0, max: 4 }}, k: #{{ value: 50, min: 10, max: 400 }}, c: 7 }} }}\n{}",
        body("#{ \"1\": params.w, \"2\": params.k / 4, \"3\": params.c }")
    );
    let limits = Limits::default();
    let program = sandbox().compile(Code::Rhai(&source), &limits).expect("compiles");
    let declared = sandbox().declared_params(&program, &limits).expect("declared");
    let shown: Vec<_> =
        declared.iter().map(|p| (p.name.as_str(), p.value, p.min, p.max, p.integer)).collect();
    assert_eq!(
        shown,
        [("c", 7.0, 7.0, 7.0, true), ("k", 50.0, 10.0, 400.0, true), ("w", 1.0, 0.0, 4.0, false)]
    );
    let ranking = |given: &[(&str, f64)]| {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        run_with(&program, &given, &limits).map(|outcome| outcome.ranking)
    };
    assert_eq!(ranking(&[]), Ok(vec![(2, 12.0), (3, 7.0), (1, 1.0)]));
    assert_eq!(ranking(&[("w", 3.0), ("k", 12.6)]), Ok(vec![(3, 7.0), (1, 3.0), (2, 3.0)]));
    for wrong in [("w", 4.5), ("w", f64::NAN), ("v", 1.0), ("c", 8.0)] {
        assert_eq!(ranking(&[wrong]).expect_err("refused").kind, FailureKind::Runtime);
    }
}

#[test]
fn wrong_declarations_are_refused() {
    let limits = Limits::default();
    let declared = |text: &str| {
        let source = format!("fn params() {{ {text} }}\n{}", body("#{}"));
        let program = sandbox().compile(Code::Rhai(&source), &limits).expect("compiles");
        let declared = sandbox().declared_params(&program, &limits).map(|all| all.len());
        let ran = run_with(&program, &BTreeMap::new(), &limits).map(|_| ());
        assert_eq!(declared.is_ok(), ran.is_ok());
        declared.map_err(|failure| failure.kind)
    };
    assert_eq!(declared("#{}"), Ok(0));
    for wrong in [
        "7",
        "#{ a: #{ value: 5, min: 6, max: 7 } }",
        "#{ a: #{ value: 5, min: 1 } }",
        "#{ a: #{ value: 5, min: 1, max: 7, step: 1 } }",
        "#{ a: 0.0 / 0.0 }",
        "#{ a: #{ value: 5, min: 1, max: 1.0 / 0.0 } }",
        "#{ a: \"1\" }",
    ] {
        assert_eq!(declared(wrong), Err(FailureKind::Result), "{wrong}");
    }
    assert_eq!(declared("search(\"x\"); #{}"), Err(FailureKind::Tool));
    assert_eq!(declared("loop {}"), Err(FailureKind::Operations));
    let many = |n: usize| format!("let m = #{{}}; for i in 0..{n} {{ m[`p${{i}}`] = i }} m");
    assert_eq!(declared(&many(64)), Ok(64));
    assert_eq!(declared(&many(65)), Err(FailureKind::Result));
}

#[test]
fn sources_without_the_function_are_refused() {
    let limits = Limits::default();
    let kind = |source: &str| {
        sandbox().compile(Code::Rhai(source), &limits).map(|_| ()).map_err(|f| f.kind)
    };
    assert_eq!(kind(&body("#{}")), Ok(()));
    assert_eq!(kind("fn retrieve(query) { }"), Err(FailureKind::MissingFunction));
    assert_eq!(kind("42"), Err(FailureKind::MissingFunction));
    assert_eq!(
        kind(&format!("fn params(x) {{ }}\n{}", body("#{}"))),
        Err(FailureKind::MissingFunction)
    );
    assert_eq!(kind("fn retrieve(query, candidates, params) {"), Err(FailureKind::Parse));
    let failure =
        sandbox().compile(Code::Rhai("fn a() {\n  let = 3;\n}"), &limits).expect_err("broken");
    assert_eq!(failure.position.map(|at| at.line), Some(2));
}

#[test]
fn results_are_checked() {
    let most = Limits::default().max_answers;
    for wrong in [
        "",
        "()",
        "\"5\"",
        "5",
        "[5, 3]",
        "[[5, 1.0]]",
        "all()",
        "#{ \"5\": 0.0 / 0.0 }",
        "#{ \"5\": 1.0 / 0.0 }",
        "#{ \"5\": 1e300 }",
        "#{ \"5\": \"1\" }",
        "#{ \"10000\": 1 }",
        "#{ \"-1\": 1 }",
        "#{ \"+1\": 1 }",
        "#{ \"x\": 1 }",
        "#{ \"\": 1 }",
        "#{ \"7\": 1, \"07\": 2 }",
        "#{ \"99999999999999999999\": 1 }",
        "big()",
        "big().top(10001)",
        "search(query, 1001)",
    ] {
        assert_eq!(kind(wrong), FailureKind::Result, "{wrong}");
    }
    let failure = run("search(query, 1001)").expect_err("too many");
    assert!(failure.message.contains(".top(1000)"), "{}", failure.message);
    assert_eq!(run("search(query, 1000)").expect("runs").ranking.len(), most);
    assert_eq!(run("#{ \"9999\": 1 }").expect("runs").ranking, [(9999, 1.0)]);
    assert_eq!(run("return #{ \"1\": 1 };").expect("runs").ranking, [(1, 1.0)]);
    assert_eq!(run("#{}").expect("runs").ranking, []);
}

#[test]
fn steps_are_counted_inside_native_callbacks() {
    let limits = Limits { operations: 20_000, ..Limits::default() };
    let stopped = [
        "loop {}",
        "let a = []; a.pad(1000, 1); a.map(|x| { for i in 0..1000 { x += i } x }); #{}",
        "let a = []; a.pad(1000, 1); a.filter(|x| { for i in 0..1000 { x += i } true }); #{}",
        "let a = []; a.pad(1000, 1); a.sort(|x, y| { for i in 0..1000 { x += i } x - y }); #{}",
        "let a = []; a.pad(1000, 1); a.reduce(|s, x| { for i in 0..1000 { s += i } s }, 0); #{}",
        "let a = []; a.pad(1000, 1); a.some(|x| { for i in 0..1000 { x += i } false }); #{}",
        "let a = []; a.pad(1000, 1); a.dedup(|x, y| { for i in 0..1000 { x += i } false }); #{}",
        "try { loop {} } catch {} #{}",
        "loop { try { loop {} } catch {} }",
    ];
    for text in stopped {
        assert_eq!(kind_with(text, &limits), FailureKind::Operations, "{text}");
    }
    let outcome = run_source(&body("for i in 0..1000 {} #{}"), &limits).expect("few steps");
    assert!(outcome.usage.operations < limits.operations);
    let twice = run_source(&body("for i in 0..1000 {} #{}"), &limits).expect("few steps");
    assert_eq!(outcome.usage.operations, twice.usage.operations);
}

#[test]
fn time_is_bounded_and_programs_have_no_clock() {
    let limits = Limits { deadline: Duration::from_millis(100), ..Limits::default() };
    let slow = "let s = \"x\"; s.pad(1000000, 'y'); let n = 0; loop { n += s.index_of(\"yyyz\") }";
    assert_eq!(kind_with(slow, &limits), FailureKind::Deadline);
    for text in [
        "sleep(9)",
        "sleep(9.5)",
        "timestamp()",
        "Fn(\"sl\" + \"eep\").call(9)",
        "[9].map(Fn(\"sleep\"))",
        "call(Fn(\"timestamp\"))",
        "Fn(\"eval\").call(\"1\")",
    ] {
        assert_eq!(kind_with(text, &limits), FailureKind::Runtime, "{text}");
    }
    for text in ["eval(\"1\")", "import \"x\" as y;", "rand()", "let x = #{}; x.import", "export x"]
    {
        let kind = kind_with(text, &limits);
        assert!(matches!(kind, FailureKind::Parse | FailureKind::Runtime), "{text}: {kind}");
    }
}

#[test]
fn natives_ask_before_they_allocate() {
    for text in [
        "let s = \"a\"; s.pad(500000, 'a'); let t = s; s.replace(\"a\", t); #{}",
        "let s = \"a\"; s.pad(500000, 'a'); let t = s; s.replace('a', t); #{}",
        "let s = \"a\"; s.pad(1000000, 'a'); s.replace(\"\", \"bc\"); #{}",
        "let s = \"a\"; s.pad(1000000, 'a'); s.replace('a', 'é'); #{}",
        "let s = \"a\"; s.pad(9223372036854775807, 'a'); #{}",
        "let s = \"a\"; s.pad(1048577, \"ab\"); #{}",
        "let s = \"a\"; s.pad(1000000, \"é\"); #{}",
        "let a = []; a.pad(9223372036854775807, 0); #{}",
        "let a = []; a.pad(100000, [1, 2, 3]); #{}",
        "let b = blob(9223372036854775807); #{}",
        "let b = blob(10); b.pad(9223372036854775807, 0); #{}",
        "let a = []; for i in 0..50 { a.pad(50000, 0); a += a } #{}",
        "let s = \"0123456789\"; loop { s += s }",
        "let s = \"0123456789\"; loop { s = `${s}${s}` }",
        "let m = #{}; for i in 0..200000 { m[i.to_string()] = i } m.len()",
        "let big = []; big.pad(50000, 0); let f = Fn(\"x\").curry(big); let a = []; a.pad(50000, f); #{}",
    ] {
        assert_eq!(kind(text), FailureKind::Memory, "{text}");
    }
    assert_eq!(
        printed(
            "let s = \"a-b-a\"; s.replace(\"a\", \"xy\"); print(s); s.replace('-', '+'); print(s); s.pad(9, \"!?\"); print(s); s.pad(12, \"\"); print(s); let a = [1]; a.pad(3, 7); print(a)"
        ),
        "xy-b-xy\nxy+b+xy\nxy+b+xy!?\nxy+b+xy!?\n[1, 7, 7]\n"
    );
    assert_eq!(
        printed("print(#{b: [1, 2.5, (), 'c'], a: #{x: \"q\\\"\"}}.to_json())"),
        "{\"a\":{\"x\":\"q\\\"\"},\"b\":[1,2.5,null,\"c\"]}\n"
    );
    assert_eq!(
        printed("print(parse_json(`{\"b\": [1, 2.5, null, true], \"a\": \"x\"}`))"),
        "#{\"a\": \"x\", \"b\": [1, 2.5, (), true]}\n"
    );
}

#[test]
fn sorting_keeps_errors_and_never_panics() {
    assert_eq!(
        printed(
            "let a = [3, 1, 2]; a.sort(|x, y| y - x); print(a); print(a.order(|x, y| x < y)); let b = [1, 1, 2]; b.dedup(|x, y| x == y); print(b)"
        ),
        "[3, 2, 1]\n[1, 2, 3]\n[1, 2]\n"
    );
    assert_eq!(kind("let a = [3, 1, 2]; a.sort(|x, y| no_such(x)); #{}"), FailureKind::Runtime);
    assert_eq!(kind("let a = [3, 1, 2]; a.sort(|x, y| { fails(); 1 }); #{}"), FailureKind::Tool);
    assert_eq!(kind("let a = [1, 1]; a.dedup(|x, y| throw 1); #{}"), FailureKind::Runtime);
    let recursive = format!(
        "fn deep(n) {{ deep(n + 1) }}\n{}",
        body("let a = [2, 1]; a.sort(|x, y| deep(0)); #{}")
    );
    let failure = run_source(&recursive, &Limits::default()).expect_err("too deep");
    assert_eq!(failure.kind, FailureKind::Depth);
    assert_eq!(
        printed(
            "let a = []; for i in 0..100 { a.push(i * 7 % 100) } a.sort(|x, y| 1); print(a.len())"
        ),
        "100\n"
    );
}

#[test]
fn calls_nest_to_a_depth() {
    let nested = |n: usize| {
        format!(
            "fn deep(n) {{ if n == 0 {{ 0 }} else {{ 1 + deep(n - 1) }} }}\n{}",
            body(&format!("deep({n}); #{{}}"))
        )
    };
    assert!(run_source(&nested(29), &Limits::default()).is_ok());
    let failure = run_source(&nested(40), &Limits::default()).expect_err("too deep");
    assert_eq!(failure.kind, FailureKind::Depth);
}

#[test]
fn output_is_bounded_and_clean() {
    assert_eq!(printed("print(\"a\\x1b[31m\\tb\"); debug('c')"), "a\\u{1b}[31m\\u{9}b\nc\n");
    assert_eq!(kind("loop { print(\"flood\") }"), FailureKind::Output);
    assert_eq!(kind("let a = []; a.pad(99999, 7); print(a); #{}"), FailureKind::Output);
    let limits = Limits { output_bytes: 10, ..Limits::default() };
    assert_eq!(
        run_source(&body("print(\"123456789\"); #{}"), &limits).expect("fits").output.len(),
        10
    );
    let failure = run_source(&body("print(\"1234567890\"); #{}"), &limits).expect_err("too long");
    assert_eq!((failure.kind, failure.output.as_str()), (FailureKind::Output, "1234567890"));
}

#[test]
fn messages_are_short_and_clean() {
    let name = "x".repeat(50_000);
    for text in [
        format!("{name}()"),
        format!("let a = {name};"),
        format!("throw \"{name}\""),
        "let a = []; a.pad(90000, \"xyz\"); throw a".to_owned(),
        "let s = \"z\"; s.pad(1000000, '\\x1b'); throw s".to_owned(),
        "let s = \"z\"; s.pad(1000000, 'z'); params[s].x.y".to_owned(),
        "let s = \"z\"; s.pad(1000000, 'z'); Fn(s).call()".to_owned(),
    ] {
        let failure = run(&text).expect_err("fails");
        assert!(failure.message.len() <= 2048, "{}", failure.message.len());
        assert!(!failure.message.contains('\x1b'));
    }
    assert_eq!(kind("throw 1"), FailureKind::Runtime);
}

#[test]
fn tool_calls_are_counted_and_their_failures_end_the_program() {
    let limits = Limits { tool_calls: 10, ..Limits::default() };
    assert!(run_source(&body("for i in 0..10 { search(query) } #{}"), &limits).is_ok());
    let eleven = "for i in 0..11 { search(query) } #{}";
    assert_eq!(kind_with(eleven, &limits), FailureKind::ToolBudget);
    assert_eq!(kind("loop { search(query) }"), FailureKind::ToolBudget);
    assert_eq!(kind("try { fails() } catch {} #{}"), FailureKind::Tool);
    assert_eq!(kind("try { broke() } catch {} #{}"), FailureKind::ToolBudget);
    assert_eq!(
        kind("let a = [2, 1]; a.sort(|x, y| { try { fails() } catch {} 1 }); #{}"),
        FailureKind::Tool
    );
    assert_eq!(kind("search(7)"), FailureKind::Tool);
    assert_eq!(kind("search()"), FailureKind::Runtime);
    let failure = run("fails()").expect_err("fails");
    assert_eq!(failure.message, "fails: no such thing");
}

#[test]
fn a_panicking_tool_is_a_failure_and_the_worker_goes_on() {
    for text in [
        "panics()",
        "let x = [1]; x.panics(); #{}",
        "let x = 1; panics(x)",
        "[1].map(|x| panics(x))",
        "let a = [2, 1]; a.sort(|x, y| panics(x)); #{}",
        "try { panics() } catch {} #{}",
    ] {
        let failure = run(text).expect_err("panics");
        assert_eq!(failure.kind, FailureKind::Panic);
        assert!(failure.message.contains("on purpose"), "{}", failure.message);
        assert!(run("#{}").is_ok());
    }
}

#[test]
fn the_host_comes_back_with_its_records_also_after_a_panic() {
    struct Counting(Arc<std::sync::atomic::AtomicUsize>);
    impl ToolHost for Counting {
        fn call(&mut self, tool: usize, _: Vec<Value>) -> Result<Value, ToolError> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            assert!(SPECS[tool].name != "panics", "on purpose");
            Ok(Value::Unit)
        }
    }
    let limits = Limits::default();
    let program =
        sandbox().compile(Code::Rhai(&body("search(query); panics()")), &limits).expect("compiles");
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let params = BTreeMap::new();
    let input = Input { query: "", candidates: &[], params: &params, n_nodes: 1 };
    let (result, mut host) =
        sandbox().run(&program, Box::new(Counting(calls.clone())), input, &limits);
    assert_eq!(result.expect_err("panics").kind, FailureKind::Panic);
    assert_eq!(host.call(0, Vec::new()), Ok(Value::Unit));
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 3);
}

#[test]
fn held_tool_results_are_charged_and_dropped_ones_are_not() {
    let limits = Limits { memory_bytes: 32 << 20, ..Limits::default() };
    let outcome =
        run_source(&body("for i in 0..10 { let s = big(); } #{}"), &limits).expect("runs");
    assert!(outcome.usage.peak_bytes > 8_000_000 && outcome.usage.leaked_bytes == 0);
    let hoard = "let a = []; for i in 0..10 { a.push(big()) } #{}";
    assert_eq!(kind_with(hoard, &limits), FailureKind::Memory);
    // Dropping values does not extend the budget either.
    let earned = "for i in 0..5 { big(); } let a = []; for i in 0..10 { a.push(big()) } #{}";
    assert_eq!(kind_with(earned, &limits), FailureKind::Memory);
}

#[test]
fn captured_values_are_seen_by_the_heap_budget() {
    for text in [
        "let f = Fn(\"x\"); loop { f = f.curry(f) }",
        "let f = Fn(\"x\"); f = f.curry([1, 2, 3]); loop { f = f.curry(f) }",
        "let s = \"x\"; s.pad(100000, 'x'); let a = []; loop { let t = s + a.len(); a.push(Fn(\"x\").curry(t)) }",
        "let m = #{}; let i = 0; loop { m[\"k\" + i] = i; i += 1 }",
        "let s = \"x\"; s.pad(100000, 'x'); let m = #{}; let i = 0; loop { m[s + i] = i; i += 1 }",
        "let a = []; a.pad(99000, 0); let all = #{}; let i = 0; loop { all[\"k\" + i] = Fn(\"x\").curry(a); i += 1 }",
    ] {
        let kind = kind(text);
        assert!(
            matches!(kind, FailureKind::Memory | FailureKind::Operations | FailureKind::Deadline),
            "{text}: {kind}"
        );
    }
}

#[test]
fn deep_chains_are_dropped_on_the_big_stack() {
    for text in [
        r#"let f = Fn("x"); loop { f = Fn("y").curry(take(f)); }"#,
        r#"let k = Fn("y"); let f = (); loop { f = k.curry([[[[[take(f)]]]]]); }"#,
        r#"let f = || 0; loop { let g = f; f = || g; }"#,
        r#"let f = || 0; loop { let g = f; let h = f; f = || [g, h]; }"#,
    ] {
        let kind = kind(text);
        assert!(
            matches!(kind, FailureKind::Memory | FailureKind::Operations | FailureKind::Deadline),
            "{text}: {kind}"
        );
    }
    assert!(run("#{}").is_ok());
}

#[test]
fn cycles_of_captured_variables_are_reported_as_leaks() {
    let leak = "let big = []; big.pad(50000, 7); let f = (); let g = || { f; big }; f = g; #{}";
    let outcome = run(leak).expect("runs");
    assert!(outcome.usage.leaked_bytes > 500_000, "{:?}", outcome.usage);
    let clean =
        run("let big = []; big.pad(50000, 7); let f = || big; f.call(); #{}").expect("runs");
    assert_eq!(clean.usage.leaked_bytes, 0);
}

#[test]
fn values_that_contain_themselves_do_not_end_the_process() {
    let cycle = "let f = (); let g = || f; f = g;";
    for text in [
        "print(f); print([f]); debug(f); debug(#{a: f}); #{}",
        "throw f",
        "throw [f]",
        "f == g",
        "[f] == [g]",
        "switch f { 1 => 2, _ => 3 }",
        "switch [f] { 1 => 2, _ => 3 }",
        "echo(f)",
        "echo([f])",
        "#{ \"1\": f }",
        "#{a: f}.to_json()",
        "let s = \"\"; s += f; s += [f]; #{}",
        "[f, g].sort()",
        "[f, f].dedup()",
        "[f].index_of(g)",
        "f in [g]",
        "g.call(); #{}",
        "let h = f; h.curry(f).call(); #{}",
    ] {
        let _ = run(&format!("{cycle} {text}"));
    }
}

#[test]
fn hostile_sources_parse_within_the_deadline() {
    let limits = Limits::default();
    let list = |from: &str, item: fn(usize) -> String, to: &str, n: usize| {
        let items: Vec<String> = (0..n).map(item).collect();
        format!("{from}{}{to}", items.join(","))
    };
    let name = |at: usize| format!("a{at:x}");
    let mut sources = vec![
        list("fn retrieve(", name, ") {}", 9_000),
        list("let m = #{", |at| format!("a{at:x}:1"), "};", 8_000),
        list("switch 1 {", |at| format!("{at}=>1"), "}", 8_000),
        list("let a = [", |at| format!("\"{at}\""), "];", 8_000),
        format!("let x = {}1{};", "(".repeat(30_000), ")".repeat(30_000)),
        format!("let x = {}1;", "-".repeat(60_000)),
        format!("let x = {}1;", "!".repeat(60_000)),
        format!("let x = 1{};", "+1".repeat(30_000)),
        format!("let x = {};", "[".repeat(60_000)),
        format!("let x = {};", "#{a:".repeat(15_000)),
        "{".repeat(60_000),
        "if x {} else ".repeat(4_500) + "{}",
        "fn a() {} ".repeat(6_000),
        "let a = 1; ".repeat(5_500),
        format!("a.b{}", ".c".repeat(30_000)),
        "`${".repeat(20_000),
        "|x|".repeat(20_000),
        "/*".repeat(30_000),
        "\"".repeat(60_001),
        "x".repeat(65_000),
        "\u{feff}\u{202e}\0\u{200b}".repeat(6_000),
        format!("let x = {}1;", "\"0123456789\" + ".repeat(4_000)),
    ];
    sources.iter_mut().for_each(|source| source.truncate(limits.source_bytes));
    for source in &sources {
        let start = Instant::now();
        let result = sandbox().compile(Code::Rhai(source), &limits);
        let took = start.elapsed();
        let shown: String = source.chars().take(20).collect();
        let most = (limits.parse_deadline + LATE * 2) * agent_ground::clock::WALL_PER_WORK;
        assert!(took < most, "{took:?} for {shown}");
        if let Err(failure) = result {
            assert!(failure.message.len() <= limits.message_bytes);
        }
    }
    let full = format!("{}//", body("#{}"));
    let padded = format!("{full}{}", "x".repeat(limits.source_bytes - full.len()));
    assert!(sandbox().compile(Code::Rhai(&padded), &limits).is_ok());
    let longer = sandbox().compile(Code::Rhai(&(padded + "x")), &limits).expect_err("too long");
    assert_eq!(longer.kind, FailureKind::Parse);
    let few = Limits { source_tokens: 12, ..Limits::default() };
    assert_eq!(
        sandbox().compile(Code::Rhai(&body("#{}")), &few).expect_err("too long").kind,
        FailureKind::Parse
    );
}

#[test]
fn any_number_of_workers_gives_the_same_results() {
    let source = body(
        "let s = search(query, 50) + search(query, 7) * 0.3; for id in s { print(id) } s.top(20)",
    );
    let answers = |n: usize| {
        let workers = Arc::new(Workers::new(n).expect("threads"));
        let sandbox = RhaiSandbox::with_tools(workers, &SPECS);
        let limits = Limits::default();
        let program = sandbox.compile(Code::Rhai(&source), &limits).expect("compiles");
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let params = BTreeMap::new();
                        let input = Input {
                            query: "q",
                            candidates: &[],
                            params: &params,
                            n_nodes: N_NODES,
                        };
                        let (result, _) =
                            sandbox.run(&program, Box::<TestHost>::default(), input, &limits);
                        let outcome = result.expect("runs");
                        (
                            outcome.ranking,
                            outcome.output,
                            outcome.usage.operations,
                            outcome.usage.peak_bytes,
                        )
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("thread")).collect::<Vec<_>>()
        })
    };
    let mut all = answers(1);
    all.extend(answers(4));
    // The first call on a thread also fills its engine's string cache, so heap may differ a little.
    assert!(
        all.windows(2)
            .all(|pair| (&pair[0].0, &pair[0].1, pair[0].2) == (&pair[1].0, &pair[1].1, pair[1].2))
    );
}

/// Finds the smallest `n` for which the program `source(n)` fails, and returns it with the kind of
/// its failure. Assumes that all larger ones fail too.
fn first_failure(
    limits: &Limits,
    at_most: usize,
    source: impl Fn(usize) -> String,
) -> (usize, FailureKind) {
    let (mut runs, mut fails) = (0, at_most);
    while fails - runs > 1 {
        let middle = runs.midpoint(fails);
        match run_source(&source(middle), limits) {
            Ok(_) => runs = middle,
            Err(_) => fails = middle,
        }
    }
    run_source(&source(runs), limits).expect("the neighbour just under the limit runs");
    (fails, run_source(&source(fails), limits).expect_err("just over the limit").kind)
}

#[test]
fn every_size_has_a_limit_with_a_neighbour_just_under_it() {
    let base = Limits::default();
    let grows = |text: &str, n: usize| body(&text.replace("{n}", &n.to_string()));
    let is_at = |name: &str, found: (usize, FailureKind), limit: usize, kind: FailureKind| {
        assert_eq!(found.1, kind, "{name}");
        assert!(found.0.abs_diff(limit) <= 4, "{name}: fails from {}, limit {limit}", found.0);
    };

    let limits = Limits { list_items: 100, ..base.clone() };
    let found =
        first_failure(&limits, 300, |n| grows("let a = []; for i in 0..{n} { a.push(i); } #{}", n));
    is_at("list items", found, 100, FailureKind::Memory);

    let limits = Limits { map_entries: 100, ..base.clone() };
    let found = first_failure(&limits, 300, |n| {
        grows("let m = #{}; for i in 0..{n} { m.set(i.to_string(), i); } #{}", n)
    });
    is_at("map entries", found, 100, FailureKind::Memory);

    let limits = Limits { text_bytes: 100, ..base.clone() };
    let found = first_failure(&limits, 300, |n| {
        grows("let s = \"\"; for i in 0..{n} { s += \"x\"; } #{}", n)
    });
    is_at("text bytes", found, 100, FailureKind::Memory);

    let limits = Limits { variables: 50, ..base.clone() };
    let found = first_failure(&limits, 200, |n| {
        let variables: String = (0..n).map(|i| format!("let v{i} = {i};")).collect();
        body(&format!("{variables} #{{}}"))
    });
    is_at("variables", found, 50, FailureKind::Memory);

    let limits = Limits { functions: 20, ..base.clone() };
    let found = first_failure(&limits, 100, |n| {
        let functions: String = (0..n).map(|i| format!("fn f{i}() {{ {i} }}\n")).collect();
        format!("{functions}{}", body("#{}"))
    });
    is_at("functions", found, 20, FailureKind::Parse);

    let limits = Limits { expression_depth: 40, ..base.clone() };
    let found = first_failure(&limits, 100, |n| {
        body(&format!("let x = {}1{}; #{{}}", "-(".repeat(n), ")".repeat(n)))
    });
    assert_eq!(found.1, FailureKind::Parse);
    assert!((5..=40).contains(&found.0), "expression depth: fails from {}", found.0);

    let limits = Limits { source_bytes: 500, ..base.clone() };
    let empty = body("#{}");
    let found = first_failure(&limits, 1_000, |n| {
        if n > empty.len() + 2 {
            format!("{empty}//{}", "x".repeat(n - empty.len() - 2))
        } else {
            empty.clone()
        }
    });
    assert_eq!(found, (501, FailureKind::Parse));

    // A program's own values may fill half of the budget, as one step may copy them.
    let mega = 1 << 20;
    let limits = Limits { memory_bytes: 16 << 20, text_bytes: 64 << 20, ..base };
    let found =
        first_failure(&limits, 40, |n| grows("let s = \"\"; s.pad({n}, \"x\"); #{}", n * mega));
    assert_eq!(found.1, FailureKind::Memory);
    assert!((4..=17).contains(&found.0), "memory: fails from {} MiB of 16", found.0);
}

#[test]
fn names_of_kinds_are_stable() {
    let kinds = "parse missing_function operations deadline memory depth output tool_budget tool result runtime panic";
    for name in kinds.split(' ') {
        let kind: FailureKind = serde_json::from_str(&format!("\"{name}\"")).expect("a kind");
        assert_eq!(kind.name(), name);
    }
}

#[test]
fn an_empty_call_is_cheap() {
    let limits = Limits::default();
    let program = sandbox().compile(Code::Rhai(&body("#{}")), &limits).expect("compiles");
    let start = Instant::now();
    let mut inside = f64::MAX;
    for _ in 0..1_000 {
        let outcome = run_with(&program, &BTreeMap::new(), &limits).expect("runs");
        inside = inside.min(outcome.usage.ms * 1e3);
    }
    let each = start.elapsed().as_secs_f64() * 1e3;
    eprintln!("empty call: {each:.1} us with the queue, {inside:.1} us inside at best");
    assert!(inside < 100.0, "{inside} us");
}

#[test]
fn compiling_thirty_lines_is_cheap() {
    let line =
        "let s = search(query, 3) + search(query, 2) * 0.5; if s.len > 2 { s = s.top(2); }\n";
    let source = body(&(line.repeat(30) + "s"));
    let start = Instant::now();
    for _ in 0..20 {
        sandbox().compile(Code::Rhai(&source), &Limits::default()).expect("compiles");
    }
    eprintln!("compile of 30 lines: {:.0} us", start.elapsed().as_secs_f64() * 1e6 / 20.0);
}
