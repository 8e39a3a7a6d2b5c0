//! Adjacency as compressed sparse rows in a mapped file: finds the neighbors of a node, ascending.
//! Every access is checked for bounds, so damaged files are safe too.

use std::{borrow::Cow, ops::Deref, ops::Range};

use crate::NodeId;

/// The neighbors of one node: ids, ascending, each once. Derefs to `[NodeId]`.
///
/// For one direction this is a slice of the mapped file. For both directions the two slices are
/// merged into owned memory, but only if the node has different edges both ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors<'a>(Cow<'a, [NodeId]>);

impl<'a> Neighbors<'a> {
    pub(super) fn slice(ids: &'a [NodeId]) -> Neighbors<'a> {
        Neighbors(Cow::Borrowed(ids))
    }

    /// Merges two lists of ids, each ascending and distinct. Linear in their lengths; takes no time
    /// if both are the same slice of the file.
    pub(super) fn merge(left: &'a [NodeId], right: &'a [NodeId]) -> Neighbors<'a> {
        if right.is_empty() || std::ptr::eq(left, right) {
            return Neighbors::slice(left);
        }
        if left.is_empty() {
            return Neighbors::slice(right);
        }
        let mut merged = Vec::with_capacity(left.len() + right.len());
        let (mut lefts, mut rights) = (left.iter().peekable(), right.iter().peekable());
        while let (Some(&&l), Some(&&r)) = (lefts.peek(), rights.peek()) {
            if l <= r {
                lefts.next();
            }
            if r <= l {
                rights.next();
            }
            merged.push(l.min(r));
        }
        merged.extend(lefts);
        merged.extend(rights);
        Neighbors(Cow::Owned(merged))
    }

    /// The ids of the neighbors as a slice.
    pub fn as_slice(&self) -> &[NodeId] {
        &self.0
    }

    /// The ids of the neighbors as a vector; copied if they are a slice of the mapped file.
    pub fn into_vec(self) -> Vec<NodeId> {
        self.0.into_owned()
    }
}

impl AsRef<[NodeId]> for Neighbors<'_> {
    fn as_ref(&self) -> &[NodeId] {
        &self.0
    }
}

impl Deref for Neighbors<'_> {
    type Target = [NodeId];

    fn deref(&self) -> &[NodeId] {
        &self.0
    }
}

/// Iterator over the ids in [`Neighbors`], which it owns.
#[derive(Clone, Debug)]
pub struct NeighborsIter<'a> {
    neighbors: Neighbors<'a>,
    next: usize,
}

impl Iterator for NeighborsIter<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let id = self.neighbors.get(self.next).copied()?;
        self.next += 1;
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.neighbors.len().saturating_sub(self.next);
        (left, Some(left))
    }
}

impl ExactSizeIterator for NeighborsIter<'_> {}

impl<'a> IntoIterator for Neighbors<'a> {
    type Item = NodeId;
    type IntoIter = NeighborsIter<'a>;

    fn into_iter(self) -> NeighborsIter<'a> {
        NeighborsIter { neighbors: self, next: 0 }
    }
}

impl<'a> IntoIterator for &'a Neighbors<'_> {
    type Item = &'a NodeId;
    type IntoIter = std::slice::Iter<'a, NodeId>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Where the rows of one relation in one direction are in the mapped file. A row is the list of
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
                let nodes = as_u32(bytes.get(self.nodes.clone()).unwrap_or_default());
                nodes.binary_search(&node).ok()
            }
        };
        let Some(row) = row else { return &[] };
        let offsets = as_u32(bytes.get(self.offsets.clone()).unwrap_or_default());
        let (Some(&start), Some(&end)) = (offsets.get(row), offsets.get(row + 1)) else {
            return &[];
        };
        let targets = as_u32(bytes.get(self.targets.clone()).unwrap_or_default());
        targets.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Returns the bytes as `u32`; empty if they are not aligned to 4 bytes. A remainder of up to 3
/// bytes is dropped.
pub(super) fn as_u32(bytes: &[u8]) -> &[u32] {
    // SAFETY: every bit pattern is a valid u32, and `align_to` keeps to aligned whole elements.
    let (before, middle, _) = unsafe { bytes.align_to::<u32>() };
    if before.is_empty() { middle } else { &[] }
}

/// Returns the bytes as `u16`; empty if they are not aligned to 2 bytes. A remainder of 1 byte is
/// dropped.
pub(super) fn as_u16(bytes: &[u8]) -> &[u16] {
    // SAFETY: every bit pattern is a valid u16, and `align_to` keeps to aligned whole elements.
    let (before, middle, _) = unsafe { bytes.align_to::<u16>() };
    if before.is_empty() { middle } else { &[] }
}

/// Returns the bytes as `u64`; empty if they are not aligned to 8 bytes. A remainder of up to 7
/// bytes is dropped.
pub(super) fn as_u64(bytes: &[u8]) -> &[u64] {
    // SAFETY: every bit pattern is a valid u64, and `align_to` keeps to aligned whole elements.
    let (before, middle, _) = unsafe { bytes.align_to::<u64>() };
    if before.is_empty() { middle } else { &[] }
}
