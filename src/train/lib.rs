//! Trains retrievers on labelled queries, and stores the weights in a directory with a record of
//! their source.
//!
//! Weights are trained on training queries; validation queries decide when to stop. The same
//! knowledge base, queries, seed and settings give the same bytes on any number of threads. The
//! crate does not depend on programs or command lines, and never reads the test split.

mod adam;
pub mod dense;
mod epochs;
pub mod graph;
pub mod mfar;
mod store;

pub use adam::Adam;
pub use epochs::{Progress, Task};
pub use store::{Record, Source, ValidationPoint};

use std::{
    io,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use agent_dataset::LabelledQuery;
use agent_index::IndexError;
use agent_kb::KbError;

/// Result of training, or of using a model.
pub type Result<T, E = TrainError> = std::result::Result<T, E>;

/// Why training failed, or why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file of a model cannot be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// Path of the file or directory.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file of a model is invalid.
    #[error(
        "the model in {path} is damaged or has an unsupported format: {reason}; train it again"
    )]
    Damaged {
        /// Path of the file or of the model's directory.
        path: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// The model was trained on another knowledge base, or on another version of it.
    /// Holds the directory of the model.
    #[error("the model in {0} was trained on another version of the dataset; train it again")]
    OtherBase(String),
    /// The model was trained with a different embedder than that of the index.
    /// Holds the directory of the model.
    #[error(
        "the model in {0} was trained with a different embedder than the index; index the dataset with \
         the model's embedder, or train again"
    )]
    OtherEmbedder(String),
    /// The model belongs to a different retrieval system than the one that opens it.
    #[error("the model in {path} belongs to the system {found}, not {wanted}")]
    OtherSystem {
        /// Directory of the model.
        path: String,
        /// System of the model, such as `mfar`.
        found: String,
        /// System that opens the model.
        wanted: String,
    },
    /// The model is a sentence encoder, which has no node vectors.
    /// Holds the directory of the model.
    #[error(
        "the model in {0} is a sentence encoder; index the base with it, `agent index N --embedder \
         candle:{0}`, and use dense or hybrid"
    )]
    SentenceEncoder(String),
    /// Training cannot be resumed from the checkpoint.
    #[error("{path} is not a checkpoint of this training: {reason}; start again without --resume")]
    NoCheckpoint {
        /// Directory of the checkpoint.
        path: String,
        /// Why the checkpoint does not belong to this training.
        reason: &'static str,
    },
    /// No query of a split has an answer among the candidates.
    /// Holds the name of the split: `train` or `val`.
    #[error("{0} has no query with an answer among the candidates; add labelled queries to {0}")]
    NoQueries(&'static str),
    /// A mask names an unknown field.
    #[error(
        "{name:?} in the mask is not a field; use document, details, relations, lexical, dense or one of \
         {known}"
    )]
    NoField {
        /// Name of the field, as in the mask.
        name: String,
        /// Names of the model's fields, comma-separated.
        known: String,
    },
    /// A mask names an unknown scorer.
    #[error("{field} has no scorer {scorer:?}; use {known}")]
    NoScorer {
        /// Name of the field, as in the mask.
        field: String,
        /// Name of the scorer, as in the mask.
        scorer: String,
        /// Scorers that the field has, such as `lexical or dense`.
        known: String,
    },
    /// The scores or gradients of a network could not be computed; holds the reason.
    #[error("the computation of the network failed: {0}")]
    Network(String),
    /// The caller stopped training; no model was written.
    #[error("stopped")]
    Stopped,
    /// An index of the knowledge base cannot be read or built.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The finished model could not be moved to its directory.
    #[error(transparent)]
    Publish(#[from] KbError),
}

impl TrainError {
    fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), reason: reason.into() }
    }
}

/// Progress reports and the stop flag of a caller.
struct Watch<'a, P> {
    report: &'a (dyn Fn(P) + Sync),
    stop: &'a AtomicBool,
}

impl<P> Watch<'_, P> {
    /// Checks the stop flag, at negligible cost.
    ///
    /// # Errors
    /// [`TrainError::Stopped`] once the flag is set.
    fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(TrainError::Stopped) } else { Ok(()) }
    }
}

/// Returns the BLAKE3 digest of the ids, texts and answers of `queries`, in hexadecimal digits.
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
