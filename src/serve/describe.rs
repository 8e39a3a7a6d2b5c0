//! Requests that describe a base: its systems, types with fields and nodes, relations, facets (how
//! many nodes have each value), and the programs of its active bundle.

#![allow(unused_qualifications, reason = "a macro of utoipa generates qualified paths")]

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, Body, Bounded, Common, LONGEST_TIME, OfBody, OfPath, OfWork, Params, Result, Server,
    in_range,
    nodes::{Field, OfBase},
    opened, page,
    routes::no_bundle,
    splits::paged,
    within,
};
use agent_app::data::facets::Reply;
use agent_dataset::{Summary, nodes_of_id};
use agent_infer::bundle::Category;
use agent_kb::{Kb, NodeId, filter::Condition};
use agent_systems::{Need, SYSTEMS, SystemSpec};

/// Default number of nodes in a reply; `MAX_LIMIT` is the maximum.
const LIMIT: usize = 50;
pub(super) const MAX_LIMIT: usize = 200;
/// Maximum length in characters of a field value in a list of nodes; longer values are cut.
pub(super) const VALUE_CHARS: usize = 200;
/// Default number of values of a facet.
const VALUES: usize = 20;
/// Maximum number of values in a facet.
pub(super) const MAX_VALUES: usize = 200;

/// The systems that `/v1/search` offers on a base.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Systems {
    systems: Vec<AboutSystem>,
}

#[derive(Debug, Serialize, ToSchema)]
struct AboutSystem {
    /// Name of the system in requests.
    name: &'static str,
    /// Description of the system, in one sentence.
    summary: &'static str,
}

/// List the systems that `/v1/search` offers on a base.
///
/// A system is listed if the index of the base has all parts that the system needs.
#[utoipa::path(get, path = "/v1/systems", params(OfBase), responses(
    (status = 200, description = "The systems, in the order of the reference documentation", body = Systems),
    Common, OfPath,
))]
pub(super) async fn systems(
    State(server): State<Arc<Server>>,
    Params(of): Params<OfBase>,
) -> Result<Bounded<Systems>> {
    let opened = opened(&server, of.base.as_deref())?;
    let is_there =
        |need: &Need| matches!(need, Need::Part(part) if opened.base.part(*part).is_ok());
    // Systems that wrap another system have further needs, and `ask` ranks nothing: both are left
    // out.
    let ranks = |spec: &SystemSpec| !spec.arguments.contains(":SYSTEM") && spec.name != "ask";
    let ready = SYSTEMS.iter().filter(|spec| spec.needs.iter().all(is_there) && ranks(spec));
    let about = |spec: &'static SystemSpec| AboutSystem { name: spec.name, summary: spec.summary };
    Ok(Bounded(Systems { systems: ready.map(about).collect() }))
}

/// Describe a base: types with fields and counts, relations with the types of their ends, and
/// likely mistakes.
///
/// The reply equals the output of `agent data show NAME --issues --json`, without the part about
/// labelled questions. The summary is computed once for each version of a base.
#[utoipa::path(get, path = "/v1/schema", params(OfBase), responses(
    (status = 200, description = "The contents of the base", body = serde_json::Value),
    Common, OfPath, OfWork,
))]
pub(super) async fn schema(
    State(server): State<Arc<Server>>,
    Params(of): Params<OfBase>,
) -> Result<Bounded<Arc<Summary>>> {
    let opened = opened(&server, of.base.as_deref())?;
    let deadline = Instant::now() + LONGEST_TIME;
    Ok(Bounded(server.reads.run(deadline, move || opened.summary()).await?))
}

/// The nodes whose values to count, and the fields, relations or types to count.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FacetsRequest {
    /// Name of the base; optional if the server has only one.
    base: Option<String>,
    /// Count only nodes that satisfy all of these conditions, such as `type=ticket` or
    /// `created>=2025-03`.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    filter: Vec<Condition>,
    /// Fields, relations or types of neighbours whose values to count; if empty, all that have a
    /// value shared by several nodes.
    #[serde(default)]
    field: Vec<String>,
    /// Maximum number of values per field, relation or type, 1 to 200; 20 by default.
    #[schema(minimum = 1, maximum = 200, default = 20)]
    k: Option<usize>,
}

/// Count the values of a base's nodes by field, relation and type of neighbour.
///
/// Every value comes with the number of nodes that have it, and with the condition that keeps only
/// these nodes, for `filter` of a query or search.
#[utoipa::path(post, path = "/v1/facets", request_body = FacetsRequest, responses(
    (status = 200, description = "The values with their node counts", body = Reply),
    Common, OfBody, OfWork,
))]
pub(super) async fn facets(
    State(server): State<Arc<Server>>,
    Body(request): Body<FacetsRequest>,
) -> Result<Bounded<Reply>> {
    let opened = opened(&server, request.base.as_deref())?;
    let FacetsRequest { filter, field, k, .. } = request;
    let k = in_range("k", k.unwrap_or(VALUES), MAX_VALUES)?;
    let count = move || Reply::of(&opened.base.kb, &filter, &field, k);
    let counted = server.reads.run(Instant::now() + LONGEST_TIME, count).await?;
    counted.map(Bounded).map_err(|error| within::refused(error.to_string()))
}

/// Selects a page of nodes by `type` or by `key`.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Name of the base; optional if the server has only one.
    base: Option<String>,
    /// Type of the nodes; give either `type` or `key`.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    node_type: Option<String>,
    /// Id of the nodes in the user's data.
    key: Option<String>,
    /// Maximum number of nodes in the reply, 1 to 200; 50 by default.
    limit: Option<usize>,
    /// Start of this page: `next` of the previous reply; 0 by default.
    cursor: Option<usize>,
}

/// A page of nodes, in ascending order of id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Nodes {
    /// The nodes of this page.
    nodes: Vec<Listed>,
    /// Number of nodes on all pages.
    total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Listed {
    id: NodeId,
    key: String,
    #[serde(rename = "type")]
    node_type: String,
    name: String,
    /// Fields of the node, in the order in which they are stored; values are cut after 200
    /// characters.
    fields: Vec<Field>,
}

/// List the nodes of a type or with a key, page by page.
#[utoipa::path(get, path = "/v1/nodes", params(Which), responses(
    (status = 200, description = "A page of the nodes", body = Nodes),
    Common, OfPath,
))]
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    Params(which): Params<Which>,
) -> Result<Bounded<Nodes>> {
    let opened = opened(&server, which.base.as_deref())?;
    let kb = &opened.base.kb;
    let limit = page(which.limit, LIMIT, MAX_LIMIT)?;
    let of_key;
    let all: &[NodeId] = match (which.node_type.as_deref(), which.key.as_deref()) {
        (Some(name), None) => {
            let id = kb.type_id(name).ok_or_else(|| {
                let remedy = format!("one of {}", kb.types().join(", "));
                ApiError::bad(format!("there is no type {name:?}"), remedy)
            })?;
            kb.nodes_of_type(id)
        }
        (None, Some(key)) => {
            of_key = nodes_of_id(kb, key);
            &of_key
        }
        _ => return Err(ApiError::bad("the request selects no nodes", "give either type or key")),
    };
    let (nodes, next) = paged(all, which.cursor, limit, |&id| listed(kb, id));
    Ok(Bounded(Nodes { nodes, total: all.len(), next }))
}

fn listed(kb: &Kb, id: NodeId) -> Listed {
    let fields = kb.fields(id).map(|(field, value)| Field {
        name: kb.field_name(field).to_owned(),
        value: value.chars().take(VALUE_CHARS).collect(),
    });
    Listed {
        id,
        key: kb.key(id).into_owned(),
        node_type: kb.type_name(kb.node_type(id)).to_owned(),
        name: kb.name(id).to_owned(),
        fields: fields.collect(),
    }
}

/// The programs of the bundle that is active on a base.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Programs {
    base: String,
    /// Id of the bundle: the first 12 hexadecimal digits of its digest.
    bundle: String,
    /// One program for each category, in the order of the bundle's categories.
    programs: Vec<CategoryProgram>,
}

#[derive(Debug, Serialize, ToSchema)]
struct CategoryProgram {
    category: String,
    /// Id of the program, 64 hexadecimal digits.
    id: String,
    /// Source of the program; for a WebAssembly module, `wasm:` and its bytes in base64.
    source: String,
    /// Parameter values that differ from the declared defaults.
    params: BTreeMap<String, f64>,
}

/// List the programs of the bundle that is active on a base.
#[utoipa::path(get, path = "/v1/bundles/active/programs", params(OfBase), responses(
    (status = 200, description = "The programs", body = Programs),
    Common, OfPath,
))]
pub(super) async fn programs(
    State(server): State<Arc<Server>>,
    Params(of): Params<OfBase>,
) -> Result<Bounded<Programs>> {
    let opened = opened(&server, of.base.as_deref())?;
    let active = opened.active().ok_or_else(|| no_bundle(opened.name()))?;
    let program = |of: &Category| CategoryProgram {
        category: of.name.clone(),
        id: of.program.id().to_owned(),
        source: of.program.source().to_owned(),
        params: of.params.clone(),
    };
    let programs = active.bundle.categories.iter().map(program).collect();
    Ok(Bounded(Programs {
        base: opened.name().to_owned(),
        bundle: active.about.id.clone(),
        programs,
    }))
}
