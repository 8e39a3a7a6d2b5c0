//! Adjacency as compressed sparse rows over mapped bytes: given a node, its sorted neighbors. Every
//! access is bounds-checked, so any bytes are safe.

use std::{borrow::Cow, ops::Deref, ops::Range};

use crate::NodeId;

/// Neighbors of one node: sorted ascending, distinct. Derefs to `[NodeId]`.
///
/// One direction is a slice of the mapped file; both directions together are merged into owned
/// memory only if the node has different edges both ways.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors<'a>(Cow<'a, [NodeId]>);

impl<'a> Neighbors<'a> {
    pub(super) fn slice(ids: &'a [NodeId]) -> Neighbors<'a> {
        Neighbors(Cow::Borrowed(ids))
    }

    /// Merges two sorted, distinct slices. Linear in their lengths; free if they are the same
    /// slice.
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

    /// The ids as a slice.
    pub fn as_slice(&self) -> &[NodeId] {
        &self.0
    }

    /// The ids as a vector; copies only if they are a slice of the mapped file.
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

/// Owning iterator over [`Neighbors`].
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

/// One direction of one relation: location of its rows in the mapped file.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// The node of the first row.
    pub(super) first: NodeId,
    /// Byte range of the nodes of the rows, ascending; empty if the nodes are consecutive.
    pub(super) nodes: Range<usize>,
    /// Byte range of `u32[rows + 1]`, starting with 0.
    pub(super) offsets: Range<usize>,
    /// Byte range of the targets.
    pub(super) targets: Range<usize>,
}

impl Rows {
    /// The sorted targets of `node`; empty if it has none or the bytes are invalid.
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

/// The bytes as `u32`; empty if they are not aligned to 4. A remainder of up to 3 bytes is dropped.
pub(super) fn as_u32(bytes: &[u8]) -> &[u32] {
    // SAFETY: every bit pattern is a valid u32, and `align_to` keeps to aligned whole elements.
    let (before, middle, _) = unsafe { bytes.align_to::<u32>() };
    if before.is_empty() { middle } else { &[] }
}

/// The bytes as `u16`; empty if they are not aligned to 2. A remainder of 1 byte is dropped.
pub(super) fn as_u16(bytes: &[u8]) -> &[u16] {
    // SAFETY: every bit pattern is a valid u16, and `align_to` keeps to aligned whole elements.
    let (before, middle, _) = unsafe { bytes.align_to::<u16>() };
    if before.is_empty() { middle } else { &[] }
}

/// The bytes as `u64`; empty if they are not aligned to 8. A remainder of up to 7 bytes is dropped.
pub(super) fn as_u64(bytes: &[u8]) -> &[u64] {
    // SAFETY: every bit pattern is a valid u64, and `align_to` keeps to aligned whole elements.
    let (before, middle, _) = unsafe { bytes.align_to::<u64>() };
    if before.is_empty() { middle } else { &[] }
}
