//! Stands in for the knowledge base: its words for sets and scores, which the host holds.

pub(crate) use crate::sandbox::rhai::remote::{NodeId, NodeSet, Scores};
