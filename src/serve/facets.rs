//! Requests for facets: how many nodes have each value of a field, relation or neighbour type. Does
//! not depend on how nodes are ranked.

#![allow(unused_qualifications, reason = "the macro of utoipa writes them")]

use std::{sync::Arc, time::Instant};

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use agent_app::data::facets::Reply;
use agent_kb::filter::Condition;

use crate::{
    Body, Bounded, Common, LONGEST_TIME, OfBody, OfWork, Result, Server, in_range, opened, within,
};

/// Default number of values of a facet.
const VALUES: usize = 20;
/// Maximum number of values in a facet.
pub(super) const MAX_VALUES: usize = 200;

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
    counted.map(Bounded).map_err(|error| within::refused(&error))
}
