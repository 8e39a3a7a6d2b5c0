//! The registry of tools that a program may call, and the session that answers their calls.
//!
//! Every tool is one [`ToolSpec`], from which the function for programs, the text shown to a
//! language model and the reference page are made. Tools do not depend on the engine that runs a
//! program, on who wrote it or on the right answers.

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
pub use lookup::split_step;
pub use session::{Meter, QueryTermsCache, Session, ToolCall, Trace, Work};
pub use spec::{ArgSpec, NodeFlow, Steps, ToolError, ToolSpec};
pub use toolkit::{
    EXAMPLE_QUERY, GROUPS, TOOLKIT, ToolkitScope, reference_page, schema_outline, schema_text,
    toolkit_outline, toolkit_text, toolkit_toml,
};
pub use value::{Args, Kind, Value, node_id};

use agent_index::IndexedBase;
use agent_llm::LlmError;

/// Context of one tool call: the base, the budgets and the language model.
pub struct ToolCtx<'a> {
    /// The indexed knowledge base.
    pub base: &'a IndexedBase,
    /// Counts the work and enforces the budgets of the program call.
    pub meter: &'a mut Meter,
    /// Terms of the texts that earlier tool calls of the same program call analysed.
    pub query_terms: &'a mut QueryTermsCache,
    /// Sends requests to the language model; without a model they fail with [`ToolError::NoLlm`].
    pub requester: &'a mut Requester,
}

/// Answers the tool calls that a program makes in one run: the sandbox's only access to tools.
pub trait ToolHost: Send {
    /// Calls the tool at index `tool` of [`registry`] with at least [`ToolSpec::min_args`]
    /// arguments; fills in defaults.
    ///
    /// # Errors
    /// [`ToolError`], which ends the program and may be shown to its author.
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError>;

    /// Returns the time that tools have waited for language models; not charged to the program.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Starts the program call on the current thread; tools end once the time `_deadline` has
    /// passed.
    fn begin(&mut self, _deadline: Duration) {}

    /// Returns the maximum time that all tools of the call together may wait for language models.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the failure of the language model, or the stop of the process, that invalidates the
    /// program's result; `None` if the result is valid.
    fn outage(&self) -> Option<LlmError> {
        None
    }

    /// Sets the program line of the next call, from 1; ignored by hosts without a trace.
    fn place(&mut self, _line: usize) {}
}

/// Returns all tools, in the order of the reference.
pub fn registry() -> &'static [ToolSpec] {
    static REGISTRY: LazyLock<Vec<ToolSpec>> = LazyLock::new(|| {
        // Each group, with the default cost of its tools.
        let groups = [
            ("text", text::PER_WORD, text::TOOLS),
            ("graph", "1 per node", graph::TOOLS),
            ("rank", "1 per node", rank::TOOLS),
            ("table", "1 per cell and per edge followed, 1,000 per field", table::TOOLS),
            ("avatar", "1 per node and per 100 characters", avatar::TOOLS),
            ("llm", "1 LLM call", llm::TOOLS),
            ("llm", "", expand::TOOLS),
        ];
        let in_group = |(group, usual, tools): (&'static str, &'static str, &[ToolSpec])| {
            let cost = |spec: &ToolSpec| if spec.cost.is_empty() { usual } else { spec.cost };
            tools
                .iter()
                .map(|spec| ToolSpec { group, cost: cost(spec), ..*spec })
                .collect::<Vec<_>>()
        };
        groups.into_iter().flat_map(in_group).collect()
    });
    &REGISTRY
}
