//! Stands in for the tools: their descriptions come from the host, and so do their answers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize;

use crate::kb::{NodeSet, Scores};

/// A value given to or returned by a tool.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Unit,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    Nodes(Arc<NodeSet>),
    Scores(Arc<Scores>),
    Vector(Arc<[f32]>),
    List(Vec<Value>),
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// What the value is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Self::Unit => "nothing",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Text(_) => "text",
            Self::Nodes(_) => "nodes",
            Self::Scores(_) => "scores",
            Self::Vector(_) => "vector",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }

    /// Text from anything that is text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// The type of an argument, as the host names it.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum Kind {
    Unit,
    Bool,
    Int,
    Number,
    Text,
    Node,
    Nodes,
    Scores,
    Vector,
    Texts,
    Numbers,
    Vectors,
    Bools,
    Map,
    Any,
}

/// One argument of a tool.
pub(crate) struct ArgSpec {
    pub(crate) kind: Kind,
}

/// One function that programs may call.
pub(crate) struct ToolSpec {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [ArgSpec],
    min_args: usize,
}

/// A tool as the host describes it.
#[derive(Deserialize)]
struct Described {
    name: String,
    min_args: usize,
    kinds: Vec<Kind>,
}

impl ToolSpec {
    /// The fewest arguments a call may have.
    pub(crate) fn min_args(&self) -> usize {
        self.min_args
    }

    /// Whether the name is an operator, written between its arguments.
    pub(crate) fn is_operator(&self) -> bool {
        !self.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
    }
}

/// The tools that the host describes; they live as long as the module.
pub(crate) fn read_specs(text: &[u8]) -> serde_json::Result<&'static [ToolSpec]> {
    let described: Vec<Described> = serde_json::from_slice(text)?;
    let specs: Vec<ToolSpec> = described
        .into_iter()
        .map(|tool| {
            let args: Vec<ArgSpec> = tool.kinds.into_iter().map(|kind| ArgSpec { kind }).collect();
            ToolSpec { name: tool.name.leak(), args: args.leak(), min_args: tool.min_args }
        })
        .collect();
    Ok(specs.leak())
}

/// Why a tool could not answer, in the words of the host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// Ends the program: a budget is spent.
    #[error("{0}")]
    Budget(String),
    /// Ends the program: its time is over. The host ends it itself.
    #[allow(dead_code, reason = "the shared files know it")]
    #[error("stopped after {0} ms")]
    Deadline(u128),
    /// Any other reason.
    #[error("{0}")]
    BadArgs(String),
}

/// Answers tool calls.
pub(crate) trait ToolHost {
    /// Calls a tool by its position.
    fn call(&mut self, tool: usize, args: Vec<Value>) -> Result<Value, ToolError>;

    /// Says in which line the next call stands, from 1.
    fn place(&mut self, line: usize);

    /// Time spent waiting for language models; the host takes it out of the deadline itself.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }
}
