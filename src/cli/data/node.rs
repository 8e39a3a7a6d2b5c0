//! `agent data show N --node ID`: prints all that the base holds of one node.

use anyhow::anyhow;
use serde::Serialize;

use crate::{Context, Exit, data::MAX_SHOWN, printer::plain};
use agent_app::{
    error::{Explain, Result},
    text::count,
};
use agent_dataset::nodes_of_id;
use agent_kb::{Direction, Kb, NodeId, RelationId};

/// Neighbours over one relation that are shown.
const MAX_NEIGHBORS: usize = 10;
/// Characters of a field that are shown.
const MAX_FIELD: usize = 2_000;

/// A node as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    id: NodeId,
    key: String,
    #[serde(rename = "type")]
    node_type: &'a str,
    name: &'a str,
    is_candidate: bool,
    fields: Vec<(&'a str, &'a str)>,
    edges: Vec<Edges<'a>>,
}

/// Its edges over one relation, one way.
#[derive(Serialize)]
struct Edges<'a> {
    relation: &'a str,
    /// `out` or `in`.
    direction: &'static str,
    count: usize,
    /// Key and name of the first ten.
    first: Vec<(String, &'a str)>,
}

/// Shows the node of a key; several types may have it.
pub(super) fn show(kb: &Kb, id: &str, json: bool, ctx: &Context) -> Result<Exit> {
    let nodes = nodes_of_id(kb, id);
    if nodes.is_empty() {
        let hint = format!("ids look like {:?}", kb.key(0));
        return Err(anyhow!("no node has the id {id:?}")).hint(hint);
    }
    let shown: Vec<Shown<'_>> = nodes.iter().map(|&node| node_of(kb, node)).collect();
    if json {
        ctx.printer.json_lines(&shown)?;
        return Ok(Exit::Done);
    }
    let texts: Vec<String> = shown.iter().map(text_of).collect();
    ctx.printer.text(&texts.join("\n"))?;
    Ok(Exit::Done)
}

fn node_of(kb: &Kb, node: NodeId) -> Shown<'_> {
    let mut edges = Vec::new();
    for at in 0..kb.relations().len() {
        let Ok(at) = u16::try_from(at) else { break };
        let relation = RelationId(at);
        for (direction, way) in [(Direction::Out, "out"), (Direction::In, "in")] {
            let neighbors = kb.neighbors(node, relation, direction);
            let first = neighbors.iter().take(MAX_NEIGHBORS);
            let first = first.map(|&other| (kb.key(other).into_owned(), kb.name(other))).collect();
            let (relation, count) = (kb.relation_name(relation), neighbors.len());
            edges.push(Edges { relation, direction: way, count, first });
        }
    }
    edges.retain(|of| of.count > 0);
    Shown {
        id: node,
        key: kb.key(node).into_owned(),
        node_type: kb.type_name(kb.node_type(node)),
        name: kb.name(node),
        is_candidate: kb.is_candidate(node),
        fields: kb.fields(node).map(|(field, text)| (kb.field_name(field), text)).collect(),
        edges,
    }
}

fn text_of(shown: &Shown<'_>) -> String {
    let mut lines = vec![
        format!("id    {}", plain(&shown.key, MAX_SHOWN)),
        format!("type  {}", plain(shown.node_type, MAX_SHOWN)),
        format!("name  {}", plain(shown.name, MAX_SHOWN)),
    ];
    lines.extend(
        shown.fields.iter().map(|(field, text)| {
            format!("  {}: {}", plain(field, MAX_SHOWN), plain(text, MAX_FIELD))
        }),
    );
    for of in &shown.edges {
        let arrow = if of.direction == "out" { "->" } else { "<-" };
        let first = of.first.iter().map(|(key, name)| match key == name {
            true => plain(key, MAX_SHOWN),
            false => format!("{} ({})", plain(name, MAX_SHOWN), plain(key, MAX_SHOWN)),
        });
        let first = first.collect::<Vec<_>>().join(", ");
        let more = if of.count > of.first.len() { ", ..." } else { "" };
        let n = count(of.count as u64);
        lines.push(format!("  {arrow} {} ({n}): {first}{more}", plain(of.relation, MAX_SHOWN)));
    }
    lines.join("\n") + "\n"
}
