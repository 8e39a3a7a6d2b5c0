//! Runs untrusted retrieval programs.
//!
//! A program sees only the tools of its toolkit; it has no clock, files, network or randomness.
//! In: one query, its shortlist and the program's parameters. Out: at most
//! [`Limits::max_answers`] node ids with scores, best first, or a [`Failure`] of a stated kind.
//! This module must not know what a tool does: it calls them through
//! [`ToolHost`].
//!
//! Invariant: the same program, query, candidates, parameters and host give the same [`Outcome`]
//! on any number of threads, except for its times; a run that ends by [`FailureKind::Deadline`]
//! depends on the machine and is never an answer.
//!
//! Two engines: [`RhaiSandbox`] runs programs in this process, [`WasmSandbox`] runs them, and
//! modules, inside WebAssembly; [`ChosenSandbox`] has both.
//!
//! # What is not contained
//! Programs of [`RhaiSandbox`] share this process. One allocation that the system refuses, a stack
//! deeper than [`STACK_BYTES`], and errors in the engine itself reach the process. What a program
//! leaks by cycles of captured variables stays leaked; it is measured and reported in
//! [`Usage::leaked_bytes`], so that the caller can drop the program, and beyond a sum no program runs
//! in this process any more. A tool that blocks, blocks its worker in either engine: the caller is
//! told that the time is over, and another worker takes the place.

mod alloc;
mod chosen;
mod clock;
mod failure;
mod given;
mod guard;
mod limits;
mod private;
pub mod program;
mod rhai;
#[cfg(test)]
mod tests;
mod trust;
mod verdict;
mod wasm;
mod workers;

use std::{any::Any, collections::BTreeMap, fmt, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

// The engine inside WebAssembly is built from files of this crate in a crate of its own, where these
// modules have other contents: such files name them from the root.
use crate as sandbox;
use agent_kb as kb;
use agent_tools as tools;

use agent_kb::NodeId;
use agent_tools::{ToolError, ToolHost, Value};

pub use chosen::{ChosenSandbox, Place, SandboxOptions};
use failure::push_clean;
pub use failure::{Failure, FailureKind, Position, Usage};
pub use limits::Limits;
pub use rhai::RhaiSandbox;
pub use trust::{Origin, Trust};
pub use wasm::{WasmSandbox, interface_page, is_module, module_header};
pub use workers::{JobLost, MAX_WORKERS, Pending, QUEUE_PER_WORKER, STACK_BYTES, Workers};

/// What a successful call gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Node ids with scores, best first; ties by ascending id. At most [`Limits::max_answers`].
    pub ranking: Vec<(NodeId, f32)>,
    /// What it used.
    pub usage: Usage,
    /// What the program printed; control characters other than line breaks are escaped.
    pub output: String,
}

/// A number that a tuner may move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// Name, as in the program.
    pub name: String,
    /// Value when nothing else is given.
    pub value: f64,
    /// Least value.
    pub min: f64,
    /// Largest value; equal to `min` when the number is fixed.
    pub max: f64,
    /// Whether the program gets an integer.
    pub integer: bool,
}

/// A checked program, ready to run any number of times on any thread. Cheap to clone.
#[derive(Clone)]
pub struct Compiled(Arc<dyn Any + Send + Sync>);

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}

/// A program as it is stored.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// Source text in Rhai.
    Rhai(&'a str),
    /// A module of WebAssembly, in binary form.
    Wasm(&'a [u8]),
}

/// What one call gets.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The question.
    pub query: &'a str,
    /// The default shortlist, best first.
    pub candidates: &'a [NodeId],
    /// Values of declared parameters; those left out have their declared value. Values of integer
    /// parameters are rounded.
    pub params: &'a BTreeMap<String, f64>,
    /// How many nodes the base has: results may name ids below it.
    pub n_nodes: usize,
}

/// What a call gives: its result, and the host with what it recorded.
pub type Ran = (Result<Outcome, Failure>, Box<dyn ToolHost>);

/// An engine that runs programs. Blocks the caller; may be called from any thread.
pub trait Sandbox: Send + Sync {
    /// Parses and checks a program.
    ///
    /// # Errors
    /// [`FailureKind::Parse`], [`FailureKind::MissingFunction`] or [`FailureKind::Panic`].
    fn compile(&self, code: Code<'_>, limits: &Limits) -> Result<Compiled, Failure>;

    /// The parameters a program declares in `params()`, by name; empty when it has none. Run once,
    /// then remembered.
    ///
    /// # Errors
    /// What `params()` fails with; [`FailureKind::Result`] when a number is not finite, lies
    /// outside its bounds, or there are more than [`Limits::parameters`].
    fn declared_params(&self, program: &Compiled, limits: &Limits) -> Result<Vec<Param>, Failure>;

    /// Whether the program can look at its candidates; if not, they need not be found.
    fn reads_candidates(&self, program: &Compiled) -> bool;

    /// Calls `retrieve` once. The host answers tool calls and is handed back with its records.
    ///
    /// # Errors
    /// Any [`FailureKind`]; [`FailureKind::Runtime`] also for parameters that are not declared or
    /// out of bounds.
    fn run(
        &self,
        program: &Compiled,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> Ran;
}

/// Whether a directory can hold what this user alone may write; makes it if it is not there.
pub fn is_usable(dir: &Path) -> bool {
    private::PrivateDir::open(dir).is_some()
}

/// Stands in for a host that went down with its worker.
struct LostHost;

impl ToolHost for LostHost {
    fn call(&mut self, _: usize, _: Vec<Value>) -> Result<Value, ToolError> {
        Err(ToolError::Internal("the host was lost in a panic".to_owned()))
    }
}

/// Makes one call on a worker, with an input of its own; a worker that is lost takes the host with
/// it. A call that does not end is not waited for longer than [`Workers::run_within`] says.
fn run_on(
    workers: &Workers,
    host: Box<dyn ToolHost>,
    input: Input<'_>,
    limits: &Limits,
    call: impl FnOnce(Box<dyn ToolHost>, Input<'_>, &Limits) -> Ran + Send + 'static,
) -> Ran {
    let query = input.query.to_owned();
    let candidates = input.candidates.to_vec();
    let (params, n_nodes) = (input.params.clone(), input.n_nodes);
    let owned = limits.clone();
    let (waiting, mut host) = (host.patience(), host);
    let job = move || {
        host.begin(owned.deadline);
        let input = Input { query: &query, candidates: &candidates, params: &params, n_nodes };
        call(host, input, &owned)
    };
    let ran = workers.run_within(limits.deadline, waiting, job);
    ran.unwrap_or_else(|lost| (Err(lost_job(lost, limits)), Box::new(LostHost)))
}

/// The failure of a program whose job gave no answer.
fn lost_job(lost: JobLost, limits: &Limits) -> Failure {
    let (kind, ms) = match lost {
        JobLost::Late(after) => (FailureKind::Deadline, after.as_secs_f64() * 1e3),
        JobLost::NoWorker => (FailureKind::Deadline, 0.0),
        JobLost::Panicked => (FailureKind::Panic, 0.0),
    };
    let failure = Failure::new(kind, &lost.to_string(), limits);
    Failure { usage: Usage { ms, ..Usage::default() }, ..failure }
}

/// Whether a source is short enough to be parsed.
fn check_source(source: &str, limits: &Limits) -> Result<(), Failure> {
    let most = limits.source_bytes;
    if source.len() <= most {
        return Ok(());
    }
    let message = format!("the program has {} bytes, more than {most}; shorten it", source.len());
    Err(Failure::new(FailureKind::Parse, &message, limits))
}
