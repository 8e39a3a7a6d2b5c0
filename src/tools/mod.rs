//! What a program may do.

mod spec;
mod value;

pub use spec::{ArgSpec, ToolError, ToolSpec};
pub use value::{Args, Kind, Value, node_id};

/// What a tool may use while it runs.
pub struct ToolCtx<'a> {
    /// To be written.
    pub query: &'a str,
}

/// Answers the tool calls of one program call. The sandbox knows tools only through this.
pub trait ToolHost: Send {
    /// Calls tool number `tool` of [`registry`] with the given arguments (between its fewest and
    /// its most; defaults are filled in here).
    ///
    /// # Errors
    /// [`ToolError::Budget`] ends the program; all others may be shown to its author.
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError>;
}

/// All tools, in the order of the reference.
pub fn registry() -> &'static [ToolSpec] {
    &[]
}
