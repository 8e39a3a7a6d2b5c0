//! Checks the programs of a bundle without a base: each must compile, its parameters must be within
//! the declared bounds, and it must call only existing functions.
//!
//! Rhai resolves functions only when they are called, so each program is run once, with tools that
//! find nothing. Calls that a program makes only for found nodes are checked by the replay alone.

use std::sync::Arc;

use anyhow::Context as _;

use super::Check;
use crate::{Result, systems::Places};
use agent_infer::bundle::{Bundle, Category};
use agent_sandbox::{
    ChosenSandbox, CompiledProgram, Failure, FailureKind, Input, Limits, Origin, Sandbox, Workers,
};
use agent_tools::{Kind, ToolError, ToolHost, Value, registry};

/// Query on which each program is run with tools that find nothing.
const DRY_QUERY: &str = "dry call";
/// Beginning of the engine's message about a call that matches no function.
const NO_FUNCTION: &str = "no function takes these arguments: ";

pub(super) fn check(bundle: &Bundle, places: &Places) -> Result<Vec<Check>> {
    let workers = Workers::new(1).context("cannot start a thread for programs")?;
    let sandbox = ChosenSandbox::new(Arc::new(workers), &places.of(Origin::Bundle(&bundle.digest)));
    let mut failed = Vec::new();
    for category in &bundle.categories {
        if let Err(why) = check_one(&sandbox, category) {
            let (id, name) = (category.program.short_id(), &category.name);
            failed.push(Check::failed("program", format!("{id} ({name}): {why}")));
        }
    }
    if failed.is_empty() {
        let n = bundle.categories.len();
        failed
            .push(Check::ok("program", format!("all {n} compile, with parameters within bounds")));
    }
    Ok(failed)
}

fn check_one(sandbox: &ChosenSandbox, category: &Category) -> Result<(), String> {
    let limits = Limits::default();
    let failed = |failure: Failure| match failure.position {
        Some(at) => format!("{failure}, line {}", at.line),
        None => failure.to_string(),
    };
    let compiled = sandbox.compile(category.program.code(), &limits).map_err(failed)?;
    let declared = sandbox.declared_params(&compiled, &limits).map_err(failed)?;
    for (name, &value) in &category.params {
        let Some(param) = declared.iter().find(|param| param.name == *name) else {
            return Err(format!("the program declares no parameter {name}"));
        };
        if !(param.min <= value && value <= param.max) {
            let (min, max) = (param.min, param.max);
            return Err(format!("{name} is {value}, not from {min} to {max}"));
        }
    }
    match missing_function(sandbox, &compiled, category) {
        Some(call) => Err(format!("no function takes these arguments: {call}")),
        None => Ok(()),
    }
}

/// Runs a program with tools that find nothing. Returns a call of the program to a function that
/// does not exist, if it makes one.
fn missing_function(
    sandbox: &ChosenSandbox,
    compiled: &CompiledProgram,
    category: &Category,
) -> Option<String> {
    let input = Input { query: DRY_QUERY, candidates: &[], params: &category.params, n_nodes: 0 };
    let (ran, _) = sandbox.run(compiled, Box::new(Nothing), input, &Limits::default());
    let failure = ran.err().filter(|failure| failure.kind == FailureKind::Runtime)?;
    let call = failure.message.strip_prefix(NO_FUNCTION)?;
    let name = call.split([' ', '(']).next().unwrap_or_default();
    // Tools return () for missing results, so a call with () as an argument proves nothing.
    let of_nothing = call.contains("(()") || call.contains(", ()");
    let known = registry().iter().any(|spec| spec.name == name);
    (!known && !of_nothing).then(|| call.to_owned())
}

/// An implementation of all tools that finds nothing.
struct Nothing;

impl ToolHost for Nothing {
    fn call(&mut self, tool: usize, _: Vec<Value>) -> Result<Value, ToolError> {
        let kind = registry().get(tool).map_or(Kind::Unit, |spec| spec.result);
        Ok(match kind {
            Kind::Unit | Kind::Any => Value::Unit,
            Kind::Bool => Value::Bool(false),
            Kind::Int | Kind::Node => Value::Int(0),
            Kind::Number => Value::Float(0.0),
            Kind::Text => Value::text(""),
            Kind::Nodes => Value::nodes(Default::default()),
            Kind::Scores => Value::scores(Default::default()),
            Kind::Vector => Value::Vector(Arc::from([])),
            Kind::Texts | Kind::Numbers | Kind::Vectors | Kind::Bools => Value::List(Vec::new()),
            Kind::Map => Value::Map(Default::default()),
        })
    }
}
