//! Two systems on the same labelled questions: which answers better, question by question. Must not
//! know how answers are found.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{extract::State, response::IntoResponse};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Server,
    reply::{ApiError, Common, NodeBrief, OfBody, OfWork, briefs, first_right},
    routes::{Body, deadline, opened, system},
    sent::{in_json, json},
    splits::{page, split},
};
use agent_dataset::LabelledQuery;
use agent_kb::Kb;
use agent_retrieve::{Ranking, Retriever};

/// Questions of one reply at most, and where a request does not say.
pub(super) const MAX_LIMIT: usize = 50;
const LIMIT: usize = 20;
/// Nodes of each ranking that are looked at.
const DEPTH: usize = 100;
/// Nodes of each ranking that are told.
const TOLD: usize = 3;
/// Time where a request does not say, milliseconds.
const TIME_MS: u64 = 30_000;
/// Time that is left for the reply when no further question is asked.
const MARGIN: Duration = Duration::from_millis(500);

/// Two systems and labelled questions, few at a time.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Compare {
    /// One system: as `/v1/search` takes them.
    left: String,
    /// The other.
    right: String,
    /// `train`, `val` or `human`.
    split: String,
    /// The base; may be left out where there is one.
    #[serde(default)]
    base: Option<String>,
    /// Most questions of one reply, 1 to 50; 20 if left out.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 50, default = 20)]
    limit: Option<usize>,
    /// Where the reply before ended: its `next`.
    #[serde(default)]
    cursor: usize,
    /// Time for the reply, milliseconds, 1 to 60000; it has fewer questions where that is short.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 60000, default = 30000)]
    timeout_ms: Option<u64>,
}

/// What came of it for a part of the questions; all sums are of this part.
#[derive(Serialize, ToSchema)]
pub(super) struct Compared<'a> {
    /// The base.
    base: &'a str,
    /// The split.
    split: &'a str,
    /// One system.
    left: &'a str,
    /// The other.
    right: &'a str,
    /// In the order of the split.
    queries: Vec<Pair<'a>>,
    /// Questions.
    n: usize,
    /// Those that the left system answers better.
    won: usize,
    /// Those that the right system answers better.
    lost: usize,
    /// Those with the first right node at the same rank.
    same: usize,
    /// Mean reciprocal rank of the left system; 0 for a question without a right node.
    left_mrr: f64,
    /// That of the right one.
    right_mrr: f64,
    /// Questions of the split.
    total: usize,
    /// The cursor of the part behind this one; null if there is none.
    next: Option<usize>,
    /// Time it took, milliseconds.
    took_ms: f64,
}

/// How two systems answer one question.
#[derive(Serialize, ToSchema)]
struct Pair<'a> {
    /// Id in the split.
    id: i64,
    /// The question.
    query: &'a str,
    /// Rank of the left system's first right node among its first 100.
    left: Option<u64>,
    /// That of the right one.
    right: Option<u64>,
    /// `won`, `lost` or `same`, for the left system.
    outcome: &'static str,
    /// The left system's first nodes.
    left_top: Vec<NodeBrief>,
    /// The right system's.
    right_top: Vec<NodeBrief>,
    /// Why the left system gives none.
    left_error: Option<String>,
    /// Why the right system gives none.
    right_error: Option<String>,
}

/// Compare two systems on labelled questions, few at a time.
#[utoipa::path(post, path = "/v1/compare", request_body = Compare, responses(
    (status = 200, description = "A part of the questions, with the rank that each system gives the first right node", body = Compared),
    Common, OfBody, OfWork,
))]
pub(super) async fn compare(
    State(server): State<Arc<Server>>,
    Body(asked): Body<Compare>,
) -> Result<impl IntoResponse, ApiError> {
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
        let mut queries = Vec::new();
        for query in all.iter().skip(asked.cursor).take(limit) {
            // The first is always asked, so that whoever goes on comes to an end.
            if !queries.is_empty() && Instant::now() + MARGIN >= deadline {
                break;
            }
            queries.push(pair(&opened.base.kb, left.as_ref(), right.as_ref(), query));
        }
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
    // A question without a right node comes last.
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
