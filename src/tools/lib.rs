//! What a program may do: the registry of tools, and the session that answers their calls.
//!
//! Every tool is one [`ToolSpec`]. The program function, the text shown to a language model and the
//! reference page are made from it, so they cannot disagree.
//!
//! Must not know: in which engine a program runs, who wrote it, which answers are right.

mod asking;
mod assistant;
mod avatar;
mod cache;
mod cost;
mod examples;
mod expand;
mod graph;
mod llm;
mod lookup;
pub mod mentions;
mod rank;
mod session;
pub mod source;
mod spec;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod toolkit;
mod value;

use std::{sync::LazyLock, time::Duration};

pub use asking::{Requester, TOOLS_ROLE};
pub use assistant::{Assistant, AssistantError};
pub use cache::ToolCache;
pub use expand::FEEDBACK;
pub use llm::unit_score;
pub use session::{KnownTexts, Meter, Session, ToolCall, Trace, Work};
pub use spec::{ArgSpec, NodeFlow, Steps, ToolError, ToolSpec};
pub use toolkit::{
    EXAMPLE_QUERY, GROUPS, TOOLKIT, Told, reference_page, schema_outline, schema_text,
    toolkit_outline, toolkit_text, toolkit_toml,
};
pub use value::{Args, Kind, Value, node_id};

use agent_index::IndexedBase;
use agent_llm::LlmError;

/// What a tool may use while it runs.
pub struct ToolCtx<'a> {
    /// The indexed knowledge base.
    pub base: &'a IndexedBase,
    /// Counts the work.
    pub meter: &'a mut Meter,
    /// Texts that earlier calls of the same program compared with nodes.
    pub texts: &'a mut KnownTexts,
    /// Asks the language model, if there is one.
    pub requester: &'a mut Requester,
}

/// Answers the tool calls of one program call. The sandbox knows tools only through this.
pub trait ToolHost: Send {
    /// Calls tool number `tool` of [`registry`] with the given arguments (between its fewest and
    /// its most; defaults are filled in here).
    ///
    /// # Errors
    /// [`ToolError::Budget`] ends the program; all others may be shown to its author.
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError>;

    /// The time that tools spent waiting for language models so far; no fault of the program.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// The call begins now, on the thread that calls this, and may compute for so long; tools end
    /// by then.
    fn begin(&mut self, _deadline: Duration) {}

    /// The longest that all tools of the call together may wait for language models.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Why a language model could not be asked any more, or that the process is to end, if that
    /// happened: whatever the program gave then says nothing of it.
    fn outage(&self) -> Option<LlmError> {
        None
    }

    /// Says in which line of the program the next call stands, from 1. Hosts that keep no trace
    /// need not know.
    fn place(&mut self, _line: usize) {}
}

/// All tools, in the order of the reference.
pub fn registry() -> &'static [ToolSpec] {
    static REGISTRY: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
        let groups = [
            text::TOOLS,
            graph::TOOLS,
            rank::TOOLS,
            table::TOOLS,
            avatar::TOOLS,
            llm::TOOLS,
            expand::TOOLS,
        ];
        groups.concat()
    });
    &REGISTRY
}
