//! The router: all routes with their middleware, and the handlers for questions, bases, bundles,
//! health and metrics. Does not depend on how answers are found.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Extension, Json, Router,
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Query, Request, State, rejection::JsonRejection},
    http::{StatusCode, header, request::Parts},
    middleware::from_fn_with_state,
    response::IntoResponse,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use utoipa::{OpenApi, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    ApiError, Bounded, Client, Common, LONGEST_TIME, OfBody, OfWork, Opened, Result, Server,
    access::Scope,
    asked, batch, compare, describe,
    engine::{AboutBase, AboutBundle, NotExchanged, Served, offered},
    events, explorer,
    guard::{allowed, collected, noted},
    in_json, json,
    mcp::{self, Assistants},
    nodes, operations, programs,
    reply::{Detail, ErrorBody, QueryRequest, SearchReply, SearchRequest},
    runs,
    sent::bounded,
    splits, stores,
    within::{self, Question},
};
use agent_app::{
    App,
    named::{self, BUNDLE},
};
use agent_dataset::DatasetError;
use agent_infer::{AnswerRecord, bundle::BundleError};
use agent_retrieve::{Answer, Detail as Told, MAX_QUERY_BYTES, RetrieveError, Retriever};
use agent_systems::SystemError;

/// Maximum size of a request body, in bytes; does not apply to batches, which are streamed.
pub(super) const MAX_BODY: usize = 256 << 10;
/// Maximum number of nodes in an answer.
pub(super) const MAX_K: usize = 1_000;
/// Default time limit of an answer.
pub(super) const TIME: Duration = Duration::from_secs(10);
/// Time limit of operations, and of requests that replace a base or bundle: both may read a whole
/// base.
pub(super) const LONGEST_CHANGE: Duration = Duration::from_secs(600);
/// Name by which requests choose the active bundle as a system.
const ACTIVE: &str = "active";

/// OpenAPI description of the server; its paths come from the routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "agent",
        description = "Answers questions over knowledge bases with frozen bundles."
    ),
    components(schemas(ErrorBody))
)]
struct Api;

/// Builds the router. Path, method and OpenAPI description of each route are declared at the
/// handler of the route.
pub(super) fn router(server: Arc<Server>) -> Router {
    let (routes, described) = described(&server).split_for_parts();
    // Serialized once; all replies share the bytes.
    let described = Bytes::from(serde_json::to_vec(&described).unwrap_or_default());
    // MCP has its own protocol, so it is not in the OpenAPI description.
    let assistants = Router::new()
        .route_service("/mcp", Assistants::new(server.clone()).service())
        .layer(from_fn_with_state((server.clone(), mcp::MAX_BODY), collected))
        .layer(from_fn_with_state(server.clone(), bounded))
        .layer(from_fn_with_state((server.clone(), Scope::Read), allowed));
    routes
        .merge(assistants)
        .merge(explorer::routes())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(Extension(Description(described)))
        .layer(from_fn_with_state(server.clone(), noted))
        .with_state(server)
}

/// Returns the routes that are in the OpenAPI description.
pub(super) fn described(server: &Arc<Server>) -> OpenApiRouter<Arc<Server>> {
    let needs = |scope| from_fn_with_state((server.clone(), scope), allowed);
    let collected = || from_fn_with_state((server.clone(), MAX_BODY), collected);
    let bounded = || from_fn_with_state(server.clone(), bounded);
    let admin = OpenApiRouter::new()
        .routes(routes!(exchange))
        .routes(routes!(activate))
        .routes(routes!(programs::run))
        .routes(routes!(operations::perform))
        .layer(collected())
        .layer(bounded())
        .layer(needs(Scope::Admin));
    let read = OpenApiRouter::new()
        .routes(routes!(query))
        .routes(routes!(search))
        .routes(routes!(nodes::node))
        .routes(routes!(nodes::neighbors))
        .routes(routes!(bases))
        .routes(routes!(bundles))
        .routes(routes!(programs::tools))
        .routes(routes!(runs::runs))
        .routes(routes!(runs::run))
        .routes(routes!(events::events))
        .routes(routes!(runs::programs))
        .routes(routes!(splits::splits))
        .routes(routes!(splits::queries))
        .routes(routes!(compare::compare))
        .routes(routes!(asked::ask))
        .routes(routes!(stores::vector_store_search))
        .routes(routes!(describe::systems))
        .routes(routes!(describe::schema))
        .routes(routes!(describe::facets))
        .routes(routes!(describe::list))
        .routes(routes!(describe::programs))
        .routes(routes!(operations::operations))
        .layer(collected())
        .layer(bounded())
        .layer(needs(Scope::Read));
    // A batch has a limit for each line, and none for its whole body.
    let streamed = OpenApiRouter::new().routes(routes!(batch::batch)).layer(needs(Scope::Read));
    let open = OpenApiRouter::new().routes(routes!(metrics)).layer(bounded());
    OpenApiRouter::with_openapi(Api::openapi())
        .merge(admin)
        .merge(read)
        .merge(streamed)
        .merge(open)
        .routes(routes!(live))
        .routes(routes!(ready))
        .routes(routes!(openapi))
}

async fn no_such_route() -> ApiError {
    ApiError::not_found("there is no such route", "see /openapi.json for all routes")
}

async fn no_such_method() -> ApiError {
    let (status, remedy) = (StatusCode::METHOD_NOT_ALLOWED, "see /openapi.json for all routes");
    ApiError::new(status, "bad_method", "the route does not support this method", remedy)
}

/// The body of a request, parsed as JSON. If it is invalid, the error is an [`ApiError`].
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T> FromRequest<S> for Body<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let body = Json::<T>::from_request(request, state).await;
        body.map(|Json(body)| Body(body)).map_err(|error| {
            let remedy = "send a JSON object as /openapi.json describes";
            ApiError::new(error.status(), "bad_request", invalid(&error), remedy)
        })
    }
}

/// The parameters in the query of a request. If they are invalid, the error is an [`ApiError`].
pub(super) struct Params<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let params = Query::<T>::from_request_parts(parts, state).await;
        params.map(|Query(params)| Params(params)).map_err(|error| {
            ApiError::bad(error.body_text(), "see /openapi.json for the parameters")
        })
    }
}

/// Returns why a body is invalid. For JSON, names the field and the error in it.
fn invalid(error: &JsonRejection) -> String {
    match (error, error.source()) {
        (JsonRejection::JsonDataError(_) | JsonRejection::JsonSyntaxError(_), Some(why)) => {
            why.to_string()
        }
        _ => error.body_text(),
    }
}

impl Server {
    /// Returns the base with this name; without a name, the only base.
    ///
    /// # Errors
    /// If the server has no base with this name, or if there is no name and the server has several
    /// bases.
    pub(super) fn base(&self, name: Option<&str>) -> Result<&Served> {
        let names = || {
            let names: Vec<&str> = self.bases.iter().map(|base| base.name.as_str()).collect();
            names.join(", ")
        };
        match (name, self.bases.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => Err(ApiError::bad(
                "the request names no base",
                format!("set base to one of {}", names()),
            )),
            (Some(name), bases) => bases.iter().find(|base| base.name == name).ok_or_else(|| {
                ApiError::not_found(
                    format!("no base {name:?} is served"),
                    format!("give one of {}", names()),
                )
            }),
        }
    }

    /// Returns the description of a bundle for clients, without directories of the server: `file`
    /// becomes relative to the home directory, or else the file name alone.
    fn told_bundle(&self, about: &AboutBundle) -> AboutBundle {
        let file = self.without_home(about.file.clone());
        let name = Path::new(&file).file_name().unwrap_or_default();
        let file = match Path::new(&file).is_absolute() {
            true => name.to_string_lossy().into_owned(),
            false => file,
        };
        AboutBundle { file, ..about.clone() }
    }
}

/// Returns the current version of the base with this name; without a name, of the only base.
///
/// # Errors
/// As [`Server::base`].
pub(super) fn opened(server: &Server, name: Option<&str>) -> Result<Arc<Opened>> {
    Ok(server.base(name)?.now())
}

/// Returns the system that a request names: one that needs neither a file nor a model, or the
/// bundle that `active` or `bundle:RUN` names.
///
/// # Errors
/// If there is no such system, or if programs of the bundle ask a language model.
pub(super) fn system(server: &Server, opened: &Opened, name: &str) -> Result<Arc<dyn Retriever>> {
    if name == ACTIVE {
        let active = opened.active().ok_or_else(|| no_bundle(opened.name()))?;
        if active.bundle.asks() {
            return Err(SystemError::NotServed(name.to_owned()).into());
        }
        return Ok(active.alone.clone());
    }
    match name.strip_prefix(BUNDLE) {
        Some(run) => Ok(opened.bundle(&runs::bundle_file(server, run)?)?),
        None => Ok(opened.system(name)?),
    }
}

/// Returns the error for a base without an active bundle.
pub(super) fn no_bundle(base: &str) -> ApiError {
    let message = format!("no bundle is active on {base:?}");
    ApiError::not_found(message, "use /v1/search, or start the server with --bundle")
}

/// Checks that `k` is 1 to [`MAX_K`].
pub(super) fn checked_k(k: usize) -> Result<usize> {
    in_range("k", k, MAX_K)
}

/// Checks the number `n` in the field `name` of a request, and returns the number.
///
/// # Errors
/// If the number is not from 1 to `most`.
pub(super) fn in_range(name: &str, n: usize, most: usize) -> Result<usize> {
    match (1..=most).contains(&n) {
        true => Ok(n),
        false => Err(ApiError::bad(format!("{name} is {n}"), format!("give 1 to {most}"))),
    }
}

/// Returns the time by which a request must be answered: `timeout_ms` milliseconds from now, by
/// default [`TIME`].
///
/// # Errors
/// If `timeout_ms` is 0 or exceeds [`LONGEST_TIME`].
pub(super) fn deadline(timeout_ms: Option<u64>) -> Result<Instant> {
    let time = timeout_ms.map_or(TIME, Duration::from_millis);
    if time.is_zero() || time > LONGEST_TIME {
        let remedy = format!("give 1 to {}", LONGEST_TIME.as_millis());
        return Err(ApiError::bad("timeout_ms is out of bounds", remedy));
    }
    Ok(Instant::now() + time)
}

impl From<RetrieveError> for ApiError {
    fn from(error: RetrieveError) -> ApiError {
        match error {
            RetrieveError::EmptyQuery | RetrieveError::LongQuery(_) => {
                let remedy = format!("send a question of 1 to {MAX_QUERY_BYTES} bytes");
                ApiError::bad(error.to_string(), remedy)
            }
            RetrieveError::Program(_)
            | RetrieveError::Late(_)
            | RetrieveError::Index(_)
            | RetrieveError::Llm(_) => {
                let remedy = "see the server's log; `agent doctor` checks the base";
                ApiError::failed(error.to_string(), remedy)
            }
        }
    }
}

impl From<SystemError> for ApiError {
    fn from(error: SystemError) -> ApiError {
        let remedy = error.hint().unwrap_or_else(|| format!("one of {}", offered().join(", ")));
        ApiError::bad(error.to_string(), remedy)
    }
}

/// Answers a question with the active bundle. Returns the answer as JSON, with the same numbers as
/// `agent query --json` prints.
pub(super) async fn answered(server: &Server, asked: QueryRequest) -> Result<String> {
    let opened = opened(server, asked.base.as_deref())?;
    let (k, deadline) = (checked_k(asked.k)?, deadline(asked.timeout_ms)?);
    let active = opened.active().ok_or_else(|| no_bundle(opened.name()))?;
    let effort = server.effort(asked.effort)?;
    let (base, query) = (opened.base.clone(), asked.query.clone());
    let is_full = asked.explain == Detail::Full;
    let nodes = within::nodes(server, &opened, asked.filter, deadline).await?;
    let detail = Told { explained_count: if is_full { k } else { 0 }, paths: asked.paths };
    let question = Question { base, query: asked.query, nodes, k, detail };
    let bundle = active.about.id.clone();
    let tell = move |answer: Answer| {
        let record = AnswerRecord::new(&opened.base.kb, &answer);
        let (base, effort) = (opened.name(), effort as u8);
        in_json(&Reply { query: &query, base, bundle: &bundle, effort, record })
    };
    let client = Client::now().explaining(is_full);
    client.asks(server.told(&active, effort, deadline, question, tell)).await
}

/// Returns the error for a failure of the server to write or read its own JSON.
pub(super) fn internal(error: &serde_json::Error) -> ApiError {
    ApiError::internal(error.to_string(), "please report it")
}

/// An answer of a bundle, as JSON.
#[derive(Serialize)]
struct Reply<'a> {
    query: &'a str,
    base: &'a str,
    bundle: &'a str,
    /// Effort with which the question was answered, 0 to 2: the requested one or the server's.
    effort: u8,
    #[serde(flatten)]
    record: AnswerRecord<'a>,
}

/// Answer a question with the active bundle of a base.
///
/// The answer has the form of `agent query --json` (docs/answer.schema.json), with the name of the
/// base and the id of the bundle.
#[utoipa::path(post, path = "/v1/query", request_body = QueryRequest, responses(
    (status = 200, description = "The answer", body = serde_json::Value),
    Common, OfBody, OfWork,
))]
async fn query(
    State(server): State<Arc<Server>>,
    Body(asked): Body<QueryRequest>,
) -> Result<impl IntoResponse> {
    Ok(json(answered(&server, asked).await?))
}

/// Rank the nodes of a base with a system that needs neither a file nor a model, or with a bundle.
#[utoipa::path(post, path = "/v1/search", request_body = SearchRequest, responses(
    (status = 200, description = "The ranking", body = SearchReply),
    Common, OfBody, OfWork,
))]
async fn search(
    State(server): State<Arc<Server>>,
    Body(asked): Body<SearchRequest>,
) -> Result<impl IntoResponse> {
    let opened = opened(&server, asked.base.as_deref())?;
    let (k, deadline) = (checked_k(asked.k)?, deadline(asked.timeout_ms)?);
    // Opening a system for the first time takes a while, so it is part of the job.
    let shared = server.clone();
    let client = Client::now().explaining(asked.explain == Detail::Full);
    let nodes = within::nodes(&server, &opened, asked.filter, deadline).await?;
    let work = move || {
        let system = system(&shared, &opened, &asked.system)?;
        let began = Instant::now();
        let detail = match asked.explain {
            Detail::None => Told::default(),
            Detail::Full => Told { explained_count: k, paths: true },
        };
        let base = opened.base.clone();
        let question = Question { base, query: asked.query, nodes, k, detail };
        let answer = question.answer(system.as_ref())?;
        let took_ms = began.elapsed().as_secs_f64() * 1e3;
        let record = AnswerRecord::new(&opened.base.kb, &answer);
        let (hits, route, stand_in) = (record.hits, record.route, record.stand_in);
        let (base, system) = (opened.name(), asked.system.as_str());
        in_json(&SearchReply { base, system, hits, route, stand_in, took_ms })
    };
    Ok(json(client.asks(server.queue.run(deadline, work)).await??))
}

/// List the bases that are served.
#[utoipa::path(get, path = "/v1/base", responses(
    (status = 200, description = "All bases", body = Vec<AboutBase>),
    Common,
))]
async fn bases(State(server): State<Arc<Server>>) -> Bounded<Vec<AboutBase>> {
    Bounded(server.bases.iter().map(|served| served.now().about()).collect())
}

/// List the active bundles.
#[utoipa::path(get, path = "/v1/bundles", responses(
    (status = 200, description = "The active bundle of each base that has one", body = Vec<AboutBundle>),
    Common,
))]
async fn bundles(State(server): State<Arc<Server>>) -> Bounded<Vec<AboutBundle>> {
    let active = server.bases.iter().filter_map(|served| served.now().active());
    Bounded(active.map(|active| server.told_bundle(&active.about)).collect())
}

/// The bundle to activate on a base.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Activate {
    /// The bundle: its run (a name, or `latest`), or its file on the server.
    bundle: String,
    /// Name of the base; optional if the server has only one.
    base: Option<String>,
}

/// Replace the active bundle of a base.
///
/// The new bundle is checked first. Questions in progress are still answered with the previous
/// bundle.
#[utoipa::path(put, path = "/v1/bundles/active", request_body = Activate, responses(
    (status = 200, description = "The new active bundle", body = AboutBundle),
    Common, OfBody, OfWork,
))]
async fn activate(
    State(server): State<Arc<Server>>,
    Body(asked): Body<Activate>,
) -> Result<Bounded<AboutBundle>> {
    server.base(asked.base.as_deref())?;
    let shared = server.clone();
    // Compiling programs takes a while, so a pool does it instead of the threads that answer
    // questions.
    let work = move || {
        let file = found(&shared, &asked.bundle)?;
        let served = shared.base(asked.base.as_deref())?;
        served.activate(&file)?;
        let active = served.now().active().map(|active| shared.told_bundle(&active.about));
        active.ok_or_else(|| ApiError::not_found("no bundle is active", "retry"))
    };
    Ok(Bounded(server.changes.run(Instant::now() + LONGEST_CHANGE, work).await??))
}

/// Finds the file of the bundle that a request names: a run, `latest` or a file on the server.
fn found(server: &Server, bundle: &str) -> Result<PathBuf> {
    // Unlike operations, these requests may name files of the server.
    let app = App { network: None, ..server.app.clone() };
    named::bundle_file(Path::new(bundle), None, &app).map_err(|error| {
        ApiError::not_found(error.message(), "give a run's name, `latest` or a file")
    })
}

/// The base to replace by its installed version, and the bundle for that version.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Exchange {
    /// Name of the base; optional if the server has only one.
    base: Option<String>,
    /// The bundle to activate: its run (a name, or `latest`), or its file on the server. By
    /// default, the active bundle is kept.
    bundle: Option<String>,
    /// Accept a bundle that was made for another version of the base.
    #[serde(default)]
    force: bool,
}

/// A base and its active bundle.
#[derive(Debug, Serialize, ToSchema)]
struct Exchanged {
    base: AboutBase,
    bundle: Option<AboutBundle>,
}

/// Replace a base by its installed version.
///
/// The files of the installed version are read and checked, and a bundle is opened on it. Then both
/// replace the previous version in one step. Questions in progress are still answered with the
/// previous version.
#[utoipa::path(put, path = "/v1/base/active", request_body = Exchange, responses(
    (status = 200, description = "The base and its active bundle", body = Exchanged),
    (status = 409, description = "The new version cannot answer; the current one stays", body = ErrorBody),
    Common, OfBody, OfWork,
))]
async fn exchange(
    State(server): State<Arc<Server>>,
    Body(asked): Body<Exchange>,
) -> Result<Bounded<Exchanged>> {
    server.base(asked.base.as_deref())?;
    let shared = server.clone();
    let work = move || {
        let file = asked.bundle.as_deref().map(|bundle| found(&shared, bundle)).transpose()?;
        let served = shared.base(asked.base.as_deref())?;
        served.exchange(&shared.app.home, file.as_deref(), asked.force)?;
        let now = served.now();
        let bundle = now.active().map(|active| shared.told_bundle(&active.about));
        Ok::<_, ApiError>(Exchanged { base: now.about(), bundle })
    };
    Ok(Bounded(server.changes.run(Instant::now() + LONGEST_CHANGE, work).await??))
}

impl From<NotExchanged> for ApiError {
    fn from(error: NotExchanged) -> ApiError {
        let remedy = match &error {
            NotExchanged::Dataset(DatasetError::UnknownName { .. }) => {
                let remedy = "import the base again; the current version stays active";
                return ApiError::not_found(error.to_string(), remedy);
            }
            NotExchanged::Bundle(SystemError::Bundle(BundleError::OtherBase { .. })) => {
                "give a bundle that was made for the new version, or force: true".to_owned()
            }
            NotExchanged::Bundle(error @ SystemError::Bundle(_)) => {
                error.hint().unwrap_or_else(|| "give another bundle".to_owned())
            }
            _ => {
                "run `agent doctor` and `agent verify`; the current version stays active".to_owned()
            }
        };
        ApiError::new(StatusCode::CONFLICT, "not_exchanged", error.to_string(), remedy)
    }
}

/// Check that the process is alive.
#[utoipa::path(get, path = "/health/live", responses(
    (status = 200, description = "The process is alive", body = String),
    (status = 403, description = "The request names another server", body = ErrorBody),
))]
async fn live() -> &'static str {
    "ok\n"
}

/// Check that the server answers requests.
#[utoipa::path(get, path = "/health/ready", responses(
    (status = 200, description = "The server answers requests", body = String),
    (status = 403, description = "The request names another server", body = ErrorBody),
    (status = 503, description = "The server is ending", body = ErrorBody),
))]
async fn ready(State(server): State<Arc<Server>>) -> Result<&'static str> {
    if *server.ending.borrow() { Err(crate::queue::Refused::Draining.into()) } else { Ok("ok\n") }
}

/// Return the counters, in the OpenMetrics text format.
#[utoipa::path(get, path = "/metrics", responses(
    (status = 200, description = "The counters", body = String, content_type = "application/openmetrics-text"),
    (status = 403, description = "The request names another server", body = ErrorBody),
))]
async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let text = server.metrics.text(server.queue.waiting(), server.queue.running());
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], text)
}

/// Return this OpenAPI description.
#[utoipa::path(get, path = "/openapi.json", responses(
    (status = 200, description = "The description", body = serde_json::Value),
    (status = 403, description = "The request names another server", body = ErrorBody),
))]
async fn openapi(Extension(described): Extension<Description>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], described.0)
}

/// The serialized OpenAPI description.
#[derive(Clone)]
struct Description(Bytes);
