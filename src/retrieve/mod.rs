//! Retrievers: query in, ranking out.
//!
//! A baseline, a program and a bundle are all [`Retriever`]s, so that they are measured alike.
//!
//! Must not know: which answers are right.

mod ann;
mod baseline;
mod late;
mod multi;
mod stark;

use std::sync::Arc;

pub use ann::Ann;
pub use baseline::{Baseline, System, shortlist};
pub use late::Late;
pub use multi::{Multi, Pooling};
pub use stark::Stark;

use crate::{embed::EmbedError, index::IndexError, kb::NodeId, llm::LlmError};

/// Characters of a text that an explanation shows.
const MAX_EXCERPT: usize = 160;

/// Nodes with scores, best first: score descending, then id ascending; each node once.
pub type Ranking = Vec<(NodeId, f32)>;

/// A ranking, and where in it the answers end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// At most as many nodes as were asked for.
    pub ranking: Ranking,
    /// Where the answers end; none where the retriever cannot tell.
    pub end: Option<End>,
}

/// The last place of a ranking that is an answer, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// Its rank, from 1; it may lie behind the nodes that were asked for.
    pub rank: usize,
    /// Share of the nodes up to there that are expected to be right, in `0..=1`.
    pub precision: f32,
    /// Share of the right nodes that are expected up to there, in `0..=1`.
    pub recall: f32,
}

/// Queries that a language model was to help with and did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unassisted {
    /// As its service gave no reply.
    pub outages: u64,
    /// As its replies could not be used.
    pub unusable: u64,
}

impl Unassisted {
    /// All of them.
    pub fn total(self) -> u64 {
        self.outages + self.unusable
    }

    /// What is known of a query by two that were to help with it: it counts once.
    pub fn or(self, other: Unassisted) -> Unassisted {
        Unassisted {
            outages: self.outages.max(other.outages),
            unusable: self.unusable.max(other.unusable),
        }
    }
}

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
    /// A language model that the answer needs cannot be asked: an outage, a ceiling, a stop. Says
    /// nothing of the program.
    #[error(transparent)]
    Llm(#[from] LlmError),
}

impl RetrieveError {
    /// Whether a service that was asked gave no answer: asked again, the query may well succeed,
    /// so that its failure says nothing of the retriever.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Index(IndexError::Embed(EmbedError::Remote(_))) | Self::Llm(_))
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

    /// The same ranking, and where in it the answers end.
    ///
    /// # Errors
    /// As [`Retriever::retrieve`].
    fn answer(&self, query: &str, k: usize) -> Result<Answer, RetrieveError> {
        Ok(Answer { ranking: self.retrieve(query, k)?, end: None })
    }

    /// Why the node has its place in the answer to the query, in lines of text.
    ///
    /// # Errors
    /// As [`Retriever::retrieve`].
    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError>;

    /// Queries so far whose answers a language model was to better and did not: they are answered as
    /// without it.
    fn unassisted(&self) -> Unassisted {
        Unassisted::default()
    }

    /// The category the query is put in; none for a retriever that answers all queries alike.
    ///
    /// # Errors
    /// As [`Retriever::retrieve`].
    fn category(&self, _query: &str) -> Result<Option<String>, RetrieveError> {
        Ok(None)
    }
}

impl<T: Retriever + ?Sized> Retriever for Arc<T> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        (**self).retrieve(query, k)
    }

    fn answer(&self, query: &str, k: usize) -> Result<Answer, RetrieveError> {
        (**self).answer(query, k)
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        (**self).explain(query, node)
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        (**self).category(query)
    }

    fn unassisted(&self) -> Unassisted {
        (**self).unassisted()
    }
}

/// Where a node is in a ranking, for people.
pub fn place(ranking: &Ranking, node: NodeId) -> String {
    match ranking.iter().position(|pair| pair.0 == node) {
        Some(at) => format!("rank {}, score {:.4}", at + 1, ranking[at].1),
        None => format!("not among the first {}", ranking.len()),
    }
}

/// The start of a text in one line, for people.
fn excerpt(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(MAX_EXCERPT).collect()
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
