//! Marks on nodes that can be cleared without touching unmarked nodes: computes the union of many
//! lists of ids, in ascending order.
//!
//! There are two levels of bits: one bit per node, and one bit for each word of 64 nodes, set if
//! any of these nodes is marked. Marks are found and cleared through the upper level. So a small
//! union over a large base takes time linear in the size of the union, plus one step per 4,096
//! nodes.

use crate::NodeId;

/// A set of marked nodes with ids below a fixed number. Memory: one bit for each possible node.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    bits: Vec<u64>,
    /// Bit `i` is set if `bits[i]` is not zero.
    filled: Vec<u64>,
    /// Number of marked nodes.
    n: usize,
}

impl Marks {
    /// Creates a set for the nodes `0..n_nodes`, none of them marked.
    pub fn new(n_nodes: u32) -> Marks {
        let n_words = n_nodes.div_ceil(64);
        let words = |n: u32| vec![0u64; n as usize];
        Marks { bits: words(n_words), filled: words(n_words.div_ceil(64)), n: 0 }
    }

    /// Marks a node; returns whether the node was unmarked before. Ignores ids from `n_nodes` on,
    /// rounded up to a multiple of 64, and returns `false` for them.
    #[inline]
    pub fn insert(&mut self, node: NodeId) -> bool {
        let word = (node / 64) as usize;
        let Some(bits) = self.bits.get_mut(word) else { return false };
        let before = *bits;
        *bits |= 1 << (node % 64);
        // Unconditional, because a branch would be mispredicted often.
        if let Some(filled) = self.filled.get_mut(word / 64) {
            *filled |= 1 << (word % 64);
        }
        let is_new = before != *bits;
        self.n += usize::from(is_new);
        is_new
    }

    /// Marks all nodes of a list.
    pub fn extend(&mut self, nodes: &[NodeId]) {
        for &node in nodes {
            self.insert(node);
        }
    }

    /// Appends the marked nodes in ascending order to `nodes` and clears all marks.
    pub fn drain_into(&mut self, nodes: &mut Vec<NodeId>) {
        nodes.reserve(std::mem::take(&mut self.n));
        for (upper, filled) in (0u32..).zip(&mut self.filled) {
            let mut words = std::mem::take(filled);
            while words != 0 {
                let word = upper * 64 + words.trailing_zeros();
                words &= words - 1;
                let mut bits = self.bits.get_mut(word as usize).map_or(0, std::mem::take);
                while bits != 0 {
                    nodes.push(word * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn drained_marks_are_the_ascending_union_and_leave_none(
            rounds in prop::collection::vec(prop::collection::vec(0u32..10_000, 0..200), 1..4),
            n_nodes in 1u32..10_000,
        ) {
            let mut marks = Marks::new(n_nodes);
            for nodes in rounds {
                let last = n_nodes.next_multiple_of(64);
                let mut twin = BTreeSet::new();
                for &node in &nodes {
                    prop_assert_eq!(marks.insert(node), node < last && twin.insert(node));
                }
                let mut drained = Vec::new();
                marks.drain_into(&mut drained);
                prop_assert_eq!(drained, twin.into_iter().collect::<Vec<_>>());
            }
        }
    }
}
