//! Failures of programs, the resources that a call used, and text that is safe to show.
//!
//! Does not depend on the engine. The Rhai engine inside WebAssembly is built from this file too.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sandbox::Limits;

/// Why a program returned no ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The source cannot be parsed, is too long, or took too long to parse.
    Parse,
    /// The source lacks `fn retrieve(query, candidates, params)`.
    MissingFunction,
    /// The call took more steps than [`Limits::operations`].
    Operations,
    /// The call took more time than [`Limits::deadline`].
    Deadline,
    /// The call took more heap than [`Limits::memory_bytes`], or a value exceeded its own limit.
    Memory,
    /// Function calls were nested deeper than [`Limits::call_levels`].
    Depth,
    /// The program printed more than [`Limits::output_bytes`].
    Output,
    /// The program made more tool calls than [`Limits::tool_calls`], or a tool exceeded a budget.
    ToolBudget,
    /// A tool refused its arguments or failed.
    Tool,
    /// The result is neither scores nor a map from known node ids to finite numbers.
    Result,
    /// Any other error of the program, including an error that it throws.
    Runtime,
    /// The engine or a tool panicked; the program is not to blame.
    Panic,
}

impl FailureKind {
    /// Returns the stable name, as in JSON.
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

/// A position in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column, in characters from 1; 0 if unknown.
    pub column: usize,
}

/// Why a program returned no ranking, for its author.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// What went wrong and how to fix it; at most [`Limits::message_bytes`], without control
    /// characters other than line breaks. May quote the program: untrusted text.
    pub message: String,
    /// Position in the source, if known.
    pub position: Option<Position>,
    /// Resources used until the failure.
    pub usage: Usage,
    /// Text printed until the failure; untrusted.
    pub output: String,
}

impl Failure {
    /// Creates a failure; its message is cut to the limit, and control characters are escaped.
    pub fn new(kind: FailureKind, message: &str, limits: &Limits) -> Self {
        let message = clean(message, limits.message_bytes);
        Self { kind, message, position: None, usage: Usage::default(), output: String::new() }
    }
}

/// Resources that a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of steps of the interpreter; deterministic.
    pub operations: u64,
    /// Number of tool calls, including refused ones; deterministic.
    pub tool_calls: u64,
    /// Wall time, in milliseconds.
    pub ms: f64,
    /// Maximum heap at any moment, in bytes.
    pub peak_bytes: u64,
    /// Heap that the call left behind in cycles of captured variables, in bytes; 0 up to
    /// [`Limits::leak_bytes`]. A program that leaks should not be run again.
    pub leaked_bytes: u64,
}

/// Escapes control characters in a text, and cuts the text to a number of bytes.
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

/// Appends a text, with control and direction characters escaped, as long as `into` stays within
/// `max_bytes`; returns whether the whole text fitted.
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

/// Whether a character could control a terminal or hide text.
fn is_hidden(character: char) -> bool {
    (character.is_control() && character != '\n')
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
