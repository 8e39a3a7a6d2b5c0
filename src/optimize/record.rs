//! Read-only view of a run from its journal: settings, progress, programs and costs. Another
//! process may write the run at the same time.
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

/// Kind of steps with a [`Decision`].
pub const DECISION: &str = "decision";
/// Kind of the step that marks the bundle as frozen.
const BUNDLE: &str = "bundle";
/// Name of the validation pool.
const VALIDATION: &str = "validation";
/// Actor of runs whose configuration does not name one.
const SEARCH: &str = "search";

/// State of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The bundle is frozen.
    Finished,
    /// The run ended early; it can be resumed.
    Interrupted,
    /// The service of the language model was unavailable; the run can be resumed.
    Paused,
    /// A process is writing the run.
    Running,
}

impl State {
    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            State::Finished => "finished",
            State::Interrupted => "interrupted",
            State::Paused => "paused",
            State::Running => "running",
        }
    }
}

/// The current program of a category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The category.
    pub category: String,
    /// Id of the category's program.
    pub program: String,
    /// Number of validation queries: those routed to the category if there is a bundle, otherwise
    /// those of the program's largest trial.
    pub n: usize,
    /// Mean reciprocal rank on these queries.
    pub mrr: f64,
}

/// Times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Start of the run, seconds since 1970; `None` if the file system does not store it.
    pub begun: Option<u64>,
    /// Last update of the times file, seconds since 1970.
    pub changed: Option<u64>,
    /// Working time without pauses, seconds; `None` if it was not recorded.
    pub seconds: Option<u64>,
}

/// Cost of one role, or of all roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RoleCost {
    /// Cost of paid calls.
    #[serde(flatten)]
    pub spent: Spending,
    /// Number of replies from the shared cache, which cost nothing.
    pub from_cache: u64,
    /// Number of calls whose tokens are estimated, because the service did not count them.
    pub estimated: u64,
}

/// Cost of a role, with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoleCostEntry {
    /// The role.
    pub role: Role,
    /// Cost of the role.
    #[serde(flatten)]
    pub cost: RoleCost,
}

/// Snapshot of a run.
pub struct Record {
    /// Directory of the run.
    pub dir: PathBuf,
    /// Name of the dataset.
    pub dataset: String,
    /// Names of the actors, comma-separated.
    pub actor: String,
    /// The language model, if any.
    pub model: Option<String>,
    /// Seed of the run.
    pub seed: Option<u64>,
    /// Requested steps of the search actor.
    pub planned_steps: Option<u64>,
    /// Requested steps of the llm actor per category.
    pub planned_model_steps: Option<u64>,
    /// State of the run.
    pub state: State,
    /// Id of the process that writes the run.
    pub pid: Option<u32>,
    /// Why the run is paused.
    pub paused: Option<String>,
    /// All steps, in order.
    pub steps: Vec<StepRecord>,
    /// Category by id of a program.
    pub categories: HashMap<String, String>,
    /// Exchanges with their keys, by role in the order of `ROLES`, then by key.
    pub exchanges: Vec<(String, Exchange)>,
    prices: BTreeMap<String, Price>,
}

impl Record {
    /// Reads the run in a directory.
    ///
    /// # Errors
    /// If there is no run, or it cannot be read.
    pub fn read(dir: &Path) -> Result<Record, JournalError> {
        let journal = Journal::open_read_only(dir)?;
        let config = journal.config();
        let number = |name: &str| config.get(name).and_then(Value::as_u64);
        let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_owned);
        // Before the steps, so that a run that ends meanwhile counts as finished.
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
            prices: prices(config),
            steps,
        })
    }

    /// Returns the tests of changes on training queries, in order of commit.
    pub fn decisions(&self) -> impl Iterator<Item = Decision> {
        self.steps.iter().filter(|step| step.kind == DECISION).filter_map(body)
    }

    /// Returns the number of tested changes and of accepted changes.
    pub fn tested_and_accepted(&self) -> (usize, usize) {
        self.decisions().fold((0, 0), |(tested, accepted), decision| {
            (tested + 1, accepted + usize::from(decision.accepted))
        })
    }

    /// Counts the steps by kind.
    pub fn kinds(&self) -> BTreeMap<&str, u64> {
        let mut kinds = BTreeMap::new();
        for step in &self.steps {
            *kinds.entry(step.kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// Returns the cost by role, in the order of `ROLES`.
    pub fn costs(&self) -> Vec<(Role, RoleCost)> {
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
        let mut costs: Vec<(Role, RoleCost)> = costs.into_iter().collect();
        costs.sort_by_key(|(role, _)| position(role));
        costs
    }

    /// Returns [`Record::costs`] in serializable form.
    pub fn role_costs(&self) -> Vec<RoleCostEntry> {
        self.costs().into_iter().map(|(role, cost)| RoleCostEntry { role, cost }).collect()
    }

    /// Returns the total cost of all roles.
    pub fn cost(&self) -> RoleCost {
        self.costs().into_iter().fold(RoleCost::default(), |sum, (_, cost)| RoleCost {
            spent: sum.spent.and(cost.spent),
            from_cache: sum.from_cache + cost.from_cache,
            estimated: sum.estimated + cost.estimated,
        })
    }

    /// Reads the frozen bundle of a finished run; `None` if it cannot be read.
    pub fn bundle(&self) -> Option<Bundle> {
        let finished = self.state == State::Finished;
        finished.then(|| Bundle::read(&self.dir.join(BUNDLE_FILE)).ok()).flatten()
    }

    /// Returns the program of each category: the bundle's if there is one, otherwise the last
    /// accepted program, or else the first one tried on validation queries.
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
        self.standings_so_far()
    }

    fn standings_so_far(&self) -> Vec<Standing> {
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

    /// Returns the category of a program; empty if the program does not name one.
    pub fn category(&self, program: &str) -> &str {
        self.categories.get(program).map_or("", String::as_str)
    }

    /// Returns the start, the last update and the working time. The database's modification times
    /// are not used, because readers change them.
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

/// Decodes the result of a step; `None` if it has another type, as from another version.
pub fn body<T: for<'a> Deserialize<'a>>(step: &StepRecord) -> Option<T> {
    T::deserialize(&step.body).ok()
}

/// Reads the prices in the configuration of a run; empty if there are none.
fn prices(config: &Value) -> BTreeMap<String, Price> {
    let known = config.get("prices").and_then(|prices| BTreeMap::deserialize(prices).ok());
    known.unwrap_or_default()
}
