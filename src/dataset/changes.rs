//! Two versions of a base: what is in one and not in the other? Must not know why it changed.
//!
//! Nodes are the same if the data call them the same: type and key, or the number where there are
//! no keys.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use agent_kb::{Direction, Kb, NodeId, RelationId};

/// What changed from one version of a base to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Nodes that are new.
    pub nodes_added: u64,
    /// Nodes that are gone.
    pub nodes_removed: u64,
    /// Nodes whose name, text or fields are others.
    pub nodes_changed: u64,
    /// Nodes that are the same in all.
    pub nodes_same: u64,
    /// Edges that are new and edges that are gone, by relation; only where there are some.
    pub edges: BTreeMap<String, (u64, u64)>,
    /// Relations that are gone altogether.
    pub relations_gone: Vec<String>,
    /// Relations that are new.
    pub relations_new: Vec<String>,
}

impl Changes {
    /// Compares all nodes and edges; O(text + edges * log of edges of a node).
    pub fn between(old: &Kb, new: &Kb) -> Changes {
        let moved = Changes::moved(old, new);
        let mut back = vec![None; new.n_nodes() as usize];
        for (node, now) in (0..old.n_nodes()).zip(&moved) {
            if let Some(slot) = now.and_then(|now| back.get_mut(now as usize)) {
                *slot = Some(node);
            }
        }
        let mut changes = Changes::default();
        for (node, now) in (0..old.n_nodes()).zip(&moved) {
            match now {
                None => changes.nodes_removed += 1,
                Some(now) if is_same(old, node, new, *now) => changes.nodes_same += 1,
                Some(_) => changes.nodes_changed += 1,
            }
        }
        changes.nodes_added = back.iter().filter(|before| before.is_none()).count() as u64;
        for name in new.relations() {
            let added = match (new.relation_id(name), old.relation_id(name)) {
                (Some(now), Some(then)) => missing((new, now), (old, then), &back),
                _ => edges_of(new, name),
            };
            changes.edges.entry(name.clone()).or_default().0 = added;
        }
        for name in old.relations() {
            let removed = match (old.relation_id(name), new.relation_id(name)) {
                (Some(then), Some(now)) => missing((old, then), (new, now), &moved),
                _ => edges_of(old, name),
            };
            changes.edges.entry(name.clone()).or_default().1 = removed;
        }
        changes.edges.retain(|_, counts| *counts != (0, 0));
        let without = |of: &Kb, other: &Kb| {
            let names = of.relations().iter().filter(|name| other.relation_id(name).is_none());
            names.cloned().collect::<Vec<String>>()
        };
        changes.relations_gone = without(old, new);
        changes.relations_new = without(new, old);
        changes
    }

    /// For each node of the old version its number in the new one.
    pub(super) fn moved(old: &Kb, new: &Kb) -> Vec<Option<NodeId>> {
        let same_type =
            |node, now| old.type_name(old.node_type(node)) == new.type_name(new.node_type(now));
        if !old.has_keys() && !new.has_keys() {
            let now = |node: NodeId| (new.contains(node) && same_type(node, node)).then_some(node);
            return (0..old.n_nodes()).map(now).collect();
        }
        // Looking keys up one by one costs a search each.
        let digest = |node_type: &str, key: &str| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&(node_type.len() as u64).to_le_bytes());
            hasher.update(node_type.as_bytes());
            hasher.update(key.as_bytes());
            *hasher.finalize().as_bytes().first_chunk::<16>().unwrap_or(&[0; 16])
        };
        let of = |kb: &Kb, node| digest(kb.type_name(kb.node_type(node)), &kb.key(node));
        let known: HashMap<[u8; 16], NodeId> =
            (0..new.n_nodes()).map(|node| (of(new, node), node)).collect();
        (0..old.n_nodes()).map(|node| known.get(&of(old, node)).copied()).collect()
    }

    /// Whether anything is different.
    pub fn is_empty(&self) -> bool {
        self.nodes_added + self.nodes_removed + self.nodes_changed == 0 && self.edges.is_empty()
    }
}

fn is_same(old: &Kb, node: NodeId, new: &Kb, now: NodeId) -> bool {
    let named = |kb: &'_ Kb, node| -> Vec<(String, String)> {
        let fields = kb.fields(node).map(|(id, text)| (kb.field_name(id), text));
        fields.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
    };
    old.name(node) == new.name(now)
        && old.text(node) == new.text(now)
        && named(old, node) == named(new, now)
}

fn edges_of(kb: &Kb, relation: &str) -> u64 {
    let id = kb.relation_id(relation);
    kb.tuples().iter().filter(|tuple| Some(tuple.relation) == id).map(|tuple| tuple.edges).sum()
}

/// Edges of a relation of one base that another lacks; `across` has the other's numbers of nodes.
fn missing(
    (of, relation): (&Kb, RelationId),
    (other, other_relation): (&Kb, RelationId),
    across: &[Option<NodeId>],
) -> u64 {
    let at = |node: NodeId| across.get(node as usize).copied().flatten();
    let mut missing = 0;
    for node in 0..of.n_nodes() {
        let targets = of.neighbors(node, relation, Direction::Out);
        if targets.is_empty() {
            continue;
        }
        let Some(twin) = at(node) else {
            missing += targets.len() as u64;
            continue;
        };
        let known = other.neighbors(twin, other_relation, Direction::Out);
        let is_known =
            |&target: &NodeId| at(target).is_some_and(|t| known.binary_search(&t).is_ok());
        missing += targets.iter().filter(|target| !is_known(target)).count() as u64;
    }
    missing
}
