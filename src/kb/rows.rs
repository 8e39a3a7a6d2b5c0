//! Groups edges in any order into rows: for each node, the list of its neighbors, ascending.
//!
//! The size of the result is linear in the number of edges: if few nodes of the range have a row,
//! the ids of these nodes are listed.

use crate::{NodeId, distinct};

/// If the range of node ids has more than this many ids for each row, the nodes of the rows are
/// listed.
const SPARSE: usize = 16;

/// For one relation in one direction, the neighbors of each node, ascending and distinct: rows of
/// consecutive nodes from `first` on, or of listed nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Adjacency {
    /// The node of the first row.
    pub(super) first: NodeId,
    /// The nodes of the rows, ascending; empty if the rows belong to consecutive nodes.
    pub(super) nodes: Vec<NodeId>,
    /// Start of each row in `targets`, then the end of the last row.
    pub(super) offsets: Vec<u32>,
    pub(super) targets: Vec<NodeId>,
}

impl Adjacency {
    /// Groups edges, given as `source << 32 | target` in any order and possibly repeated. Returns
    /// the rows of sources with their targets, and the rows of targets with their sources. O(n log
    /// n).
    pub(super) fn both(edges: Vec<u64>) -> (Adjacency, Adjacency) {
        let mut edges = distinct(edges);
        let out = Adjacency::new(&edges);
        edges.iter_mut().for_each(|edge| *edge = edge.rotate_left(32));
        edges.sort_unstable();
        (out, Adjacency::new(&edges))
    }

    /// Creates the rows of edges that ascend, each once, given as `node of the row << 32 | target`.
    fn new(edges: &[u64]) -> Adjacency {
        let node = |edge: &u64| (edge >> 32) as NodeId;
        let (Some(first), Some(last)) = (edges.first().map(node), edges.last().map(node)) else {
            return Adjacency::default();
        };
        let rows = || edges.chunk_by(|a, b| node(a) == node(b));
        let is_sparse = rows().count().saturating_mul(SPARSE) < (last - first) as usize + 2;
        let (mut nodes, mut offsets, mut end) = (Vec::new(), vec![0], 0);
        for row in rows() {
            let own = row.first().map_or(first, node);
            match is_sparse {
                true => nodes.push(own),
                // Nodes without edges have empty rows.
                false => offsets.resize((own - first) as usize + 1, end),
            }
            // At most `MAX_EDGES`, like all offsets.
            end += row.len() as u32;
            offsets.push(end);
        }
        let targets = edges.iter().map(|&edge| edge as NodeId).collect();
        Adjacency { first, nodes, offsets, targets }
    }

    /// Returns each node with its neighbors, in the order of the rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (NodeId, &[NodeId])> + Clone {
        self.offsets.windows(2).zip(self.first..).enumerate().map(|(row, (ends, node))| {
            let node = self.nodes.get(row).copied().unwrap_or(node);
            let (start, end) = (ends.first().copied(), ends.last().copied());
            let row = start.unwrap_or_default() as usize..end.unwrap_or_default() as usize;
            (node, self.targets.get(row).unwrap_or_default())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_hold_the_distinct_edges_in_order_both_ways(
            edges in prop::collection::vec((5u32..90, 0u32..90), 0..300),
        ) {
            let packed = edges.iter().map(|&(s, t)| u64::from(s) << 32 | u64::from(t)).collect();
            let (out, into) = Adjacency::both(packed);
            let pairs = |rows: &Adjacency| -> Vec<(u32, u32)> {
                let rows = rows.rows();
                rows.flat_map(|(node, row)| row.iter().map(move |&to| (node, to))).collect()
            };
            let twin: BTreeSet<(u32, u32)> = edges.iter().copied().collect();
            prop_assert_eq!(pairs(&out), twin.into_iter().collect::<Vec<_>>());
            let twin: BTreeSet<(u32, u32)> = edges.iter().map(|&(s, t)| (t, s)).collect();
            prop_assert_eq!(pairs(&into), twin.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(out.first, edges.iter().map(|edge| edge.0).min().unwrap_or(0));
            for rows in [&out, &into] {
                prop_assert!(rows.offsets.len() <= SPARSE * edges.len() + 2);
            }
        }
    }
}
