//! Builds, verifies and describes the optional parts of an index.

use std::path::Path;

use crate::{
    Part, Result,
    ann::{self, AnnIndex},
    build::{IndexedVersion, Watch},
    chunks::{self, ChunkIndex},
    fields::{self, FieldIndex, FieldVectors},
    late::{self, LateIndex},
    layout::part_path,
    query::{self, QueryIndex},
    vectors::VectorIndex,
};
use agent_embed::{ColbertEncoder, Embedder};
use agent_kb::Kb;

/// Inputs for building optional parts.
pub(super) struct Materials<'a> {
    pub(super) kb: &'a Kb,
    /// The vectors of all nodes, made by `embedder`.
    pub(super) vectors: &'a VectorIndex,
    pub(super) embedder: &'a dyn Embedder,
    /// The checkpoint for the part `colbert`, if one is named.
    pub(super) colbert: Option<&'a ColbertEncoder>,
    /// The previous version of the base; `None` if its index lacks the part to build.
    pub(super) previous: Option<IndexedVersion<'a>>,
}

/// Builds an optional part into the empty directory `dir`.
pub(super) fn build(
    part: Part,
    materials: &Materials<'_>,
    watch: &Watch<'_>,
    dir: &Path,
) -> Result<()> {
    match part {
        Part::Ann => ann::build(materials, watch, dir),
        Part::Multi => chunks::build(materials, watch, dir),
        Part::Late => late::build(materials, watch, dir),
        Part::Colbert => late::build_colbert(materials, watch, dir),
        Part::Fields => fields::build(materials.kb, watch, dir),
        Part::FieldVectors => fields::build_vectors(materials, watch, dir),
        Part::Query => {
            if let Some(IndexedVersion { kb, index }) = materials.previous
                && query::update((kb, &part_path(index, part)), materials.kb, watch, dir)?
            {
                return Ok(());
            }
            query::build(materials.kb, watch, dir)
        }
    }
}

/// Reads all files of the optional part in the directory `dir` and compares them with their
/// checksums.
pub(super) fn verify(part: Part, dir: &Path) -> Result<()> {
    match part {
        Part::Ann => AnnIndex::open(dir)?.verify(),
        Part::Multi => ChunkIndex::open(dir)?.verify(),
        Part::Late | Part::Colbert => LateIndex::open(dir)?.verify(),
        Part::Fields => FieldIndex::open(dir)?.verify(),
        Part::FieldVectors => FieldVectors::open(dir)?.verify(),
        Part::Query => QueryIndex::open(dir)?.verify(),
    }
}

/// Returns the name and a summary of the optional part in the directory `dir`, on one line, for
/// display.
pub(super) fn describe(part: Part, dir: &Path) -> Result<String> {
    let summary = match part {
        Part::Ann => AnnIndex::open(dir)?.describe(),
        Part::Multi => ChunkIndex::open(dir)?.describe(),
        Part::Late | Part::Colbert => LateIndex::open(dir)?.describe(),
        Part::Fields => FieldIndex::open(dir)?.table().describe(),
        Part::FieldVectors => {
            format!("vectors of {}", FieldVectors::open(dir)?.table().describe())
        }
        Part::Query => QueryIndex::open(dir)?.describe(),
    };
    Ok(format!("{part}: {summary}"))
}

#[cfg(test)]
mod tests;
