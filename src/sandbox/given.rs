//! The result of a program's function, before it is checked.
//!
//! Does not check results. The Rhai engine inside WebAssembly is built from this file too.

use std::sync::Arc;

use crate::kb::{NodeId, Scores};

/// A result; a value that cannot be part of an answer is described in words.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Scores by node.
    Scores(Arc<Scores>),
    /// Values by name, each name once; maps among these values contain no maps.
    Map(Vec<(String, Given)>),
    /// Pairs (node, score) in any order, from a module.
    Ranking(Vec<(NodeId, f32)>),
    /// Description of any other value, in a few words.
    Other(String),
}

impl Given {
    /// Describes the value in a few words.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Scores(scores) => format!("scores({})", scores.len()),
            Self::Map(entries) => format!("a map of {}", entries.len()),
            Self::Ranking(pairs) => format!("a ranking of {}", pairs.len()),
            Self::Other(words) => words.clone(),
        }
    }
}
