//! Calls for the tests of this folder.

use crate::{
    llm::replies::Asked,
    tools::{ToolCall, Value},
};

/// A call that gave something.
pub(super) fn call(name: &'static str, args: Vec<Value>, result: &Value) -> ToolCall {
    let (result, asked) = (Ok(result.clone()), Asked::default());
    ToolCall { name, args, result, asked, unparsed: 0, line: None }
}
