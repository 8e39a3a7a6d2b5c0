//! Answers questions; a request may restrict the nodes of the answer by conditions. Does not depend
//! on how nodes are ranked.

use std::{sync::Arc, time::Instant};

use crate::{ApiError, Opened, Result, Server};
use agent_app::search::filtered;
use agent_index::IndexedBase;
use agent_infer as infer;
use agent_kb::{NodeSet, filter::Condition};
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
    let found = server.queue.run(deadline, move || filtered(&base, &filter)).await?;
    found.map_err(|error| refused(error.message()))
}

/// Converts an error about an invalid condition to an error of the API.
pub(super) fn refused(message: impl Into<String>) -> ApiError {
    ApiError::bad(message, "GET /v1/schema lists fields and relations")
}

/// A question, and the nodes to which its answer is restricted.
pub(super) struct Question {
    pub(super) base: Arc<IndexedBase>,
    pub(super) query: String,
    /// The nodes that the answer may contain; `None` if it may contain any node.
    pub(super) nodes: Option<NodeSet>,
    /// Maximum number of nodes in the answer.
    pub(super) k: usize,
    pub(super) detail: Detail,
}

impl Question {
    /// Answers the question with a system.
    pub(super) fn answer(&self, system: &dyn Retriever) -> Result<Answer, RetrieveError> {
        let Question { base, query, nodes, k, detail } = self;
        match nodes {
            None => infer::answer(base, system, query, *k, *detail),
            Some(nodes) => {
                let system = Filtered::new(system, base.clone(), nodes.clone());
                infer::answer(base, &system, query, *k, *detail)
            }
        }
    }
}
