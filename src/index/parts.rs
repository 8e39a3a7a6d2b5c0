//! The optional parts of an index: how each is built and described. Must not know where a part is
//! published or who uses it.

use std::path::Path;

use crate::{
    embed::Embedder,
    index::{
        IndexError, Part,
        ann::{self, AnnIndex},
        build::Watch,
        chunks::{self, ChunkIndex},
        late::{self, LateIndex},
        vectors::VectorIndex,
    },
    kb::Kb,
};

/// What optional parts are made from.
pub(super) struct Materials<'a> {
    pub(super) kb: &'a Kb,
    /// The vectors of all nodes, built by `embedder`.
    pub(super) vectors: &'a VectorIndex,
    pub(super) embedder: &'a dyn Embedder,
}

/// Builds a part into an empty directory.
pub(super) fn build(
    part: Part,
    of: &Materials<'_>,
    watch: &Watch<'_>,
    dir: &Path,
) -> Result<(), IndexError> {
    match part {
        Part::Ann => ann::build(of, watch, dir),
        Part::Multi => chunks::build(of, watch, dir),
        Part::Late => late::build(of, watch, dir),
    }
}

/// The part in a directory in a line for people; reads it all if `verify`.
pub(super) fn describe(part: Part, dir: &Path, verify: bool) -> Result<String, IndexError> {
    let line = match part {
        Part::Ann => {
            let opened = AnnIndex::open(dir)?;
            if verify {
                opened.verify()?;
            }
            opened.describe()
        }
        Part::Multi => {
            let opened = ChunkIndex::open(dir)?;
            if verify {
                opened.verify()?;
            }
            opened.describe()
        }
        Part::Late => {
            let opened = LateIndex::open(dir)?;
            if verify {
                opened.verify()?;
            }
            opened.describe()
        }
    };
    Ok(format!("{part}: {line}"))
}

#[cfg(test)]
mod tests;
