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
//! # What is not contained
//! All programs share this process. One allocation that the system refuses, a stack deeper than
//! [`STACK_BYTES`], a tool that blocks, and errors in the engine itself reach the process. What a
//! program leaks by cycles of captured variables stays leaked; it is measured and reported in
//! [`Usage::leaked_bytes`], so that the caller can drop the program.

mod alloc;
mod rhai;
#[cfg(test)]
mod tests;
mod workers;

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{kb::NodeId, tools::ToolHost};

pub use rhai::RhaiSandbox;
pub use workers::{JobLost, MAX_WORKERS, Pending, QUEUE_PER_WORKER, STACK_BYTES, Workers};

/// What one call of a program may use. Every limit is per call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Source text, bytes of UTF-8. Parsing is quadratic for some texts: 64 kB takes about 1 s at
    /// worst.
    pub source_bytes: usize,
    /// Tokens of source text; keeps the quadratic cases of a full source far below the deadline.
    pub source_tokens: u64,
    /// Wall time of parsing, checked at every token.
    pub parse_deadline: Duration,
    /// Steps of the interpreter, also those inside callbacks. Deterministic. Raising it needs a
    /// larger [`STACK_BYTES`].
    pub operations: u64,
    /// Wall time of one call without waiting for language models, checked at every step and after
    /// every tool call.
    pub deadline: Duration,
    /// Heap a call may take, bytes: its own values and the tool results it keeps. One step may
    /// copy all of its own values, so these may fill half of it.
    pub memory_bytes: u64,
    /// Heap that may remain after a call, bytes, before it counts as leaked.
    pub leak_bytes: u64,
    /// Nested function calls.
    pub call_levels: usize,
    /// Nested expressions in the source; half of it within functions.
    pub expression_depth: usize,
    /// One text, and all text in one list or map, bytes.
    pub text_bytes: usize,
    /// Elements of one list, those of nested lists included.
    pub list_items: usize,
    /// Entries of one map, those of nested maps included.
    pub map_entries: usize,
    /// Variables alive at once.
    pub variables: usize,
    /// Functions a source may define.
    pub functions: usize,
    /// What `print` and `debug` may write, bytes after escaping.
    pub output_bytes: usize,
    /// Calls of tools.
    pub tool_calls: u64,
    /// Nodes in the result.
    pub max_answers: usize,
    /// Parameters a program may declare.
    pub parameters: usize,
    /// A failure's message, bytes.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            source_bytes: 64 << 10,
            source_tokens: 20_000,
            parse_deadline: Duration::from_millis(500),
            operations: 5_000_000,
            deadline: Duration::from_secs(2),
            memory_bytes: 256 << 20,
            leak_bytes: 64 << 10,
            call_levels: 32,
            expression_depth: 64,
            text_bytes: 1 << 20,
            list_items: 100_000,
            map_entries: 100_000,
            variables: 256,
            functions: 128,
            output_bytes: 64 << 10,
            tool_calls: 2_000,
            max_answers: 1_000,
            parameters: 64,
            message_bytes: 2 << 10,
        }
    }
}

/// Why a program gave no ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The source cannot be parsed, is too long, or took too long to parse.
    Parse,
    /// The source lacks `fn retrieve(query, candidates, params)`.
    MissingFunction,
    /// More steps than [`Limits::operations`].
    Operations,
    /// More time than [`Limits::deadline`].
    Deadline,
    /// More heap than [`Limits::memory_bytes`], or a value above its own limit.
    Memory,
    /// More nested calls than [`Limits::call_levels`].
    Depth,
    /// More printed than [`Limits::output_bytes`].
    Output,
    /// More tool calls than [`Limits::tool_calls`], or a tool ran out of a budget.
    ToolBudget,
    /// A tool refused its arguments or failed.
    Tool,
    /// The result is neither scores nor a map from known node ids to finite numbers.
    Result,
    /// Any other error of the program, also one it threw.
    Runtime,
    /// The engine or a tool panicked; the fault is not the program's.
    Panic,
}

impl FailureKind {
    /// The stable name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::MissingFunction => "missing_function",
            Self::Operations => "operations",
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::Depth => "depth",
            Self::Output => "output",
            Self::ToolBudget => "tool_budget",
            Self::Tool => "tool",
            Self::Result => "result",
            Self::Runtime => "runtime",
            Self::Panic => "panic",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A place in a source, both counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters; zero when unknown.
    pub column: usize,
}

/// Why a program gave no ranking, for its author.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Failure {
    /// The kind; stable.
    pub kind: FailureKind,
    /// What went wrong and how to mend it; at most [`Limits::message_bytes`], without control
    /// characters other than line breaks. May quote the program: untrusted text.
    pub message: String,
    /// Where, if known.
    pub position: Option<Position>,
    /// What was used until then.
    pub usage: Usage,
    /// What was printed until then; untrusted text.
    pub output: String,
}

impl Failure {
    /// A failure whose message is cut to `limits` and cleaned of control characters.
    pub fn new(kind: FailureKind, message: &str, limits: &Limits) -> Self {
        let message = clean(message, limits.message_bytes);
        Self { kind, message, position: None, usage: Usage::default(), output: String::new() }
    }
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Steps of the interpreter; deterministic.
    pub operations: u64,
    /// Calls of tools, also refused ones; deterministic.
    pub tool_calls: u64,
    /// Wall time, ms.
    pub ms: f64,
    /// The most heap taken at any moment, bytes.
    pub peak_bytes: u64,
    /// Heap that the call left behind beyond [`Limits::leak_bytes`]: cycles of captured variables.
    /// A program that leaks should not be run again.
    pub leaked_bytes: u64,
}

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
    /// Parses and checks a source.
    ///
    /// # Errors
    /// [`FailureKind::Parse`], [`FailureKind::MissingFunction`] or [`FailureKind::Panic`].
    fn compile(&self, source: &str, limits: &Limits) -> Result<Compiled, Failure>;

    /// The numbers a program declares in `params()`, by name; empty when it has none. Run once,
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

/// Text cut to a number of bytes at a character, with control characters escaped.
fn clean(text: &str, max_bytes: usize) -> String {
    const CUT: &str = " ... (cut)";
    let mut cleaned = String::new();
    if !push_clean(&mut cleaned, text, max_bytes) {
        let mut end = max_bytes.saturating_sub(CUT.len()).min(cleaned.len());
        while !cleaned.is_char_boundary(end) {
            end -= 1;
        }
        cleaned.truncate(end);
        cleaned.push_str(CUT);
    }
    cleaned
}

/// Appends text with control and direction characters escaped while `into` stays within
/// `max_bytes`; whether all of it fitted.
fn push_clean(into: &mut String, text: &str, max_bytes: usize) -> bool {
    for character in text.chars() {
        let before = into.len();
        if is_hidden(character) {
            into.extend(character.escape_unicode());
        } else {
            into.push(character);
        }
        if into.len() > max_bytes {
            into.truncate(before);
            return false;
        }
    }
    true
}

/// Whether a character could steer a terminal or hide text.
fn is_hidden(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
