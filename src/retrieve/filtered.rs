//! A wrapper that limits a retriever's answers to a set of nodes.
//!
//! The inner retriever ranks at least [`DEPTH`] nodes; nodes outside the set are removed. If fewer
//! than `k` nodes remain, candidates of the set that share words with the query follow, ranked by
//! BM25F. So a candidate that matches a word of the query is not lost only because of a low rank.

use std::{collections::HashSet, ops::Deref, sync::Arc};

use crate::{Answer, Detail, Ranking, RetrieveError, Retriever};
use agent_index::IndexedBase;
use agent_kb::{NodeId, NodeSet, answer::AnswerValue, best};

/// Minimum number of nodes requested from the inner retriever.
const DEPTH: usize = 10_000;
/// Maximum number of nodes that the inner retriever explains, best first, before nodes outside the
/// set are removed.
const MAX_EXPLAINED: usize = 1_000;
/// Score of the best appended node as a share of the last ranked node's score, if the latter is
/// positive.
const FOLLOWING_SHARE: f32 = 0.5;

/// A retriever that answers only with nodes of a set.
pub struct Filtered<R> {
    inner: R,
    base: Arc<IndexedBase>,
    nodes: NodeSet,
}

impl<R> Filtered<R> {
    /// Limits the answers of `inner` to `nodes`.
    pub fn new(inner: R, base: Arc<IndexedBase>, nodes: NodeSet) -> Self {
        Self { inner, base, nodes }
    }

    /// Returns at most `k` unranked candidates of the set that share words with the query, with
    /// their BM25F scores, best first, ties by ascending id.
    fn following(&self, query: &str, ranked: &[(NodeId, f32)], k: usize) -> Ranking {
        let ranked: HashSet<NodeId> = ranked.iter().map(|pair| pair.0).collect();
        let words = self.base.fields_query(query);
        let free = |node: &NodeId| self.base.kb.is_candidate(*node) && !ranked.contains(node);
        let nodes = self.nodes.as_slice().iter().copied().filter(free);
        let scored = nodes.map(|node| (node, self.base.match_fields(&words, node)));
        best(scored.filter(|pair| pair.1 > 0.0).collect(), k)
    }
}

impl<R: Deref<Target: Retriever> + Send + Sync> Retriever for Filtered<R> {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let deep = match detail.explained_count {
            0 => detail,
            _ => Detail { explained_count: MAX_EXPLAINED, ..detail },
        };
        let mut answer = self.inner.answer(query, k.max(DEPTH), deep)?;
        let AnswerValue::Nodes { nodes } = std::mem::take(&mut answer.value) else {
            return Ok(Answer { value: AnswerValue::nodes(Ranking::new()), ..answer });
        };
        let is_kept: Vec<bool> = nodes.iter().map(|pair| self.nodes.contains(pair.0)).collect();
        let mut ranking = kept(nodes, &is_kept, k);
        answer.paths = kept(answer.paths, &is_kept, k);
        answer.words = kept(answer.words, &is_kept, k);
        answer.explanations = kept(answer.explanations, &is_kept, detail.explained_count);
        if let Some(applied) = &mut answer.conditions {
            let fulfilled = is_kept.iter().take(applied.n_fulfilled).filter(|is_kept| **is_kept);
            applied.n_fulfilled = fulfilled.count().min(k);
        }
        // The end was estimated for the ranking of all nodes, so it does not hold for a subset.
        answer.end = None;
        if ranking.len() < k {
            let following = self.following(query, &ranking, k - ranking.len());
            let largest = following.first().map_or(1.0, |pair| pair.1);
            let last = ranking.last().map_or(largest / FOLLOWING_SHARE, |pair| pair.1);
            let below = |score: f32| match last > 0.0 {
                true => last * FOLLOWING_SHARE * score / largest,
                false => last - 1.0 + FOLLOWING_SHARE * score / largest,
            };
            ranking.extend(following.into_iter().map(|(node, score)| (node, below(score))));
        }
        answer.value = AnswerValue::nodes(ranking);
        Ok(answer)
    }

    fn limited_to(&self) -> Option<&NodeSet> {
        Some(&self.nodes)
    }

    fn category(&self, query: &str) -> Result<Option<String>, RetrieveError> {
        self.inner.category(query)
    }
}

/// Returns the first `n` items whose position is marked in `is_kept`; `items` may be shorter than
/// `is_kept`.
fn kept<T>(items: Vec<T>, is_kept: &[bool], n: usize) -> Vec<T> {
    let items = items.into_iter().zip(is_kept);
    items.filter(|(_, is_kept)| **is_kept).map(|(item, _)| item).take(n).collect()
}
