//! What a program may do: the registry of tools, and the session that answers their calls.
//!
//! Every tool is one [`ToolSpec`]. The program function, the text shown to a language model and the
//! reference page are made from it, so they cannot disagree.
//!
//! Must not know: in which engine a program runs, who wrote it, which answers are right.

mod avatar;
mod cache;
mod graph;
mod lookup;
mod rank;
mod session;
mod spec;
mod text;
mod toolkit;
mod value;

use std::sync::LazyLock;

pub use cache::ToolCache;
pub use session::{KnownTexts, Meter, Session, ToolCall, Trace};
pub use spec::{ArgSpec, ToolError, ToolSpec};
pub use toolkit::{EXAMPLE_QUERY, GROUPS, TOOLKIT, reference_page, toolkit_toml};
pub use value::{Args, Kind, Value, node_id};

use crate::index::IndexedBase;

/// What a tool may use while it runs.
pub struct ToolCtx<'a> {
    /// The indexed knowledge base.
    pub base: &'a IndexedBase,
    /// Counts the work.
    pub meter: &'a mut Meter,
    /// Texts that earlier calls of the same program compared with nodes.
    pub texts: &'a mut KnownTexts,
}

/// Answers the tool calls of one program call. The sandbox knows tools only through this.
pub trait ToolHost: Send {
    /// Calls tool number `tool` of [`registry`] with the given arguments (between its fewest and
    /// its most; defaults are filled in here).
    ///
    /// # Errors
    /// [`ToolError::Budget`] ends the program; all others may be shown to its author.
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError>;

    /// Says in which line of the program the next call stands, from 1. Hosts that keep no trace
    /// need not know.
    fn place(&mut self, _line: usize) {}
}

/// All tools, in the order of the reference.
pub fn registry() -> &'static [ToolSpec] {
    static REGISTRY: LazyLock<Vec<ToolSpec>> =
        LazyLock::new(|| [text::TOOLS, graph::TOOLS, rank::TOOLS, avatar::TOOLS].concat());
    &REGISTRY
}
