//! Reorders the tail of a joined answer, the nodes after rank [`HEAD`], for recall.
//!
//! The first ranks are for readers. The tail is for consumers of a shortlist, such as a re-ranking
//! model, which only need the right answers to be included. In the joined scores, one program can
//! hide the first nodes of another, and nodes that no program reaches are missing. Therefore nodes
//! after the first [`HEAD`] ranks are ordered by expected reciprocal rank: the sum over all
//! rankings of the ranking's probability divided by the node's rank. Vector search is one of the
//! rankings.

use std::collections::{BTreeMap, BTreeSet};

use agent_index::{IndexError, IndexedBase};
use agent_kb::{NodeId, best};
use agent_retrieve::Ranking;

/// Number of first ranks that stay unchanged.
pub(super) const HEAD: usize = 20;
/// Number of nodes from vector search.
const FOUND: usize = 50;
/// Weight of vector search; rankings of categories have their probability as weight.
const MEANING: f32 = 0.1;
/// Weight of the joined ranking, which breaks ties.
const JOINED: f32 = 1e-3;
/// Maximum ratio of a tail node's score to the score one rank above.
const NEXT: f32 = 1.0 - 1e-6;

/// Returns the first [`FOUND`] nodes of vector search.
///
/// # Errors
/// Errors of the embedder and of the vectors.
pub(super) fn search_by_meaning(base: &IndexedBase, query: &str) -> Result<Ranking, IndexError> {
    base.search_vectors(query, base.kb.candidate_types(), FOUND)
}

/// Reorders the tail of the joined ranking by expected reciprocal rank, ties by ascending id, and
/// adds the nodes of [`search_by_meaning`]. The score at each rank stays, but is lowered where it
/// would equal the score above. No node is removed. `O(n log n)` in the nodes of all rankings.
pub(super) fn reorder(rankings: &[(f32, &Ranking)], found: &Ranking, joined: Ranking) -> Ranking {
    let mut all = rankings.to_vec();
    all.push((MEANING, found));
    all.push((JOINED, &joined));
    reordered(&all, &joined)
}

/// Reorders the tail of `joined` by the expected reciprocal rank over `rankings`, each given with
/// its weight.
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
        let found = search_by_meaning(&base, query).unwrap();
        let first = found[0].0;
        let others = base.kb.candidate_types().iter().flat_map(|&of| base.kb.nodes_of_type(of));
        let joined = down(others.copied().filter(|&node| node != first).take(HEAD));
        let widened = reorder(&[(1.0, &joined)], &found, joined.clone());
        let head = joined.len().min(HEAD);
        assert_eq!(widened[..head], joined[..head]);
        assert!(nodes(&widened).contains(&first));
        assert!(widened.is_sorted_by(|a, b| a.1 > b.1));
    }
}
