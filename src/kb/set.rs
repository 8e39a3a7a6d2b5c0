//! Sets of nodes, as ascending lists of ids.
//!
//! Programs compute with these sets (`&`, `|`, `-`). Every operation merges two ascending lists in
//! linear time, or searches the larger list where the other one is much smaller.

use super::NodeId;

/// If one list is more than this many times as long as the other, intersection searches the longer
/// list instead of merging.
const GALLOP_RATIO: usize = 16;

/// A set of nodes: distinct ids, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet(Vec<NodeId>);

impl NodeSet {
    /// Creates the set of the given ids, which may be in any order and repeated. O(n log n).
    pub fn new(mut ids: Vec<NodeId>) -> Self {
        if !ids.is_sorted() {
            ids.sort_unstable();
        }
        ids.dedup();
        Self(ids)
    }

    /// Returns the ids, ascending.
    pub fn as_slice(&self) -> &[NodeId] {
        &self.0
    }

    /// Returns the number of nodes in the set.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no nodes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `node` is in the set. O(log n).
    pub fn contains(&self, node: NodeId) -> bool {
        self.0.binary_search(&node).is_ok()
    }

    /// Returns the set of the nodes that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let (small, large) = if self.len() <= other.len() { (self, other) } else { (other, self) };
        let mut rest = large.as_slice();
        if small.len().saturating_mul(GALLOP_RATIO) < large.len() {
            return small.filter(|node| skip_to(&mut rest, node));
        }
        small.filter(|node| {
            let skip = rest.iter().position(|&other| other >= node).unwrap_or(rest.len());
            rest = &rest[skip..];
            rest.first() == Some(&node)
        })
    }

    /// Returns the set of the nodes that are in at least one of the two sets.
    pub fn union(&self, other: &Self) -> Self {
        Self(union(&self.0, &other.0))
    }

    /// Returns the set of the nodes that are in `self` but not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = other.as_slice();
        self.filter(|node| !skip_to(&mut rest, node))
    }

    /// Returns the set of the nodes for which `keep` returns `true`.
    pub fn filter(&self, mut keep: impl FnMut(NodeId) -> bool) -> Self {
        Self(self.0.iter().copied().filter(|&node| keep(node)).collect())
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(ids: I) -> Self {
        Self::new(ids.into_iter().collect())
    }
}

/// Sorts a list and drops repeated elements. O(n log n).
pub fn distinct<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list.dedup();
    list
}

/// Drops the ids below `node` from the front of an ascending list; returns whether the rest begins
/// with `node`.
pub(super) fn skip_to(rest: &mut &[NodeId], node: NodeId) -> bool {
    *rest = &rest[rest.partition_point(|&other| other < node)..];
    rest.first() == Some(&node)
}

/// Returns the ids that are in at least one of two ascending lists, each once.
pub(super) fn union(left: &[NodeId], right: &[NodeId]) -> Vec<NodeId> {
    let mut ids = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(&&a), Some(&&b)) = (left.peek(), right.peek()) {
        ids.push(a.min(b));
        if a <= b {
            left.next();
        }
        if b <= a {
            right.next();
        }
    }
    ids.extend(left);
    ids.extend(right);
    ids
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::NodeSet;

    proptest! {
        #[test]
        fn algebra_equals_that_of_btree_sets(
            a in prop::collection::vec(0u32..200, 0..300),
            b in prop::collection::vec(0u32..5000, 0..12),
        ) {
            let (left, right) = (NodeSet::new(a.clone()), NodeSet::new(b.clone()));
            let a: BTreeSet<u32> = a.into_iter().collect();
            let b: BTreeSet<u32> = b.into_iter().collect();
            let ids = |set: NodeSet| set.as_slice().to_vec();
            prop_assert_eq!(ids(left.intersection(&right)), a.intersection(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(ids(left.union(&right)), a.union(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(ids(left.difference(&right)), a.difference(&b).copied().collect::<Vec<_>>());
            prop_assert_eq!(ids(right.difference(&left)), b.difference(&a).copied().collect::<Vec<_>>());
        }
    }
}
