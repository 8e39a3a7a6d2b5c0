//! Why a program gave no ranking, what a call used, and text that is safe to show.
//!
//! Must not know which engine ran. The engine inside WebAssembly is built from this file as well.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sandbox::Limits;

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
pub(super) fn push_clean(into: &mut String, text: &str, max_bytes: usize) -> bool {
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
