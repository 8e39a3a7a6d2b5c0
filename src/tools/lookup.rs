//! Looks up names given by programs in the base; errors list the known names.

use std::collections::BTreeSet;

use crate::ToolError;
use agent_index::IndexedBase;
use agent_kb::{Direction, FieldId, NodeId, NodeSet, RelationId, TypeId};

/// Maximum number of names listed in a message.
const MAX_LISTED: usize = 12;

/// Maximum number of characters of an unknown name that are compared and shown.
const MAX_NAME_CHARS: usize = 100;

fn not_found(kind: &str, name: &str, names: &[String]) -> ToolError {
    let name = name.char_indices().nth(MAX_NAME_CHARS).map_or(name, |(end, _)| &name[..end]);
    let mut near: Vec<(usize, &str)> =
        names.iter().map(|other| (strsim::levenshtein(name, other), other.as_str())).collect();
    near.sort_unstable();
    let listed: Vec<&str> = near.iter().take(MAX_LISTED).map(|(_, other)| *other).collect();
    let more = if names.len() > MAX_LISTED { ", ..." } else { "" };
    ToolError::NotFound(format!(
        "the base has no {kind} {name:?}; it has {}{more}",
        listed.join(", ")
    ))
}

pub(super) fn node_type(base: &IndexedBase, name: &str) -> Result<TypeId, ToolError> {
    base.kb.type_id(name).ok_or_else(|| not_found("node type", name, base.kb.types()))
}

/// Returns the distinct types with these names, ascending.
pub(super) fn node_types(base: &IndexedBase, names: &[&str]) -> Result<Vec<TypeId>, ToolError> {
    let types: Result<BTreeSet<TypeId>, ToolError> =
        names.iter().map(|name| node_type(base, name)).collect();
    Ok(types?.into_iter().collect())
}

pub(super) fn relation(base: &IndexedBase, name: &str) -> Result<RelationId, ToolError> {
    base.kb.relation_id(name).ok_or_else(|| not_found("relation", name, base.kb.relations()))
}

pub(super) fn field(base: &IndexedBase, name: &str) -> Result<FieldId, ToolError> {
    base.kb.field_id(name).ok_or_else(|| not_found("field", name, base.kb.field_names()))
}

pub(super) fn direction(name: &str) -> Result<Direction, ToolError> {
    match name {
        "out" => Ok(Direction::Out),
        "in" => Ok(Direction::In),
        "any" => Ok(Direction::Any),
        _ => Err(ToolError::BadArgs(format!(
            "direction must be \"out\" (as stored), \"in\" (reversed) or \"any\", not {name:?}"
        ))),
    }
}

/// Returns `node` if the base has it; fails with [`ToolError::NotFound`] otherwise.
pub(super) fn node(base: &IndexedBase, node: NodeId) -> Result<NodeId, ToolError> {
    if base.kb.contains(node) {
        return Ok(node);
    }
    Err(ToolError::NotFound(format!(
        "the base has no node {node}; its ids run from 0 to {}",
        base.kb.n_nodes().saturating_sub(1)
    )))
}

/// Returns the ids in `nodes` if the base has all of them; fails with [`ToolError::NotFound`]
/// otherwise.
pub(super) fn nodes<'a>(base: &IndexedBase, nodes: &'a NodeSet) -> Result<&'a [NodeId], ToolError> {
    if let Some(&last) = nodes.as_slice().last() {
        node(base, last)?;
    }
    Ok(nodes.as_slice())
}

/// Splits a step such as `has_brand:out` into the name of its relation and its direction, which is
/// `any` if the step states none.
pub fn split_step(written: &str) -> (&str, &str) {
    match written.rsplit_once(':') {
        Some((name, direction @ ("in" | "out" | "any"))) => (name, direction),
        _ => (written, "any"),
    }
}
