//! Answers questions over the nodes that meet conditions. Must not know how nodes are ranked.

use std::{sync::Arc, time::Instant};

use crate::{Server, engine::Opened, reply::ApiError};
use agent_index::IndexedBase;
use agent_infer as infer;
use agent_kb::{
    NodeSet,
    filter::{Condition, FilterError, matching},
};
use agent_retrieve::{Answer, Detail, Filtered, RetrieveError, Retriever};

/// Returns the nodes that meet all conditions; `None` without conditions.
///
/// # Errors
/// If a condition is invalid, or if the queue refuses the job.
pub(super) async fn nodes(
    server: &Server,
    opened: &Opened,
    filter: Vec<Condition>,
    deadline: Instant,
) -> Result<Option<NodeSet>, ApiError> {
    if filter.is_empty() {
        return Ok(None);
    }
    let base = opened.base.clone();
    let found = server.queue.run(deadline, move || matching(&base.kb, &filter)).await?;
    found.map(Some).map_err(|error| refused(&error))
}

/// Why conditions cannot be used, as an error of the API.
pub(super) fn refused(error: &FilterError) -> ApiError {
    ApiError::bad(error.to_string(), "GET /v1/schema lists fields and relations")
}

/// Answers a question with a system; with `nodes`, only these nodes can be answers.
pub(super) fn answer(
    base: &Arc<IndexedBase>,
    system: &dyn Retriever,
    nodes: Option<&NodeSet>,
    (query, k): (&str, usize),
    detail: Detail,
) -> Result<Answer, RetrieveError> {
    match nodes {
        None => infer::answer(base, system, query, k, detail),
        Some(nodes) => {
            let system = Filtered::new(system, base.clone(), nodes.clone());
            infer::answer(base, &system, query, k, detail)
        }
    }
}
