//! The tail of a joined answer: what stands behind its first ranks.
//!
//! The first ranks are for whoever reads an answer; those behind them are for whoever goes on from a
//! shortlist, such as a model that judges it, and there it counts that an answer is in at all. Scores
//! of one program that outgrow those of another hide what the other ranks high, and what no program
//! reaches is missing. So behind the first [`HEAD`] ranks nodes stand in the order of the reciprocal
//! rank that is expected of them: over all rankings, the probability that the ranking is the right
//! one, divided by the rank there. Search by meaning is one of the rankings.
//!
//! Must not know: how rankings were joined, which answers are right.

use std::collections::{BTreeMap, BTreeSet};

use agent_index::{IndexError, IndexedBase};
use agent_kb::{NodeId, best};
use agent_retrieve::Ranking;

/// Ranks of a joined answer that stay as they are.
pub(super) const HEAD: usize = 20;
/// Nodes found by meaning that are put forward.
const FOUND: usize = 50;
/// What search by meaning is held for, beside the probabilities of categories.
const MEANING: f32 = 0.1;
/// What the joined ranking is held for: it orders what nothing else tells apart.
const JOINED: f32 = 1e-3;
/// What the score of a rank is at most, as a share of the score before it.
const NEXT: f32 = 1.0 - 1e-6;

/// What search by meaning puts forward.
///
/// # Errors
/// Those of the embedder and of the vectors.
pub(super) fn found(base: &IndexedBase, query: &str) -> Result<Ranking, IndexError> {
    base.search_vectors(query, base.kb.candidate_types(), FOUND)
}

/// The joined ranking with its tail in the order of the expected reciprocal rank, ties by ascending
/// id, and the nodes [`found`] by meaning in it. Each rank keeps its score, or the next lower one
/// where that would tie. Nothing that was joined is lost. `O(n log n)` in the nodes of all rankings.
pub(super) fn widened(rankings: &[(f32, &Ranking)], found: &Ranking, joined: Ranking) -> Ranking {
    let mut all = rankings.to_vec();
    all.push((MEANING, found));
    all.push((JOINED, &joined));
    reordered(&all, &joined)
}

/// The tail of `joined` by the reciprocal rank expected of each node of the rankings.
fn reordered(rankings: &[(f32, &Ranking)], joined: &Ranking) -> Ranking {
    let head: BTreeSet<NodeId> = joined.iter().take(HEAD).map(|pair| pair.0).collect();
    let mut expected: BTreeMap<NodeId, f32> = BTreeMap::new();
    for (probability, ranking) in rankings {
        for (rank, (node, _)) in (1u32..).zip(*ranking) {
            if !head.contains(node) {
                *expected.entry(*node).or_default() += probability / rank as f32;
            }
        }
    }
    let n = expected.len();
    let tail = best(expected.into_iter().collect(), n);
    let mut ranking: Ranking = joined.iter().take(HEAD).copied().collect();
    let mut last = ranking.last().map_or(1.0, |pair| pair.1);
    for (at, (node, _)) in (HEAD..).zip(tail) {
        let next = last * NEXT;
        last = joined.get(at).map_or(next, |pair| pair.1.min(next));
        ranking.push((node, last));
    }
    ranking
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_testing::example_base;

    fn down(nodes: impl Iterator<Item = NodeId>) -> Ranking {
        (1u32..).zip(nodes).map(|(rank, node)| (node, 1.0 / rank as f32)).collect()
    }

    fn nodes(ranking: &Ranking) -> Vec<NodeId> {
        ranking.iter().map(|pair| pair.0).collect()
    }

    #[test]
    fn what_one_ranking_holds_high_stands_right_behind_the_head() {
        let (loud, quiet) = (down(100..200), down(300..350));
        // The joined scores let the quiet program come last.
        let joined = down((100..200).chain(300..350));
        let widened = reordered(&[(0.7, &loud), (0.3, &quiet), (JOINED, &joined)], &joined);
        assert_eq!(widened[..HEAD], joined[..HEAD]);
        // 0.3 / 8 is above 0.7 / 21, and 0.3 / 9 is not.
        assert_eq!(nodes(&widened)[HEAD..HEAD + 8], (300..308).collect::<Vec<_>>());
        assert_eq!(widened[HEAD + 8].0, 120);
        let sorted = |ranking: &Ranking| nodes(ranking).into_iter().collect::<BTreeSet<_>>();
        assert_eq!(sorted(&widened), sorted(&joined), "nothing is lost, nothing is there twice");
        assert!(widened.is_sorted_by(|a, b| a.1 > b.1), "scores part all ranks");
        assert_eq!(widened.len(), joined.len());
    }

    #[test]
    fn what_is_found_by_meaning_alone_is_put_forward() {
        let base = example_base();
        let query = "warm socks of wool";
        let found = found(&base, query).unwrap();
        let first = found[0].0;
        let others = base.kb.candidate_types().iter().flat_map(|&of| base.kb.nodes_of_type(of));
        let joined = down(others.copied().filter(|&node| node != first).take(HEAD));
        let widened = widened(&[(1.0, &joined)], &found, joined.clone());
        let head = joined.len().min(HEAD);
        assert_eq!(widened[..head], joined[..head]);
        assert!(nodes(&widened).contains(&first));
        assert!(widened.is_sorted_by(|a, b| a.1 > b.1));
    }
}
