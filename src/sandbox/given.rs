//! What a function of a program gave, before it is checked.
//!
//! Must not know what is right. The engine inside WebAssembly is built from this file as well.

use std::sync::Arc;

use crate::kb::{NodeId, Scores};

/// A result as far as it can be an answer; anything else is told in words.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// Scores by node.
    Scores(Arc<Scores>),
    /// Values by name, each name once; maps in it hold no maps.
    Map(Vec<(String, Given)>),
    /// Nodes with numbers in any order, from a module.
    Ranking(Vec<(NodeId, f32)>),
    /// Anything else, in a few words.
    Other(String),
}

impl Given {
    /// The value in a few words.
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
