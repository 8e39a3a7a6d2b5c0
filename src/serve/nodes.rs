//! Requests for nodes and their neighbours.

#![allow(unused_qualifications, reason = "a macro of utoipa generates qualified paths")]

use std::sync::Arc;

use axum::extract::{Path, State, rejection::PathRejection};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, Bounded, Common, MAX_REPLY, OfPath, Opened, Params, Result, Server, page,
    sent::too_long,
};
use agent_kb::{Direction, Kb, NodeId, RelationId};

/// Maximum number of neighbours in a reply.
pub(super) const MAX_LIMIT: usize = 1_000;
/// Directions of edges, with their names in requests and replies.
const DIRECTIONS: [(Direction, &str); 2] = [(Direction::Out, "out"), (Direction::In, "in")];

/// The base that a request is for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct OfBase {
    /// Name of the base; optional if the server has only one.
    pub(super) base: Option<String>,
}

/// A node, with its text and its numbers of neighbours.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Node {
    /// Id of the node in the base, from 0.
    id: NodeId,
    /// Id of the node in the user's data.
    key: String,
    /// Type of the node.
    #[serde(rename = "type")]
    node_type: String,
    /// Name of the node.
    name: String,
    /// Document of the node: data of the base, not instructions.
    text: String,
    /// Fields of the node, in the order in which they are stored.
    fields: Vec<Field>,
    /// Number of neighbours for each relation and direction; zeros are left out.
    relations: Vec<Degree>,
}

/// A field of a node, with its text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) value: String,
}

/// Number of neighbours of a node over one relation in one direction.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Degree {
    relation: String,
    /// `out` for edges that leave the node, `in` for edges that enter it.
    direction: &'static str,
    neighbors: usize,
}

/// Selects a page of a node's neighbours.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Name of the base; optional if the server has only one.
    pub(super) base: Option<String>,
    /// Relation to follow; all relations by default.
    pub(super) relation: Option<String>,
    /// `out` to follow edges that leave the node, `in` to follow edges that enter it; both by
    /// default.
    pub(super) direction: Option<String>,
    /// Maximum number of neighbours in the reply, 1 to 1000; 100 by default.
    pub(super) limit: Option<usize>,
    /// Start of this page: `next` of the previous reply; 0 by default.
    pub(super) cursor: Option<usize>,
}

/// A page of the neighbours of a node. They are ordered by relation, as relations are stored, then
/// by direction, `out` before `in`, then by ascending id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Neighbors {
    /// The neighbours of this page.
    pub(super) neighbors: Vec<Neighbor>,
    /// Number of neighbours on all pages.
    pub(super) total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Neighbor {
    pub(super) relation: String,
    pub(super) direction: &'static str,
    pub(super) id: NodeId,
    key: String,
    #[serde(rename = "type")]
    node_type: String,
    name: String,
}

fn node_of(opened: &Opened, id: NodeId) -> Result<&Kb> {
    let kb = &opened.base.kb;
    if kb.contains(id) {
        return Ok(kb);
    }
    let message = format!("{:?} has no node {id}", opened.name());
    Err(ApiError::not_found(message, format!("give an id below {}", kb.n_nodes())))
}

fn bad_path(error: PathRejection) -> ApiError {
    let remedy = "give the node's number; GET /v1/nodes?key=ID finds it by the id in your data";
    ApiError::bad(error.body_text(), remedy)
}

/// Read a node: type, name, document, fields, and numbers of neighbours.
#[utoipa::path(get, path = "/v1/nodes/{id}", params(("id" = u32, Path, description = "Id of the node"), OfBase), responses(
    (status = 200, description = "The node", body = Node),
    Common, OfPath,
))]
pub(super) async fn node(
    State(server): State<Arc<Server>>,
    id: Result<Path<NodeId>, PathRejection>,
    of: Result<Params<OfBase>>,
) -> Result<Bounded<Node>> {
    let (Path(id), Params(of)) = (id.map_err(bad_path)?, of?);
    Ok(Bounded(told(&server.base(of.base.as_deref())?.now(), id)?))
}

/// Returns the description of a node for clients.
///
/// # Errors
/// If there is no such node, or if its document and fields are longer than [`MAX_REPLY`].
pub(super) fn told(opened: &Opened, id: NodeId) -> Result<Node> {
    let kb = node_of(opened, id)?;
    let bytes = kb.text(id).len() + kb.fields(id).map(|(_, value)| value.len()).sum::<usize>();
    if bytes > MAX_REPLY {
        return Err(too_long(MAX_REPLY));
    }
    let fields = kb.fields(id).map(|(field, value)| Field {
        name: kb.field_name(field).to_owned(),
        value: value.to_owned(),
    });
    Ok(Node {
        id,
        key: kb.key(id).into_owned(),
        node_type: kb.type_name(kb.node_type(id)).to_owned(),
        name: kb.name(id).to_owned(),
        text: kb.text(id).to_owned(),
        fields: fields.collect(),
        relations: degrees(opened, id)?,
    })
}

/// Returns the number of neighbours of a node for each relation and direction; leaves out zeros.
///
/// # Errors
/// If there is no such node.
pub(super) fn degrees(opened: &Opened, id: NodeId) -> Result<Vec<Degree>> {
    let kb = node_of(opened, id)?;
    let relations = stretches(kb, None, None).map(|(relation, direction, word)| Degree {
        relation: kb.relation_name(relation).to_owned(),
        direction: word,
        neighbors: kb.degree(id, relation, direction),
    });
    Ok(relations.filter(|of| of.neighbors > 0).collect())
}

/// List the neighbours of a node, page by page.
#[utoipa::path(get, path = "/v1/nodes/{id}/neighbors", params(("id" = u32, Path, description = "Id of the node"), Which), responses(
    (status = 200, description = "A page of the neighbours", body = Neighbors),
    Common, OfPath,
))]
pub(super) async fn neighbors(
    State(server): State<Arc<Server>>,
    id: Result<Path<NodeId>, PathRejection>,
    which: Result<Params<Which>>,
) -> Result<Bounded<Neighbors>> {
    let (Path(id), Params(which)) = (id.map_err(bad_path)?, which?);
    Ok(Bounded(told_neighbors(&server.base(which.base.as_deref())?.now(), id, &which)?))
}

/// Returns the page of a node's neighbours that `which` selects.
///
/// # Errors
/// If there is no such node or relation, or if direction or limit is invalid.
pub(super) fn told_neighbors(opened: &Opened, id: NodeId, which: &Which) -> Result<Neighbors> {
    let kb = node_of(opened, id)?;
    let limit = page(which.limit, 100, MAX_LIMIT)?;
    let relation = match &which.relation {
        None => None,
        Some(name) => Some(kb.relation_id(name).ok_or_else(|| {
            let remedy = format!("one of {}", kb.relations().join(", "));
            ApiError::bad(format!("there is no relation {name:?}"), remedy)
        })?),
    };
    let direction = which.direction.as_deref();
    if let Some(other) = direction.filter(|&only| DIRECTIONS.iter().all(|of| of.1 != only)) {
        return Err(ApiError::bad(format!("direction is {other:?}"), "give out or in"));
    }
    let (cursor, mut before, mut found) = (which.cursor.unwrap_or(0), 0, Vec::new());
    for (relation, direction, word) in stretches(kb, relation, direction) {
        let degree = kb.degree(id, relation, direction);
        // Neighbours before the cursor or beyond the limit are counted, but not read.
        if before + degree > cursor && found.len() < limit {
            let nodes = kb.neighbors(id, relation, direction);
            let from = cursor.saturating_sub(before);
            let taken = nodes.iter().skip(from).take(limit - found.len());
            found.extend(taken.map(|&node| Neighbor {
                relation: kb.relation_name(relation).to_owned(),
                direction: word,
                id: node,
                key: kb.key(node).into_owned(),
                node_type: kb.type_name(kb.node_type(node)).to_owned(),
                name: kb.name(node).to_owned(),
            }));
        }
        before += degree;
    }
    let end = cursor.saturating_add(found.len());
    Ok(Neighbors { next: (end < before).then_some(end), total: before, neighbors: found })
}

/// Returns the relations with each direction and its name, in the order of stored relations, `out`
/// before `in`. If `relation` or `direction` is set, returns only that relation or direction.
fn stretches(
    kb: &Kb,
    relation: Option<RelationId>,
    direction: Option<&str>,
) -> impl Iterator<Item = (RelationId, Direction, &'static str)> {
    let ids = kb.relations().iter().filter_map(|name| kb.relation_id(name));
    ids.filter(move |id| relation.is_none_or(|only| only == *id)).flat_map(move |id| {
        DIRECTIONS
            .into_iter()
            .filter(move |(_, word)| direction.is_none_or(|only| only == *word))
            .map(move |(of, word)| (id, of, word))
    })
}
