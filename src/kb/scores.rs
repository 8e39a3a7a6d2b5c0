//! Scores of nodes, and the operations on scores that programs rank with.
//!
//! A [`Scores`] maps node ids to finite `f32`, ascending by id, each id once. If only one of two
//! sources scores a node, a sum or maximum keeps this score, and a product leaves the node out.

use super::{NodeId, NodeSet, set::skip_to};

/// Nodes with scores, best first: score descending, then id ascending; each node once.
pub type Ranking = Vec<(NodeId, f32)>;

/// Finite scores of nodes, ascending by node id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores(Vec<(NodeId, f32)>);

/// How the scores of two sources are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// The sum of both scores; for nodes in at least one source.
    Sum,
    /// The larger of both scores; for nodes in at least one source.
    Max,
    /// The product of both scores; only for nodes in both sources.
    Product,
}

impl Scores {
    /// Creates scores from pairs (node, score) in any order. Of a repeated node the largest score
    /// is kept; scores that are not finite are dropped. O(n log n).
    pub fn new(mut pairs: Vec<(NodeId, f32)>) -> Self {
        pairs.retain(|(_, score)| score.is_finite());
        if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
            pairs.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
            pairs.dedup_by_key(|pair| pair.0);
        }
        Self(pairs)
    }

    /// Creates scores that assign `score` to every node of a set.
    pub fn uniform(nodes: &NodeSet, score: f32) -> Self {
        Self::new(nodes.as_slice().iter().map(|&node| (node, score)).collect())
    }

    /// Returns the pairs (node, score), ascending by node id.
    pub fn as_slice(&self) -> &[(NodeId, f32)] {
        &self.0
    }

    /// Returns the number of nodes with a score.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no node has a score.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the nodes that have a score.
    pub fn nodes(&self) -> NodeSet {
        self.0.iter().map(|pair| pair.0).collect()
    }

    /// Returns the score of a node; `None` if the node has no score. O(log n).
    pub fn get(&self, node: NodeId) -> Option<f32> {
        self.0.binary_search_by_key(&node, |pair| pair.0).ok().map(|at| self.0[at].1)
    }

    /// Returns the largest score; zero if no node has a score.
    pub fn largest(&self) -> f32 {
        self.0.iter().map(|pair| pair.1).reduce(f32::max).unwrap_or(0.0)
    }

    /// Replaces every score by the result of `change` for the node and its score; drops results
    /// that are not finite.
    pub fn map(&self, mut change: impl FnMut(NodeId, f32) -> f32) -> Self {
        Self(
            self.0
                .iter()
                .map(|&(node, score)| (node, change(node, score)))
                .filter(|pair| pair.1.is_finite())
                .collect(),
        )
    }

    /// Multiplies every score by `factor`; drops results that are not finite.
    pub fn scale(&self, factor: f32) -> Self {
        self.map(|_, score| score * factor)
    }

    /// Combines the scores of two sources; drops results that are not finite. Linear in the nodes
    /// of both.
    pub fn combine(&self, other: &Self, combine: Combine) -> Self {
        let mut pairs = Vec::with_capacity(self.len().max(other.len()));
        let (mut a, mut b) = (self.0.as_slice(), other.0.as_slice());
        loop {
            match (a.first(), b.first()) {
                (Some(&left), Some(&right)) if left.0 == right.0 => {
                    let score = match combine {
                        Combine::Sum => left.1 + right.1,
                        Combine::Max => left.1.max(right.1),
                        Combine::Product => left.1 * right.1,
                    };
                    pairs.push((left.0, score));
                    (a, b) = (&a[1..], &b[1..]);
                }
                (Some(&left), right) if right.is_none_or(|right| left.0 < right.0) => {
                    if combine != Combine::Product {
                        pairs.push(left);
                    }
                    a = &a[1..];
                }
                (_, Some(&right)) => {
                    if combine != Combine::Product {
                        pairs.push(right);
                    }
                    b = &b[1..];
                }
                _ => break,
            }
        }
        pairs.retain(|pair| pair.1.is_finite());
        Self(pairs)
    }

    /// Divides all scores by the largest, so that the best is 1; negative scores become 0. If no
    /// score is positive, all become 0.
    pub fn normalized(&self) -> Self {
        let largest = self.largest();
        self.map(|_, score| if largest > 0.0 { score.max(0.0) / largest } else { 0.0 })
    }

    /// Keeps only the scores of nodes in a set.
    pub fn restricted(&self, nodes: &NodeSet) -> Self {
        let mut rest = nodes.as_slice();
        self.filter(|node, _| skip_to(&mut rest, node))
    }

    /// Keeps the scores for which `keep` returns `true`; `keep` receives the node and its score.
    pub fn filter(&self, mut keep: impl FnMut(NodeId, f32) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|&(node, score)| keep(node, score)).collect())
    }

    /// Keeps the `k` largest scores; of equal scores, those of the smallest ids. O(n log k) or
    /// better.
    pub fn top(&self, k: usize) -> Self {
        if k >= self.len() {
            return self.clone();
        }
        Self::new(best(self.0.clone(), k))
    }

    /// Replaces the score of every node by `1 / (k + rank)`, where the best node has rank 1: the
    /// terms that reciprocal rank fusion sums (Cormack, Clarke & Büttcher 2009).
    pub fn reciprocal_ranks(&self, k: f32) -> Self {
        let ranks = self.ranking().into_iter().zip(1u32..);
        Self::new(ranks.map(|((node, _), rank)| (node, 1.0 / (k + rank as f32))).collect())
    }

    /// Returns all pairs (node, score), best first: by descending score, ties by ascending id.
    pub fn ranking(&self) -> Ranking {
        best(self.0.clone(), self.len())
    }
}

/// Orders pairs (node, score) best first: by descending score, ties by ascending id. Negative zero
/// equals zero.
pub fn best_first(a: &(NodeId, f32), b: &(NodeId, f32)) -> std::cmp::Ordering {
    // A negative zero plus zero is zero; no other number changes.
    (b.1 + 0.0).total_cmp(&(a.1 + 0.0)).then(a.0.cmp(&b.0))
}

/// Returns the `k` best pairs (node, score), best first: by descending score, ties by ascending id.
pub fn best(mut pairs: Vec<(NodeId, f32)>, k: usize) -> Ranking {
    if k == 0 {
        return Vec::new();
    }
    if k < pairs.len() {
        pairs.select_nth_unstable_by(k - 1, best_first);
        pairs.truncate(k);
    }
    pairs.sort_unstable_by(best_first);
    pairs
}

#[cfg(test)]
mod tests {
    use super::{Combine, Scores};

    #[test]
    fn combining_treats_an_absent_node_as_no_evidence() {
        let a = Scores::new(vec![(3, 1.0), (1, 2.0)]);
        let b = Scores::new(vec![(3, 0.5), (9, 4.0)]);
        assert_eq!(a.combine(&b, Combine::Sum).as_slice(), [(1, 2.0), (3, 1.5), (9, 4.0)]);
        assert_eq!(a.combine(&b, Combine::Max).as_slice(), [(1, 2.0), (3, 1.0), (9, 4.0)]);
        assert_eq!(a.combine(&b, Combine::Product).as_slice(), [(3, 0.5)]);
    }

    #[test]
    fn ranking_breaks_ties_by_id_and_drops_what_is_not_finite() {
        let scores = Scores::new(vec![(7, 1.0), (2, 1.0), (5, 3.0), (6, f32::NAN)]);
        assert_eq!(scores.ranking(), [(5, 3.0), (2, 1.0), (7, 1.0)]);
        assert_eq!(scores.top(2).as_slice(), [(2, 1.0), (5, 3.0)]);
        assert_eq!(scores.top(0).as_slice(), []);
        let zeros = Scores::new(vec![(1, -0.0), (2, 0.0), (3, -0.0)]);
        assert_eq!(
            zeros.ranking(),
            [(1, 0.0), (2, 0.0), (3, 0.0)],
            "zero and negative zero are equal"
        );
    }

    #[test]
    fn normalizing_keeps_order_and_never_divides_by_zero() {
        let scores = Scores::new(vec![(1, 4.0), (2, -1.0), (3, 2.0)]).normalized();
        assert_eq!(scores.as_slice(), [(1, 1.0), (2, 0.0), (3, 0.5)]);
        assert_eq!(Scores::new(vec![(1, -2.0)]).normalized().as_slice(), [(1, 0.0)]);
    }
}
