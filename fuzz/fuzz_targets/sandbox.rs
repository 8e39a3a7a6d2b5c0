//! A host with made-up tool results, for fuzzed programs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use agent::{
    kb::{NodeSet, Scores},
    sandbox::{
        Code, CompiledProgram, Failure, FailureKind, Input, Limits, Outcome, Sandbox, WasmSandbox, Workers,
    },
    tools::{ToolError, ToolHost, Value, registry},
};

pub const N_NODES: usize = 50;

/// Answers each tool call with a fixed value of the tool's result kind, or its first argument.
struct Host;

impl ToolHost for Host {
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError> {
        use agent::tools::Kind;
        Ok(match registry()[tool].result {
            Kind::Nodes => Value::nodes((0..9).collect::<NodeSet>()),
            Kind::Scores => Value::scores(Scores::new((0..9).map(|id| (id, 0.5)).collect())),
            Kind::Vector => Value::Vector([0.5f32, 1.0].into()),
            Kind::Text => Value::text("text"),
            Kind::Int | Kind::Node => Value::Int(args.len() as i64),
            Kind::Number => Value::Float(0.5),
            Kind::Bool => Value::Bool(true),
            Kind::Texts => Value::List(vec![Value::text("a"), Value::text("b")]),
            _ => args.into_iter().next().unwrap_or(Value::Unit),
        })
    }
}

/// Returns limits that keep the run of one input short.
pub fn limits() -> Limits {
    Limits {
        operations: 50_000,
        deadline: Duration::from_millis(300),
        memory_bytes: 32 << 20,
        ..Limits::default()
    }
}

pub fn workers() -> Arc<Workers> {
    Arc::new(Workers::new(1).expect("threads"))
}

/// Makes a WebAssembly sandbox without a cache on disk.
pub fn inside() -> WasmSandbox {
    WasmSandbox::new(workers(), None)
}

/// Compiles and runs a program.
#[allow(dead_code, reason = "each target uses a part of this module")]
pub fn compile_and_run(sandbox: &dyn Sandbox, code: Code<'_>) -> Result<Outcome, Failure> {
    run(sandbox, &sandbox.compile(code, &limits())?, "warm socks")
}

/// Runs a program; checks the promises of a ranking, or of a failure.
pub fn run(sandbox: &dyn Sandbox, program: &CompiledProgram, query: &str) -> Result<Outcome, Failure> {
    let limits = limits();
    let params = BTreeMap::new();
    let input = Input { query, candidates: &[3, 1, 2], params: &params, n_nodes: N_NODES };
    let ran = sandbox.run(program, Box::new(Host), input, &limits).0;
    if let Ok(outcome) = &ran {
        let ranking = &outcome.ranking;
        assert!(ranking.len() <= limits.max_answers);
        assert!(ranking.iter().all(|pair| (pair.0 as usize) < N_NODES && pair.1.is_finite()));
        assert!(ranking.is_sorted_by(|a, b| a.1 > b.1 || (a.1 == b.1 && a.0 < b.0)));
    }
    if let Err(failure) = &ran {
        assert!(failure.message.len() <= limits.message_bytes);
        assert_ne!(failure.kind, FailureKind::Panic, "{failure}");
    }
    ran
}
