//! Retrievers: query in, ranking out.
//!
//! A baseline, a program and a bundle are all [`Retriever`]s, so that they are measured alike.
//!
//! Must not know: which answers are right.

mod baseline;

pub use baseline::{Baseline, System, shortlist};

use crate::{embed::EmbedError, index::IndexError, kb::NodeId};

/// Nodes with scores, best first: score descending, then id ascending; each node once.
pub type Ranking = Vec<(NodeId, f32)>;

/// Why a query could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum RetrieveError {
    /// The query has no words.
    #[error("the query is empty; say what you look for")]
    EmptyQuery,
    /// The query is too long to be searched.
    #[error("the query has {0} bytes; at most {MAX_QUERY_BYTES} are searched")]
    LongQuery(usize),
    /// An index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A program failed on this query; the message names the failure.
    #[error("{0}")]
    Program(String),
}

impl RetrieveError {
    /// Whether a service that was asked gave no answer: asked again, the query may well succeed,
    /// so that its failure says nothing of the retriever.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Index(IndexError::Embed(EmbedError::Remote(_))))
    }
}

/// Bytes a query may have.
pub const MAX_QUERY_BYTES: usize = 16 << 10;

/// Answers queries with rankings.
pub trait Retriever: Send + Sync {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// At most `k` nodes that answer the query, best first. The same query gives the same ranking,
    /// on any thread.
    ///
    /// # Errors
    /// [`RetrieveError`]; a query that fails is counted as failed, never as answered.
    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError>;

    /// Why the node has its place in the answer to the query, in lines of text.
    ///
    /// # Errors
    /// As [`Retriever::retrieve`].
    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError>;

    /// The category the query is put in; none for a retriever that answers all queries alike.
    ///
    /// # Errors
    /// As [`Retriever::retrieve`].
    fn category(&self, _query: &str) -> Result<Option<String>, RetrieveError> {
        Ok(None)
    }
}

/// The query without surrounding space, if it can be answered.
///
/// # Errors
/// [`RetrieveError::EmptyQuery`], [`RetrieveError::LongQuery`].
pub fn checked(query: &str) -> Result<&str, RetrieveError> {
    let query = query.trim();
    if query.is_empty() {
        return Err(RetrieveError::EmptyQuery);
    }
    if query.len() > MAX_QUERY_BYTES {
        return Err(RetrieveError::LongQuery(query.len()));
    }
    Ok(query)
}
