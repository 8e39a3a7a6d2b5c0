//! A retriever whose answers are nodes of a set.
//!
//! The retriever is asked for [`DEPTH`] nodes, of which those of the set stay, in order. If they are too few,
//! candidates of the set that share words with the query follow, by BM25F; so no node of the set that has a
//! word of the query is lost, however deep the retriever would rank it.

use std::{collections::HashSet, ops::Deref, sync::Arc};

use crate::{Answer, Detail, Ranking, RetrieveError, Retriever};
use agent_index::IndexedBase;
use agent_kb::{NodeId, NodeSet, answer::AnswerValue};

/// Nodes that the retriever is asked for.
const DEPTH: usize = 10_000;
/// Nodes that are explained at most, before those outside of the set are left out.
const MAX_EXPLAINED: usize = 1_000;
/// Largest score of a node that follows by words, as a share of the last score before it.
const FOLLOWING_SHARE: f32 = 0.5;

/// A retriever over the nodes of a set.
pub struct Filtered<R> {
    inner: R,
    base: Arc<IndexedBase>,
    nodes: NodeSet,
}

impl<R> Filtered<R> {
    /// The answers of `inner`, owned or borrowed, that are in `nodes`.
    pub fn new(inner: R, base: Arc<IndexedBase>, nodes: NodeSet) -> Self {
        Self { inner, base, nodes }
    }

    /// Candidates of the set that share words with the query and are not ranked, best first.
    fn following(&self, query: &str, ranked: &[(NodeId, f32)], k: usize) -> Ranking {
        let ranked: HashSet<NodeId> = ranked.iter().map(|pair| pair.0).collect();
        let words = self.base.fields_query(query);
        let free = |node: &NodeId| self.base.kb.is_candidate(*node) && !ranked.contains(node);
        let nodes = self.nodes.as_slice().iter().copied().filter(free);
        let scored = nodes.map(|node| (node, self.base.match_fields(&words, node)));
        let mut scored: Ranking = scored.filter(|pair| pair.1 > 0.0).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        scored.truncate(k);
        scored
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
        // What is expected up to a rank was learnt from whole rankings.
        answer.end = None;
        if ranking.len() < k {
            let following = self.following(query, &ranking, k - ranking.len());
            let best = following.first().map_or(1.0, |pair| pair.1);
            let last = ranking.last().map_or(best / FOLLOWING_SHARE, |pair| pair.1);
            let below = |score: f32| match last > 0.0 {
                true => last * FOLLOWING_SHARE * score / best,
                false => last - 1.0 + FOLLOWING_SHARE * score / best,
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

/// The first `n` items whose positions are kept; of a list by position that may be shorter.
fn kept<T>(items: Vec<T>, is_kept: &[bool], n: usize) -> Vec<T> {
    let items = items.into_iter().zip(is_kept);
    items.filter(|(_, is_kept)| **is_kept).map(|(item, _)| item).take(n).collect()
}
