//! Answers questions with only the nodes that meet conditions. Does not depend on how nodes are
//! ranked.

use std::{sync::Arc, time::Instant};

use crate::{ApiError, Opened, Result, Server};
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
/// If a condition is invalid, or if the queue does not run the job that finds the nodes.
pub(super) async fn nodes(
    server: &Server,
    opened: &Opened,
    filter: Vec<Condition>,
    deadline: Instant,
) -> Result<Option<NodeSet>> {
    if filter.is_empty() {
        return Ok(None);
    }
    let base = opened.base.clone();
    let found = server.queue.run(deadline, move || matching(&base.kb, &filter)).await?;
    found.map(Some).map_err(|error| refused(&error))
}

/// Converts an error about invalid conditions to an error of the API.
pub(super) fn refused(error: &FilterError) -> ApiError {
    ApiError::bad(error.to_string(), "GET /v1/schema lists fields and relations")
}

/// Answers a question with a system: at most `k` nodes and, with `nodes`, only nodes of this set.
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
