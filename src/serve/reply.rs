//! The JSON of requests and replies, and errors as HTTP responses. Does not depend on how answers
//! are found.

use std::time::{Duration, Instant};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToSchema};

use crate::{Refused, Result};
use agent_infer::{HitRecord, WayRecord};
use agent_kb::{Kb, NodeId, filter::Condition};
use agent_retrieve::eval::{AnswerRanks, Candidates};

/// Pause between two tries while the server is busy.
const PAUSE: Duration = Duration::from_millis(250);

/// Returns the default maximum number of nodes in an answer.
pub(super) fn default_k() -> usize {
    20
}

fn default_paths() -> bool {
    true
}

/// Detail of the explanation of an answer's nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Detail {
    /// No explanation.
    #[default]
    None,
    /// An explanation of every node.
    Full,
}

/// A question for the active bundle of a base.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryRequest {
    /// The question.
    pub(super) query: String,
    /// Maximum number of nodes in the answer, 1 to 1000; 20 by default.
    #[serde(default = "default_k")]
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    pub(super) k: usize,
    /// Name of the base; optional if the server has only one.
    pub(super) base: Option<String>,
    /// Conditions that every node of the answer meets, such as `site=Munich`,
    /// `priority=high,urgent`, `created>=2025-03` or `status!=closed`; in the form of `--where` of
    /// the command line.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub(super) filter: Vec<Condition>,
    /// Explanation of the nodes: `none` by default, or `full`.
    #[serde(default)]
    pub(super) explain: Detail,
    /// How much the server's language model helps. 0: it only answers requests of programs; 1: it
    /// also reads the question; 2: it also judges the first nodes. The server's own effort is the
    /// maximum and the default. If the model fails, the bundle answers alone, and `unassisted` says
    /// why.
    #[schema(minimum = 0, maximum = 2)]
    pub(super) effort: Option<u8>,
    /// Whether to show, for each node, the path that leads to it from the linked entities, and the
    /// words that it shares with the question; `false` is faster.
    #[serde(default = "default_paths")]
    #[schema(default = true)]
    pub(super) paths: bool,
    /// Time limit of the answer in milliseconds, 1 to 60000; 10000 by default.
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// A query, and the system to rank nodes with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRequest {
    /// The text to search for.
    pub(super) query: String,
    /// Name of the system: one of `agent systems` that needs neither a file nor a model, `active`
    /// for the active bundle, or `bundle:RUN` for the bundle of a run (its name, or `latest`).
    pub(super) system: String,
    /// Maximum number of nodes in the answer, 1 to 1000; 20 by default.
    #[serde(default = "default_k")]
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    pub(super) k: usize,
    /// Name of the base; optional if the server has only one.
    pub(super) base: Option<String>,
    /// Conditions that every node of the answer meets, such as `site=Munich`,
    /// `priority=high,urgent`, `created>=2025-03` or `status!=closed`; in the form of `--where` of
    /// the command line.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub(super) filter: Vec<Condition>,
    /// Explanation of the nodes: `none` by default, or `full`.
    #[serde(default)]
    pub(super) explain: Detail,
    /// Time limit of the answer in milliseconds, 1 to 60000; 10000 by default.
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// The ranking of nodes by a system.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SearchReply<'a> {
    /// Name of the base.
    pub(super) base: &'a str,
    /// Name of the system.
    pub(super) system: &'a str,
    /// The nodes, best first, equal scores by ascending id; each as `agent search --json` prints
    /// it.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub(super) hits: Vec<HitRecord<'a>>,
    /// Categories of the bundle that answered, the most probable first; empty for other systems.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub(super) route: Vec<WayRecord<'a>>,
    /// Why another system ranked the nodes; null if the requested system did.
    pub(super) stand_in: Option<&'a str>,
    /// Time that the search took, in milliseconds, not counting the wait for a thread.
    pub(super) took_ms: f64,
}

/// A short description of a node.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeBrief {
    /// Id of the node.
    id: NodeId,
    /// Type of the node.
    #[serde(rename = "type")]
    node_type: String,
    /// Name of the node.
    name: String,
    /// Score of the node in the ranking; null if there is no ranking.
    score: Option<f32>,
    /// Whether the node is a correct answer to the labelled question.
    right: bool,
}

impl NodeBrief {
    pub(super) fn new(kb: &Kb, id: NodeId, score: Option<f32>, right: bool) -> NodeBrief {
        let node_type = kb.type_name(kb.node_type(id)).to_owned();
        NodeBrief { id, node_type, name: kb.name(id).to_owned(), score, right }
    }
}

/// Returns short descriptions of the first `n` nodes of a ranking. `answers` holds the correct
/// nodes, by ascending id.
pub(super) fn briefs(
    kb: &Kb,
    ranking: &[(NodeId, f32)],
    answers: &[NodeId],
    n: usize,
) -> Vec<NodeBrief> {
    let brief = |&(id, score): &(NodeId, f32)| {
        NodeBrief::new(kb, id, Some(score), answers.binary_search(&id).is_ok())
    };
    ranking.iter().take(n).map(brief).collect()
}

/// Returns the rank of the first correct node in a ranking, from 1, counting only nodes that may be
/// answers; `None` if the ranking has no correct node. `answers` holds the correct nodes.
pub(super) fn first_right(kb: &Kb, ranking: &[(NodeId, f32)], answers: &[NodeId]) -> Option<u64> {
    let candidates = Candidates::of_base(kb);
    let ranks = AnswerRanks::new(ranking, answers, candidates);
    let first = ranks.ranks().first().copied();
    first.filter(|&rank| rank <= ranking.len() as u64)
}

/// An error, which becomes an HTTP response.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    remedy: String,
    retry_after: Option<u64>,
}

/// Body of an error response.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: ErrorText,
}

#[derive(Serialize, ToSchema)]
struct ErrorText {
    /// Code of the error in one word, such as `busy`.
    code: &'static str,
    /// Description of the error.
    message: String,
    /// How to fix the error.
    remedy: String,
}

/// Error responses of all routes that need a key.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum Common {
    /// The request has no valid key.
    #[response(status = 401)]
    NoKey(ErrorBody),
    /// The key does not permit this request, or the request names another server.
    #[response(status = 403)]
    NotAllowed(ErrorBody),
}

/// Error responses to requests with parameters in path or query.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum OfPath {
    /// The request is invalid.
    #[response(status = 400)]
    Bad(ErrorBody),
    /// Something that the request names does not exist, such as a base or a node.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// Error responses to requests with a body.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum OfBody {
    /// The request is invalid.
    #[response(status = 400)]
    Bad(ErrorBody),
    /// Something that the request names does not exist, such as a base or a bundle.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The body did not arrive in time.
    #[response(status = 408)]
    LateBody(ErrorBody),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The `Content-Type` is not JSON.
    #[response(status = 415)]
    NoJson(ErrorBody),
    /// The JSON does not match the schema, or the request cannot be carried out.
    #[response(status = 422)]
    OtherJson(ErrorBody),
    /// The server failed.
    #[response(status = 500)]
    Failed(ErrorBody),
}

/// Error responses to requests that wait for a thread or a pool.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum OfWork {
    /// The server is busy; `Retry-After` has the seconds until a retry.
    #[response(status = 429)]
    Busy(ErrorBody),
    /// The reply was not ready in time, or the server is shutting down.
    #[response(status = 503)]
    Late(ErrorBody),
}

impl ApiError {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> ApiError {
        let (message, remedy) = (message.into(), remedy.into());
        ApiError { status, code, message, remedy, retry_after: None }
    }

    /// Returns the error for an invalid request, with status 400.
    pub(super) fn bad(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_request", message, remedy)
    }

    /// Returns the error for a request that names something that does not exist, with status 404.
    pub(super) fn not_found(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message, remedy)
    }

    /// Returns the error for a failure of the server, with status 500.
    pub(super) fn failed(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message, remedy)
    }

    /// Returns the error for a bug of the server, with status 500.
    pub(super) fn internal(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message, remedy)
    }

    /// Whether the server was too busy for the request.
    pub(super) fn is_busy(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// Whether the error has this message.
    pub(super) fn says(&self, message: &str) -> bool {
        self.message == message
    }

    /// Returns the message and the remedy as one text.
    pub(super) fn told(&self) -> String {
        format!("{}: {}", self.message, self.remedy)
    }

    /// Returns the body of the error response.
    pub(super) fn body(self) -> ErrorBody {
        let ApiError { code, message, remedy, .. } = self;
        ErrorBody { error: ErrorText { code, message, remedy } }
    }
}

/// Calls `work` until it succeeds or fails for a reason other than a busy server, or until
/// `patience` has passed. For callers that wait anyway, such as lines of a batch.
///
/// # Errors
/// The error of the last call of `work`.
pub(super) async fn patiently<T, F: Future<Output = Result<T>>>(
    patience: Duration,
    work: impl Fn() -> F,
) -> Result<T> {
    let began = Instant::now();
    loop {
        match work().await {
            Err(error) if error.is_busy() && began.elapsed() < patience => {
                tokio::time::sleep(PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> ApiError {
        let unavailable = StatusCode::SERVICE_UNAVAILABLE;
        let (error, seconds) = match refused {
            Refused::Busy(seconds) => {
                let remedy = "retry after the number of seconds in Retry-After";
                let status = StatusCode::TOO_MANY_REQUESTS;
                (ApiError::new(status, "busy", "the server is busy", remedy), seconds)
            }
            Refused::Expired => {
                let message = "the answer was not ready in time";
                let remedy = "retry, or give a longer timeout_ms";
                (ApiError::new(unavailable, "expired", message, remedy), 1)
            }
            Refused::Draining => {
                let remedy = "use another server, or retry later";
                (ApiError::new(unavailable, "draining", "the server is ending", remedy), 5)
            }
            Refused::Failed => {
                let message = "the server failed on this request";
                return ApiError::internal(message, "this is a bug; please report it");
            }
        };
        ApiError { retry_after: Some(seconds), ..error }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry_after) = (self.status, self.retry_after);
        let mut response = (status, Json(self.body())).into_response();
        let value = retry_after.and_then(|seconds| HeaderValue::try_from(seconds.to_string()).ok());
        if let Some(value) = value {
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
