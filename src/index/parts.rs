//! Builds, opens, verifies and describes the optional parts of an index.

use std::path::Path;

use crate::{
    IndexError, Part,
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

/// What optional parts are built from.
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
) -> Result<(), IndexError> {
    match part {
        Part::Ann => ann::build(materials, watch, dir),
        Part::Multi => chunks::build(materials, watch, dir),
        Part::Late => late::build(materials, watch, dir),
        Part::Colbert => late::build_colbert(materials, watch, dir),
        Part::Fields => fields::build(materials.kb, watch, dir),
        Part::FieldVectors => fields::build_vectors(materials, watch, dir),
        Part::Query => {
            let previous_dir = materials.previous.map(|previous| part_path(previous.index, part));
            let previous = materials.previous.zip(previous_dir.as_deref());
            let previous =
                previous.map(|(version, dir)| query::PreviousIndex { kb: version.kb, dir });
            match previous
                .map(|previous| query::update(previous, materials.kb, watch, dir))
                .transpose()?
            {
                Some(true) => Ok(()),
                Some(false) | None => query::build(materials.kb, watch, dir),
            }
        }
    }
}

/// An opened optional part.
pub(super) enum OpenedPart {
    Ann(AnnIndex),
    Multi(Box<ChunkIndex>),
    Late(Box<LateIndex>),
    Colbert(Box<LateIndex>),
    Fields(Box<FieldIndex>),
    FieldVectors(Box<FieldVectors>),
    Query(Box<QueryIndex>),
}

impl OpenedPart {
    /// Opens the optional part in the directory `dir`.
    pub(super) fn open(part: Part, dir: &Path) -> Result<Self, IndexError> {
        Ok(match part {
            Part::Ann => Self::Ann(AnnIndex::open(dir)?),
            Part::Multi => Self::Multi(Box::new(ChunkIndex::open(dir)?)),
            Part::Late => Self::Late(Box::new(LateIndex::open(dir)?)),
            Part::Colbert => Self::Colbert(Box::new(LateIndex::open(dir)?)),
            Part::Fields => Self::Fields(Box::new(FieldIndex::open(dir)?)),
            Part::FieldVectors => Self::FieldVectors(Box::new(FieldVectors::open(dir)?)),
            Part::Query => Self::Query(Box::new(QueryIndex::open(dir)?)),
        })
    }

    /// Reads all files of the part and compares them with their checksums.
    pub(super) fn verify(&self) -> Result<(), IndexError> {
        match self {
            Self::Ann(index) => index.verify(),
            Self::Multi(index) => index.verify(),
            Self::Late(index) | Self::Colbert(index) => index.verify(),
            Self::Fields(index) => index.verify(),
            Self::FieldVectors(index) => index.verify(),
            Self::Query(index) => index.verify(),
        }
    }

    /// Returns the name of the part and a summary, in one line of text for people.
    pub(super) fn describe(&self) -> String {
        let (part, summary) = match self {
            Self::Ann(index) => (Part::Ann, index.describe()),
            Self::Multi(index) => (Part::Multi, index.describe()),
            Self::Late(index) => (Part::Late, index.describe()),
            Self::Colbert(index) => (Part::Colbert, index.describe()),
            Self::Fields(index) => (Part::Fields, index.table().describe()),
            Self::FieldVectors(index) => {
                (Part::FieldVectors, format!("vectors of {}", index.table().describe()))
            }
            Self::Query(index) => (Part::Query, index.describe()),
        };
        format!("{part}: {summary}")
    }
}

#[cfg(test)]
mod tests;
