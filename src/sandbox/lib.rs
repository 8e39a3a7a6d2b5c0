//! Runs untrusted retrieval programs.
//!
//! A program sees only the tools of its toolkit; it has no clock, files, network or randomness.
//! Input: one query, its shortlist and the program's parameters. Output: at most
//! [`Limits::max_answers`] node ids with scores, best first, or a [`Failure`] with its kind.
//! Programs call tools through [`ToolHost`].
//!
//! Invariant: the same program, query, candidates, parameters and host give the same [`Outcome`] on
//! any number of threads, except for its times; a run that ends by [`FailureKind::Deadline`]
//! depends on the machine and never counts as an answer.
//!
//! There are two engines: [`RhaiSandbox`] runs Rhai programs in this process; [`WasmSandbox`] runs
//! Rhai programs and modules inside WebAssembly. [`ChosenSandbox`] has both.
//!
//! # Limits of isolation
//! Programs of [`RhaiSandbox`] share this process. A refused allocation, a stack deeper than
//! [`STACK_BYTES`], and errors in the engine itself affect the process. Memory that a program leaks
//! by cycles of captured variables stays leaked. [`Usage::leaked_bytes`] reports the leak, so that
//! the caller can drop the program; once all leaks together exceed a limit, no further program runs
//! in this process. In either engine, a tool that blocks also blocks its worker: the caller gets a
//! deadline failure, and the worker is replaced.

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

// Some files of this crate are also compiled into the engine inside WebAssembly, where the modules
// `sandbox`, `kb` and `tools` have other contents. So these files import the three modules from the
// crate root.
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
pub use verdict::{PARAM_NAME_BYTES, check_ranking};
pub use wasm::{WasmSandbox, interface_page, is_module, module_header};
pub use workers::{JobLost, MAX_WORKERS, Pending, QUEUE_PER_WORKER, STACK_BYTES, Workers};

/// Result of a successful call of `retrieve`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Node ids with scores, highest score first; equal scores by ascending id. At most
    /// [`Limits::max_answers`].
    pub ranking: Vec<(NodeId, f32)>,
    /// Resources that the call used.
    pub usage: Usage,
    /// Text that the program printed; control characters other than line breaks are escaped.
    pub output: String,
}

/// A parameter that a program declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Param {
    /// Name of the parameter, as in the program.
    pub name: String,
    /// Default value.
    pub value: f64,
    /// Minimum value.
    pub min: f64,
    /// Maximum value; equal to `min` for a fixed parameter.
    pub max: f64,
    /// Whether the program gets the value as an integer.
    pub integer: bool,
}

/// A compiled program that can run any number of times, on any thread. Cloning copies only a
/// pointer.
#[derive(Clone)]
pub struct CompiledProgram(Arc<dyn Any + Send + Sync>);

impl fmt::Debug for CompiledProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}

/// The code of a program, in one of two languages.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// Source text in Rhai.
    Rhai(&'a str),
    /// A WebAssembly module, in binary form.
    Wasm(&'a [u8]),
}

/// Input of one call of `retrieve`.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The query.
    pub query: &'a str,
    /// Nodes of the default shortlist for the query, best first.
    pub candidates: &'a [NodeId],
    /// Values of declared parameters by name; parameters without a value have their default. Values
    /// of integer parameters are rounded.
    pub params: &'a BTreeMap<String, f64>,
    /// Number of nodes in the base; ids in the result must be below it.
    pub n_nodes: usize,
}

/// Result of a call, and the host that answered the program's tool calls.
pub type RunResult = (Result<Outcome, Failure>, Box<dyn ToolHost>);

/// An engine that runs programs. Its methods block the caller, and may be called from any thread.
pub trait Sandbox: Send + Sync {
    /// Parses and checks the code of a program.
    ///
    /// # Errors
    /// [`FailureKind::Parse`] or [`FailureKind::MissingFunction`] if the code is not accepted.
    /// [`FailureKind::Deadline`] or [`FailureKind::Panic`] if the engine did not return.
    fn compile(&self, code: Code<'_>, limits: &Limits) -> Result<CompiledProgram, Failure>;

    /// Returns the parameters that a program declares in its function `params()`, sorted by name;
    /// empty if it has no such function. The first call runs `params()`, later calls return the
    /// same result.
    ///
    /// # Errors
    /// Any failure of `params()`; [`FailureKind::Result`] if a number is not finite or outside its
    /// bounds, or there are more than [`Limits::parameters`].
    fn declared_params(
        &self,
        program: &CompiledProgram,
        limits: &Limits,
    ) -> Result<Vec<Param>, Failure>;

    /// Whether the program may read its candidates; if not, the caller need not compute them.
    fn reads_candidates(&self, program: &CompiledProgram) -> bool;

    /// Calls the program's function `retrieve` once. Returns its result and the host, which answers
    /// the tool calls of the program.
    ///
    /// # Errors
    /// Any [`FailureKind`]; [`FailureKind::Runtime`] also if a value is given for an undeclared
    /// parameter or is out of bounds.
    fn run(
        &self,
        program: &CompiledProgram,
        host: Box<dyn ToolHost>,
        input: Input<'_>,
        limits: &Limits,
    ) -> RunResult;
}

/// Whether this user can keep private data in the directory. Creates the directory and its key if
/// they are missing.
pub fn is_usable(dir: &Path) -> bool {
    private::PrivateDir::open(dir).is_some()
}

/// Substitute for a host that was lost together with its worker; every tool call fails.
struct LostHost;

impl ToolHost for LostHost {
    fn call(&mut self, _: usize, _: Vec<Value>) -> Result<Value, ToolError> {
        Err(ToolError::Internal("the host was lost in a panic".to_owned()))
    }
}

/// Makes one call on a worker, within the time limits of [`Workers::run_within`]. If the worker is
/// lost, its host is lost too and replaced by [`LostHost`].
fn run_on(
    workers: &Workers,
    host: Box<dyn ToolHost>,
    input: Input<'_>,
    limits: &Limits,
    call: impl FnOnce(Box<dyn ToolHost>, Input<'_>, &Limits) -> RunResult + Send + 'static,
) -> RunResult {
    let query = input.query.to_owned();
    let candidates = input.candidates.to_vec();
    let (params, n_nodes) = (input.params.clone(), input.n_nodes);
    let owned = limits.clone();
    let (max_wait, mut host) = (host.patience(), host);
    let job = move || {
        host.begin(owned.deadline);
        let input = Input { query: &query, candidates: &candidates, params: &params, n_nodes };
        call(host, input, &owned)
    };
    let result = workers.run_within(limits.deadline, max_wait, job);
    result.unwrap_or_else(|lost| (Err(lost_job(lost, limits)), Box::new(LostHost)))
}

/// Returns the failure of a program whose job was lost.
fn lost_job(lost: JobLost, limits: &Limits) -> Failure {
    let (kind, ms) = match lost {
        JobLost::Late(after) => (FailureKind::Deadline, after.as_secs_f64() * 1e3),
        JobLost::NoWorker => (FailureKind::Deadline, 0.0),
        JobLost::Panicked => (FailureKind::Panic, 0.0),
    };
    let failure = Failure::new(kind, &lost.to_string(), limits);
    Failure { usage: Usage { ms, ..Usage::default() }, ..failure }
}

/// Checks that a source is not too long.
///
/// # Errors
/// [`FailureKind::Parse`] if the source is longer than [`Limits::source_bytes`].
fn check_source(source: &str, limits: &Limits) -> Result<(), Failure> {
    let max_bytes = limits.source_bytes;
    if source.len() <= max_bytes {
        return Ok(());
    }
    let message =
        format!("the program has {} bytes, more than {max_bytes}; shorten it", source.len());
    Err(Failure::new(FailureKind::Parse, &message, limits))
}
