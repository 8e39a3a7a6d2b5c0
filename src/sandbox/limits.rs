//! What one call of a program may use, the same numbers for every engine.
//!
//! Must not know how a limit is kept. The engine inside WebAssembly is built from this file as well.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one call of a program may use. Every limit is per call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Source text, bytes of UTF-8. Parsing is quadratic for some texts: 64 kB takes about 1 s at
    /// worst.
    pub source_bytes: usize,
    /// Tokens of source text; keeps the quadratic cases of a full source far below the deadline.
    pub source_tokens: u64,
    /// Processor time of parsing, checked at every token. Wall time is bounded as that of a call.
    pub parse_deadline: Duration,
    /// A module of WebAssembly, bytes.
    pub module_bytes: usize,
    /// Wall time of compiling a module. Compiling itself cannot be stopped: what comes too late is
    /// thrown away.
    pub compile_deadline: Duration,
    /// Steps of the interpreter, also those inside callbacks. Deterministic. Raising it needs a
    /// larger [`STACK_BYTES`](crate::sandbox::STACK_BYTES).
    pub operations: u64,
    /// Processor time of one call's thread, checked at every step, by every tool, and after every
    /// tool call. Its wall time is bounded as well, ten times as long: other threads may work for it.
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
