//! Ranks of a query's answers in one ranking, and the metrics of these ranks.
//!
//! The definitions follow the STaRK benchmark (Wu et al. 2024, `stark_qa` with torchmetrics), so
//! that results are comparable with published results. A ranking covers *all* candidates:
//! candidates that are not in the ranked list ("unnamed") tie below all candidates in the list
//! ("named"). Ties are broken by ascending node id.
//!
//! - Named nodes that are not candidates are dropped and take up no rank.
//! - Answers that are not candidates are dropped; a query without remaining answers scores 0 in all
//!   metrics.
//! - Unnamed candidates follow in ascending id order, with the lowest named score less 1.
//! - An empty ranking scores 0 in all metrics (the reference rejects it).
//!
//! The full candidate list is never built. One pass over the ranking yields the ranks of the named
//! answers, and the number of named candidates below each answer's id; the rank of an unnamed
//! answer follows by counting. Cost: `O(p log a)` for `p` named nodes and `a` answers. An unsorted
//! ranking adds `O(p log p)`; [`Candidates::Sorted`] adds a binary search per named node.
//!
//! Values are `f32`, as in the reference; means over queries are taken in `f64` elsewhere.

use std::borrow::Cow;

use crate::eval::NodeId;
use agent_kb::{Kb, distinct};

/// The nodes that a full ranking must contain.
#[derive(Copy, Clone, Debug)]
pub enum Candidates<'a> {
    /// Every node id in `0..n`.
    All(u32),
    /// Every node id from the first id up to, but excluding, the second.
    Range(NodeId, NodeId),
    /// These ids, strictly ascending. [`Candidates::sorted`] converts ids without gaps to a range,
    /// which is several times faster.
    Sorted(&'a [NodeId]),
    /// The candidates of a base, checked by type without a search.
    Base(&'a Kb),
}

impl<'a> Candidates<'a> {
    /// Creates candidates from strictly ascending ids: a range if they have no gaps. `O(1)`.
    ///
    /// The order is not checked; other orders give wrong ranks.
    pub fn sorted(ids: &'a [NodeId]) -> Candidates<'a> {
        match (ids.first(), ids.last()) {
            (Some(&first), Some(&last))
                if last < NodeId::MAX && (last - first) as usize + 1 == ids.len() =>
            {
                Candidates::Range(first, last + 1)
            }
            _ => Candidates::Sorted(ids),
        }
    }

    /// Returns the candidates of a base: a range if their ids have no gaps. `O(1)`.
    pub fn of_base(kb: &'a Kb) -> Candidates<'a> {
        match Candidates::sorted(kb.candidates()) {
            Candidates::Sorted(_) => Candidates::Base(kb),
            range => range,
        }
    }

    /// Whether the node is a candidate.
    #[inline]
    fn contains(&self, node: NodeId) -> bool {
        match *self {
            Candidates::Base(kb) => kb.is_candidate(node),
            _ => self.position(node).is_some(),
        }
    }

    /// Number of candidates with a smaller id than `node`; `None` if `node` is not a candidate.
    #[inline]
    fn position(&self, node: NodeId) -> Option<u64> {
        match *self {
            Candidates::All(n) => (node < n).then_some(u64::from(node)),
            Candidates::Range(start, end) => {
                (start <= node && node < end).then(|| u64::from(node - start))
            }
            Candidates::Sorted(ids) => ids.binary_search(&node).ok().map(|index| index as u64),
            Candidates::Base(kb) => Candidates::Sorted(kb.candidates()).position(node),
        }
    }
}

/// Ranks of the answers to one query; every metric is a function of them.
///
/// Ranks start at 1. All metrics are 0 if no answer is a candidate or the ranking was empty.
#[derive(Clone, Debug)]
pub struct AnswerRanks {
    /// Ranks of the answers that are candidates, ascending.
    ranks: Vec<u64>,
}

impl AnswerRanks {
    /// Finds the ranks of `answers` among all `candidates`, as `ranking` orders them.
    ///
    /// Nodes are ordered by descending score, then ascending id; NaN ranks below all other scores.
    /// The nodes of `ranking` must be distinct; for a repeated answer the best rank counts.
    pub fn new(
        ranking: &[(NodeId, f32)],
        answers: &[NodeId],
        candidates: Candidates<'_>,
    ) -> AnswerRanks {
        let mut sought = distinct(answers.to_vec());
        sought.retain(|&answer| candidates.position(answer).is_some());
        let mut found = AnswerRanks { ranks: Vec::new() };
        if sought.is_empty() || ranking.is_empty() {
            return found;
        }
        found.ranks.reserve_exact(sought.len());

        let ranking = best_first(ranking);
        // named[i]: number of named nodes with an id from answer i - 1 up to, excluding, answer i.
        let mut named = vec![0_u64; sought.len() + 1];
        let mut is_named = vec![false; sought.len()];
        let mut rank = 0_u64;
        for &(node, _) in ranking.iter() {
            if !candidates.contains(node) {
                continue;
            }
            rank += 1;
            let slot = sought.partition_point(|&answer| answer < node);
            if sought.get(slot) != Some(&node) {
                named[slot] += 1;
            } else if !is_named[slot] {
                is_named[slot] = true;
                named[slot + 1] += 1;
                found.ranks.push(rank);
            }
        }

        if found.ranks.len() < sought.len() {
            let mut named_before = 0;
            for (slot, &answer) in sought.iter().enumerate() {
                named_before += named[slot];
                if !is_named[slot] {
                    let position = candidates.position(answer).unwrap_or(0);
                    found.ranks.push(rank + position.saturating_sub(named_before) + 1);
                }
            }
        }
        found
    }

    /// Ranks of the answers among all candidates, ascending, from 1; dropped answers are absent.
    pub fn ranks(&self) -> &[u64] {
        &self.ranks
    }

    /// 1 if the best answer is at rank `k` or better, else 0.
    pub fn hit_at(&self, k: u64) -> f32 {
        self.ranks.first().map_or(0.0, |&best| f32::from(best <= k))
    }

    /// Share of the answers at rank `k` or better.
    pub fn recall_at(&self, k: u64) -> f32 {
        self.ratio(self.n_within(k), self.ranks.len() as u64)
    }

    /// Reciprocal of the best answer's rank among all candidates; its mean over queries is the MRR.
    pub fn reciprocal_rank(&self) -> f32 {
        self.ranks.first().map_or(0.0, |&best| 1.0 / best as f32)
    }

    /// Mean over all answers of the precision at their rank; its mean over queries is the
    /// MAP.
    pub fn average_precision(&self) -> f32 {
        mean_precision(&self.ranks)
    }

    /// Share of the answers at rank `a` or better, where `a` is the number of answers.
    pub fn r_precision(&self) -> f32 {
        self.recall_at(self.ranks.len() as u64)
    }

    /// Number of answers at rank `k` or better.
    fn n_within(&self, k: u64) -> usize {
        self.ranks.partition_point(|&rank| rank <= k)
    }

    fn ratio(&self, part: usize, whole: u64) -> f32 {
        if whole == 0 { 0.0 } else { part as f32 / whole as f32 }
    }
}

/// Mean of `i / rank_i` over ascending ranks, `i` from 1; 0 if there are none.
///
/// Each precision is rounded to `f32` as in the reference. The reference's sum of `f32` depends on
/// the processor's vector width; this sum in `f64` agrees with it within 2 units in the last place.
fn mean_precision(ranks: &[u64]) -> f32 {
    let precision = |(i, &rank)| f64::from(i as f32 / rank as f32);
    let sum: f64 = (1_u32..).zip(ranks).map(precision).sum();
    if ranks.is_empty() { 0.0 } else { (sum / ranks.len() as f64) as f32 }
}

/// Sorts a ranking by score descending, then node id ascending; borrows it if it is sorted.
fn best_first(ranking: &[(NodeId, f32)]) -> Cow<'_, [(NodeId, f32)]> {
    if ranking.is_sorted_by_key(|&entry| order_key(entry)) {
        return Cow::Borrowed(ranking);
    }
    let mut sorted = ranking.to_vec();
    sorted.sort_unstable_by_key(|&entry| order_key(entry));
    Cow::Owned(sorted)
}

/// Returns the sort key of a node with its score: ascending keys order scores descending, then ids
/// ascending.
#[inline]
fn order_key((node, score): (NodeId, f32)) -> u64 {
    let bits = (score + 0.0).to_bits(); // Adding 0 turns -0 into +0.
    let ascending = match score.is_nan() {
        true => 0,
        false if bits >> 31 == 1 => !bits,
        false => bits | 0x8000_0000,
    };
    u64::from(!ascending) << 32 | u64::from(node)
}

#[cfg(test)]
mod tests;
