//! Limits of one call of a program, the same for every engine.
//!
//! Does not enforce the limits. The Rhai engine inside WebAssembly is built from this file too.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Limits of one call of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum length of the source, in bytes. Parsing takes quadratic time for some texts: 64 kB
    /// take about 1 s at worst.
    pub source_bytes: usize,
    /// Maximum number of tokens of the source; keeps quadratic cases far below the deadline.
    pub source_tokens: u64,
    /// Maximum processor time of parsing, checked every 16 tokens; ten times as much wall time.
    pub parse_deadline: Duration,
    /// Maximum size of a WebAssembly module, in bytes.
    pub module_bytes: usize,
    /// Maximum wall time of compiling a module. The compiler cannot be stopped: a module that comes
    /// later is dropped.
    pub compile_deadline: Duration,
    /// Maximum number of steps of the interpreter, including callbacks; deterministic. A higher
    /// limit needs a larger [`STACK_BYTES`](crate::sandbox::STACK_BYTES).
    pub operations: u64,
    /// Maximum processor time of the call's thread, checked every 16 steps (in WebAssembly every
    /// 5 ms), by every tool, and after every tool call. Wall time may be ten times as long.
    pub deadline: Duration,
    /// Maximum heap of a call, in bytes: the program's own values and the tool results that it
    /// holds. One step may copy all of its own values, so these may fill only half of the limit.
    pub memory_bytes: u64,
    /// Heap that may remain after a call without counting as leaked, in bytes.
    pub leak_bytes: u64,
    /// Maximum depth of nested function calls.
    pub call_levels: usize,
    /// Maximum depth of nested expressions in the source; half as much within functions.
    pub expression_depth: usize,
    /// Maximum size of one text, and of all text in one list or map, in bytes.
    pub text_bytes: usize,
    /// Maximum number of elements of one list, including those of nested lists.
    pub list_items: usize,
    /// Maximum number of entries of one map, including those of nested maps.
    pub map_entries: usize,
    /// Maximum number of variables that exist at the same time.
    pub variables: usize,
    /// Maximum number of functions that a source may define.
    pub functions: usize,
    /// Maximum output of `print` and `debug`, in bytes after escaping.
    pub output_bytes: usize,
    /// Maximum number of tool calls.
    pub tool_calls: u64,
    /// Maximum number of nodes in the result.
    pub max_answers: usize,
    /// Maximum number of parameters that a program may declare.
    pub parameters: usize,
    /// Maximum length of a failure's message, in bytes.
    pub message_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            source_bytes: 64 << 10,
            source_tokens: 20_000,
            parse_deadline: Duration::from_millis(500),
            module_bytes: 4 << 20,
            compile_deadline: Duration::from_secs(10),
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
