//! Requests for the labelled questions of a base. Clients cannot read the questions of the test
//! split. Does not depend on how questions are answered.

#![allow(unused_qualifications, reason = "a macro of utoipa generates qualified paths")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, Bounded, Common, OfPath, OfWork, Params, Result, Server, deadline, in_range,
    nodes::OfBase, opened, reply::NodeBrief,
};
use agent_app::test_split;
use agent_dataset::{DatasetError, LabelledQuery, Split};
use agent_kb::{Kb, NodeId};

/// Maximum number of questions in a reply; `LIMIT` is the default.
pub(super) const MAX_LIMIT: usize = 200;
const LIMIT: usize = 50;
/// Maximum number of correct nodes that the reply shows for each question.
const TOLD: usize = 20;
/// With less time than this until the deadline, no further question of a page is answered.
const MARGIN: Duration = Duration::from_millis(500);
/// Names of the splits whose questions clients may read.
const OPEN: [&str; 3] = ["train", "val", "human"];

/// The splits of a base.
#[derive(Serialize, ToSchema)]
pub(super) struct Splits {
    /// Name of the base.
    base: String,
    /// The splits, by name.
    splits: Vec<AboutSplit>,
}

/// A split of the labelled questions of a base.
#[derive(Serialize, ToSchema)]
struct AboutSplit {
    /// Name of the split.
    split: String,
    /// Number of questions in the split.
    queries: u64,
    /// Whether clients may read the questions of the split.
    open: bool,
}

/// Selects a page of labelled questions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Name of the base; optional if the server has only one.
    base: Option<String>,
    /// Text that the questions must contain; upper and lower case are the same.
    contains: Option<String>,
    /// Maximum number of questions in the reply, 1 to 200; 50 by default.
    limit: Option<usize>,
    /// Start of this page: `next` of the previous reply; 0 by default.
    cursor: Option<usize>,
}

/// A page of the labelled questions of a split, in the order of the split.
#[derive(Serialize, ToSchema)]
pub(super) struct Queries {
    /// Name of the base.
    base: String,
    /// Name of the split.
    split: String,
    /// The questions of this page.
    queries: Vec<Labelled>,
    /// Number of selected questions on all pages.
    total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
}

/// A labelled question, with its correct nodes.
#[derive(Serialize, ToSchema)]
struct Labelled {
    /// Id of the question in the split.
    id: i64,
    /// The question.
    query: String,
    /// The first 20 correct nodes, by ascending id.
    answers: Vec<NodeBrief>,
    /// Number of all correct nodes.
    n_answers: usize,
    /// Values of the question in further columns of the file of questions.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    labels: std::collections::BTreeMap<String, String>,
}

/// Returns the split with this name; paths of files are not accepted.
///
/// # Errors
/// If there is no split with this name.
pub(super) fn split(name: &str) -> Result<Split> {
    match name.parse() {
        Ok(Split::File(_)) => {
            let remedy = format!("give one of {}", OPEN.join(", "));
            Err(ApiError::not_found(format!("there is no split {name:?}"), remedy))
        }
        Ok(split) => Ok(split),
        Err(never) => match never {},
    }
}

/// Returns the maximum number of items on a page: `limit`, or else `usual`.
///
/// # Errors
/// If the number is not from 1 to `most`.
pub(super) fn page(limit: Option<usize>, usual: usize, most: usize) -> Result<usize> {
    in_range("limit", limit.unwrap_or(usual), most)
}

/// Returns the page of at most `limit` items that begins at `cursor`, by default at 0: the items,
/// each converted by `told`, and the cursor of the next page, `None` on the last page.
pub(super) fn paged<T, U>(
    all: &[T],
    cursor: Option<usize>,
    limit: usize,
    told: impl Fn(&T) -> U,
) -> (Vec<U>, Option<usize>) {
    let cursor = cursor.unwrap_or(0);
    let items: Vec<U> = all.iter().skip(cursor).take(limit).map(told).collect();
    let end = cursor.saturating_add(items.len());
    (items, (end < all.len()).then_some(end))
}

/// Calls `one` for each item, and stops when less than [`MARGIN`] is left until the deadline.
/// Returns at least one result, so that paging comes to an end.
///
/// # Errors
/// The first error of `one`.
pub(super) fn while_time<T, U, E>(
    items: impl Iterator<Item = T>,
    deadline: Instant,
    mut one: impl FnMut(T) -> Result<U, E>,
) -> Result<Vec<U>, E> {
    let mut results = Vec::new();
    for item in items {
        if !results.is_empty() && Instant::now() + MARGIN >= deadline {
            break;
        }
        results.push(one(item)?);
    }
    Ok(results)
}

impl From<DatasetError> for ApiError {
    fn from(error: DatasetError) -> ApiError {
        let message = error.to_string();
        match error {
            DatasetError::TestClosed => {
                let status = StatusCode::FORBIDDEN;
                ApiError::new(status, "test_closed", message, test_split::REMEDY)
            }
            DatasetError::NoSplit { .. } | DatasetError::UnknownName { .. } => {
                ApiError::not_found(message, "see GET /v1/splits")
            }
            _ => ApiError::failed(message, "`agent verify` checks the base"),
        }
    }
}

/// List the splits of a base, with their numbers of labelled questions.
#[utoipa::path(get, path = "/v1/splits", params(OfBase), responses(
    (status = 200, description = "All splits", body = Splits),
    Common, OfPath,
))]
pub(super) async fn splits(
    State(server): State<Arc<Server>>,
    Params(of): Params<OfBase>,
) -> Result<Bounded<Splits>> {
    let opened = opened(&server, of.base.as_deref())?;
    let about = |(split, &queries): (&String, &u64)| AboutSplit {
        split: split.clone(),
        queries,
        open: OPEN.contains(&split.as_str()),
    };
    let splits = opened.dataset.record.splits.iter().map(about).collect();
    Ok(Bounded(Splits { base: opened.name().to_owned(), splits }))
}

/// List the labelled questions of a split, page by page.
#[utoipa::path(get, path = "/v1/splits/{split}/queries", params(("split" = String, Path, description = "train, val or human"), Which), responses(
    (status = 200, description = "A page of the questions", body = Queries),
    Common, OfPath, OfWork,
))]
pub(super) async fn queries(
    State(server): State<Arc<Server>>,
    name: Result<Path<String>, PathRejection>,
    Params(which): Params<Which>,
) -> Result<Bounded<Queries>> {
    let Path(name) = name.map_err(|error| ApiError::bad(error.body_text(), "give a split"))?;
    let opened = opened(&server, which.base.as_deref())?;
    let split = split(&name)?;
    let limit = page(which.limit, LIMIT, MAX_LIMIT)?;
    let work = move || {
        let all = opened.queries(&split)?;
        let text = which.contains.as_deref().unwrap_or_default().to_lowercase();
        let fits =
            |query: &&LabelledQuery| text.is_empty() || query.text.to_lowercase().contains(&text);
        let found: Vec<&LabelledQuery> = all.iter().filter(fits).collect();
        let told = |query: &&LabelledQuery| labelled(&opened.base.kb, query);
        let (queries, next) = paged(&found, which.cursor, limit, told);
        let (base, total) = (opened.name().to_owned(), found.len());
        Ok::<_, ApiError>(Queries { base, split: name, queries, total, next })
    };
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}

fn labelled(kb: &Kb, query: &LabelledQuery) -> Labelled {
    let brief = |&id: &NodeId| NodeBrief::new(kb, id, None, true);
    Labelled {
        id: query.id,
        query: query.text.clone(),
        answers: query.answers.iter().take(TOLD).map(brief).collect(),
        n_answers: query.answers.len(),
        labels: query.metadata.clone(),
    }
}
