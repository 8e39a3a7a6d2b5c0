//! Values that cross the border between a program and its tools.
//!
//! Sets, scores and vectors are shared, never copied: a program holds a handle.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::ToolError;
use agent_kb::{NodeId, NodeSet, Scores};

/// A value given to or returned by a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing.
    Unit,
    /// A truth value.
    Bool(bool),
    /// An integer; also the form of a node id.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text, UTF-8.
    Text(Arc<str>),
    /// A set of nodes.
    Nodes(Arc<NodeSet>),
    /// Scores by node.
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
    /// Nothing.
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
    /// A set of nodes; given as a set, scores, one id or a list of ids.
    Nodes,
    /// Scores by node.
    Scores,
    /// A dense vector.
    Vector,
    /// A list of text; one text counts as a list of one.
    Texts,
    /// A list of numbers.
    Numbers,
    /// A list of vectors.
    Vectors,
    /// A list of truth values.
    Bools,
    /// A map from names to values.
    Map,
    /// Anything.
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
    /// What the value is, for messages.
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

    /// Text from anything that is text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// A set of nodes.
    pub fn nodes(nodes: NodeSet) -> Self {
        Self::Nodes(Arc::new(nodes))
    }

    /// Scores by node.
    pub fn scores(scores: Scores) -> Self {
        Self::Scores(Arc::new(scores))
    }
}

/// Arguments of one call, already checked for number; defaults are filled in.
pub struct Args<'a> {
    values: &'a [Value],
}

impl<'a> Args<'a> {
    /// The arguments in order.
    pub fn new(values: &'a [Value]) -> Self {
        Self { values }
    }

    /// Argument `at` as it came.
    pub fn value(&self, at: usize) -> &'a Value {
        const ABSENT: &Value = &Value::Unit;
        self.values.get(at).unwrap_or(ABSENT)
    }

    fn wrong<T>(&self, at: usize, expected: Kind) -> Result<T, ToolError> {
        Err(ToolError::BadArgs(format!(
            "argument {} must be {expected}, got {}",
            at + 1,
            self.value(at).describe()
        )))
    }

    /// Argument `at` as text.
    pub fn text(&self, at: usize) -> Result<&'a str, ToolError> {
        match self.value(at) {
            Value::Text(text) => Ok(text),
            _ => self.wrong(at, Kind::Text),
        }
    }

    /// Argument `at` as a list of text.
    pub fn texts(&self, at: usize) -> Result<Vec<&'a str>, ToolError> {
        match self.value(at) {
            Value::Text(text) => Ok(vec![text]),
            Value::List(values) => values
                .iter()
                .map(|value| match value {
                    Value::Text(text) => Ok(&**text),
                    _ => self.wrong(at, Kind::Texts),
                })
                .collect(),
            _ => self.wrong(at, Kind::Texts),
        }
    }

    /// Argument `at` as a finite number.
    pub fn number(&self, at: usize) -> Result<f64, ToolError> {
        match self.value(at) {
            Value::Int(number) => Ok(*number as f64),
            Value::Float(number) if number.is_finite() => Ok(*number),
            Value::Float(_) => {
                Err(ToolError::BadArgs(format!("argument {} is not a finite number", at + 1)))
            }
            _ => self.wrong(at, Kind::Number),
        }
    }

    /// Argument `at` as a count: a number that is not negative, rounded down.
    pub fn count(&self, at: usize) -> Result<usize, ToolError> {
        let number = self.number(at)?;
        if number < 0.0 {
            return Err(ToolError::BadArgs(format!("argument {} must not be negative", at + 1)));
        }
        Ok(number as usize)
    }

    /// Argument `at` as a truth value.
    pub fn bool(&self, at: usize) -> Result<bool, ToolError> {
        match self.value(at) {
            Value::Bool(truth) => Ok(*truth),
            _ => self.wrong(at, Kind::Bool),
        }
    }

    /// Argument `at` as a node id; whether the base has it is not checked.
    pub fn node(&self, at: usize) -> Result<NodeId, ToolError> {
        node_id(self.value(at)).map_or_else(|| self.wrong(at, Kind::Node), Ok)
    }

    /// Argument `at` as a set of nodes.
    pub fn nodes(&self, at: usize) -> Result<Arc<NodeSet>, ToolError> {
        match self.value(at) {
            Value::Nodes(nodes) => Ok(nodes.clone()),
            Value::Scores(scores) => Ok(Arc::new(scores.nodes())),
            _ => Ok(Arc::new(NodeSet::new(self.node_list(at)?))),
        }
    }

    /// Argument `at` as node ids in the given order, repeats kept.
    pub fn node_list(&self, at: usize) -> Result<Vec<NodeId>, ToolError> {
        match self.value(at) {
            Value::Nodes(nodes) => Ok(nodes.as_slice().to_vec()),
            Value::Scores(scores) => Ok(scores.as_slice().iter().map(|pair| pair.0).collect()),
            Value::List(values) => values
                .iter()
                .map(|value| {
                    node_id(value).ok_or_else(|| {
                        let (at, got) = (at + 1, value.describe());
                        ToolError::BadArgs(format!(
                            "argument {at} lists something that is no node id: {got}"
                        ))
                    })
                })
                .collect(),
            value => node_id(value).map_or_else(|| self.wrong(at, Kind::Nodes), |id| Ok(vec![id])),
        }
    }

    /// Argument `at` as scores.
    pub fn scores(&self, at: usize) -> Result<&'a Arc<Scores>, ToolError> {
        match self.value(at) {
            Value::Scores(scores) => Ok(scores),
            _ => self.wrong(at, Kind::Scores),
        }
    }

    /// Argument `at` as one or several vectors.
    pub fn vectors(&self, at: usize) -> Result<Vec<&'a [f32]>, ToolError> {
        match self.value(at) {
            Value::Vector(vector) => Ok(vec![vector]),
            Value::List(values) => values
                .iter()
                .map(|value| match value {
                    Value::Vector(vector) => Ok(&**vector),
                    _ => self.wrong(at, Kind::Vectors),
                })
                .collect(),
            _ => self.wrong(at, Kind::Vectors),
        }
    }
}

/// The node id a value stands for: an integer in range, or text of digits.
pub fn node_id(value: &Value) -> Option<NodeId> {
    match value {
        Value::Int(id) => NodeId::try_from(*id).ok(),
        Value::Text(digits) => digits.parse().ok(),
        _ => None,
    }
}
