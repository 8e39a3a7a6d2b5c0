//! Retrievers: query in, ranking out.
//!
//! A baseline, a program and a bundle are all [`Retriever`]s, so that they are measured alike.
//!
//! Must not know: which answers are right.

mod ann;
mod answer;
mod baseline;
pub mod eval;
pub mod expand;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
mod graph;
mod late;
pub mod measure;
mod mfar;
mod multi;
mod snippet;
mod stark;
mod trained;

use std::sync::Arc;

pub use ann::Ann;
pub use answer::{
    Answer, Call, Detail, End, Feature, LinkedEntity, Miss, SchemaWord, StandIn, Understood, Way,
    Why,
};
pub use baseline::{Baseline, System, rank, shortlist};
pub use graph::Graph;
pub use late::Late;
pub use mfar::Mfar;
pub use multi::{Multi, Pooling};
pub use stark::Stark;
pub use trained::Trained;

use agent_embed::EmbedError;
use agent_index::IndexError;
use agent_kb::{
    NodeId,
    answer::{Cell, Explanation},
};
use agent_llm::LlmError;

/// Characters of a text that an explanation shows.
const MAX_EXCERPT: usize = 160;

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
    /// A program was ended by its time limit on this query, as the message says: on another machine,
    /// or at another time, it may well answer.
    #[error("{0}")]
    Late(String),
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

    /// Whether the query may well be answered elsewhere or later: an outage, a time limit.
    pub fn passes(&self) -> bool {
        self.is_outage() || matches!(self, Self::Late(_))
    }
}

/// Bytes a query may have.
pub const MAX_QUERY_BYTES: usize = 16 << 10;

/// Answers queries with rankings.
pub trait Retriever: Send + Sync {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// What answers the query: of nodes at most `k`, best first, with as much detail as is asked
    /// for, from one run. The same query gives the same answer, on any thread, whatever the detail.
    ///
    /// # Errors
    /// [`RetrieveError`]; a query that fails is counted as failed, never as answered.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError>;

    /// The nodes of the answer.
    ///
    /// # Errors
    /// As [`Retriever::answer`].
    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        Ok(self.answer(query, k, Detail::default())?.into_ranking())
    }

    /// The category the query is put in; none for a retriever that answers all queries alike.
    ///
    /// # Errors
    /// As [`Retriever::answer`].
    fn category(&self, _query: &str) -> Result<Option<String>, RetrieveError> {
        Ok(None)
    }
}

impl<T: Retriever + ?Sized> Retriever for Arc<T> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        (**self).answer(query, k, detail)
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        (**self).retrieve(query, k)
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        (**self).category(query)
    }
}

/// The place of a node of a ranking, from 0, and its score.
pub fn place_of(system: &str, at: usize, score: f32) -> Explanation {
    Explanation::new(system, Cell::Empty)
        .with([Explanation::new("rank", at + 1), Explanation::new("score", score)])
}

/// Where a node is in a list: its rank and score, or how many nodes before it there are at least.
pub fn place(list: &str, ranking: &[(NodeId, f32)], node: NodeId) -> Explanation {
    match ranking.iter().position(|pair| pair.0 == node) {
        Some(at) => place_of(list, at, ranking.get(at).map_or(0.0, |pair| pair.1)),
        None => Explanation::new(list, format!("not among the first {}", ranking.len())),
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
