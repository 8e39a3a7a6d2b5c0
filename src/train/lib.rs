//! Retrievers that learn: labelled queries in, weights out, kept in a directory with a record of
//! what they were learnt from.
//!
//! Only training queries teach; validation queries say when to stop. The same base, queries, seed
//! and settings give the same bytes on any number of threads.
//!
//! Must not know: programs, command lines, the test split.

mod adam;
pub mod dense;
mod epochs;
pub mod graph;
pub mod mfar;
mod store;

pub use adam::Adam;
pub use epochs::{Progress, Task};
pub use store::{Look, Record, Source};

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use agent_dataset::LabelledQuery;
use agent_index::IndexError;
use agent_kb::KbError;

/// Why nothing was learnt, or a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file of a model could not be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file of a model is not what it should be.
    #[error("the model in {path} is damaged or of another version: {what}; train it again")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
    /// The model was trained over another base.
    #[error("the model in {path} was trained over another version of the dataset; train it again")]
    OtherBase {
        /// Its directory.
        path: String,
    },
    /// The model answers as another system.
    #[error("the model in {path} is one of {found}, not of {wanted}")]
    OtherSystem {
        /// Its directory.
        path: String,
        /// The system it is of.
        found: String,
        /// The system that was asked for.
        wanted: String,
    },
    /// The model is a sentence encoder, which has no vectors of nodes of its own.
    #[error(
        "the model in {path} is a sentence encoder; embed the base with it, `agent index N --embedder \
         candle:{path}`, and ask dense or hybrid"
    )]
    SentenceEncoder {
        /// Its directory.
        path: String,
    },
    /// Training that was stopped cannot go on.
    #[error("{path} is no checkpoint of this training: {why}; begin again without --resume")]
    NoCheckpoint {
        /// The directory of the checkpoint.
        path: String,
        /// What is not as it was.
        why: &'static str,
    },
    /// No query of a split teaches or tells anything.
    #[error(
        "{split} has no query with an answer that may be one; labelled queries of {split} are needed"
    )]
    NoQueries {
        /// The split.
        split: &'static str,
    },
    /// A mask names no field.
    #[error("the mask names no field {name:?}; there are document, details, relations and {known}")]
    NoField {
        /// The name as given.
        name: String,
        /// The fields of the model.
        known: String,
    },
    /// A mask names a scorer that the fields do not have.
    #[error("{field} has no scorer {scorer:?}; there is lexical")]
    NoScorer {
        /// The field.
        field: String,
        /// The scorer as given.
        scorer: String,
    },
    /// A network cannot be computed.
    #[error("the network cannot be computed: {0}")]
    Network(String),
    /// The caller asked to stop; of a model nothing is left behind.
    #[error("stopped")]
    Stopped,
    /// The index could not be used.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The model could not be put in its place.
    #[error(transparent)]
    Publish(#[from] KbError),
}

impl TrainError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), what: what.into() }
    }
}

/// Reports progress and learns whether to stop.
struct Watch<'a, P> {
    report: &'a (dyn Fn(P) + Sync),
    stop: &'a AtomicBool,
}

impl<P> Watch<'_, P> {
    /// Whether to go on; costs next to nothing.
    ///
    /// # Errors
    /// [`TrainError::Stopped`] once the caller wants that.
    fn go_on(&self) -> Result<(), TrainError> {
        if self.stop.load(Ordering::Relaxed) { Err(TrainError::Stopped) } else { Ok(()) }
    }
}

/// A digest of queries with their answers, hex: equal ones teach the same.
pub fn digest(queries: &[LabelledQuery]) -> String {
    let mut hasher = blake3::Hasher::new();
    for query in queries {
        hasher.update(&query.id.to_le_bytes());
        hasher.update(&(query.text.len() as u64).to_le_bytes());
        hasher.update(query.text.as_bytes());
        hasher.update(&(query.answers.len() as u64).to_le_bytes());
        hasher.update(bytemuck::cast_slice(&query.answers));
    }
    hasher.finalize().to_hex().to_string()
}
