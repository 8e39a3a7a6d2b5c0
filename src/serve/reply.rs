//! What is sent and received as JSON, and errors on their way to clients. Must not know how answers
//! are found.

use std::time::{Duration, Instant};

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoResponses, ToSchema};

use crate::queue::Refused;
use agent_infer::{HitRecord, WayRecord};
use agent_kb::{Kb, NodeId, filter::Condition};
use agent_retrieve::eval::{AnswerRanks, Candidates, ScoreRule};

/// Pause before work that was refused is tried again.
const PAUSE: Duration = Duration::from_millis(250);

/// Nodes of an answer where a request does not say.
pub(super) fn default_k() -> usize {
    20
}

fn default_paths() -> bool {
    true
}

/// How much of the why is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Detail {
    /// Nothing.
    #[default]
    None,
    /// All of it, for every node.
    Full,
}

/// A question for a bundle.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryRequest {
    /// The question.
    pub(super) query: String,
    /// Most nodes of the answer, 1 to 1000.
    #[serde(default = "default_k")]
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    pub(super) k: usize,
    /// The base that is asked; may be left out where there is one.
    #[serde(default)]
    pub(super) base: Option<String>,
    /// Only nodes that meet all of these conditions, such as `site=Munich`, `priority=high,urgent`,
    /// `created>=2025-03` or `status!=closed`; as `--where` of the command line.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub(super) filter: Vec<Condition>,
    /// Whether the answer says why.
    #[serde(default)]
    pub(super) explain: Detail,
    /// How far a language model helps, where the server has one: 0 not at all, 1 it reads the query,
    /// 2 it also judges the first nodes. If left out, as far as the server was told. Where it does not
    /// reply in time, the bundle answers alone, and `unassisted` says why.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2)]
    pub(super) effort: Option<u8>,
    /// Whether each node comes with the way from what the question names, and with its words;
    /// without, an answer is ready sooner.
    #[serde(default = "default_paths")]
    #[schema(default = true)]
    pub(super) paths: bool,
    /// Time for the answer, milliseconds, 1 to 60000.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// A text for a system.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchRequest {
    /// What to look for.
    pub(super) query: String,
    /// A system that needs neither a file nor a model, as `agent systems` lists them; `active` for
    /// the bundle that answers; or `bundle:RUN` for that of a run, by its name or `latest`.
    pub(super) system: String,
    /// Most nodes of the answer, 1 to 1000.
    #[serde(default = "default_k")]
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    pub(super) k: usize,
    /// The base that is searched; may be left out where there is one.
    #[serde(default)]
    pub(super) base: Option<String>,
    /// Only nodes that meet all of these conditions, such as `site=Munich`, `priority=high,urgent`,
    /// `created>=2025-03` or `status!=closed`; as `--where` of the command line.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub(super) filter: Vec<Condition>,
    /// Whether the ranking says why.
    #[serde(default)]
    pub(super) explain: Detail,
    /// Time for the answer, milliseconds, 1 to 60000.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// A ranking.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SearchReply<'a> {
    /// The base.
    pub(super) base: &'a str,
    /// The system.
    pub(super) system: &'a str,
    /// Best first, ties by id; each as `agent search --json` prints it.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub(super) hits: Vec<HitRecord<'a>>,
    /// The categories that answered, of a bundle; most probable first.
    #[schema(value_type = Vec<serde_json::Value>)]
    pub(super) route: Vec<WayRecord<'a>>,
    /// Why another system answered; null if the one that was asked did.
    pub(super) stand_in: Option<&'a str>,
    /// Time it took, milliseconds, without waiting.
    pub(super) took_ms: f64,
}

/// A node in few words.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct NodeBrief {
    /// Its id.
    id: NodeId,
    /// Its type.
    #[serde(rename = "type")]
    node_type: String,
    /// Its name.
    name: String,
    /// Its score in a ranking; null where it stands in none.
    score: Option<f32>,
    /// Whether it answers the labelled question.
    right: bool,
}

impl NodeBrief {
    pub(super) fn new(kb: &Kb, id: NodeId, score: Option<f32>, right: bool) -> NodeBrief {
        let node_type = kb.type_name(kb.node_type(id)).to_owned();
        NodeBrief { id, node_type, name: kb.name(id).to_owned(), score, right }
    }
}

/// The first nodes of a ranking, and whether each is right.
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

/// The rank of the first right node of a ranking, from 1, among nodes that can be answers; none
/// where it has none.
pub(super) fn first_right(kb: &Kb, ranking: &[(NodeId, f32)], answers: &[NodeId]) -> Option<u64> {
    let candidates = Candidates::of_base(kb);
    let ranks = AnswerRanks::new(ranking, answers, candidates, ScoreRule::Any);
    let first = ranks.ranks().first().copied();
    first.filter(|&rank| rank <= ranking.len() as u64)
}

/// Why a request was not answered.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    remedy: String,
    retry_after: Option<u64>,
}

/// The same as JSON.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorBody {
    error: ErrorText,
}

#[derive(Serialize, ToSchema)]
struct ErrorText {
    /// One word for programs.
    code: &'static str,
    /// What is wrong.
    message: String,
    /// What to do about it.
    remedy: String,
}

/// What every request but those about health may come to.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum Common {
    /// A key is needed.
    #[response(status = 401)]
    NoKey(ErrorBody),
    /// The key does not allow this, or another server was meant.
    #[response(status = 403)]
    NotAllowed(ErrorBody),
}

/// What a request that names something may come to.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum OfPath {
    /// The request is wrong.
    #[response(status = 400)]
    Bad(ErrorBody),
    /// There is no such base, bundle or node.
    #[response(status = 404)]
    NotFound(ErrorBody),
}

/// What a request with a body may come to.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum OfBody {
    /// The request is wrong.
    #[response(status = 400)]
    Bad(ErrorBody),
    /// There is no such base, bundle or node.
    #[response(status = 404)]
    NotFound(ErrorBody),
    /// The body did not come in time.
    #[response(status = 408)]
    LateBody(ErrorBody),
    /// The body is too large.
    #[response(status = 413)]
    TooLarge(ErrorBody),
    /// The body is not said to be JSON.
    #[response(status = 415)]
    NoJson(ErrorBody),
    /// The JSON is of another form.
    #[response(status = 422)]
    OtherJson(ErrorBody),
    /// The server failed.
    #[response(status = 500)]
    Failed(ErrorBody),
}

/// What a request that needs work may come to.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "described, never made")]
pub(super) enum OfWork {
    /// More is asked than can be answered in time; Retry-After says when to ask again.
    #[response(status = 429)]
    Busy(ErrorBody),
    /// Not ready in time, or the server is ending.
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

    /// That the request is wrong.
    pub(super) fn bad(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "bad_request", message, remedy)
    }

    /// That what the request names is not here.
    pub(super) fn not_found(message: impl Into<String>, remedy: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::NOT_FOUND, "not_found", message, remedy)
    }

    /// Whether the request may be tried again soon.
    pub(super) fn is_busy(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// Whether this is its message.
    pub(super) fn says(&self, message: &str) -> bool {
        self.message == message
    }

    /// The same for people and models.
    pub(super) fn told(&self) -> String {
        format!("{}: {}", self.message, self.remedy)
    }

    /// The same as JSON, for a line of a batch.
    pub(super) fn body(self) -> ErrorBody {
        let ApiError { code, message, remedy, .. } = self;
        ErrorBody { error: ErrorText { code, message, remedy } }
    }
}

/// Does work again while it is refused because there is too much: for those who wait for it anyway,
/// such as lines of a batch.
///
/// # Errors
/// What the work fails with, once it may wait no longer.
pub(super) async fn patiently<T, F: Future<Output = Result<T, ApiError>>>(
    patience: Duration,
    work: impl Fn() -> F,
) -> Result<T, ApiError> {
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
        let (status, code, message, remedy, retry_after) = match refused {
            Refused::Busy(seconds) => (
                StatusCode::TOO_MANY_REQUESTS,
                "busy",
                "more is asked than can be answered in time",
                "ask again after the seconds of Retry-After",
                Some(seconds),
            ),
            Refused::Expired => (
                StatusCode::SERVICE_UNAVAILABLE,
                "expired",
                "the answer was not ready in time",
                "ask again, or give a longer timeout_ms",
                Some(1),
            ),
            Refused::Draining => (
                StatusCode::SERVICE_UNAVAILABLE,
                "draining",
                "the server is ending",
                "ask another one, or again when it is back",
                Some(5),
            ),
            Refused::Failed => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal",
                "the server failed at this request",
                "this is a fault of the program; please report it",
                None,
            ),
        };
        ApiError { retry_after, ..ApiError::new(status, code, message, remedy) }
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
