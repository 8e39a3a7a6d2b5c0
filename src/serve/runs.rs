//! Requests for the runs in the home directory: a list of all runs, the state of a run, and the
//! programs that a run tried. Does not depend on how programs are found.

#![allow(unused_qualifications, reason = "a macro of utoipa generates qualified paths")]

use std::{
    fs,
    path::{Component, Path as FilePath, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use axum::extract::{Path, State, rejection::PathRejection};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{
    ApiError, Bounded, Common, OfPath, OfWork, Params, Result, Server, deadline, page,
    reply::ErrorBody, splits::paged,
};
use agent_app::{
    named::{is_latest, run_dirs, runs_dir},
    report::recorded::{RunNow, RunSummary, TriedProgram, name, now, tried},
};
use agent_optimize::{
    BUNDLE_FILE,
    journal::{DATABASE_FILE, JournalError},
    record::programs::{Entry, Sources},
};

/// Maximum number of runs in a reply; `RUNS` is the default.
pub(super) const MAX_RUNS: usize = 100;
const RUNS: usize = 20;
/// Maximum number of programs in a reply; `PROGRAMS` is the default.
pub(super) const MAX_PROGRAMS: usize = 100;
const PROGRAMS: usize = 50;

/// Selects a page of runs or programs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// Maximum number of items in the reply, 1 to 100; 20 runs or 50 programs by default.
    limit: Option<usize>,
    /// Start of this page: `next` of the previous reply; 0 by default.
    cursor: Option<usize>,
}

/// A page of runs; the run that was written last comes first.
#[derive(Serialize, ToSchema)]
pub(super) struct Runs {
    /// The runs of this page.
    runs: Vec<AboutRun>,
    /// Number of runs on all pages.
    total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
}

/// A run in a list of runs.
#[derive(Serialize, ToSchema)]
struct AboutRun {
    /// Name of the run.
    id: String,
    /// Dataset, state and progress of the run.
    #[serde(flatten)]
    summary: RunSummary,
    /// When the run's journal was last written, in seconds since 1970.
    changed: Option<u64>,
    /// Why the run is unreadable; null if it can be read.
    problem: Option<String>,
}

/// A page of the programs of a run, in the order in which they were tried.
#[derive(Serialize, ToSchema)]
pub(super) struct TriedPrograms {
    /// The programs of this page.
    programs: Vec<TriedProgram>,
    /// Number of programs on all pages.
    total: usize,
    /// Cursor that a request sends to get the next page; null on the last page.
    next: Option<usize>,
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> ApiError {
        match error {
            JournalError::NotARun { .. } => ApiError::not_found(error.to_string(), LIST_THEM),
            _ => ApiError::failed(error.to_string(), "see `agent run show`"),
        }
    }
}

const LIST_THEM: &str = "GET /v1/runs lists all runs";

/// Returns the directories of all runs, with the times when their journals were last written; the
/// latest comes first.
fn directories(server: &Server) -> Result<Vec<(SystemTime, PathBuf)>> {
    let dirs = run_dirs(&server.app.home).map_err(|error| {
        ApiError::failed(server.without_home(error.message()), "check the home directory")
    })?;
    let dated = |dir: PathBuf| {
        dir.file_name()?.to_str()?;
        Some((fs::metadata(dir.join(DATABASE_FILE)).ok()?.modified().ok()?, dir))
    };
    let mut found: Vec<(SystemTime, PathBuf)> = dirs.into_iter().filter_map(dated).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    Ok(found)
}

/// Returns the directory of the run with this name; for `latest`, of the run that was written last
/// among those that have a file named `file`.
pub(super) fn directory(server: &Server, id: &str, file: &str) -> Result<PathBuf> {
    if is_latest(FilePath::new(id)) {
        let mut all = directories(server)?.into_iter().map(|(_, dir)| dir);
        return all
            .find(|dir| dir.join(file).exists())
            .ok_or_else(|| ApiError::not_found("there is no such run yet", LIST_THEM));
    }
    // Only a name is accepted, never a path: clients see only the runs of this home directory.
    let mut parts = FilePath::new(id).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        && !id.starts_with('.');
    let dir = runs_dir(&server.app.home).join(id);
    match is_name && dir.join(DATABASE_FILE).exists() {
        true => Ok(dir),
        false => Err(ApiError::not_found(format!("there is no run {id:?}"), LIST_THEM)),
    }
}

/// Returns the path of the bundle of the run with this name; for `latest`, of the run that was
/// written last among those with a bundle.
pub(super) fn bundle_file(server: &Server, id: &str) -> Result<PathBuf> {
    let file = directory(server, id, BUNDLE_FILE)?.join(BUNDLE_FILE);
    if file.exists() {
        return Ok(file);
    }
    let message = format!("the run {id:?} has no bundle yet");
    Err(ApiError::not_found(message, "wait until it is finished, or resume it"))
}

pub(super) fn bad_id(error: PathRejection) -> ApiError {
    ApiError::bad(error.body_text(), LIST_THEM)
}

/// List the runs in the home directory, newest first, page by page.
#[utoipa::path(get, path = "/v1/runs", params(Part), responses(
    (status = 200, description = "A page of the runs", body = Runs),
    (status = 500, description = "The home directory cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn runs(
    State(server): State<Arc<Server>>,
    Params(part): Params<Part>,
) -> Result<Bounded<Runs>> {
    let limit = page(part.limit, RUNS, MAX_RUNS)?;
    let shared = server.clone();
    let work = move || {
        let all = directories(&shared)?;
        let told = |(changed, dir): &(_, PathBuf)| about(&shared, dir, *changed);
        let (runs, next) = paged(&all, part.cursor, limit, told);
        Ok::<_, ApiError>(Runs { runs, total: all.len(), next })
    };
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}

fn about(server: &Server, dir: &FilePath, changed: SystemTime) -> AboutRun {
    let since = changed.duration_since(SystemTime::UNIX_EPOCH).ok();
    let (summary, problem) = match RunSummary::read(dir) {
        Ok(summary) => (summary, None),
        Err(error) => {
            let summary = RunSummary { state: "unreadable", ..RunSummary::default() };
            (summary, Some(server.without_home(error.to_string())))
        }
    };
    AboutRun { id: name(dir), summary, changed: since.map(|since| since.as_secs()), problem }
}

/// Show the state of a run: steps, archive, cost, time, and the program of every category.
#[utoipa::path(get, path = "/v1/runs/{id}", params(("id" = String, Path, description = "Name of the run, or latest")), responses(
    (status = 200, description = "State of the run", body = RunNow),
    (status = 500, description = "The run cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn run(
    State(server): State<Arc<Server>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Bounded<RunNow>> {
    let Path(id) = id.map_err(bad_id)?;
    let shared = server.clone();
    let work = move || Ok::<_, ApiError>(now(&directory(&shared, &id, DATABASE_FILE)?)?);
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}

/// List the programs of a run: sources, scores, and the programs that they were made from.
#[utoipa::path(get, path = "/v1/runs/{id}/programs", operation_id = "run_programs", params(("id" = String, Path, description = "Name of the run, or latest"), Part), responses(
    (status = 200, description = "A page of the programs", body = TriedPrograms),
    (status = 500, description = "The run cannot be read", body = ErrorBody),
    Common, OfPath, OfWork,
))]
pub(super) async fn programs(
    State(server): State<Arc<Server>>,
    id: Result<Path<String>, PathRejection>,
    part: Result<Params<Part>>,
) -> Result<Bounded<TriedPrograms>> {
    let (Path(id), Params(part)) = (id.map_err(bad_id)?, part?);
    let limit = page(part.limit, PROGRAMS, MAX_PROGRAMS)?;
    let shared = server.clone();
    let work = move || {
        let sources = Sources::from_run(&directory(&shared, &id, DATABASE_FILE)?)?;
        let told = |entry: &Entry| tried(&sources, entry);
        let (programs, next) = paged(&sources.entries, part.cursor, limit, told);
        Ok::<_, ApiError>(TriedPrograms { programs, total: sources.entries.len(), next })
    };
    Ok(Bounded(server.reads.run(deadline(None)?, work).await??))
}
