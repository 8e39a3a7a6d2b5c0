//! Programs of clients: what they may call, and how one does on a question or on a sample of a
//! split. They always run inside WebAssembly. Must not know how programs are found.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{extract::State, response::IntoResponse};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    Server,
    engine::Opened,
    reply::{ApiError, Common, NodeBrief, OfBody, OfWork, briefs, default_k, first_right},
    routes::{Body, checked_k, deadline, opened},
    sent::{Bounded, in_json, json},
    splits::{page, split},
};
use agent_dataset::LabelledQuery;
use agent_infer::{self as infer, HitRecord, ParamValues, ProgramCalls, Runtime};
use agent_kb::{Kb, NodeId};
use agent_retrieve::{Answer, NodeExplanation, RetrieveError, check_query, rank_explanation};
use agent_sandbox::{CompiledProgram, Failure, Outcome, Param, Usage, program::Program};
use agent_tools::{ToolCall, Trace, registry};

/// Queries of a sample at most, and where a request does not say.
pub(super) const MAX_SAMPLE: usize = 20;
const SAMPLE: usize = 10;
/// Nodes that are told of each query of a sample.
const TOLD: usize = 3;
/// Time that is left for what a sample came to when no further query is begun.
const MARGIN: Duration = Duration::from_millis(500);

/// A program, and what it is to be run on: `query` or `sample`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunProgram {
    /// Its source, in Rhai.
    pub(super) source: String,
    /// A question.
    #[serde(default)]
    pub(super) query: Option<String>,
    /// Labelled questions.
    #[serde(default)]
    pub(super) sample: Option<Sample>,
    /// Most nodes of the answer, 1 to 1000.
    #[serde(default = "default_k")]
    #[schema(minimum = 1, maximum = 1000, default = 20)]
    pub(super) k: usize,
    /// The base; may be left out where there is one.
    #[serde(default)]
    pub(super) base: Option<String>,
    /// Values of declared parameters, instead of those it declares.
    #[serde(default)]
    #[schema(value_type = std::collections::HashMap<String, f64>)]
    pub(super) params: ParamValues,
    /// Time for the answer, milliseconds, 1 to 60000.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 60000, default = 10000)]
    pub(super) timeout_ms: Option<u64>,
}

/// Which labelled questions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    /// Their split: `train`, `val` or `human`.
    split: String,
    /// Draws the order of the questions; if left out they are in the order of the split.
    #[serde(default)]
    seed: Option<u64>,
    /// Most questions, 1 to 20; 10 if left out.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 20, default = 10)]
    limit: Option<usize>,
    /// Where the reply before ended: its `next`.
    #[serde(default)]
    cursor: usize,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Error,
}

/// What a program came to on one question.
#[derive(Serialize, ToSchema)]
pub(super) struct Ran<'a> {
    /// The base.
    base: &'a str,
    /// The beginning of the program's id.
    program: &'a str,
    /// The category that it says it answers; empty when it says none.
    category: &'a str,
    /// Whether there is a ranking.
    status: Status,
    /// The parameters that it declares.
    #[schema(value_type = Vec<serde_json::Value>)]
    params: Vec<Param>,
    /// Best first, ties by id; with what each call says of the node.
    #[schema(value_type = Vec<serde_json::Value>)]
    hits: Vec<HitRecord<'a>>,
    /// All calls of tools, in order, also of a program that failed.
    trace: Vec<Traced>,
    /// Why there is no ranking.
    error: Option<ProgramError>,
    /// What it used.
    usage: Used,
    /// What it printed.
    output: String,
    /// Time it took, compiling included, milliseconds.
    took_ms: f64,
}

/// One call of a tool.
#[derive(Serialize, ToSchema)]
struct Traced {
    /// The line, from 1; null if it is not known.
    line: Option<usize>,
    /// The tool or operator.
    tool: &'static str,
    /// The arguments, each in few characters.
    arguments: Vec<String>,
    /// What it gave, in few characters.
    result: String,
    /// Whether it failed.
    failed: bool,
}

/// Why a program gave no ranking.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct ProgramError {
    /// Which kind of failure, in a word.
    kind: &'static str,
    /// What is wrong and how to mend it.
    message: String,
    /// The line, from 1.
    line: Option<usize>,
    /// The column, from 1, in characters.
    column: Option<usize>,
}

/// What a run used.
#[derive(Default, Serialize, ToSchema)]
struct Used {
    operations: u64,
    tool_calls: u64,
    ms: f64,
    peak_bytes: u64,
}

/// What a program came to on labelled questions.
#[derive(Serialize, ToSchema)]
struct Sampled<'a> {
    /// The base.
    base: &'a str,
    /// The beginning of the program's id.
    program: &'a str,
    /// The split.
    split: &'a str,
    /// Whether it compiles.
    status: Status,
    /// Why not.
    error: Option<ProgramError>,
    /// The questions of this part.
    queries: Vec<OfQuery<'a>>,
    /// How many.
    n: usize,
    /// Those on which it failed.
    failed: usize,
    /// Mean reciprocal rank of the first right node; of a failed question 0.
    mrr: f64,
    /// Share of the questions whose first node is right.
    hit1: f64,
    /// Questions of the split.
    total: usize,
    /// The cursor of the part behind this one; null if there is none.
    next: Option<usize>,
    /// Time it took, milliseconds.
    took_ms: f64,
}

/// How a program does on one labelled question.
#[derive(Serialize, ToSchema)]
struct OfQuery<'a> {
    /// Id in the split.
    id: i64,
    /// The question.
    query: &'a str,
    /// Rank of the first right node, from 1.
    rank: Option<u64>,
    /// Its reciprocal; 0 without one.
    reciprocal_rank: f64,
    /// Why there is no ranking.
    error: Option<ProgramError>,
    /// Time it took, milliseconds.
    took_ms: f64,
    /// The first nodes.
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

impl From<Usage> for Used {
    fn from(usage: Usage) -> Used {
        let Usage { operations, tool_calls, ms, peak_bytes, .. } = usage;
        Used { operations, tool_calls, ms, peak_bytes }
    }
}

/// Run a program on a question or on labelled questions, always inside WebAssembly. A program that
/// fails is an answer as well: `status` is `error`, and `error` says where.
#[utoipa::path(post, path = "/v1/programs/run", operation_id = "run_program", request_body = RunProgram, responses(
    (status = 200, description = "What it came to, on the question or, if labelled questions were asked, on each", body = Ran),
    Common, OfBody, OfWork,
))]
pub(super) async fn run(
    State(server): State<Arc<Server>>,
    Body(asked): Body<RunProgram>,
) -> Result<impl IntoResponse, ApiError> {
    Ok(json(ran(&server, asked).await?))
}

/// What a program came to, as JSON.
pub(super) async fn ran(server: &Arc<Server>, asked: RunProgram) -> Result<String, ApiError> {
    let opened = opened(server, asked.base.as_deref())?;
    checked_k(asked.k)?;
    let deadline = deadline(asked.timeout_ms)?;
    match (&asked.query, &asked.sample) {
        (Some(_), None) => {
            let work = move || on_query(&opened, &asked);
            server.programs_run.run(deadline, work).await?
        }
        (None, Some(_)) => {
            let work = move || on_sample(&opened, &asked, deadline);
            server.programs_run.run(deadline, work).await?
        }
        _ => Err(ApiError::bad("what is it to be run on?", "give either query or sample")),
    }
}

/// Runs the program on one question.
fn on_query(opened: &Opened, asked: &RunProgram) -> Result<String, ApiError> {
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
    in_json(&Ran {
        base: opened.name(),
        program: program.short_id(),
        category: program.category().unwrap_or_default(),
        status: if error.is_none() { Status::Ok } else { Status::Error },
        params,
        hits: infer::hits(kb, &answer),
        trace: traced,
        error,
        usage: Used::from(usage),
        output,
        took_ms: began.elapsed().as_secs_f64() * 1e3,
    })
}

/// A ranking with what each call says of its nodes.
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

/// Runs the program on labelled questions, as many as there is time for.
fn on_sample(opened: &Opened, asked: &RunProgram, deadline: Instant) -> Result<String, ApiError> {
    let began = Instant::now();
    let Some(sample) = &asked.sample else {
        return Err(ApiError::bad("there is no sample", "give one"));
    };
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
            for query in order.iter().skip(sample.cursor).take(limit) {
                // The first is always tried, so that whoever goes on comes to an end.
                if !queries.is_empty() && Instant::now() + MARGIN >= deadline {
                    break;
                }
                queries.push(of_query(&opened.base.kb, &runtime, &compiled, &asked.params, query)?);
            }
        }
    }
    let n = queries.len();
    let end = sample.cursor.saturating_add(n);
    let mean = |sum: f64| sum / n.max(1) as f64;
    in_json(&Sampled {
        base: opened.name(),
        program: program.short_id(),
        split: &sample.split,
        status: if error.is_none() { Status::Ok } else { Status::Error },
        n,
        failed: queries.iter().filter(|one| one.error.is_some()).count(),
        mrr: mean(queries.iter().map(|one| one.reciprocal_rank).sum()),
        hit1: mean(queries.iter().filter(|one| one.rank == Some(1)).count() as f64),
        total: order.len(),
        next: (error.is_none() && end < order.len()).then_some(end),
        error,
        queries,
        took_ms: began.elapsed().as_secs_f64() * 1e3,
    })
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

/// A tool.
#[derive(Serialize, ToSchema)]
struct Tool {
    /// Its name, or an operator such as `&`.
    name: &'static str,
    /// The section of the reference that it stands in.
    group: &'static str,
    /// Whether it is written between its arguments.
    operator: bool,
    /// How a call is written.
    signature: String,
    /// Its arguments, in order.
    args: Vec<Argument>,
    /// What it gives.
    result: String,
    /// What a call costs.
    cost: &'static str,
    /// What it does.
    doc: &'static str,
    /// A line that runs on the example base.
    example: &'static str,
}

/// An argument of a tool.
#[derive(Serialize, ToSchema)]
struct Argument {
    /// Its name.
    name: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    kind: String,
    /// Its value where it is left out, as program text; null where it may not be.
    default: Option<&'static str>,
}

/// The tools that programs may call, in the order of the reference.
#[utoipa::path(get, path = "/v1/tools", responses(
    (status = 200, description = "All tools", body = Tools),
    Common,
))]
pub(super) async fn tools() -> Bounded<Tools> {
    let tool = |spec: &agent_tools::ToolSpec| Tool {
        name: spec.name,
        group: spec.group,
        operator: spec.is_operator(),
        signature: spec.signature(),
        args: spec
            .args
            .iter()
            .map(|arg| Argument {
                name: arg.name,
                kind: arg.kind.to_string(),
                default: arg.default,
            })
            .collect(),
        result: spec.result.to_string(),
        cost: spec.cost,
        doc: spec.doc,
        example: spec.example,
    };
    Bounded(Tools { tools: registry().iter().map(tool).collect() })
}
