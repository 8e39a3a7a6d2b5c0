//! Runs: which there are in the home, how one stands, which programs it tried, and all of that as one
//! record. Must not know how programs are found.

#![allow(unused_qualifications, reason = "the macro of utoipa writes them")]

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs, io,
    path::{Component, Path as FilePath, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use axum::{
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    Server,
    nodes::bad_query,
    reply::{ApiError, Common, ErrorBody, OfPath, OfWork},
    routes::deadline,
    sent::Bounded,
    splits::page,
};
use agent_infer::ParamValues;
use agent_optimize::{
    BUNDLE_FILE, Decision,
    journal::{DATABASE_FILE, JournalError},
    record::{
        Record, RoleCost, RoleCostEntry, Standing, State as RunState, body,
        line::{Line, Lines},
        programs::{Entry, Score, Sources, variant},
        timing::{Summary, Timing},
    },
    trial::{TRIAL, Trial},
};

/// Runs of one reply at most, and where a request does not say.
pub(super) const MAX_RUNS: usize = 100;
const RUNS: usize = 20;
/// Programs of one reply at most, and where a request does not say.
pub(super) const MAX_PROGRAMS: usize = 100;
const PROGRAMS: usize = 50;
/// Programs and steps of a record: as many as `web/src/run.ts` shows.
const RECORDED_PROGRAMS: usize = 500;
const RECORDED_STEPS: usize = 200;
/// Points of a curve at most.
const MAX_POINTS: usize = 400;
/// Names the run that was written to last.
pub(super) const LATEST: &str = "latest";
/// The pool on which programs are measured.
const VALIDATION: &str = "validation";
/// The kind of steps of improvement, and the part of a run that they are.
const IMPROVEMENT: (&str, &str) = ("parent", "improving programs");

/// Which part.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Most things of one reply, 1 to 100.
    limit: Option<usize>,
    /// Where the reply before ended: its `next`.
    cursor: Option<usize>,
}

/// A part of the runs, the newest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Runs {
    /// This part.
    runs: Vec<AboutRun>,
    /// All of them.
    total: usize,
    /// The cursor of the part behind this one; null if there is none.
    next: Option<usize>,
}

/// A run in a line.
#[derive(Default, Serialize, ToSchema)]
struct AboutRun {
    /// Its name.
    id: String,
    /// Its dataset.
    dataset: String,
    /// Who proposes programs.
    actor: String,
    /// Seed of its draws.
    seed: Option<u64>,
    /// `finished`, `running`, `interrupted`, `paused` or `unreadable`.
    state: &'static str,
    /// The process that writes it.
    pid: Option<u32>,
    /// Steps in its journal.
    steps: usize,
    /// Changes that were tested.
    tested: usize,
    /// Changes that were kept.
    accepted: usize,
    /// When it was last written to, seconds since 1970.
    changed: Option<u64>,
    /// Why it cannot be read.
    problem: Option<String>,
}

/// How a run stands.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct RunNow {
    /// Its name.
    id: String,
    /// Its dataset.
    dataset: String,
    /// Who proposes programs.
    actor: String,
    /// The language model, if one is asked.
    model: Option<String>,
    /// Seed of its draws.
    seed: Option<u64>,
    /// Steps of improvement that were asked for.
    planned: Option<u64>,
    /// Steps of improvement that are done.
    done: u64,
    /// `finished`, `running`, `interrupted` or `paused`.
    pub(super) state: &'static str,
    /// The process that writes it.
    pid: Option<u32>,
    /// Why a paused run waits.
    paused: Option<String>,
    /// Steps in its journal.
    pub(super) steps: usize,
    /// The same by kind.
    #[schema(value_type = HashMap<String, u64>)]
    kinds: BTreeMap<String, u64>,
    /// Changes that were tested.
    tested: usize,
    /// Changes that were kept.
    accepted: usize,
    /// Programs that were proposed.
    programs: usize,
    /// Programs that answer some validation query best, those that do so most often first.
    archive: Vec<Archived>,
    /// The program of each category so far, with its figures on validation queries.
    #[schema(value_type = Vec<serde_json::Value>)]
    categories: Vec<Standing>,
    /// Whether its bundle is frozen.
    bundle: bool,
    /// What was spent on language models.
    #[schema(value_type = serde_json::Value)]
    cost: RoleCost,
    /// The same by role.
    #[schema(value_type = Vec<serde_json::Value>)]
    roles: Vec<RoleCostEntry>,
    /// When it was begun, seconds since 1970.
    begun: Option<u64>,
    /// When its times were last noted, seconds since 1970.
    changed: Option<u64>,
    /// Seconds of work, pauses left out.
    seconds: Option<u64>,
    /// Seconds that its further steps of improvement will take if they are as long as those before;
    /// of a run that goes on.
    eta_seconds: Option<u64>,
    /// Where the time went.
    #[schema(value_type = Vec<serde_json::Value>)]
    phases: Vec<Summary>,
    /// Programs on all validation queries, in the order in which they were tried.
    curve: Vec<Point>,
}

/// A program of the archive.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Archived {
    /// Its id.
    program: String,
    /// Its category.
    category: String,
    /// Validation queries that it answers best; of equal ones the one tried first counts.
    best_on: usize,
}

/// A program on all validation queries.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
struct Point {
    /// The step of the journal.
    step: u64,
    /// Its mean reciprocal rank.
    mrr: f64,
    /// The best so far.
    best: f64,
}

/// A part of the programs of a run, in the order in which they were tried.
#[derive(Serialize, ToSchema)]
pub(super) struct TriedPrograms {
    /// This part.
    programs: Vec<TriedProgram>,
    /// All of them.
    total: usize,
    /// The cursor of the part behind this one; null if there is none.
    next: Option<usize>,
}

/// A program with its parameters.
#[derive(Serialize, ToSchema)]
struct TriedProgram {
    /// Its id.
    id: String,
    /// The beginning of its id, and of that of its parameters where they differ from the declared.
    variant: String,
    /// Its category.
    category: String,
    /// What it says of itself.
    description: String,
    /// Its source; of a module its header.
    source: String,
    /// Parameters that differ from the declared ones.
    #[schema(value_type = HashMap<String, f64>)]
    params: ParamValues,
    /// Who proposed it.
    proposed_by: String,
    /// How it was made, in words.
    change: String,
    /// Id of the program it was made from.
    parent: Option<String>,
    /// On the most training queries it ran on.
    #[schema(value_type = Option<serde_json::Value>)]
    train: Option<Score>,
    /// On the most validation queries it ran on.
    #[schema(value_type = Option<serde_json::Value>)]
    validation: Option<Score>,
    /// Whether it is in the bundle.
    frozen: bool,
    /// Tests in which it was to take the place of another.
    #[schema(value_type = Vec<serde_json::Value>)]
    tests: Vec<Decision>,
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> ApiError {
        match error {
            JournalError::NotARun { .. } => ApiError::not_found(error.to_string(), LIST_THEM),
            _ => {
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                ApiError::new(status, "failed", error.to_string(), "see `agent run show`")
            }
        }
    }
}

const LIST_THEM: &str = "GET /v1/runs lists those there are";

/// The directories of all runs, with when each was written to, the newest first.
fn directories(server: &Server) -> Result<Vec<(SystemTime, PathBuf)>, ApiError> {
    let runs = server.app.home.path().join("runs");
    let entries = match fs::read_dir(&runs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            ApiError::new(status, "failed", error.to_string(), "look at the home directory")
        })?,
    };
    let dated = |path: PathBuf| {
        let hidden = path.file_name()?.to_str()?.starts_with('.');
        let changed = fs::metadata(path.join(DATABASE_FILE)).ok()?.modified().ok()?;
        (!hidden).then_some((changed, path))
    };
    let mut found: Vec<(SystemTime, PathBuf)> =
        entries.flatten().filter_map(|entry| dated(entry.path())).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

/// The directory of a run by its name in the home; `latest` is the newest one that has the file.
pub(super) fn directory(server: &Server, id: &str, file: &str) -> Result<PathBuf, ApiError> {
    if id == LATEST {
        let mut all = directories(server)?.into_iter().map(|(_, dir)| dir);
        return all
            .find(|dir| dir.join(file).exists())
            .ok_or_else(|| ApiError::not_found("there is no such run yet", LIST_THEM));
    }
    // A name, never a path: whoever asks sees nothing but the runs of this home.
    let mut parts = FilePath::new(id).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !id.starts_with('.');
    let dir = server.app.home.path().join("runs").join(id);
    match is_name && dir.join(DATABASE_FILE).exists() {
        true => Ok(dir),
        false => Err(ApiError::not_found(format!("there is no run {id:?}"), LIST_THEM)),
    }
}

/// The bundle of a run by its name in the home.
pub(super) fn bundle_file(server: &Server, id: &str) -> Result<PathBuf, ApiError> {
    let file = directory(server, id, BUNDLE_FILE)?.join(BUNDLE_FILE);
    match file.exists() {
        true => Ok(file),
        false => {
            let message = format!("the run {id:?} has no bundle yet");
            Err(ApiError::not_found(message, "wait until it is finished, or resume it"))
        }
    }
}

/// The name of a run.
pub(super) fn name(dir: &FilePath) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn bad_id(error: PathRejection) -> ApiError {
    ApiError::bad(error.body_text(), LIST_THEM)
}

/// The runs of the home, the newest first, part by part.
#[utoipa::path(get, path = "/v1/runs", params(Part), responses(
    (status = 200, description = "A part of the runs", body = Runs),
    (status = 500, description = "The home cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn runs(
    State(server): State<Arc<Server>>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Bounded<Runs>, ApiError> {
    let Query(part) = part.map_err(bad_query)?;
    let (limit, cursor) = (page(part.limit, RUNS, MAX_RUNS)?, part.cursor.unwrap_or(0));
    let shared = server.clone();
    let work = move || {
        let all = directories(&shared)?;
        let runs: Vec<AboutRun> = all
            .iter()
            .skip(cursor)
            .take(limit)
            .map(|(changed, dir)| about(&shared, dir, *changed))
            .collect();
        let end = cursor.saturating_add(runs.len());
        let total = all.len();
        Ok::<_, ApiError>(Runs { runs, total, next: (end < total).then_some(end) })
    };
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}

fn about(server: &Server, dir: &FilePath, changed: SystemTime) -> AboutRun {
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok();
    let (id, changed) = (name(dir), since.map(|since| since.as_secs()));
    match Record::read(dir) {
        Ok(record) => {
            let (tested, accepted) = record.tested_and_accepted();
            AboutRun {
                id,
                state: record.state.name(),
                pid: record.pid,
                steps: record.steps.len(),
                tested,
                accepted,
                changed,
                problem: None,
                seed: record.seed,
                dataset: record.dataset,
                actor: record.actor,
            }
        }
        Err(error) => {
            let (state, problem) = ("unreadable", Some(server.without_home(error.to_string())));
            AboutRun { id, state, problem, changed, ..AboutRun::default() }
        }
    }
}

/// How a run stands: its steps, archive, cost, time, and the program of every category.
#[utoipa::path(get, path = "/v1/runs/{id}", params(("id" = String, Path, description = "Name of the run, or latest")), responses(
    (status = 200, description = "How it stands", body = RunNow),
    (status = 500, description = "It cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn run(
    State(server): State<Arc<Server>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Bounded<RunNow>, ApiError> {
    let Path(id) = id.map_err(bad_id)?;
    let shared = server.clone();
    let work = move || Ok::<_, ApiError>(now(&directory(&shared, &id, DATABASE_FILE)?)?);
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}

/// How the run in a directory stands. Its whole journal is read.
pub(super) fn now(dir: &FilePath) -> Result<RunNow, JournalError> {
    Ok(standing(dir, Record::read(dir)?))
}

fn standing(dir: &FilePath, record: Record) -> RunNow {
    let timing = Timing::read(dir);
    let times = record.times();
    let kinds = record.kinds();
    let done = done(&record);
    let categories = record.standings();
    let planned = planned(&record, categories.len() as u64);
    let left = planned.filter(|&planned| done > 0 && planned > done).map(|planned| planned - done);
    let phase = timing.phases.iter().find(|phase| phase.name == IMPROVEMENT.1);
    let eta = left.zip(phase).filter(|_| record.state == RunState::Running);
    let (curve, archive) = on_validation(&record);
    let (tested, accepted) = record.tested_and_accepted();
    RunNow {
        id: name(dir),
        model: record.model.clone(),
        seed: record.seed,
        planned,
        done,
        state: record.state.name(),
        pid: record.pid,
        paused: record.paused.clone(),
        steps: record.steps.len(),
        kinds: kinds.into_iter().map(|(kind, n)| (kind.to_owned(), n)).collect(),
        tested,
        accepted,
        programs: record.categories.len(),
        archive,
        categories,
        bundle: record.state == RunState::Finished && dir.join(BUNDLE_FILE).exists(),
        cost: record.cost(),
        roles: record.role_costs(),
        begun: times.begun,
        changed: times.changed,
        seconds: times.seconds,
        eta_seconds: eta
            .map(|(left, phase)| (phase.seconds / done as f64 * left as f64).ceil() as u64),
        phases: timing.summaries(),
        curve,
        dataset: record.dataset,
        actor: record.actor,
    }
}

/// A run with its programs and its latest steps, as its view in the explorer takes them.
#[derive(Serialize)]
pub struct RecordedRun {
    run: RunNow,
    programs: Vec<TriedProgram>,
    /// The latest first.
    steps: Vec<Line>,
}

impl RecordedRun {
    /// Reads the run in a directory; its first programs and latest steps, as many as the view shows.
    ///
    /// # Errors
    /// That the journal cannot be read.
    pub fn read(dir: &FilePath, sources: &Sources) -> Result<RecordedRun, JournalError> {
        let record = Record::read(dir)?;
        let mut steps = Lines::from_record(&record);
        steps.drain(..steps.len().saturating_sub(RECORDED_STEPS));
        steps.reverse();
        let entries = sources.entries.iter().take(RECORDED_PROGRAMS);
        let programs = entries.map(|entry| tried(sources, entry)).collect();
        Ok(RecordedRun { run: standing(dir, record), programs, steps })
    }
}

/// Steps of improvement that a run took. One is kept again, with another end of its key, where a run
/// that went on changed another program in it.
fn done(record: &Record) -> u64 {
    let steps = record.steps.iter().filter(|step| step.kind == IMPROVEMENT.0);
    let numbers: BTreeSet<&str> = steps.filter_map(|step| step.key.split(' ').next()).collect();
    numbers.len() as u64
}

/// Steps of improvement that a run will take: those of the search, and so many of the model for each
/// category.
fn planned(record: &Record, categories: u64) -> Option<u64> {
    let of_model = record.planned_model_steps.map(|each| each.saturating_mul(categories));
    record.planned_steps.map(|planned| planned.saturating_add(of_model.unwrap_or(0)))
}

/// Programs on all validation queries in their order, and those that answer some of them best.
fn on_validation(record: &Record) -> (Vec<Point>, Vec<Archived>) {
    let trials: Vec<(u64, Trial)> = record
        .steps
        .iter()
        .filter(|step| step.kind == TRIAL)
        .filter_map(|step| Some((step.n, body::<Trial>(step)?)))
        .filter(|(_, trial)| trial.pool == VALIDATION && !trial.queries.is_empty())
        .collect();
    let most = trials.iter().map(|(_, trial)| trial.queries.len()).max().unwrap_or(0);
    let whole: Vec<&(u64, Trial)> =
        trials.iter().filter(|(_, trial)| trial.queries.len() == most).collect();
    let mut best = 0.0_f64;
    let points: Vec<Point> = whole
        .iter()
        .map(|(step, trial)| {
            let mrr = trial.mrr();
            best = best.max(mrr);
            Point { step: *step, mrr, best }
        })
        .collect();
    let every = points.len().div_ceil(MAX_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    let curve = points.into_iter().enumerate().filter(|(at, _)| at % every == 0 || *at == last);

    // Of each query the program that answers it best.
    let mut best_of: HashMap<usize, (f32, &str)> = HashMap::new();
    for (_, trial) in &trials {
        for (&query, &rank) in trial.queries.iter().zip(&trial.reciprocal_ranks) {
            let known = best_of.entry(query).or_insert((0.0, ""));
            if rank > known.0 {
                *known = (rank, &trial.program);
            }
        }
    }
    let mut counted: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, program) in best_of.values().filter(|(_, program)| !program.is_empty()) {
        *counted.entry(program).or_default() += 1;
    }
    let mut archive: Vec<Archived> = counted
        .into_iter()
        .map(|(program, best_on)| Archived {
            program: program.to_owned(),
            category: record.category(program).to_owned(),
            best_on,
        })
        .collect();
    archive.sort_by(|one, other| {
        other.best_on.cmp(&one.best_on).then_with(|| one.program.cmp(&other.program))
    });
    (curve.map(|(_, point)| point).collect(), archive)
}

/// The programs of a run: sources, scores, and from which others they were made.
#[utoipa::path(get, path = "/v1/runs/{id}/programs", operation_id = "run_programs", params(("id" = String, Path, description = "Name of the run, or latest"), Part), responses(
    (status = 200, description = "A part of the programs", body = TriedPrograms),
    (status = 500, description = "The run cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn programs(
    State(server): State<Arc<Server>>,
    id: Result<Path<String>, PathRejection>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Bounded<TriedPrograms>, ApiError> {
    let (Path(id), Query(part)) = (id.map_err(bad_id)?, part.map_err(bad_query)?);
    let limit = page(part.limit, PROGRAMS, MAX_PROGRAMS)?;
    let cursor = part.cursor.unwrap_or(0);
    let shared = server.clone();
    let work = move || {
        let sources = Sources::from_run(&directory(&shared, &id, DATABASE_FILE)?)?;
        let part = sources.entries.iter().skip(cursor).take(limit);
        let programs: Vec<TriedProgram> = part.map(|entry| tried(&sources, entry)).collect();
        let (end, total) = (cursor.saturating_add(programs.len()), sources.entries.len());
        Ok::<_, ApiError>(TriedPrograms { programs, total, next: (end < total).then_some(end) })
    };
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}

fn tried(sources: &Sources, entry: &Entry) -> TriedProgram {
    let program = &entry.program;
    let origin = sources.origins.get(program.id()).map(|trial| &trial.origin);
    let tests = sources
        .decisions
        .iter()
        .filter(|test| test.to == program.id() && test.params == entry.params);
    TriedProgram {
        id: program.id().to_owned(),
        variant: variant(program, &entry.params),
        category: entry.category.clone(),
        description: program.description().to_owned(),
        source: program.listing().into_owned(),
        params: entry.params.clone(),
        proposed_by: entry.proposed_by.clone(),
        change: origin.map(|origin| origin.change.clone()).unwrap_or_default(),
        parent: origin.and_then(|origin| origin.parent.clone()),
        train: entry.train,
        validation: entry.validation,
        frozen: entry.frozen,
        tests: tests.cloned().collect(),
    }
}
