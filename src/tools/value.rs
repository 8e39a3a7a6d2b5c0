//! Values passed between a program and its tools. Sets, scores and vectors are shared, never
//! copied.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::ToolError;
use agent_kb::{NodeId, NodeSet, Scores};

/// A value given to or returned by a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value, `()` in a program.
    Unit,
    /// A truth value.
    Bool(bool),
    /// An integer; also the form of a node id.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text, UTF-8.
    Text(Arc<str>),
    /// A set of nodes.
    Nodes(Arc<NodeSet>),
    /// Nodes, each with a score.
    Scores(Arc<Scores>),
    /// A dense vector.
    Vector(Arc<[f32]>),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name, ascending.
    Map(BTreeMap<String, Value>),
}

/// The type of an argument or a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No value, `()` in a program.
    Unit,
    /// `true` or `false`.
    Bool,
    /// An integer.
    Int,
    /// An integer or a float.
    Number,
    /// Text.
    Text,
    /// A node id: an integer, or text of digits.
    Node,
    /// A set of nodes, passed as a set, scores, one id or a list of ids.
    Nodes,
    /// Nodes, each with a score.
    Scores,
    /// A dense vector.
    Vector,
    /// A list of texts; a single text counts as a list of one.
    Texts,
    /// A list of numbers.
    Numbers,
    /// A list of vectors.
    Vectors,
    /// A list of truth values.
    Bools,
    /// A map from names to values.
    Map,
    /// A value of any type.
    Any,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "nothing",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Number => "number",
            Self::Text => "text",
            Self::Node => "node",
            Self::Nodes => "nodes",
            Self::Scores => "scores",
            Self::Vector => "vector",
            Self::Texts => "list of text",
            Self::Numbers => "list of numbers",
            Self::Vectors => "list of vectors",
            Self::Bools => "list of bools",
            Self::Map => "map",
            Self::Any => "any",
        })
    }
}

impl Value {
    /// Returns the name of the value's type, for messages.
    pub fn describe(&self) -> &'static str {
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

    /// Creates a text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// Returns the text, if the value is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Wraps a set of nodes.
    pub fn nodes(nodes: NodeSet) -> Self {
        Self::Nodes(Arc::new(nodes))
    }

    /// Wraps scores.
    pub fn scores(scores: Scores) -> Self {
        Self::Scores(Arc::new(scores))
    }
}

/// The arguments of one tool call; their number is already checked, and defaults are filled in.
pub struct Args<'a> {
    values: &'a [Value],
}

impl<'a> Args<'a> {
    /// Wraps the arguments, in order.
    pub fn new(values: &'a [Value]) -> Self {
        Self { values }
    }

    /// Returns argument `index`, counted from 0, as it was given.
    pub fn value(&self, index: usize) -> &'a Value {
        const ABSENT: &Value = &Value::Unit;
        self.values.get(index).unwrap_or(ABSENT)
    }

    /// Reads an argument as a list of values; a single value counts as a list of one.
    fn list<T>(
        &self,
        index: usize,
        kind: Kind,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Vec<T>, ToolError> {
        let values = match self.value(index) {
            Value::List(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        values.iter().map(|one| read(one).map_or_else(|| self.wrong(index, kind), Ok)).collect()
    }

    fn wrong<T>(&self, index: usize, expected: Kind) -> Result<T, ToolError> {
        Err(ToolError::BadArgs(format!(
            "argument {} must be {expected}, got {}",
            index + 1,
            self.value(index).describe()
        )))
    }

    /// Returns argument `index` as text.
    pub fn text(&self, index: usize) -> Result<&'a str, ToolError> {
        self.value(index).as_text().map_or_else(|| self.wrong(index, Kind::Text), Ok)
    }

    /// Returns argument `index` as a list of texts.
    pub fn texts(&self, index: usize) -> Result<Vec<&'a str>, ToolError> {
        self.list(index, Kind::Texts, Value::as_text)
    }

    /// Returns argument `index` as a finite number.
    pub fn number(&self, index: usize) -> Result<f64, ToolError> {
        match self.value(index) {
            Value::Int(number) => Ok(*number as f64),
            Value::Float(number) if number.is_finite() => Ok(*number),
            Value::Float(_) => {
                Err(ToolError::BadArgs(format!("argument {} is not a finite number", index + 1)))
            }
            _ => self.wrong(index, Kind::Number),
        }
    }

    /// Returns argument `index` as a count: a nonnegative number, rounded down.
    pub fn count(&self, index: usize) -> Result<usize, ToolError> {
        let number = self.number(index)?;
        if number < 0.0 {
            return Err(ToolError::BadArgs(format!("argument {} must not be negative", index + 1)));
        }
        Ok(number as usize)
    }

    /// Returns argument `index` as a node id, which may be unknown to the base.
    pub fn node(&self, index: usize) -> Result<NodeId, ToolError> {
        node_id(self.value(index)).map_or_else(|| self.wrong(index, Kind::Node), Ok)
    }

    /// Returns argument `index` as a set of nodes.
    pub fn nodes(&self, index: usize) -> Result<Arc<NodeSet>, ToolError> {
        match self.value(index) {
            Value::Nodes(nodes) => Ok(nodes.clone()),
            Value::Scores(scores) => Ok(Arc::new(scores.nodes())),
            _ => Ok(Arc::new(NodeSet::new(self.node_list(index)?))),
        }
    }

    /// Returns argument `index` as node ids in the given order; repeated ids are kept.
    pub fn node_list(&self, index: usize) -> Result<Vec<NodeId>, ToolError> {
        match self.value(index) {
            Value::Nodes(nodes) => Ok(nodes.as_slice().to_vec()),
            Value::Scores(scores) => Ok(scores.as_slice().iter().map(|pair| pair.0).collect()),
            Value::List(values) => values
                .iter()
                .map(|value| {
                    node_id(value).ok_or_else(|| {
                        let (index, got) = (index + 1, value.describe());
                        ToolError::BadArgs(format!(
                            "argument {index} lists something that is not a node id: {got}"
                        ))
                    })
                })
                .collect(),
            value => {
                node_id(value).map_or_else(|| self.wrong(index, Kind::Nodes), |id| Ok(vec![id]))
            }
        }
    }

    /// Returns argument `index` as scores.
    pub fn scores(&self, index: usize) -> Result<&'a Arc<Scores>, ToolError> {
        match self.value(index) {
            Value::Scores(scores) => Ok(scores),
            _ => self.wrong(index, Kind::Scores),
        }
    }

    /// Returns argument `index` as one or several vectors.
    pub fn vectors(&self, index: usize) -> Result<Vec<&'a [f32]>, ToolError> {
        self.list(index, Kind::Vectors, |value| match value {
            Value::Vector(vector) => Some(&**vector),
            _ => None,
        })
    }
}

/// Reads a node id: an integer in range, or text of digits.
pub fn node_id(value: &Value) -> Option<NodeId> {
    match value {
        Value::Int(id) => NodeId::try_from(*id).ok(),
        Value::Text(digits) => digits.parse().ok(),
        _ => None,
    }
}
