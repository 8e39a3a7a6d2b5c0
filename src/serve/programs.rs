//! Runs programs of clients, always in WebAssembly: on a question, or on a sample of labelled
//! questions. Also lists the tools that programs may call.

use std::{sync::Arc, time::Instant};

use axum::{extract::State, response::IntoResponse};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    ApiError, Body, Bounded, Common, OfBody, OfWork, Opened, Result, Server, deadline,
    heap::GivesBack,
    in_json, json, opened, page,
    reply::{NodeBrief, briefs, default_k, first_right},
    routes::checked_k,
    splits::{split, while_time},
};
use agent_dataset::LabelledQuery;
use agent_infer::{self as infer, HitRecord, ParamValues, ProgramCalls, Runtime};
use agent_kb::{Kb, NodeId};
use agent_retrieve::{Answer, NodeExplanation, RetrieveError, check_query, rank_explanation};
use agent_sandbox::{CompiledProgram, Failure, Outcome, Param, Usage, program::Program};
use agent_tools::{ArgSpec, ToolCall, ToolSpec, Trace, registry};

/// Maximum number of questions on a page of a sample; `SAMPLE` is the default.
pub(super) const MAX_SAMPLE: usize = 20;
const SAMPLE: usize = 10;
/// Maximum number of nodes that the reply shows for each question of a sample.
const TOLD: usize = 3;

/// A program, and its input: either `query` or `sample`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunProgram {
    /// Source of the program, in Rhai; or a WebAssembly module: `wasm:` and its bytes in base64.
    pub(super) source: String,
    /// A question to run the program on.
    pub(super) query: Option<String>,
    /// Labelled questions to run the program on.
    pub(super) sample: Option<Sample>,
    /// Maximum number of nodes in the answer to `query`, 1 to 1000; 20 by default.
    #[serde(default = "default_k")]
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    pub(super) k: usize,
    /// Name of the base; optional if the server has only one.
    pub(super) base: Option<String>,
    /// Values for parameters that the program declares; the declared defaults if omitted.
    #[serde(default)]
    #[schema(value_type = std::collections::HashMap<String, f64>)]
    pub(super) params: ParamValues,
    /// Time limit of the reply in milliseconds, 1 to 60000; 10000 by default.
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// Selects a page of labelled questions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    /// Split of the questions: `train`, `val` or `human`.
    split: String,
    /// Seed that shuffles the questions; by default, they keep the order of the split.
    seed: Option<u64>,
    /// Maximum number of questions in the reply, 1 to 20; 10 by default.
    #[schema(minimum = 1, maximum = 20, default = 10)]
    limit: Option<usize>,
    /// Start of this page: `next` of the previous reply; 0 by default.
    #[serde(default)]
    cursor: usize,
}

/// Whether a program succeeded: `ok` or `error`.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Error,
}

/// Result of a program on one question.
#[derive(Serialize, ToSchema)]
struct Ran<'a> {
    /// Name of the base.
    base: &'a str,
    /// First 12 hexadecimal digits of the program's id.
    program: &'a str,
    /// Category that the program declares; empty if it declares none.
    category: &'a str,
    /// `ok` if the program returned a ranking, else `error`.
    status: Status,
    /// Parameters that the program declares.
    #[schema(value_type = Vec<serde_json::Value>)]
    params: Vec<Param>,
    /// The nodes, best first, equal scores by ascending id; each with the tool calls that concern
    /// it.
    #[schema(value_type = Vec<serde_json::Value>)]
    hits: Vec<HitRecord<'a>>,
    /// All tool calls of the program, in order, also if the program failed.
    trace: Vec<Traced>,
    /// Why the program failed; null if it succeeded.
    error: Option<ProgramError>,
    /// How much of its limits the program used.
    usage: Used,
    /// Text that the program printed.
    output: String,
    /// Time taken to compile and run the program, in milliseconds.
    took_ms: f64,
}

/// One tool call of a program.
#[derive(Serialize, ToSchema)]
struct Traced {
    /// Line of the call in the source, from 1; null if unknown.
    line: Option<usize>,
    /// Name of the tool, or an operator.
    tool: &'static str,
    /// Arguments of the call; long ones are shortened for display.
    arguments: Vec<String>,
    /// Result or error of the call, shortened for display if it is long.
    result: String,
    /// Whether the call failed.
    failed: bool,
}

/// Why a program failed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ProgramError {
    /// Kind of the failure in one word, such as `parse` or `deadline`.
    kind: &'static str,
    /// The error and how to fix it.
    message: String,
    /// Line of the error in the source, from 1; null if unknown.
    line: Option<usize>,
    /// Column of the error in characters, from 1; null if unknown.
    column: Option<usize>,
}

/// How much of its limits a program used.
#[derive(Serialize, ToSchema)]
struct Used {
    /// Number of steps of the interpreter.
    operations: u64,
    /// Number of tool calls, refused ones included.
    tool_calls: u64,
    /// Wall-clock time that the program ran, in milliseconds.
    ms: f64,
    /// Largest size of the program's heap, in bytes.
    peak_bytes: u64,
}

/// A page of results of a program on labelled questions. All counts and means but `total` are over
/// the questions of this page.
#[derive(Serialize, ToSchema)]
struct Sampled<'a> {
    /// Name of the base.
    base: &'a str,
    /// First 12 hexadecimal digits of the program's id.
    program: &'a str,
    /// Name of the split.
    split: &'a str,
    /// `ok` if the program compiles, else `error`.
    status: Status,
    /// Why the program does not compile; null if it does.
    error: Option<ProgramError>,
    /// The questions of this page, each with its result.
    queries: Vec<OfQuery<'a>>,
    /// Number of questions on this page.
    n: usize,
    /// Number of questions on which the program failed.
    failed: usize,
    /// Mean reciprocal rank of the first correct node; a question without a correct node in the
    /// ranking counts 0.
    mrr: f64,
    /// Share of the questions whose first node is correct, 0 to 1.
    hit1: f64,
    /// Number of questions in the whole split.
    total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
    /// Time taken to compute the page, in milliseconds.
    took_ms: f64,
}

/// Result of a program: on `query`, or on a page of `sample`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
enum ProgramReply<'a> {
    Query(Ran<'a>),
    Sample(Sampled<'a>),
}

/// Result of a program on one labelled question.
#[derive(Serialize, ToSchema)]
struct OfQuery<'a> {
    /// Id of the question in the split.
    id: i64,
    /// The question.
    query: &'a str,
    /// Rank of the first correct node, from 1; null if the ranking has none.
    rank: Option<u64>,
    /// 1 divided by `rank`; 0 without a rank.
    reciprocal_rank: f64,
    /// Why the program failed; null if it succeeded.
    error: Option<ProgramError>,
    /// Time taken to run the program on the question, in milliseconds.
    took_ms: f64,
    /// The first nodes of the ranking, at most 3.
    top: Vec<NodeBrief>,
}

impl From<&Failure> for ProgramError {
    fn from(failure: &Failure) -> ProgramError {
        let at = failure.position;
        ProgramError {
            kind: failure.kind.name(),
            message: failure.message.clone(),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column).filter(|&column| column > 0),
        }
    }
}

/// Run a program on a question or on labelled questions, in WebAssembly.
///
/// If the program fails, the HTTP status is still 200: the field `status` is `error`, and the field
/// `error` has the reason.
#[utoipa::path(post, path = "/v1/programs/run", operation_id = "run_program", request_body = RunProgram, responses(
    (status = 200, description = "Result on the question, or on each labelled question", body = ProgramReply),
    Common, OfBody, OfWork,
))]
pub(super) async fn run(
    State(server): State<Arc<Server>>,
    Body(asked): Body<RunProgram>,
) -> Result<impl IntoResponse> {
    Ok(json(ran(&server, asked).await?))
}

/// Runs a program as a request asks; returns a [`ProgramReply`] as JSON.
pub(super) async fn ran(server: &Arc<Server>, asked: RunProgram) -> Result<String> {
    let opened = opened(server, asked.base.as_deref())?;
    checked_k(asked.k)?;
    let deadline = deadline(asked.timeout_ms)?;
    if asked.query.is_some() == asked.sample.is_some() {
        return Err(ApiError::bad(
            "the request has neither query nor sample, or both",
            "give either query or sample",
        ));
    }
    let work = move || {
        let _last = GivesBack;
        match &asked.sample {
            Some(sample) => on_sample(&opened, &asked, sample, deadline),
            None => on_query(&opened, &asked),
        }
    };
    server.programs_run.run(deadline, work).await?
}

/// Runs the program of a request on one question; returns a [`ProgramReply`] as JSON.
fn on_query(opened: &Opened, asked: &RunProgram) -> Result<String> {
    let began = Instant::now();
    let query = check_query(asked.query.as_deref().unwrap_or_default())?;
    let runtime = opened.lab()?;
    let program = Program::new(&asked.source);
    let (trace, mut params) = (Trace::default(), Vec::new());
    let compiled = runtime.compile(&program);
    let outcome = match &compiled {
        Err(failure) => Err(failure.clone()),
        Ok(compiled) => {
            params = runtime.declared_params(compiled).unwrap_or_default();
            runtime.run(compiled, &asked.params, query, Some(&trace))?
        }
    };
    let (kb, calls) = (&opened.base.kb, trace.take());
    let traced = calls.iter().map(|call| traced(kb, call)).collect();
    let (answer, usage, output, error) = match outcome {
        Ok(Outcome { ranking, usage, output }) => {
            let calls = ProgramCalls::new(kb, "", calls);
            (explained(&program, ranking, &calls, asked.k), usage, output, None)
        }
        Err(failure) => {
            let error = Some(ProgramError::from(&failure));
            (Answer::default(), failure.usage, failure.output, error)
        }
    };
    let Usage { operations, tool_calls, ms, peak_bytes, .. } = usage;
    in_json(&ProgramReply::Query(Ran {
        base: opened.name(),
        program: program.short_id(),
        category: program.category().unwrap_or_default(),
        status: if error.is_none() { Status::Ok } else { Status::Error },
        params,
        hits: infer::hits(kb, &answer),
        trace: traced,
        error,
        usage: Used { operations, tool_calls, ms, peak_bytes },
        output,
        took_ms: began.elapsed().as_secs_f64() * 1e3,
    }))
}

/// Returns the first `k` nodes of a ranking, each with the tool calls that concern it.
fn explained(
    program: &Program,
    mut ranking: Vec<(NodeId, f32)>,
    calls: &ProgramCalls,
    k: usize,
) -> Answer {
    ranking.truncate(k);
    let name = format!("program {}", program.short_id());
    let why = |(at, &(node, score)): (usize, &(NodeId, f32))| NodeExplanation {
        explanation: rank_explanation(&name, at, score),
        calls: calls.on(node).collect(),
        features: Vec::new(),
    };
    let why = ranking.iter().enumerate().map(why).collect();
    Answer { explanations: why, ..Answer::from_ranking(ranking) }
}

fn traced(kb: &Kb, call: &ToolCall) -> Traced {
    Traced {
        line: call.line,
        tool: call.name,
        arguments: call.arguments(kb),
        result: call.outcome(kb),
        failed: call.result.is_err(),
    }
}

/// Runs the program of a request on a page of labelled questions: on at least one, and on as many
/// more as time permits. Returns a [`ProgramReply`] as JSON.
fn on_sample(
    opened: &Opened,
    asked: &RunProgram,
    sample: &Sample,
    deadline: Instant,
) -> Result<String> {
    let began = Instant::now();
    let split = split(&sample.split)?;
    let all = opened.queries(&split)?;
    let limit = page(sample.limit, SAMPLE, MAX_SAMPLE)?;
    let mut order: Vec<&LabelledQuery> = all.iter().collect();
    if let Some(seed) = sample.seed {
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    }
    let runtime = opened.lab()?;
    let program = Program::new(&asked.source);
    let (mut queries, mut error) = (Vec::new(), None);
    match runtime.compile(&program) {
        Err(failure) => error = Some(ProgramError::from(&failure)),
        Ok(compiled) => {
            let page = order.into_iter().skip(sample.cursor).take(limit);
            let (kb, params) = (&opened.base.kb, &asked.params);
            let one = |query| of_query(kb, &runtime, &compiled, params, query);
            queries = while_time(page, deadline, one)?;
        }
    }
    let n = queries.len();
    let end = sample.cursor.saturating_add(n);
    let mean = |sum: f64| sum / n.max(1) as f64;
    in_json(&ProgramReply::Sample(Sampled {
        base: opened.name(),
        program: program.short_id(),
        split: &sample.split,
        status: if error.is_none() { Status::Ok } else { Status::Error },
        n,
        failed: queries.iter().filter(|one| one.error.is_some()).count(),
        mrr: mean(queries.iter().map(|one| one.reciprocal_rank).sum()),
        hit1: mean(queries.iter().filter(|one| one.rank == Some(1)).count() as f64),
        total: all.len(),
        next: (error.is_none() && end < all.len()).then_some(end),
        error,
        queries,
        took_ms: began.elapsed().as_secs_f64() * 1e3,
    }))
}

fn of_query<'a>(
    kb: &Kb,
    runtime: &Runtime,
    compiled: &CompiledProgram,
    params: &ParamValues,
    query: &'a LabelledQuery,
) -> Result<OfQuery<'a>, RetrieveError> {
    let began = Instant::now();
    let (ranking, error) = match runtime.run(compiled, params, &query.text, None)? {
        Ok(outcome) => (outcome.ranking, None),
        Err(failure) => (Vec::new(), Some(ProgramError::from(&failure))),
    };
    let rank = first_right(kb, &ranking, &query.answers);
    Ok(OfQuery {
        id: query.id,
        query: &query.text,
        rank,
        reciprocal_rank: rank.map_or(0.0, |rank| 1.0 / rank as f64),
        error,
        took_ms: began.elapsed().as_secs_f64() * 1e3,
        top: briefs(kb, &ranking, &query.answers, TOLD),
    })
}

/// The tools that programs may call.
#[derive(Serialize, ToSchema)]
pub(super) struct Tools {
    tools: Vec<Tool>,
}

/// A tool that programs may call.
#[derive(Serialize, ToSchema)]
struct Tool {
    /// Name of the tool, or an operator such as `&`.
    name: &'static str,
    /// Section of the reference documentation in which the tool is described.
    group: &'static str,
    /// Whether the tool is an operator, written between its arguments.
    operator: bool,
    /// How a call is written, with names and types of the arguments.
    signature: String,
    /// The tool's arguments, in the order of a call.
    args: Vec<Argument>,
    /// Type of the tool's result.
    result: String,
    /// Cost of a call, in words.
    cost: &'static str,
    /// Description of the tool: its result with the order of nodes, and its errors.
    doc: &'static str,
    /// A program line that runs on the example base.
    example: &'static str,
}

/// An argument of a tool.
#[derive(Serialize, ToSchema)]
struct Argument {
    /// Name of the argument.
    name: &'static str,
    /// Type of the argument.
    #[serde(rename = "type")]
    kind: String,
    /// Default value as program text; null if the argument is required.
    default: Option<&'static str>,
}

/// List the tools that programs may call, in the order of the reference documentation.
#[utoipa::path(get, path = "/v1/tools", responses(
    (status = 200, description = "All tools", body = Tools),
    Common,
))]
pub(super) async fn tools() -> Bounded<Tools> {
    let argument = |arg: &ArgSpec| {
        let (name, kind, default) = (arg.name, arg.kind.to_string(), arg.default);
        Argument { name, kind, default }
    };
    let tool = |spec: &ToolSpec| Tool {
        name: spec.name,
        group: spec.group,
        operator: spec.is_operator(),
        signature: spec.signature(),
        args: spec.args.iter().map(argument).collect(),
        result: spec.result.to_string(),
        cost: spec.cost,
        doc: spec.doc,
        example: spec.example,
    };
    Bounded(Tools { tools: registry().iter().map(tool).collect() })
}
