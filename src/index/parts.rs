//! The optional parts of an index: one function that builds each. Must not know where a part is
//! published or who uses it.

use std::path::Path;

use crate::{
    embed::Embedder,
    index::{IndexError, Part, build::Watch, vectors::VectorIndex},
    kb::Kb,
};

/// What optional parts are made from.
#[expect(dead_code, reason = "no part is built in yet")]
pub(super) struct Materials<'a> {
    pub(super) kb: &'a Kb,
    /// The vectors of all nodes, built by `embedder`.
    pub(super) vectors: &'a VectorIndex,
    pub(super) embedder: &'a dyn Embedder,
}

/// Builds a part into an empty directory.
pub(super) fn build(
    part: Part,
    _of: &Materials<'_>,
    _watch: &Watch<'_>,
    _dir: &Path,
) -> Result<(), IndexError> {
    Err(IndexError::NoPart(part))
}
