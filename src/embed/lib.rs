//! Text embeddings: vectors whose dot product measures the similarity of two texts.
//!
//! An [`Embedder`] maps texts to rows of a [`Matrix`]; all users (the vector index, dense
//! retrieval, the tools of a program) depend on this trait only. The built-in embedder, [`lsa`], is
//! trained on the documents of the knowledge base, so nothing is downloaded. [`bert`] runs sentence
//! encoders from a local directory.
//!
//! The crate does not depend on the knowledge base: inputs are strings.
//!
//! | file | content |
//! | --- | --- |
//! | [`matrix`] | `[rows, dim]` matrices, and the dot product of the crate |
//! | [`lsa`] | the built-in embedder, trained on documents |
//! | [`bert`] | sentence encoders in local directories |
//! | [`openai`] | embedding services |
//! | `options` | user settings: prefixes, scaling and length of vectors |
//! | [`table`] | vectors of queries, imported instead of computed |
//! | [`cache`] | a cache in front of an expensive embedder |
//! | `tokens` | word stems of a text |
//! | `sparse` | sparse matrices and their products with dense ones |
//! | `factor` | leading singular vectors of a sparse matrix |

pub mod bert;
pub mod cache;
pub mod gpu;
pub mod lsa;
pub mod matrix;
pub mod openai;
pub mod table;

mod factor;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
mod options;
#[cfg(test)]
#[path = "../remote/scripted.rs"]
mod scripted;
mod sparse;
mod tokens;

use std::{path::PathBuf, sync::Arc};

pub use bert::{BertEncoder, colbert::ColbertEncoder};
pub use cache::CachedEmbedder;
pub use lsa::{Corpus, LsaEmbedder, LsaParams};
pub use matrix::Matrix;
pub use openai::OpenAiEmbedder;
pub use options::EmbedderOptions;
pub use table::QueryTable;

use crate::gpu::GpuError;
use agent_remote::RemoteError;

/// Maps texts to vectors of one fixed length.
///
/// # Contract
/// - Every returned vector has length [`dim`](Embedder::dim), only finite numbers, and Euclidean
///   norm 1, so that a dot product is a cosine. A text without known words, such as an empty text,
///   gets the zero vector, whose cosine with any vector is 0. Imported vectors ([`table`]), and
///   vectors of embedders with [`EmbedderOptions::normalize`] off, keep their norm.
/// - The vector of a text depends on that text alone, never on its batch, the number of threads or
///   earlier calls.
/// - Two embedders with the same [`fingerprint`](Embedder::fingerprint) return the same vectors.
pub trait Embedder: Send + Sync {
    /// Returns the length of every vector, at least 1.
    fn dim(&self) -> usize;

    /// Returns an identifier of the model and its parameters. An index stores this identifier, and
    /// refuses query vectors of an embedder with another identifier.
    fn fingerprint(&self) -> &str;

    /// Returns a one-line description of the embedder for people: its kind, its number of
    /// dimensions, and similar facts.
    fn describe(&self) -> String;

    /// Embeds `n` documents into a `[n, dim]` matrix, in the given order.
    ///
    /// # Errors
    /// [`EmbedError`] of the implementation; the built-in embedder returns none.
    fn embed_documents(&self, texts: &[&str]) -> Result<Matrix>;

    /// Embeds one query into a vector of length `dim`.
    ///
    /// Queries have their own method because some models embed queries and documents differently.
    ///
    /// # Errors
    /// [`EmbedError`] of the implementation; the built-in embedder returns none.
    fn embed_query(&self, text: &str) -> Result<Vec<f32>>;

    /// Embeds the tokens of each text, so that texts can be compared token by token: returns one
    /// `[tokens, dim]` matrix per text, with a row per token, in the order of the tokens. The norm
    /// of a row is the token's weight, 1 if the model has no token weights. The matrix of a text
    /// without known tokens has no rows. The rows of a text depend on that text alone.
    ///
    /// # Errors
    /// [`EmbedError::NoTokens`] if the model has no token vectors; [`EmbedError`] of the
    /// implementation.
    fn embed_tokens(&self, _texts: &[&str]) -> Result<Vec<Matrix>> {
        Err(EmbedError::NoTokens)
    }

    /// Returns the tokens of a text as readable strings, one for each row that
    /// [`embed_tokens`](Embedder::embed_tokens) returns for this text.
    ///
    /// # Errors
    /// As [`embed_tokens`](Embedder::embed_tokens).
    fn token_names(&self, _text: &str) -> Result<Vec<String>> {
        Err(EmbedError::NoTokens)
    }

    /// Returns the maximum number of tokens that the model reads of a text, not counting special
    /// tokens; `None` if the model reads texts of any length, or if the limit is unknown.
    fn window(&self) -> Option<usize> {
        None
    }

    /// Loads the model, on all threads, so that embedding the first text does not have to.
    ///
    /// # Errors
    /// [`EmbedError`] of the implementation, if the model cannot be loaded.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Reads the whole model and compares it with its checksum, if the model has one.
    ///
    /// # Errors
    /// [`EmbedError::Damaged`] if the checksum does not match.
    fn verify(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the maximum number of texts that a caller should pass at a time. A request to stop
    /// is checked between two calls, so this number bounds the delay until embedding stops.
    fn block_texts(&self) -> usize {
        1_024
    }

    /// Returns the cost of all texts embedded since the embedder was opened; zero if the embedder
    /// does not count its cost.
    fn spent(&self) -> EmbedCost {
        EmbedCost::default()
    }
}

/// Cost of embedding texts, summed since the embedder was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmbedCost {
    /// Number of texts whose vector was read from the cache.
    pub from_cache: u64,
    /// Number of tokens of the embedded texts, as counted by the embedding service.
    pub tokens: u64,
    /// Number of texts that were truncated because they were longer than the model accepts.
    pub cut: u64,
    /// Number of requests to the embedding service that were sent again after a failure.
    pub retries: u64,
    /// Why some or all vectors are not cached; `None` if the cache works or there is no cache.
    pub problem: Option<String>,
}

/// Result of opening, training or using an embedder.
pub type Result<T, E = EmbedError> = std::result::Result<T, E>;

/// Why an embedder could not be trained, saved, opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A file operation failed.
    #[error("cannot access embedder file {}: {source}", path.display())]
    Io {
        /// File being read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file is truncated, altered, or not an embedder.
    #[error("embedder file {} is damaged ({reason}); build it again with `agent index`", path.display())]
    Damaged {
        /// File being read.
        path: PathBuf,
        /// What is wrong with the file: the first check that failed.
        reason: String,
    },
    /// The file has an unsupported format version.
    #[error(
        "embedder file {} has format {found}, this version reads {supported}; build it again with `agent index`",
        path.display()
    )]
    Format {
        /// File being read.
        path: PathBuf,
        /// Format version in the file.
        found: u64,
        /// Supported format version.
        supported: u64,
    },
    /// A file of a model's directory is missing, damaged, or has an unsupported setting.
    #[error("model file {} cannot be used: {reason}", path.display())]
    Model {
        /// File of the model.
        path: PathBuf,
        /// What is wrong with the file, and what to do about it.
        reason: String,
    },
    /// A buffer does not hold a matrix of the stated shape.
    #[error("matrix of shape [{rows}, {dim}] needs {rows} x {dim} numbers, got {got}")]
    Shape {
        /// Stated number of rows.
        rows: usize,
        /// Stated row length.
        dim: usize,
        /// Number of `f32` values in the buffer.
        got: usize,
    },
    /// A parameter lies outside its range.
    #[error("parameter {name} is {got}, expected {expected}")]
    Parameter {
        /// Name of the parameter.
        name: &'static str,
        /// Description of the allowed range.
        expected: String,
        /// The rejected value.
        got: String,
    },
    /// The imported vectors do not contain this query.
    #[error(
        "no vector was imported for the query {query:?}; only queries of the imported dictionary can \
         be embedded; to embed other queries, index with another --embedder"
    )]
    NotImported {
        /// The first characters of the query.
        query: String,
    },
    /// A request to an embedding service failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The CUDA device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// The reply of an embedding service is invalid.
    #[error("the reply of {host} cannot be used: {reason}")]
    Reply {
        /// Host name of the service.
        host: String,
        /// What is wrong with the reply.
        reason: String,
    },
    /// The key or address of a service is missing.
    #[error("the embedder {embedder} needs {what}; set it in the environment")]
    NoAccess {
        /// Name of the embedder on the command line, such as `openai:MODEL`.
        embedder: String,
        /// Environment variables that are missing, such as the one with the key.
        what: &'static str,
    },
    /// The embedder settings in the configuration file cannot be read; holds the error message.
    #[error("{0}")]
    Settings(String),
    /// No embedder of this name is configured.
    #[error(
        "unknown embedder {name:?}; use builtin, candle:DIR, openai:MODEL or import:DIR, or \
         describe it under [embedders.{name}] in config.toml"
    )]
    Unconfigured {
        /// Name that was requested.
        name: String,
    },
    /// The embedder differs from the one that computed the vectors of the index.
    #[error(
        "{embedder} differs from the model of the index; restore that model, or rebuild the \
         vectors with `agent index N --embedder {embedder} --force`"
    )]
    Changed {
        /// Name of the embedder on the command line, such as `openai:MODEL`.
        embedder: String,
    },
    /// The embedder of an index could not be opened; each attempt to embed a text with it returns
    /// this error, which holds the reason.
    #[error(transparent)]
    Unopened(Arc<EmbedError>),
    /// The model has no token vectors, only text vectors.
    #[error("this embedder has no token vectors; index with builtin or candle:DIR")]
    NoTokens,
    /// The progress callback asked to stop.
    #[error("training of the embedder was interrupted")]
    Interrupted,
}

/// First 16 bytes of the BLAKE3 hash of a text.
type Key = [u8; 16];

fn key(text: &str) -> Key {
    *blake3::hash(text.as_bytes()).as_bytes().first_chunk().unwrap_or(&[0; 16])
}

/// Splits items into batches of at most `max_items` items with a total cost of at most `max_cost`;
/// `cost` returns the cost of an item. A single item that costs more is a batch by itself.
fn batches<T>(
    items: &[T],
    (max_items, max_cost): (usize, usize),
    cost: impl Fn(&T) -> usize,
) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let (mut start, mut spent) = (0, 0);
    for (at, item) in items.iter().enumerate() {
        let cost = cost(item);
        if at > start && (at - start == max_items || spent + cost > max_cost) {
            batches.push(&items[start..at]);
            (start, spent) = (at, 0);
        }
        spent += cost;
    }
    if start < items.len() {
        batches.push(&items[start..]);
    }
    batches
}
