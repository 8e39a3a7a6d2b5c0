//! Retrievers: they answer queries with rankings. Baselines, programs and bundles implement the
//! trait [`Retriever`], so that they are measured in the same way. Retrievers never see the correct
//! answers.

mod ann;
mod answer;
mod baseline;
mod colbert;
pub mod eval;
pub mod expand;
mod filtered;
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

pub use agent_dataset::MAX_QUERY_BYTES;
pub use agent_kb::Ranking;
pub use ann::Ann;
pub use answer::{
    Answer, AppliedConditions, AssistFailure, Call, Detail, End, Feature, LinkedEntity,
    NodeExplanation, QueryAnalysis, RoutedCategory, SchemaWord, StandIn,
};
pub use baseline::{Baseline, System, rank, shortlist};
pub use colbert::{Colbert, ColbertCandidates};
pub use filtered::Filtered;
pub use graph::Graph;
pub use late::Late;
pub use mfar::Mfar;
pub use multi::{Candidates, Multi, Pooling};
pub use stark::Stark;
pub use trained::Trained;

use agent_embed::{EmbedError, Embedder};
use agent_ground::words::one_line;
use agent_index::IndexError;
use agent_kb::{
    NodeId, NodeSet,
    answer::{Cell, Explanation},
};
use agent_llm::LlmError;

/// Maximum length in characters of an excerpt in an explanation.
const MAX_EXCERPT: usize = 160;

/// Why a query could not be answered.
#[derive(Debug, thiserror::Error)]
pub enum RetrieveError {
    /// The query has no words.
    #[error("the query is empty; enter some words")]
    EmptyQuery,
    /// The query exceeds [`MAX_QUERY_BYTES`].
    #[error("the query has {0} bytes; at most {MAX_QUERY_BYTES} are searched")]
    LongQuery(usize),
    /// An index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A program failed on this query, with this message.
    #[error("{0}")]
    Program(String),
    /// A program reached its time limit on this query; the query may succeed elsewhere or later.
    #[error("{0}")]
    Late(String),
    /// A language model that the answer needs is unavailable: an outage, a cost ceiling or a stop.
    #[error(transparent)]
    Llm(#[from] LlmError),
}

impl RetrieveError {
    /// Whether a service gave no reply, or a ceiling or a stop prevented the request. The query may
    /// succeed if it is retried; the retriever is not at fault.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Index(IndexError::Embed(EmbedError::Remote(_))) | Self::Llm(_))
    }

    /// Whether the query may succeed elsewhere or later: an outage or a time limit.
    pub fn is_transient(&self) -> bool {
        self.is_outage() || matches!(self, Self::Late(_))
    }
}

/// A system that answers queries with rankings.
pub trait Retriever: Send + Sync {
    /// Returns the name of the system, as tables show it.
    fn name(&self) -> String;

    /// Answers a query with at most `k` nodes, best first, and the requested detail, in one run.
    /// The same query gives the same ranking on any thread and with any detail.
    ///
    /// # Errors
    /// [`RetrieveError`]; never an empty answer in place of a failure.
    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError>;

    /// Answers a query with at most `k` nodes, best first, without detail.
    ///
    /// # Errors
    /// As [`Retriever::answer`].
    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        Ok(self.answer(query, k, Detail::default())?.into_ranking())
    }

    /// Returns the name of the category to which a query is routed; `None` for a retriever without
    /// categories.
    ///
    /// # Errors
    /// As [`Retriever::answer`].
    fn category(&self, _query: &str) -> Result<Option<String>, RetrieveError> {
        Ok(None)
    }

    /// Returns the set of nodes to which answers are limited; `None` if any node may be an answer.
    fn limited_to(&self) -> Option<&NodeSet> {
        None
    }

    /// Returns the encoder that reads a query up to its window; `None` for a search by words.
    fn encoder(&self) -> Option<&dyn Embedder> {
        None
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

    fn limited_to(&self) -> Option<&NodeSet> {
        (**self).limited_to()
    }

    fn encoder(&self) -> Option<&dyn Embedder> {
        (**self).encoder()
    }
}

/// Returns an explanation of the rank and score of the node at `position`, from 0, in the ranking
/// of `system`.
pub fn rank_explanation(system: &str, position: usize, score: f32) -> Explanation {
    Explanation::new(system, Cell::Empty)
        .with([Explanation::new("rank", position + 1), Explanation::new("score", score)])
}

/// Returns an explanation of a node's rank and score in the list named `list`; if the list lacks
/// the node, the explanation says so.
pub fn rank_in_list(list: &str, ranking: &[(NodeId, f32)], node: NodeId) -> Explanation {
    match ranking.iter().position(|pair| pair.0 == node) {
        Some(position) => {
            rank_explanation(list, position, ranking.get(position).map_or(0.0, |pair| pair.1))
        }
        None => Explanation::new(list, format!("not among the first {}", ranking.len())),
    }
}

/// Returns the first [`MAX_EXCERPT`] characters of a text, with single spaces, on one line.
fn excerpt(text: &str) -> String {
    one_line(text).chars().take(MAX_EXCERPT).collect()
}

/// Trims and validates a query.
///
/// # Errors
/// [`RetrieveError::EmptyQuery`], [`RetrieveError::LongQuery`].
pub fn check_query(query: &str) -> Result<&str, RetrieveError> {
    let query = query.trim();
    if query.is_empty() {
        return Err(RetrieveError::EmptyQuery);
    }
    if query.len() > MAX_QUERY_BYTES {
        return Err(RetrieveError::LongQuery(query.len()));
    }
    Ok(query)
}
