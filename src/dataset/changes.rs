//! Compares two versions of a base.
//!
//! Two nodes are the same if they have the same type and key. In a base without keys, they are the
//! same if they have the same type and node number.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use crate::ids::digest;
use agent_kb::{Direction, Kb, NodeId};

/// Differences between an old and a new version of a base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// Number of nodes that only the new version has.
    pub nodes_added: u64,
    /// Number of nodes that only the old version has.
    pub nodes_removed: u64,
    /// Number of nodes in both versions whose name, text or fields differ.
    pub nodes_changed: u64,
    /// Number of nodes in both versions with equal name, text and fields.
    pub nodes_same: u64,
    /// For each relation, the number of added and the number of removed edges; relations without
    /// either are omitted.
    pub edges: BTreeMap<String, (u64, u64)>,
    /// Names of the relations that only the old version has.
    pub relations_gone: Vec<String>,
    /// Names of the relations that only the new version has.
    pub relations_new: Vec<String>,
}

impl Changes {
    /// Compares all nodes and edges of two versions. Time: O(text + edges * log(edges of a node)).
    pub fn between(old: &Kb, new: &Kb) -> Changes {
        let node_map = Changes::node_map(old, new);
        let mut inverse = vec![None; new.n_nodes() as usize];
        for (node, new_node) in (0..old.n_nodes()).zip(&node_map) {
            if let Some(slot) = new_node.and_then(|new_node| inverse.get_mut(new_node as usize)) {
                *slot = Some(node);
            }
        }
        let mut changes = Changes::default();
        for (node, new_node) in (0..old.n_nodes()).zip(&node_map) {
            match new_node {
                None => changes.nodes_removed += 1,
                Some(new_node) if is_same(old, node, new, *new_node) => changes.nodes_same += 1,
                Some(_) => changes.nodes_changed += 1,
            }
        }
        changes.nodes_added = inverse.iter().filter(|before| before.is_none()).count() as u64;
        for name in new.relations() {
            changes.edges.entry(name.clone()).or_default().0 = missing(new, old, name, &inverse);
        }
        for name in old.relations() {
            changes.edges.entry(name.clone()).or_default().1 = missing(old, new, name, &node_map);
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

    /// Returns, for each node of the old version, its node number in the new version; `None` if the
    /// new version lacks the node.
    pub(super) fn node_map(old: &Kb, new: &Kb) -> Vec<Option<NodeId>> {
        let same_type = |node, new_node| {
            old.type_name(old.node_type(node)) == new.type_name(new.node_type(new_node))
        };
        if !old.has_keys() && !new.has_keys() {
            let new_node =
                |node: NodeId| (new.contains(node) && same_type(node, node)).then_some(node);
            return (0..old.n_nodes()).map(new_node).collect();
        }
        // A hash map is used, because each lookup of a key in a base is a search.
        let of = |kb: &Kb, node| digest(kb.type_name(kb.node_type(node)), &kb.key(node));
        let known: HashMap<[u8; 16], NodeId> =
            (0..new.n_nodes()).map(|node| (of(new, node), node)).collect();
        (0..old.n_nodes()).map(|node| known.get(&of(old, node)).copied()).collect()
    }

    /// Whether both versions have the same nodes, with the same content, and the same edges.
    pub fn is_empty(&self) -> bool {
        self.nodes_added + self.nodes_removed + self.nodes_changed == 0 && self.edges.is_empty()
    }
}

fn is_same(old: &Kb, node: NodeId, new: &Kb, new_node: NodeId) -> bool {
    fn fields(kb: &Kb, node: NodeId) -> impl Iterator<Item = (&str, &str)> {
        kb.fields(node).map(|(id, text)| (kb.field_name(id), text))
    }
    old.name(node) == new.name(new_node)
        && old.text(node) == new.text(new_node)
        && fields(old, node).eq(fields(new, new_node))
}

/// Counts the edges of the relation `name` that the base `of` has and the base `other` lacks.
/// `to_other` maps nodes of `of` to nodes of `other`.
fn missing(of: &Kb, other: &Kb, name: &str, to_other: &[Option<NodeId>]) -> u64 {
    let Some(relation) = of.relation_id(name) else { return 0 };
    let Some(other_relation) = other.relation_id(name) else {
        let tuples = of.tuples().iter().filter(|tuple| tuple.relation == relation);
        return tuples.map(|tuple| tuple.edges).sum();
    };
    let at = |node: NodeId| to_other.get(node as usize).copied().flatten();
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
