//! Adjacency as compressed sparse rows in a mapped file: finds the neighbors of a node, ascending.
//! Every access is checked for bounds, so damaged files are safe too.

use std::{borrow::Cow, ops::Range};

use bytemuck::Pod;

use crate::{NodeId, set::union};

/// The neighbors of one node: ids, ascending, each once.
///
/// For one direction this is a slice of the mapped file. For both directions, the two slices are
/// merged into owned memory only if neither is empty and they are not the same slice.
pub type Neighbors<'a> = Cow<'a, [NodeId]>;

/// Merges two lists of ids, each ascending and distinct. Linear in their lengths; O(1) if one is
/// empty or both are the same slice of the file.
pub(super) fn merge<'a>(left: &'a [NodeId], right: &'a [NodeId]) -> Neighbors<'a> {
    if right.is_empty() || std::ptr::eq(left, right) {
        return Cow::Borrowed(left);
    }
    if left.is_empty() {
        return Cow::Borrowed(right);
    }
    Cow::Owned(union(left, right))
}

/// Location of one relation's rows, in one direction, in the mapped file. A row is the list of
/// neighbors of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// The node of the first row.
    pub(super) first: NodeId,
    /// Byte range of the nodes of the rows, ascending; empty if the nodes are consecutive, from
    /// `first` on.
    pub(super) nodes: Range<usize>,
    /// Byte range of the offsets, `u32[rows + 1]`: a zero, then the end of each row among the
    /// targets.
    pub(super) offsets: Range<usize>,
    /// Byte range of the targets, the concatenated rows.
    pub(super) targets: Range<usize>,
}

impl Rows {
    /// Returns the neighbors of `node`, ascending; empty if there are none or the bytes are
    /// invalid. `bytes` is the mapped file.
    pub(super) fn get<'a>(&self, bytes: &'a [u8], node: NodeId) -> &'a [NodeId] {
        let row = match self.nodes.is_empty() {
            true => node.checked_sub(self.first).map(|row| row as usize),
            false => {
                let nodes = as_numbers(bytes.get(self.nodes.clone()).unwrap_or_default());
                nodes.binary_search(&node).ok()
            }
        };
        let Some(row) = row else { return &[] };
        let offsets: &[u32] = as_numbers(bytes.get(self.offsets.clone()).unwrap_or_default());
        let (Some(&start), Some(&end)) = (offsets.get(row), offsets.get(row + 1)) else {
            return &[];
        };
        let targets = as_numbers(bytes.get(self.targets.clone()).unwrap_or_default());
        targets.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Returns the bytes as numbers; empty if they are not aligned. A remainder that is shorter than a
/// number is dropped.
pub(super) fn as_numbers<T: Pod>(bytes: &[u8]) -> &[T] {
    let (before, middle, _) = bytemuck::pod_align_to(bytes);
    if before.is_empty() { middle } else { &[] }
}
