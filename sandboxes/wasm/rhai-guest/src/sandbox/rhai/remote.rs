//! Sets and scores that the host holds: a handle here, and a copy once a program looks inside.

use std::{cell::OnceCell, sync::Arc};

use crate::{
    sandbox::{
        host,
        rhai::meter,
        wire::{Handles, NODES, Reader, SCORES, VECTOR, write_numbers},
    },
    tools::Value,
};

/// A node's position in the base.
pub(crate) type NodeId = u32;

/// A set of nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeSet {
    handle: u32,
    len: usize,
    ids: OnceCell<Vec<NodeId>>,
}

impl NodeSet {
    /// How many nodes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The ids, ascending.
    pub(crate) fn as_slice(&self) -> &[NodeId] {
        self.ids.get_or_init(|| {
            meter::as_host(|| {
                let bytes = host::read(self.handle, self.len * 4);
                let (ids, _) = bytes.as_chunks::<4>();
                ids.iter().map(|id| NodeId::from_le_bytes(*id)).collect()
            })
        })
    }
}

impl Drop for NodeSet {
    fn drop(&mut self) {
        if self.handle != 0 {
            host::release(self.handle);
        }
    }
}

/// Scores by node.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    handle: u32,
    len: usize,
    pairs: OnceCell<Vec<(NodeId, f32)>>,
}

impl Scores {
    /// How many nodes have a score.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn pairs(&self) -> &[(NodeId, f32)] {
        self.pairs.get_or_init(|| {
            meter::as_host(|| {
                let bytes = host::read(self.handle, self.len * 8);
                let (words, _) = bytes.as_chunks::<4>();
                let (pairs, _) = words.as_chunks::<2>();
                pairs
                    .iter()
                    .map(|[id, score]| (NodeId::from_le_bytes(*id), f32::from_le_bytes(*score)))
                    .collect()
            })
        })
    }

    /// The score of a node, if it has one.
    pub(crate) fn get(&self, node: NodeId) -> Option<f32> {
        let pairs = self.pairs();
        pairs.binary_search_by_key(&node, |pair| pair.0).ok().map(|at| pairs[at].1)
    }

    /// All pairs best first: score descending, then id ascending.
    pub(crate) fn ranking(&self) -> Vec<(NodeId, f32)> {
        let mut pairs = self.pairs().to_vec();
        pairs.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        pairs
    }
}

impl PartialEq for Scores {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.pairs() == other.pairs()
    }
}

impl Drop for Scores {
    fn drop(&mut self) {
        if self.handle != 0 {
            host::release(self.handle);
        }
    }
}

/// Handles on the side of the module: vectors are copied, as they are small.
pub(super) struct Remote;

impl Handles for Remote {
    fn write(&mut self, value: &Value, out: &mut Vec<u8>) -> Result<(), String> {
        let (kind, handle, len) = match value {
            Value::Nodes(nodes) => (NODES, nodes.handle, nodes.len),
            Value::Scores(scores) => (SCORES, scores.handle, scores.len),
            Value::Vector(vector) => return write_numbers(out, vector),
            _ => return Err("not a handle".to_owned()),
        };
        out.push(kind);
        out.extend_from_slice(&handle.to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        Ok(())
    }

    fn read(&mut self, kind: u8, from: &mut Reader<'_>) -> Result<Value, String> {
        let (handle, len) = (from.u32()?, from.u32()? as usize);
        Ok(match kind {
            NODES => Value::Nodes(Arc::new(NodeSet { handle, len, ids: OnceCell::new() })),
            SCORES => Value::Scores(Arc::new(Scores { handle, len, pairs: OnceCell::new() })),
            VECTOR => {
                let bytes = host::read(handle, len * 4);
                host::release(handle);
                let (numbers, _) = bytes.as_chunks::<4>();
                Value::Vector(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
            }
            _ => return Err("not a handle".to_owned()),
        })
    }
}
