//! Collects the state of a run, its programs and its latest steps in one record. Does not depend on
//! how programs are found.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use serde::Serialize;
use utoipa::ToSchema;

use crate::routing::VALIDATION;
use agent_infer::ParamValues;
use agent_optimize::{
    BUNDLE_FILE, Decision,
    journal::JournalError,
    record::{
        Record, RoleCost, RoleCostEntry, Standing, State as RunState, body,
        line::{Line, Lines},
        programs::{Entry, Score, Sources, variant},
        timing::{Summary, Timing},
    },
    trial::{TRIAL, Trial},
};

/// Maximum number of programs in a record; `_STEPS` is the maximum number of steps. Both equal the
/// limits in `web/src/run.ts`.
const _PROGRAMS: usize = 500;
const _STEPS: usize = 200;
/// Approximate maximum number of points in a curve.
const MAX_POINTS: usize = 400;
/// Kind of the steps in the journal that improve programs, and name of the phase of these steps.
const IMPROVEMENT: (&str, &str) = ("parent", "improving programs");

/// State of a run, with its costs, times and scores so far.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub struct RunNow {
    /// Name of the run.
    id: String,
    /// Name of the dataset that the run is for.
    dataset: String,
    /// Actors that propose programs, such as `search,llm`.
    actor: String,
    /// Name of the language model, if the run uses one.
    model: Option<String>,
    /// Random seed.
    seed: Option<u64>,
    /// Number of steps planned to improve programs.
    planned: Option<u64>,
    /// Number of finished steps that improved programs or tried to.
    done: u64,
    /// State of the run: `finished`, `running`, `interrupted` or `paused`.
    pub state: &'static str,
    /// Id of the process that works on the run, if one does.
    pid: Option<u32>,
    /// Why the run is paused, if it is.
    paused: Option<String>,
    /// Number of steps in the run's journal.
    pub steps: usize,
    /// Number of steps in the journal, by kind.
    #[schema(value_type = HashMap<String, u64>)]
    kinds: BTreeMap<String, u64>,
    /// Number of changes to programs that were tested.
    tested: usize,
    /// Number of changes to programs that were accepted.
    accepted: usize,
    /// Number of programs that were proposed.
    programs: usize,
    /// Programs that answer at least one validation query best, sorted by the number of such
    /// queries, the largest first.
    archive: Vec<Archived>,
    /// The current program of each category, with the program's scores on validation queries.
    #[schema(value_type = Vec<serde_json::Value>)]
    categories: Vec<Standing>,
    /// Whether the run is finished and has a bundle.
    bundle: bool,
    /// Mean reciprocal rank of the run's bundle on validation queries; absent without a bundle.
    mrr: Option<f64>,
    /// Cost of language models in total.
    #[schema(value_type = serde_json::Value)]
    cost: RoleCost,
    /// Cost of language models by role.
    #[schema(value_type = Vec<serde_json::Value>)]
    roles: Vec<RoleCostEntry>,
    /// When the run began, in seconds since 1970.
    begun: Option<u64>,
    /// When the run's times were last updated, in seconds since 1970.
    changed: Option<u64>,
    /// Time spent on the run without pauses, in seconds.
    seconds: Option<u64>,
    /// Estimated time, in seconds, of the remaining steps that improve programs; only while the run
    /// is running.
    eta_seconds: Option<u64>,
    /// Time of each phase of the run.
    #[schema(value_type = Vec<serde_json::Value>)]
    phases: Vec<Summary>,
    /// Scores of programs over time, in the order of their trials. Includes only trials on the
    /// largest number of validation queries; if these are too many, leaves some out.
    curve: Vec<Point>,
}

/// Summary of a run, as lists of runs show it.
#[derive(Default, Serialize, ToSchema)]
pub struct RunSummary {
    /// Name of the dataset that the run is for.
    pub dataset: String,
    /// Actors that propose programs, such as `search,llm`.
    pub actor: String,
    /// Random seed of the run.
    pub seed: Option<u64>,
    /// State of the run: `finished`, `running`, `interrupted`, `paused` or `unreadable`.
    pub state: &'static str,
    /// Id of the process that works on the run; null if none does.
    pub pid: Option<u32>,
    /// Number of steps in the run's journal.
    pub steps: usize,
    /// Number of changes to programs that were tested.
    pub tested: usize,
    /// Number of changes to programs that were accepted.
    pub accepted: usize,
}

impl RunSummary {
    /// Returns the summary of the run in a directory. Reads the whole journal of the run.
    ///
    /// # Errors
    /// If the directory has no run, or the run's journal cannot be read.
    pub fn read(dir: &Path) -> Result<RunSummary, JournalError> {
        let record = Record::read(dir)?;
        let (tested, accepted) = record.tested_and_accepted();
        Ok(RunSummary {
            state: record.state.name(),
            pid: record.pid,
            steps: record.steps.len(),
            tested,
            accepted,
            seed: record.seed,
            dataset: record.dataset,
            actor: record.actor,
        })
    }
}

/// A program that answers at least one validation query best.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub struct Archived {
    /// Id of the program.
    program: String,
    /// Category of the program.
    category: String,
    /// Number of validation queries that the program answers best; of equally good programs, the
    /// one tried first counts.
    best_on: usize,
}

/// Score of one trial of a program on validation queries.
#[derive(Clone, PartialEq, Serialize, ToSchema)]
pub struct Point {
    /// Number of the journal's step that recorded the trial.
    step: u64,
    /// Mean reciprocal rank of the program in this trial.
    mrr: f64,
    /// Highest mean reciprocal rank of this and all earlier trials in the curve.
    best: f64,
}

/// A program with its parameters, as tried in a run.
#[derive(Serialize, ToSchema)]
pub struct TriedProgram {
    /// Id of the program.
    id: String,
    /// Short id of the program, followed by a short id of its parameters if they differ from the
    /// declared values.
    variant: String,
    /// Category of the program.
    category: String,
    /// Description in the header of the program.
    description: String,
    /// Source of the program; for a WebAssembly module, its header.
    source: String,
    /// Parameters whose values differ from the declared ones.
    #[schema(value_type = HashMap<String, f64>)]
    params: ParamValues,
    /// Author of the program, such as an actor.
    proposed_by: String,
    /// The change by which the program was made from another one, in words.
    change: String,
    /// Id of the program from which it was made.
    parent: Option<String>,
    /// Score of the program in its trial with the most training queries.
    #[schema(value_type = Option<serde_json::Value>)]
    train: Option<Score>,
    /// Score of the program in its trial with the most validation queries.
    #[schema(value_type = Option<serde_json::Value>)]
    validation: Option<Score>,
    /// Whether the program is in the bundle.
    frozen: bool,
    /// Tests of whether the program should replace another one.
    #[schema(value_type = Vec<serde_json::Value>)]
    tests: Vec<Decision>,
}

/// Returns the name of a run: the last part of its directory's path.
pub fn name(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the state of the run in a directory. Reads the whole journal of the run.
pub fn now(dir: &Path) -> Result<RunNow, JournalError> {
    Ok(standing(dir, Record::read(dir)?))
}

fn standing(dir: &Path, record: Record) -> RunNow {
    let timing = Timing::read(dir);
    let times = record.times();
    let done = done(&record);
    let bundle = record.bundle();
    let categories = record.standings(bundle.as_ref());
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
        kinds: record.kinds().into_iter().map(|(kind, n)| (kind.to_owned(), n)).collect(),
        tested,
        accepted,
        programs: record.categories.len(),
        archive,
        categories,
        mrr: bundle.as_ref().map(|bundle| bundle.validation.mrr),
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

/// A run with its programs and latest steps, for the explorer.
#[derive(Serialize)]
pub struct RecordedRun {
    run: RunNow,
    programs: Vec<TriedProgram>,
    /// The latest steps of the run, the last one first.
    steps: Vec<Line>,
}

impl RecordedRun {
    /// Reads the run in a directory, with its first programs and its latest steps, as many as the
    /// explorer shows.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn read(dir: &Path, sources: &Sources) -> Result<RecordedRun, JournalError> {
        let record = Record::read(dir)?;
        let mut steps = Lines::from_record(&record);
        steps.drain(..steps.len().saturating_sub(_STEPS));
        steps.reverse();
        let entries = sources.entries.iter().take(_PROGRAMS);
        let programs = entries.map(|entry| tried(sources, entry)).collect();
        Ok(RecordedRun { run: standing(dir, record), programs, steps })
    }
}

/// Returns the number of finished steps that improved programs or tried to. A resumed run may
/// repeat a step with another program: the journal then holds the step twice, with different
/// suffixes of its key. Such a step counts once.
fn done(record: &Record) -> u64 {
    let steps = record.steps.iter().filter(|step| step.kind == IMPROVEMENT.0);
    let numbers: BTreeSet<&str> = steps.filter_map(|step| step.key.split(' ').next()).collect();
    numbers.len() as u64
}

/// Returns the number of steps that a run plans to improve programs: the steps of the search actor,
/// and for each category the steps of the language model. `categories` is the number of categories.
fn planned(record: &Record, categories: u64) -> Option<u64> {
    let of_model = record.planned_model_steps.map(|each| each.saturating_mul(categories));
    record.planned_steps.map(|planned| planned.saturating_add(of_model.unwrap_or(0)))
}

/// Returns the scores of programs on validation queries over time, and the programs that answer at
/// least one of these queries best.
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

    // By query, the program that answers it best.
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
    // Stable: ties stay ordered by program.
    archive.sort_by_key(|of| Reverse(of.best_on));
    (curve.map(|(_, point)| point).collect(), archive)
}

/// Returns a program of a run with its scores, and with the tests of whether it should replace
/// another one.
pub fn tried(sources: &Sources, entry: &Entry) -> TriedProgram {
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
