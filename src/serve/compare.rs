//! Compares two systems on the same labelled questions, question by question. Does not depend on
//! how answers are found.

use std::{sync::Arc, time::Instant};

use axum::{extract::State, response::IntoResponse};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    ApiError, Body, Common, OfBody, OfWork, Result, Server, deadline, in_json, json, opened, page,
    reply::{NodeBrief, briefs, first_right},
    routes::system,
    splits::{split, while_time},
};
use agent_dataset::LabelledQuery;
use agent_kb::Kb;
use agent_retrieve::{Ranking, Retriever};

/// Maximum number of questions in a reply; `LIMIT` is the default.
pub(super) const MAX_LIMIT: usize = 50;
const LIMIT: usize = 20;
/// Number of top nodes of each ranking in which correct nodes are sought.
const DEPTH: usize = 100;
/// Maximum number of nodes of each ranking that the reply shows.
const TOLD: usize = 3;
/// Default time limit of a request, in milliseconds.
const TIME_MS: u64 = 30_000;

/// Two systems to compare, and the page of labelled questions to compare them on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Compare {
    /// The left system, named as in `/v1/search`.
    left: String,
    /// The right system, named as in `/v1/search`.
    right: String,
    /// Split of the questions: `train`, `val` or `human`.
    split: String,
    /// Name of the base; optional if the server has only one.
    base: Option<String>,
    /// Maximum number of questions in the reply, 1 to 50; 20 by default.
    #[schema(minimum = 1, maximum = 50, default = 20)]
    limit: Option<usize>,
    /// Start of this page: `next` of the previous reply; 0 by default.
    #[serde(default)]
    cursor: usize,
    /// Time limit of the reply in milliseconds, 1 to 60000; 30000 by default. If it is too short,
    /// the reply has fewer questions.
    #[schema(minimum = 1, maximum = 60000, default = 30000)]
    timeout_ms: Option<u64>,
}

/// A page of a comparison. All counts and means but `total` are over the questions of this page.
#[derive(Serialize, ToSchema)]
pub(super) struct Compared<'a> {
    /// Name of the base.
    base: &'a str,
    /// Name of the split.
    split: &'a str,
    /// Name of the left system.
    left: &'a str,
    /// Name of the right system.
    right: &'a str,
    /// The questions of this page, in the order of the split.
    queries: Vec<Pair<'a>>,
    /// Number of questions on this page.
    n: usize,
    /// Number of questions that the system `left` answers better.
    won: usize,
    /// Number of questions that the system `right` answers better.
    lost: usize,
    /// Number of questions that both systems answer equally well: with the same rank, or with no
    /// correct node in either ranking.
    same: usize,
    /// Mean reciprocal rank of the left system; a question without a correct node counts 0.
    left_mrr: f64,
    /// Mean reciprocal rank of the right system; a question without a correct node counts 0.
    right_mrr: f64,
    /// Number of questions in the whole split.
    total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
    /// Time that the comparison took, in milliseconds.
    took_ms: f64,
}

/// The answers of two systems to one question.
#[derive(Serialize, ToSchema)]
struct Pair<'a> {
    /// Id of the question in the split.
    id: i64,
    /// The question.
    query: &'a str,
    /// Rank of the first correct node in the left ranking, from 1; null if its first 100 nodes
    /// include none.
    left: Option<u64>,
    /// Rank of the first correct node in the right ranking, from 1; null if its first 100 nodes
    /// include none.
    right: Option<u64>,
    /// How the left system compares with the right one: `won`, `lost` or `same`.
    outcome: &'static str,
    /// The first nodes of the left ranking, at most 3.
    left_top: Vec<NodeBrief>,
    /// The first nodes of the right ranking, at most 3.
    right_top: Vec<NodeBrief>,
    /// Why the left system failed; null if it answered.
    left_error: Option<String>,
    /// Why the right system failed; null if it answered.
    right_error: Option<String>,
}

/// Compare two systems on labelled questions, page by page.
#[utoipa::path(post, path = "/v1/compare", request_body = Compare, responses(
    (status = 200, description = "A page of questions with the rank of the first correct node per system", body = Compared),
    Common, OfBody, OfWork,
))]
pub(super) async fn compare(
    State(server): State<Arc<Server>>,
    Body(asked): Body<Compare>,
) -> Result<impl IntoResponse> {
    let opened = opened(&server, asked.base.as_deref())?;
    let deadline = deadline(Some(asked.timeout_ms.unwrap_or(TIME_MS)))?;
    let limit = page(asked.limit, LIMIT, MAX_LIMIT)?;
    let split = split(&asked.split)?;
    let shared = server.clone();
    let work = move || {
        let began = Instant::now();
        let all = opened.queries(&split)?;
        let left = system(&shared, &opened, &asked.left)?;
        let right = system(&shared, &opened, &asked.right)?;
        let page = all.iter().skip(asked.cursor).take(limit);
        let one = |query| Ok(pair(&opened.base.kb, left.as_ref(), right.as_ref(), query));
        let queries = while_time::<_, _, ApiError>(page, deadline, one)?;
        let n = queries.len();
        let end = asked.cursor.saturating_add(n);
        let count = |outcome| queries.iter().filter(|pair| pair.outcome == outcome).count();
        let mrr = |rank: fn(&Pair<'_>) -> Option<u64>| {
            let sum: f64 = queries.iter().filter_map(rank).map(|rank| 1.0 / rank as f64).sum();
            sum / n.max(1) as f64
        };
        in_json(&Compared {
            base: opened.name(),
            split: &asked.split,
            left: &asked.left,
            right: &asked.right,
            n,
            won: count(WON),
            lost: count(LOST),
            same: count(SAME),
            left_mrr: mrr(|pair| pair.left),
            right_mrr: mrr(|pair| pair.right),
            total: all.len(),
            next: (end < all.len()).then_some(end),
            queries,
            took_ms: began.elapsed().as_secs_f64() * 1e3,
        })
    };
    Ok(json(server.comparisons.run(deadline, work).await??))
}

const WON: &str = "won";
const LOST: &str = "lost";
const SAME: &str = "same";

fn pair<'a>(
    kb: &Kb,
    left: &dyn Retriever,
    right: &dyn Retriever,
    query: &'a LabelledQuery,
) -> Pair<'a> {
    let ask = |system: &dyn Retriever| match system.retrieve(&query.text, DEPTH) {
        Ok(ranking) => (ranking, None),
        Err(error) => (Ranking::new(), Some(error.to_string())),
    };
    let ((left, left_error), (right, right_error)) = (ask(left), ask(right));
    let rank = |ranking: &Ranking| first_right(kb, ranking, &query.answers);
    let (left_rank, right_rank) = (rank(&left), rank(&right));
    // A ranking without a correct node is worse than every ranking with one.
    let place = |rank: Option<u64>| rank.unwrap_or(u64::MAX);
    let outcome = match place(left_rank).cmp(&place(right_rank)) {
        std::cmp::Ordering::Less => WON,
        std::cmp::Ordering::Greater => LOST,
        std::cmp::Ordering::Equal => SAME,
    };
    Pair {
        id: query.id,
        query: &query.text,
        left: left_rank,
        right: right_rank,
        outcome,
        left_top: briefs(kb, &left, &query.answers, TOLD),
        right_top: briefs(kb, &right, &query.answers, TOLD),
        left_error,
        right_error,
    }
}
