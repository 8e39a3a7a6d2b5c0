//! Indexes of a knowledge base: search over its nodes by words and vectors, scores of single nodes,
//! and entity linking.
//!
//! An index is built in a hidden directory, published by rename, and memory-mapped for reading. An
//! installed base has one index, `index/`, with two parts:
//!
//! ```text
//! words/               depends on the base alone
//!   record.json        version and fingerprint; written last
//!   text/              BM25 over documents, documents with names, fields   (text, postings)
//!   terms, names_terms forward indexes of documents and of neighbours' names   (terms)
//!   names              entity linking                                      (entities)
//! vectors/             depends on the embedder too
//!   record.json        version, fingerprints, embedder, optional parts; written last
//!   vectors            one embedding per node                              (vectors)
//!   model              the built-in embedder, trained on the base
//!   queries            imported vectors of queries, if the vectors are imported
//!   ann/ multi/ late/  optional parts                                      (parts)
//!   colbert/           optional: tokens by a ColBERT checkpoint            (late)
//!   fields/            optional: text search by field                      (fields)
//!   field-vectors/     optional: a vector of each field of each node       (fields)
//!   query/             optional: search with a query language              (query)
//! ```
//!
//! A change of the embedder replaces `vectors/` and keeps `words/`.

mod adopt;
pub mod ann;
pub mod arrays;
mod base;
pub mod bm25;
mod bm25f;
mod build;
pub mod chunks;
mod documents;
mod embedder;
pub mod entities;
pub mod excerpt;
pub mod fields;
mod import;
mod language;
pub mod late;
mod layout;
mod parts;
pub mod postings;
pub mod query;
mod spelling;
mod stream;
pub mod terms;
pub mod text;
pub mod vectors;

use std::{io, path::Path};

pub use adopt::adopt;
pub use base::{IndexState, IndexedBase};
pub use bm25f::FieldsQuery;
pub use build::{
    IndexedVersion, Plan, PrecomputedVectors, Progress, VectorSource, Watch, WordSource, build,
    build_parts, embed, read_words, split_nodes,
};
pub use embedder::{Access, EmbedderChoice, NamedEmbedder};
pub use import::{Import, ImportBuilder};
pub use language::languages;
pub use layout::{Part, PartRequest, VectorsRecord, VectorsSpec, WORDS_FORMAT, remove_leftovers};
pub use postings::Collection;
pub use text::TextPart;

use crate::vectors::VectorError;
use agent_embed::EmbedError;
use agent_ground::{files, words::Languages};
use agent_kb::{FileRecord, KbError};

/// Result of building, opening or searching an index.
pub type Result<T, E = IndexError> = std::result::Result<T, E>;

/// Why an index could not be built, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file of the index could not be read or written.
    #[error("cannot use {path}: {source}{}", files::remedy(source))]
    Io {
        /// Path of the file, or a description in place of a path, such as
        /// `the precomputed vectors`.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file of the index is damaged or has a format that this version cannot read.
    #[error(
        "index {path} is damaged or was built by another version: {reason}; rebuild it with `agent \
         index --force`"
    )]
    Damaged {
        /// Path of the damaged file or directory.
        path: String,
        /// What is wrong with the file or directory.
        reason: String,
    },
    /// The index of the base, or one of its required parts, is not built.
    #[error("{base} has no index; build it with `agent index {base}`")]
    Missing {
        /// Name of the base.
        base: String,
    },
    /// The index was built over a base with another fingerprint.
    #[error(
        "the index of {base} was built over another knowledge base; rebuild it with \
         `agent index {base} --force`"
    )]
    OtherBase {
        /// Name of the base.
        base: String,
    },
    /// The languages of the base differ from those of its index.
    #[error(
        "the index of {base} was built for texts in {indexed}, but they are in {languages}; \
         rebuild it with `agent index {base} --force`"
    )]
    OtherLanguages {
        /// Name of the base.
        base: String,
        /// Languages for which the index was built.
        indexed: Languages,
        /// Languages of the texts of the base.
        languages: Languages,
    },
    /// The base exceeds a limit of the index format; holds a plural noun for the limited items, and
    /// their maximum number.
    #[error("too many {0}: at most {1}; split the base")]
    TooLarge(&'static str, u64),
    /// An optional part of the index is not built.
    #[error(
        "the index of {base} has no part {part}; build it with `agent index {base} --with {part}{}`",
        .part.value()
    )]
    MissingPart {
        /// Name of the base.
        base: String,
        /// The part that is not built.
        part: Part,
    },
    /// The part `colbert` is requested without a checkpoint.
    #[error("part colbert needs a ColBERT checkpoint; name its directory: --with colbert=DIR")]
    NoCheckpoint,
    /// The part `colbert` was built with another checkpoint.
    #[error(
        "part colbert of {base} was not built with checkpoint {dir}; rebuild it with `agent index \
         {base} --with colbert={dir}`"
    )]
    OtherCheckpoint {
        /// Name of the base.
        base: String,
        /// Directory of the checkpoint that was named.
        dir: String,
    },
    /// Imported vectors do not match the base; the text says how.
    #[error("the vectors cannot be imported: {0}")]
    BadImport(String),
    /// The caller stopped the build; unfinished files are removed.
    #[error("stopped")]
    Stopped,
    /// The embedder could not be opened or could not embed a text.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// The file of vectors could not be read, written or searched.
    #[error(transparent)]
    Vectors(#[from] VectorError),
    /// The knowledge base could not be opened.
    #[error(transparent)]
    Kb(#[from] KbError),
}

impl IndexError {
    /// Returns a function that converts an I/O error at `path` into [`IndexError::Io`].
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { path: path.display().to_string(), source }
    }

    fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), reason: reason.into() }
    }

    /// Reads a file and compares its digest (BLAKE3, hexadecimal) with the recorded one.
    fn check_digest(path: &Path, recorded: Option<&[u8]>) -> Result<(), Self> {
        let found = FileRecord::of(path).map_err(Self::io(path))?.blake3;
        match recorded == Some(found.as_bytes()) {
            true => Ok(()),
            false => Err(Self::damaged(path, "its checksum does not match")),
        }
    }
}
