//! Reads a run from its journal without changing it: settings, progress, programs and costs.
//! Another process may write the run at the same time.
//!
//! | module | content |
//! | --- | --- |
//! | `line` | summary of one step |
//! | `programs` | programs with their scores and origins |
//! | `timing` | time of each phase |
//! | `pause` | why a run is paused |

pub mod line;
pub mod pause;
pub mod programs;
pub mod timing;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BUNDLE_FILE, Decision,
    journal::{self, DATABASE_FILE, Journal, JournalError, StepRecord},
    record::timing::{TIMES_FILE, Timing},
    roles::position,
    trial::{TRIAL, Trial},
};
use agent_infer::bundle::Bundle;
use agent_llm::{
    Exchange, Role,
    ledger::{Ceilings, Ledger, Price, Spending},
};

/// Kind of journal steps that store a [`Decision`].
pub const DECISION: &str = "decision";
/// Kind of the journal step that is written when the bundle is frozen.
const BUNDLE: &str = "bundle";
/// Name of the pool of validation queries in trials.
const VALIDATION: &str = "validation";
/// The actor of a run whose configuration does not name an actor.
const SEARCH: &str = "search";

/// State of a run: finished, interrupted, paused or running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The run has ended and its bundle is frozen.
    Finished,
    /// No process writes the run, and there is no bundle; the run can be resumed.
    Interrupted,
    /// The run ended because the service of the language model was unavailable; the run can be
    /// resumed.
    Paused,
    /// A process is writing the run.
    Running,
}

impl State {
    /// Returns the name of the state, such as `finished`.
    pub fn name(self) -> &'static str {
        match self {
            State::Finished => "finished",
            State::Interrupted => "interrupted",
            State::Paused => "paused",
            State::Running => "running",
        }
    }
}

/// The current program of a category, with its score on validation queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Name of the category.
    pub category: String,
    /// Id of the category's current program.
    pub program: String,
    /// Number of validation queries behind the score. With a bundle, these are the queries routed
    /// to the category; otherwise the queries of the trial with the most validation queries.
    pub n: usize,
    /// Mean reciprocal rank of the program on these queries.
    pub mrr: f64,
}

/// Start, last update and working time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Start of the run, in seconds since 1970; `None` if the file system does not store the time
    /// of creation.
    pub begun: Option<u64>,
    /// Last update of [`TIMES_FILE`], in seconds since 1970; `None` if there is no such file.
    pub changed: Option<u64>,
    /// Working time without pauses, in seconds; `None` if it was not recorded.
    pub seconds: Option<u64>,
}

/// Cost of the language-model calls of one role, or of all roles together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RoleCost {
    /// Number of the paid calls, their tokens, and their cost in US dollars.
    #[serde(flatten)]
    pub spent: Spending,
    /// Number of replies from the shared cache, which cost nothing.
    pub from_cache: u64,
    /// Number of paid calls whose tokens are estimated, because the service did not count them.
    pub estimated: u64,
}

/// A role with the cost of its language-model calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleCostEntry {
    /// The role, that is, the part of the software that asked a language model.
    pub role: Role,
    /// Cost of the calls of this role.
    #[serde(flatten)]
    pub cost: RoleCost,
}

/// Snapshot of a run, read from its directory.
pub struct Record {
    /// Directory of the run.
    pub dir: PathBuf,
    /// Name of the dataset.
    pub dataset: String,
    /// Comma-separated names of the run's actors, such as `search,llm`.
    pub actor: String,
    /// Name of the language model, if the run has one.
    pub model: Option<String>,
    /// Seed of the run's random choices, if the configuration has one.
    pub seed: Option<u64>,
    /// Requested number of improvement steps of the search actor.
    pub planned_steps: Option<u64>,
    /// Requested number of improvement steps of the llm actor per category.
    pub planned_model_steps: Option<u64>,
    /// Whether the run is finished, interrupted, paused or running.
    pub state: State,
    /// Id of the process that writes the run; `None` if no process does.
    pub pid: Option<u32>,
    /// Why the run is paused; `None` if it is not.
    pub paused: Option<String>,
    /// All steps of the journal, in order of commit.
    pub steps: Vec<StepRecord>,
    /// Name of the category of each program, by the program's id; empty if the program names no
    /// category.
    pub categories: HashMap<String, String>,
    /// Requests to language models with their replies, and the key of each. Sorted by role, in the
    /// order of [`ROLES`](crate::roles::ROLES), then by key.
    pub exchanges: Vec<(String, Exchange)>,
    /// Prices of language models, by model; empty if the configuration has none.
    prices: BTreeMap<String, Price>,
}

impl Record {
    /// Reads the run in a directory, which another process may be writing.
    ///
    /// # Errors
    /// If the directory has no run, or the run's journal cannot be read.
    pub fn read(dir: &Path) -> Result<Record, JournalError> {
        let journal = Journal::open_read_only(dir)?;
        let config = journal.config();
        let number = |name: &str| config.get(name).and_then(Value::as_u64);
        let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_owned);
        // Read before the steps, so that a run that ends meanwhile counts as finished.
        let pid = journal::writer_pid(dir);
        let paused = pause::why(dir).filter(|_| pid.is_none());
        let steps = journal.steps()?;
        let mut exchanges = journal.replies()?.exchanges()?;
        exchanges.sort_by_key(|(_, exchange)| position(&exchange.request.role));
        let finished = steps.iter().any(|step| step.kind == BUNDLE);
        let category = |program: &agent_sandbox::program::Program| {
            (program.id().to_owned(), program.category().unwrap_or_default().to_owned())
        };
        Ok(Record {
            dir: dir.to_owned(),
            dataset: text("dataset").unwrap_or_default(),
            actor: text("actor").unwrap_or_else(|| SEARCH.to_owned()),
            model: text("model"),
            seed: number("seed"),
            planned_steps: number("steps"),
            planned_model_steps: number("llm_steps"),
            state: match (finished, pid, &paused) {
                (_, None, Some(_)) => State::Paused,
                (true, _, _) => State::Finished,
                (false, Some(_), _) => State::Running,
                (false, None, None) => State::Interrupted,
            },
            paused,
            pid,
            categories: journal.programs()?.iter().map(category).collect(),
            exchanges,
            prices: config
                .get("prices")
                .and_then(|prices| BTreeMap::deserialize(prices).ok())
                .unwrap_or_default(),
            steps,
        })
    }

    /// Returns the decisions on changes that were tested on training queries, in order of commit.
    pub fn decisions(&self) -> impl Iterator<Item = Decision> {
        self.steps.iter().filter(|step| step.kind == DECISION).filter_map(body)
    }

    /// Returns the number of changes tested on training queries, and how many of them were
    /// accepted.
    pub fn tested_and_accepted(&self) -> (usize, usize) {
        self.decisions().fold((0, 0), |(tested, accepted), decision| {
            (tested + 1, accepted + usize::from(decision.accepted))
        })
    }

    /// Returns the number of journal steps of each kind.
    pub fn kinds(&self) -> BTreeMap<&str, u64> {
        let mut kinds = BTreeMap::new();
        for step in &self.steps {
            *kinds.entry(step.kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// Returns the cost of each role that asked a language model, in the order of
    /// [`ROLES`](crate::roles::ROLES).
    pub fn role_costs(&self) -> Vec<RoleCostEntry> {
        let ledger = Ledger::new(self.prices.clone(), Ceilings::default());
        let mut costs: BTreeMap<Role, RoleCost> = BTreeMap::new();
        for (_, exchange) in &self.exchanges {
            let role = &exchange.request.role;
            let cost = costs.entry(role.clone()).or_default();
            if exchange.paid {
                ledger.paid(role.clone(), &exchange.request.model, exchange.reply.usage);
                cost.estimated += u64::from(exchange.reply.usage.estimated);
            } else {
                cost.from_cache += 1;
            }
        }
        for (role, spent) in ledger.spent() {
            costs.entry(role).or_default().spent = spent;
        }
        let entries = costs.into_iter().map(|(role, cost)| RoleCostEntry { role, cost });
        let mut entries: Vec<RoleCostEntry> = entries.collect();
        entries.sort_by_key(|entry| position(&entry.role));
        entries
    }

    /// Returns the total cost of all roles.
    pub fn cost(&self) -> RoleCost {
        self.role_costs().iter().fold(RoleCost::default(), |sum, RoleCostEntry { cost, .. }| {
            RoleCost {
                spent: sum.spent.and(cost.spent),
                from_cache: sum.from_cache + cost.from_cache,
                estimated: sum.estimated + cost.estimated,
            }
        })
    }

    /// Reads the frozen bundle of a finished run; `None` if the run is not finished or the bundle
    /// cannot be read.
    pub fn bundle(&self) -> Option<Bundle> {
        let path = self.dir.join(BUNDLE_FILE);
        (self.state == State::Finished).then(|| Bundle::read(&path).ok()).flatten()
    }

    /// Returns the current program of each category: that of `bundle` if given, otherwise the last
    /// accepted program of the category, or else the first program that was tried on validation
    /// queries.
    pub fn standings(&self, bundle: Option<&Bundle>) -> Vec<Standing> {
        if let Some(bundle) = bundle {
            let standing = |category: &agent_infer::bundle::Category| Standing {
                category: category.name.clone(),
                program: category.program.id().to_owned(),
                n: category.validation.as_ref().map_or(0, |score| score.n),
                mrr: category.validation.as_ref().map_or(0.0, |score| score.mrr),
            };
            return bundle.categories.iter().map(standing).collect();
        }
        // Categories, each with its program and parameters.
        let mut chosen: Vec<(String, (String, String))> = Vec::new();
        let mut scores: HashMap<(String, String), (usize, f64)> = HashMap::new();
        for step in &self.steps {
            if step.kind == TRIAL
                && let Some(trial) = body::<Trial>(step)
                && trial.pool == VALIDATION
            {
                let program = (trial.program.clone(), format!("{:?}", trial.params));
                let category = self.category(&trial.program).to_owned();
                let score = scores.entry(program.clone()).or_insert((0, 0.0));
                if trial.queries.len() >= score.0 {
                    *score = (trial.queries.len(), trial.mrr());
                }
                if !chosen.iter().any(|(name, _)| *name == category) {
                    chosen.push((category, program));
                }
            } else if step.kind == DECISION
                && let Some(decision) = body::<Decision>(step)
                && decision.accepted
            {
                let program = (decision.to, format!("{:?}", decision.params));
                match chosen.iter_mut().find(|(name, _)| *name == decision.category) {
                    Some(found) => found.1 = program,
                    None => chosen.push((decision.category, program)),
                }
            }
        }
        let standing = |(category, program): (String, (String, String))| {
            let (n, mrr) = scores.get(&program).copied().unwrap_or((0, 0.0));
            Standing { category, program: program.0, n, mrr }
        };
        chosen.into_iter().map(standing).collect()
    }

    /// Returns the name of the category of the program with this id; empty if the program names
    /// none.
    pub fn category(&self, program: &str) -> &str {
        self.categories.get(program).map_or("", String::as_str)
    }

    /// Returns the start, the last update and the working time of the run. The modification times
    /// of the database files are not used, because readers change them.
    pub fn times(&self) -> Times {
        let metadata = |name: &str| fs::metadata(self.dir.join(name)).ok();
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
        };
        let begun = metadata(DATABASE_FILE).and_then(|file| seconds(file.created().ok()?));
        let changed = metadata(TIMES_FILE).and_then(|file| seconds(file.modified().ok()?));
        let worked = changed.map(|_| Timing::read(&self.dir).seconds.round() as u64);
        Times { begun, changed, seconds: worked }
    }
}

/// Decodes the result of a journal step; `None` if the result is not a `T`, as in a run of another
/// version.
pub fn body<T: for<'a> Deserialize<'a>>(step: &StepRecord) -> Option<T> {
    T::deserialize(&step.body).ok()
}
