//! Indexes of a knowledge base: given words, its nodes; given nodes, how well words fit them.
//!
//! Every index is built once, saved in one directory that appears by rename, and then only read,
//! memory-mapped. The directory is `index/<embedder>/` of an installed base:
//!
//! ```text
//! index.json           versions and fingerprints; written last
//! text/                BM25 over documents, documents with names, fields   (text, postings)
//! terms, names_terms   forward indexes of documents and of neighbours' names   (terms)
//! names                entity linking                                      (names)
//! vectors              one embedding per node                              (vectors)
//! embedder             the built-in embedder, trained on the base
//! ```
//!
//! Must not know: queries with answers, programs.

pub mod arrays;
mod base;
pub mod bm25;
mod build;
pub mod names;
pub mod postings;
pub mod terms;
pub mod text;
pub mod vectors;

use std::{io, path::Path};

pub use base::IndexedBase;
pub use build::{Progress, build, index_dir};
pub use text::TextPart;

use crate::{embed::EmbedError, index::vectors::VectorError, kb::KbError};

/// Why an index could not be built, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file could not be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what it should be.
    #[error(
        "index {path} is damaged or of another version: {what}; rebuild it with `agent index --force`"
    )]
    Damaged {
        /// The file or directory.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// There is no index yet.
    #[error("{base} has no index; build it with `agent index {base}`")]
    Missing {
        /// The base.
        base: String,
    },
    /// The index was built over another base.
    #[error(
        "the index of {base} was built over another knowledge base; rebuild it with \
         `agent index {base} --force`"
    )]
    OtherBase {
        /// The base.
        base: String,
    },
    /// The base passes a limit of the index format.
    #[error("too many {0}: at most {1}")]
    TooLarge(&'static str, u64),
    /// The caller asked to stop; nothing is left behind.
    #[error("stopped")]
    Stopped,
    /// The embedder failed.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The vectors could not be read or written.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// The knowledge base could not be opened.
    #[error(transparent)]
    Kb(#[from] KbError),
}

impl IndexError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    fn damaged(path: &Path, what: String) -> Self {
        Self::Damaged { path: path.display().to_string(), what }
    }
}
