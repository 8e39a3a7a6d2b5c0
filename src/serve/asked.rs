//! Answers questions: those over many nodes with a table, those that ask for nodes with the active
//! bundle. Does not depend on how an answer is found.

use std::{num::NonZeroUsize, sync::Arc, time::Instant};

use axum::{extract::State, http::StatusCode, response::IntoResponse};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    ApiError, Body, Common, OfBody, OfWork, Opened, Result, Server, deadline, engine::Active, heap,
    in_json, in_range, json, opened, within,
};
use agent_ask::{AskError, AskRecord, Helps, readings_record};
use agent_infer::{self as infer, HitRecord};
use agent_retrieve::{Answer, AssistFailure, Detail, check_query};
use agent_systems::bundle::Effort;
use agent_tools::Assistant;

/// Maximum number of rows of each table in a reply; `ROWS` is the default.
pub(super) const MAX_ROWS: usize = 1_000;
const ROWS: usize = 100;
/// Maximum number of nodes in an answer of the bundle.
const NODES: usize = 20;

/// A question over many nodes, or its plan.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The question; omit it with `plan`.
    #[serde(default)]
    pub(super) question: String,
    /// A plan to run instead of a question, in the format of `plan` in an answer.
    #[schema(value_type = Option<Object>)]
    pub(super) plan: Option<Value>,
    /// Name of the base; optional if the server has only one.
    pub(super) base: Option<String>,
    /// Maximum number of rows of each table in the reply, 1 to 1000; 100 by default.
    #[schema(minimum = 1, maximum = 1000, default = 100)]
    pub(super) rows: Option<usize>,
    /// Number of the reading to answer, from 1, if an earlier reply listed several readings of the
    /// question.
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub(super) reading: Option<NonZeroUsize>,
    /// Questions that the language model reads: 0 none, 1 those that the rules do not understand, 2
    /// all. The server's own effort is the maximum and the default.
    #[schema(minimum = 0, maximum = 2)]
    pub(super) effort: Option<u8>,
    /// Time limit of the answer in milliseconds, 1 to 60000; 10000 by default.
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// An answer computed from a table.
#[derive(Serialize, ToSchema)]
struct ByTable<'a> {
    /// Name of the base.
    base: &'a str,
    /// The answer, as `agent ask --json` prints it.
    #[serde(flatten)]
    #[schema(value_type = serde_json::Value)]
    answer: AskRecord<'a>,
}

/// The readings of an ambiguous question, if their answers differ.
#[derive(Serialize, ToSchema)]
struct ByReadings<'a> {
    /// Name of the base.
    base: &'a str,
    /// The readings, each with its answer, as `agent ask --json` prints them.
    #[serde(flatten)]
    #[schema(value_type = serde_json::Value)]
    readings: Value,
}

/// The nodes that the active bundle ranks for a question.
#[derive(Serialize, ToSchema)]
struct ByBundle<'a> {
    /// Name of the base.
    base: &'a str,
    /// The question.
    question: &'a str,
    /// The nodes, best first, equal scores by ascending id; each as `agent search --json` prints
    /// it.
    #[schema(value_type = Vec<serde_json::Value>)]
    hits: Vec<HitRecord<'a>>,
    /// Why another system ranked the nodes instead of the bundle; absent if the bundle did.
    #[serde(skip_serializing_if = "Option::is_none")]
    stand_in: Option<&'a str>,
    /// Why the language model did not help; absent if it helped or was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    unassisted: Option<&'static str>,
}

/// An answer; its field `by` says what it holds: `table`, `readings` or `bundle`.
#[derive(Serialize, ToSchema)]
#[serde(tag = "by", rename_all = "lowercase")]
enum AskReply<'a> {
    Table(Box<ByTable<'a>>),
    Readings(ByReadings<'a>),
    Bundle(ByBundle<'a>),
}

/// Answer a question over many nodes with a table: how many, which most, whether related, what if.
///
/// If the question asks for nodes, the active bundle answers it.
#[utoipa::path(post, path = "/v1/ask", request_body = Ask, responses(
    (status = 200, description = "The answer with its derivation", body = AskReply),
    Common, OfBody, OfWork,
))]
pub(super) async fn ask(
    State(server): State<Arc<Server>>,
    Body(asked): Body<Ask>,
) -> Result<impl IntoResponse> {
    answer(&server, asked).await.map(json)
}

/// Answers a question as [`ask`] does; returns an [`AskReply`] as JSON.
pub(super) async fn answer(server: &Arc<Server>, asked: Ask) -> Result<String> {
    let opened = opened(server, asked.base.as_deref())?;
    let deadline = deadline(asked.timeout_ms)?;
    let rows = in_range("rows", asked.rows.unwrap_or(ROWS), MAX_ROWS)?;
    let effort = server.effort(asked.effort)?;
    let began = Instant::now();
    match tabled(server, &opened, &asked, (effort, rows), deadline).await? {
        Err(AskError::Ambiguous(readings)) => {
            let ms = began.elapsed().as_secs_f64() * 1e3;
            let readings = readings_record(&asked.question, &readings, ms);
            in_json(&AskReply::Readings(ByReadings { base: opened.name(), readings }))
        }
        Err(AskError::NoTable) => match opened.active() {
            Some(active) => {
                by_bundle(server, opened, &active, (asked.question, effort), deadline).await
            }
            None => Err(not_answered(&AskError::NoTable)),
        },
        told => told.map_err(|error| not_answered(&error)),
    }
}

/// Answers a question with a table of at most `rows` rows. `effort` selects the questions that the
/// model reads: none, questions that the rules do not understand, or all. If the model fails, the
/// rules answer or say why they cannot.
async fn tabled(
    server: &Server,
    opened: &Arc<Opened>,
    asked: &Ask,
    (effort, rows): (Effort, usize),
    deadline: Instant,
) -> Result<Told> {
    let by_rules = |unassisted| {
        let (opened, asked) = (opened.clone(), asked.clone());
        server.tables.run(deadline, move || by_table(&opened, &asked, rows, None, unassisted))
    };
    let helper = opened.opening.helper.as_ref();
    let helper = helper.filter(|_| effort > Effort::None && asked.plan.is_none());
    let Some(helper) = helper else { return by_rules(None).await? };
    let (helps, refused) = match effort {
        Effort::Judges => (Helps::All, None),
        _ => match by_rules(None).await?? {
            Err(error) if error.is_unread() => (Helps::Unread, Some(error)),
            told => return Ok(told),
        },
    };
    let by_model = {
        let (opened, asked) = (opened.clone(), asked.clone());
        let assistant = helper.assistant.clone();
        move || match by_table(&opened, &asked, rows, Some((&assistant, helps)), None) {
            Ok(Err(AskError::Llm(error))) => Err(error),
            told => Ok(told),
        }
    };
    match (server.with_model(deadline, by_model).await, refused) {
        (Ok(told), _) => told,
        (Err(_), Some(refused)) => Ok(Err(refused)),
        (Err(unassisted), None) => by_rules(Some(unassisted)).await?,
    }
}

/// The answer as JSON text, or why the question cannot be answered.
type Told = Result<String, AskError>;

/// Answers a question with a table, by rules and, if given, with `model`. `unassisted` is the
/// reason why the model did not help, which the answer lists among its assumptions.
fn by_table(
    opened: &Opened,
    asked: &Ask,
    rows: usize,
    model: Option<(&Arc<Assistant>, Helps)>,
    unassisted: Option<AssistFailure>,
) -> Result<Told> {
    let _last = heap::GivesBack;
    let began = Instant::now();
    let (question, answered) = match &asked.plan {
        Some(_) if !asked.question.is_empty() || asked.reading.is_some() => {
            return Err(ApiError::bad(
                "`plan` cannot be combined with `question` or `reading`",
                "send either `plan` or `question`",
            ));
        }
        Some(plan) => ("", opened.analyst().run_plan(plan)),
        None => {
            let question = check_query(&asked.question)?;
            let reading = asked.reading.map(NonZeroUsize::get);
            (question, opened.analyst().ask_with(question, reading, model, |_| ()))
        }
    };
    let ms = began.elapsed().as_secs_f64() * 1e3;
    match answered {
        Ok(mut answered) => {
            let told =
                unassisted.map(|why| format!("without the language model: {}", why.message()));
            answered.assumed.extend(told);
            let kb = &opened.base.kb;
            let answer = AskRecord::new(question, &answered, kb, rows, ms);
            let base = opened.name();
            in_json(&AskReply::Table(Box::new(ByTable { base, answer }))).map(Ok)
        }
        Err(error) => Ok(Err(error)),
    }
}

fn not_answered(error: &AskError) -> ApiError {
    let remedy = match error {
        AskError::NoTable => "a question that asks for nodes needs a bundle; use /v1/query",
        AskError::Plan(_) => "send a plan in the form of `plan` in an answer",
        _ => "use words of the base; GET /v1/base lists its types and relations",
    };
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    ApiError::new(status, "not_answered", error.to_string(), remedy)
}

async fn by_bundle(
    server: &Server,
    opened: Arc<Opened>,
    active: &Active,
    (question, effort): (String, Effort),
    deadline: Instant,
) -> Result<String> {
    let (base, query, detail) = (opened.base.clone(), question.clone(), Detail::default());
    let asked = within::Question { base, query, nodes: None, k: NODES, detail };
    let tell = move |answer: Answer| {
        let hits = infer::hits(&opened.base.kb, &answer);
        let (base, unassisted) = (opened.name(), answer.unassisted.map(AssistFailure::message));
        let stand_in = answer.stand_in.as_ref().map(|stood_in| stood_in.reason.as_str());
        let question = &question;
        in_json(&AskReply::Bundle(ByBundle { base, question, hits, stand_in, unassisted }))
    };
    server.told(active, effort, deadline, asked, tell).await
}
