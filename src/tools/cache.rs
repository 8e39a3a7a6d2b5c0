//! Cache of the results of tool calls, shared by all programs of a run. Tools are pure, so cached
//! results stay valid while the base is open. The size is limited in bytes; a full shard is
//! emptied.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{ArgSpec, Kind, Value, Work};
use agent_ground::locks::locked;

const SHARDS: usize = 16;

type Key = [u8; 32];
type Shard = (HashMap<Key, (Value, Work)>, usize);

/// A thread-safe map of limited size from tool calls to their results.
pub struct ToolCache {
    shards: Vec<Mutex<Shard>>,
    max_shard_bytes: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl ToolCache {
    /// Creates an empty cache that holds at most about `max_bytes`.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            max_shard_bytes: max_bytes / SHARDS,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Returns the number of cache hits and the number of cache misses so far.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Computes the key of a call of the tool with index `tool`. If an argument of kind nodes holds
    /// scores, only the nodes are hashed, because the tool does not see the scores.
    pub(super) fn key(tool: usize, specs: &[ArgSpec], args: &[Value]) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&tool.to_le_bytes());
        for (index, arg) in args.iter().enumerate() {
            match (specs.get(index).map(|spec| spec.kind), arg) {
                (Some(Kind::Nodes), Value::Scores(scores)) => {
                    digest(&Value::nodes(scores.nodes()), &mut hasher);
                }
                _ => digest(arg, &mut hasher),
            }
        }
        *hasher.finalize().as_bytes()
    }

    /// Looks up the result of a call and the work that the call took; counts the lookup as a hit or
    /// a miss.
    pub(super) fn get(&self, key: &Key) -> Option<(Value, Work)> {
        let shard = self.shard(key)?;
        let found = locked(shard).0.get(key).cloned();
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    pub(super) fn put(&self, key: Key, value: &Value, work: Work) {
        let bytes = size(value) + size_of::<(Key, Value, Work)>();
        let Some(shard) = self.shard(&key) else { return };
        if bytes > self.max_shard_bytes {
            return;
        }
        let (map, used) = &mut *locked(shard);
        if *used + bytes > self.max_shard_bytes {
            map.clear();
            *used = 0;
        }
        if map.insert(key, (value.clone(), work)).is_none() {
            *used += bytes;
        }
    }

    fn shard(&self, key: &Key) -> Option<&Mutex<Shard>> {
        self.shards.get(usize::from(key[0]) % SHARDS)
    }
}

/// Feeds a value to `hasher`; different values give different bytes.
fn digest(value: &Value, hasher: &mut blake3::Hasher) {
    hasher.update(value.describe().as_bytes());
    match value {
        Value::Unit => {}
        Value::Bool(truth) => {
            hasher.update(&[u8::from(*truth)]);
        }
        Value::Int(number) => {
            hasher.update(&number.to_le_bytes());
        }
        Value::Float(number) => {
            hasher.update(&number.to_bits().to_le_bytes());
        }
        Value::Text(text) => {
            hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
        }
        Value::Nodes(nodes) => {
            hasher
                .update(&nodes.len().to_le_bytes())
                .update(bytemuck::cast_slice(nodes.as_slice()));
        }
        Value::Scores(scores) => {
            hasher.update(&scores.len().to_le_bytes());
            for (node, score) in scores.as_slice() {
                hasher.update(&node.to_le_bytes()).update(&score.to_bits().to_le_bytes());
            }
        }
        Value::Vector(vector) => {
            hasher.update(&vector.len().to_le_bytes()).update(bytemuck::cast_slice(vector));
        }
        Value::List(values) => {
            hasher.update(&values.len().to_le_bytes());
            values.iter().for_each(|value| digest(value, hasher));
        }
        Value::Map(map) => {
            hasher.update(&map.len().to_le_bytes());
            for (name, value) in map {
                hasher.update(&name.len().to_le_bytes()).update(name.as_bytes());
                digest(value, hasher);
            }
        }
    }
}

/// Returns the approximate size of a value in memory, in bytes.
fn size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::Text(text) => text.len(),
            Value::Nodes(nodes) => nodes.len() * 4,
            Value::Scores(scores) => scores.len() * 8,
            Value::Vector(vector) => vector.len() * 4,
            Value::List(values) => values.iter().map(size).sum(),
            Value::Map(map) => map.iter().map(|(name, value)| name.len() + size(value)).sum(),
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_kb::{NodeSet, Scores};

    #[test]
    fn scores_are_known_by_their_nodes_where_a_tool_takes_nodes_and_only_there() {
        let key = |kind, value: Value| {
            ToolCache::key(3, &[ArgSpec { name: "it", kind, default: None }], &[value])
        };
        let scores = |score| Value::scores(Scores::new(vec![(1, score), (4, 2.0)]));
        let nodes = || Value::nodes(NodeSet::new(vec![1, 4]));
        assert_eq!(key(Kind::Nodes, scores(1.0)), key(Kind::Nodes, scores(3.0)));
        assert_eq!(key(Kind::Nodes, scores(1.0)), key(Kind::Nodes, nodes()));
        for kind in [Kind::Scores, Kind::Any] {
            assert_ne!(key(kind, scores(1.0)), key(kind, scores(3.0)));
            assert_ne!(key(kind, scores(1.0)), key(kind, nodes()));
        }
    }

    #[test]
    fn keys_tell_values_apart_and_a_full_shard_is_emptied() {
        let key = |args: &[Value]| ToolCache::key(3, &[], args);
        assert_ne!(key(&[Value::Int(1)]), key(&[Value::Float(1.0)]));
        assert_ne!(
            key(&[Value::text("ab"), Value::text("c")]),
            key(&[Value::text("a"), Value::text("bc")])
        );
        let cache = ToolCache::new(SHARDS * 400);
        let (first, big) = ([0; 32], Value::text(&"x".repeat(200)));
        let work = Work { touched: 7, ..Work::default() };
        cache.put(first, &big, work);
        assert_eq!(cache.get(&first), Some((big.clone(), work)));
        let mut second = [0; 32];
        second[1] = 1;
        cache.put(second, &big, work);
        assert_eq!(cache.get(&first), None);
        assert_eq!(cache.hits_and_misses(), (1, 1));
    }
}
