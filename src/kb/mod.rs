//! The knowledge base: typed nodes with text, joined by typed relations.

mod scores;
mod set;

pub use scores::{Combine, Scores, best, best_first};
pub use set::NodeSet;

/// A node's number, dense in `0..n_nodes`.
pub type NodeId = u32;
