//! Requests about what is there to be asked: systems, types with their fields and nodes, relations,
//! programs of the active bundle. Must not know questions.

#![allow(unused_qualifications, reason = "the macro of utoipa writes them")]

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Extension, Json, Router,
    extract::{Query, State, rejection::QueryRejection},
    http::StatusCode,
    routing::get,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    bundle::{Bundle, Category},
    dataset::Summary,
    kb::NodeId,
    serve::{
        Server,
        nodes::{Field, OfBase, bad_query},
        reply::{ApiError, Common, OfPath},
    },
    systems::{Need, SYSTEMS, SystemError, SystemSpec},
};

/// Nodes of one reply at most.
const MAX_LIMIT: usize = 200;
/// Characters of a field's value in a list of nodes; what is longer is cut.
const VALUE_CHARS: usize = 200;
/// Summaries that are kept.
const MAX_SUMMARIES: usize = 64;

/// Summaries that were made, by the fingerprint of their base.
#[derive(Default)]
pub(super) struct Summaries(Mutex<HashMap<String, Arc<Summary>>>);

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/systems", get(systems))
        .route("/v1/schema", get(schema))
        .route("/v1/nodes", get(list))
        .route("/v1/bundles/active/programs", get(programs))
        .layer(Extension(Arc::new(Summaries::default())))
}

/// What takes a while, apart from the threads that answer and those that hold connections.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let ended = |_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        ApiError::new(status, "internal", "the server failed at this request", "please report it")
    };
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}

/// The systems that can be asked.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Systems {
    systems: Vec<AboutSystem>,
}

#[derive(Debug, Serialize, ToSchema)]
struct AboutSystem {
    /// Its name in requests.
    name: &'static str,
    /// What it does.
    summary: &'static str,
}

/// The systems that `/v1/search` offers on a base, with parts of the index that they need.
#[utoipa::path(get, path = "/v1/systems", params(OfBase), responses(
    (status = 200, description = "The systems, in the order of their reference", body = Systems),
    Common, OfPath,
))]
pub(super) async fn systems(
    State(server): State<Arc<Server>>,
    of: Result<Query<OfBase>, QueryRejection>,
) -> Result<Json<Systems>, ApiError> {
    let Query(of) = of.map_err(bad_query)?;
    let base = &server.base(of.base.as_deref())?.base;
    let is_there = |need: &Need| matches!(need, Need::Part(part) if base.part(*part).is_ok());
    // What stands on another system needs what that one needs; what gives values ranks nothing.
    let ranks =
        |spec: &SystemSpec| !spec.arguments.contains("SYSTEM") && spec.name != "ask";
    let ready = SYSTEMS.iter().filter(|spec| spec.needs.iter().all(is_there) && ranks(spec));
    let about =
        |spec: &'static SystemSpec| AboutSystem { name: spec.name, summary: spec.summary };
    Ok(Json(Systems { systems: ready.map(about).collect() }))
}

/// Types with fields and counts, relations with the types of their ends, and what looks like a
/// mistake: as `agent data info --json`, without labelled questions. Counted once for each base.
#[utoipa::path(get, path = "/v1/schema", params(OfBase), responses(
    (status = 200, description = "What is in the base", body = serde_json::Value),
    Common, OfPath,
))]
pub(super) async fn schema(
    State(server): State<Arc<Server>>,
    Extension(known): Extension<Arc<Summaries>>,
    of: Result<Query<OfBase>, QueryRejection>,
) -> Result<Json<Arc<Summary>>, ApiError> {
    let Query(of) = of.map_err(bad_query)?;
    let base = server.base(of.base.as_deref())?.base.clone();
    // Looks at all nodes. Requests at once for the same base wait for the first one's summary.
    let work = move || {
        let mut known = known.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_SUMMARIES {
            known.clear();
        }
        let made = known.entry(base.fingerprint().to_owned());
        Ok(made.or_insert_with(|| Arc::new(Summary::of(&base.kb, &[]))).clone())
    };
    apart(work).await.map(Json)
}

/// Which nodes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// The base; may be left out where there is one.
    base: Option<String>,
    /// All of this type.
    #[serde(rename = "type")]
    #[param(rename = "type")]
    node_type: Option<String>,
    /// Or those that the user's data call so.
    key: Option<String>,
    /// Most nodes of one reply, 1 to 200; 50 if left out.
    limit: Option<usize>,
    /// Where the reply before ended: its `next`.
    cursor: Option<usize>,
}

/// Nodes by id.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Nodes {
    /// This part of them.
    nodes: Vec<Listed>,
    /// All of them.
    total: usize,
    /// The cursor of the part behind this one; null if there is none.
    next: Option<usize>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Listed {
    id: NodeId,
    key: String,
    #[serde(rename = "type")]
    node_type: String,
    name: String,
    /// Its fields in stored order, long values cut.
    fields: Vec<Field>,
}

/// The nodes of a type, or of a key, part by part.
#[utoipa::path(get, path = "/v1/nodes", params(Which), responses(
    (status = 200, description = "A part of the nodes", body = Nodes),
    Common, OfPath,
))]
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Nodes>, ApiError> {
    let Query(which) = which.map_err(bad_query)?;
    let kb = &server.base(which.base.as_deref())?.base.kb;
    let limit = which.limit.unwrap_or(50);
    if !(1..=MAX_LIMIT).contains(&limit) {
        return Err(ApiError::bad(format!("limit is {limit}"), format!("give 1 to {MAX_LIMIT}")));
    }
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
            of_key = kb.nodes_of_key(key);
            &of_key
        }
        _ => return Err(ApiError::bad("which nodes?", "give either type or key")),
    };
    let cursor = which.cursor.unwrap_or(0);
    let part = all.iter().skip(cursor).take(limit);
    let nodes: Vec<Listed> = part
        .map(|&id| Listed {
            id,
            key: kb.key(id).into_owned(),
            node_type: kb.type_name(kb.node_type(id)).to_owned(),
            name: kb.name(id).to_owned(),
            fields: kb
                .fields(id)
                .map(|(field, value)| Field {
                    name: kb.field_name(field).to_owned(),
                    value: value.chars().take(VALUE_CHARS).collect(),
                })
                .collect(),
        })
        .collect();
    let end = cursor.saturating_add(nodes.len());
    Ok(Json(Nodes { nodes, total: all.len(), next: (end < all.len()).then_some(end) }))
}

/// The programs of the bundle that answers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Programs {
    base: String,
    /// The beginning of the bundle's digest.
    bundle: String,
    /// In the bundle's order of categories.
    programs: Vec<CategoryProgram>,
}

#[derive(Debug, Serialize, ToSchema)]
struct CategoryProgram {
    category: String,
    /// The id of the program, 64 hexadecimal digits.
    id: String,
    /// Its text; of a module `wasm:` and its bytes in base64.
    source: String,
    /// Parameters that differ from the declared ones.
    params: BTreeMap<String, f64>,
}

/// The programs of the bundle that is active on a base.
#[utoipa::path(get, path = "/v1/bundles/active/programs", params(OfBase), responses(
    (status = 200, description = "The programs", body = Programs),
    Common, OfPath,
))]
pub(super) async fn programs(
    State(server): State<Arc<Server>>,
    of: Result<Query<OfBase>, QueryRejection>,
) -> Result<Json<Programs>, ApiError> {
    let Query(of) = of.map_err(bad_query)?;
    let served = server.base(of.base.as_deref())?;
    let (base, active) = (served.name.clone(), served.active());
    let about = active.map(|active| active.about.clone()).ok_or_else(|| {
        let message = format!("no bundle answers on {base:?}");
        ApiError::not_found(message, "start the server with --bundle")
    })?;
    let work = move || {
        let bundle = Bundle::read(Path::new(&about.file)).map_err(SystemError::from)?;
        if !bundle.digest.starts_with(&about.id) {
            let remedy = "let it answer with PUT /v1/bundles/active";
            let message = format!("{} holds another bundle by now", about.file);
            return Err(ApiError::new(StatusCode::CONFLICT, "changed", message, remedy));
        }
        let programs = bundle.categories.into_iter().map(CategoryProgram::from).collect();
        Ok(Programs { base, bundle: about.id, programs })
    };
    apart(work).await.map(Json)
}

impl From<Category> for CategoryProgram {
    fn from(of: Category) -> CategoryProgram {
        let (id, source) = (of.program.id().to_owned(), of.program.source().to_owned());
        CategoryProgram { category: of.name, id, source, params: of.params }
    }
}
