//! Groups edges in any order into rows: for each node, the list of its neighbors, ascending.
//!
//! This is a counting sort, linear in the number of edges and in the range of node ids. Grouping by
//! target and then by source leaves every row ascending. The result is linear in the number of
//! edges: if few nodes of the range have a row, the ids of these nodes are listed.

use crate::NodeId;

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
    /// the rows of sources with their targets, and the rows of targets with their sources.
    pub(super) fn both(edges: Vec<u64>) -> (Adjacency, Adjacency) {
        let by_target = group(edges.iter().map(|edge| (*edge as u32, (edge >> 32) as u32)));
        drop(edges);
        let mut out = group(by_target.turned());
        drop(by_target);
        out.dedup();
        let into = group(out.turned());
        (out.listed(), into.listed())
    }

    /// Returns the same rows with their nodes listed and empty rows dropped, if that is much
    /// shorter; otherwise the rows unchanged.
    fn listed(self) -> Adjacency {
        let mut nodes = Vec::new();
        let mut offsets = vec![0];
        let filled = || self.rows().filter(|row| !row.1.is_empty());
        if filled().count().saturating_mul(SPARSE) >= self.offsets.len() {
            return self;
        }
        let mut end = 0;
        for (node, targets) in filled() {
            nodes.push(node);
            // At most `MAX_EDGES`, as all offsets.
            end += targets.len() as u32;
            offsets.push(end);
        }
        Adjacency { first: self.first, nodes, offsets, targets: self.targets }
    }

    /// Returns all pairs (target, node of the row), in the order of the rows.
    fn turned(&self) -> impl Iterator<Item = (NodeId, NodeId)> + Clone + '_ {
        self.rows().flat_map(|(node, targets)| targets.iter().map(move |&target| (target, node)))
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

    /// Drops repeated targets from rows that are sorted.
    fn dedup(&mut self) {
        let mut kept = 0usize;
        let mut start = 0usize;
        for end in self.offsets.iter_mut().skip(1) {
            let row_start = kept;
            for at in start..*end as usize {
                let Some(&target) = self.targets.get(at) else { break };
                if kept == row_start || self.targets.get(kept - 1) != Some(&target) {
                    if let Some(slot) = self.targets.get_mut(kept) {
                        *slot = target;
                    }
                    kept += 1;
                }
            }
            start = *end as usize;
            *end = kept as u32;
        }
        self.targets.truncate(kept);
    }
}

/// Groups pairs (row node, target) by row node; the targets of a row keep their order. There must
/// be at most `MAX_EDGES` pairs, so that offsets fit into `u32`.
fn group(pairs: impl Iterator<Item = (NodeId, NodeId)> + Clone) -> Adjacency {
    let (first, last) = pairs
        .clone()
        .fold((NodeId::MAX, 0), |(first, last), (row, _)| (first.min(row), last.max(row)));
    if first > last {
        return Adjacency::default();
    }
    // Row r begins at offsets[r]; while filling, offsets[r + 1] is where its next target goes.
    let mut offsets = vec![0u32; (last - first) as usize + 3];
    let mut n = 0usize;
    for (row, _) in pairs.clone() {
        if let Some(count) = offsets.get_mut((row - first) as usize + 2) {
            *count += 1;
        }
        n += 1;
    }
    let mut sum = 0;
    for offset in &mut offsets {
        sum += *offset;
        *offset = sum;
    }
    let mut targets = vec![0; n];
    for (row, target) in pairs {
        if let Some(next) = offsets.get_mut((row - first) as usize + 1) {
            if let Some(slot) = targets.get_mut(*next as usize) {
                *slot = target;
            }
            *next += 1;
        }
    }
    offsets.pop();
    Adjacency { first, nodes: Vec::new(), offsets, targets }
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
