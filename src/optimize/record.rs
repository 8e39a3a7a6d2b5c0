//! A run as its journal tells it: what it is, how far it is, what it found and spent; read beside the
//! process that writes it.
//!
//! | file | question it answers |
//! | --- | --- |
//! | `line` | what did one step do |
//! | `programs` | which programs did it try, with which scores, from which others |
//! | `timing` | where did its time go |
//! | `pause` | why does it wait |
//!
//! Must not know how that is shown.

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
    roles::place,
    trial::{TRIAL, Trial},
};
use agent_infer::bundle::Bundle;
use agent_llm::{
    Exchange, Role,
    ledger::{Ceilings, Ledger, Price, Spending},
};

/// The kind of steps that hold tests of changes.
pub const DECISION: &str = "decision";
/// The kind of the step that says that the bundle is frozen.
const BUNDLE: &str = "bundle";
/// The pool on which programs are measured.
const VALIDATION: &str = "validation";
/// Who proposes programs, where a run does not say.
const SEARCH: &str = "search";

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its bundle is frozen.
    Finished,
    /// It can be resumed.
    Interrupted,
    /// Its service gave no answer; it can be resumed.
    Paused,
    /// A process writes it.
    Running,
}

impl State {
    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            State::Finished => "finished",
            State::Interrupted => "interrupted",
            State::Paused => "paused",
            State::Running => "running",
        }
    }
}

/// The program that a category has so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// The category.
    pub category: String,
    /// Id of its program.
    pub program: String,
    /// Validation queries: of a finished run those that are routed to the category, otherwise all.
    pub n: usize,
    /// Mean reciprocal rank on them.
    pub mrr: f64,
}

/// Times of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// When it was begun, seconds since 1970; unknown on systems that do not tell.
    pub begun: Option<u64>,
    /// When the processes that worked at it last noted their times, seconds since 1970.
    pub changed: Option<u64>,
    /// How long they worked, pauses left out; unknown where none noted it.
    pub seconds: Option<u64>,
}

/// What was spent on one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RoleCost {
    /// What the run paid for.
    #[serde(flatten)]
    pub spent: Spending,
    /// Replies that cost the run nothing: they came from the shared cache.
    pub from_cache: u64,
    /// Calls whose tokens the service did not count.
    pub estimated: u64,
}

/// What one role cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfRole {
    /// The role.
    pub role: Role,
    /// What it cost.
    #[serde(flatten)]
    pub cost: RoleCost,
}

/// A run, read at one moment.
pub struct Record {
    /// Its directory.
    pub dir: PathBuf,
    /// Name of its dataset.
    pub dataset: String,
    /// Who proposes programs.
    pub actor: String,
    /// The language model, if one is asked.
    pub model: Option<String>,
    /// Seed of its draws.
    pub seed: Option<u64>,
    /// Steps of mutation that were asked for.
    pub planned: Option<u64>,
    /// Steps of the model in every category that were asked for.
    pub planned_of_model: Option<u64>,
    /// Whether it goes on.
    pub state: State,
    /// The process that writes it.
    pub pid: Option<u32>,
    /// Why its service gave no answer, if it waits for that.
    pub paused: Option<String>,
    /// What was done, in order.
    pub steps: Vec<StepRecord>,
    /// Category by program.
    pub categories: HashMap<String, String>,
    /// Exchanges with their keys, by role in the order of tables, then by key.
    pub exchanges: Vec<(String, Exchange)>,
    prices: BTreeMap<String, Price>,
}

impl Record {
    /// Reads the run in a directory.
    ///
    /// # Errors
    /// That there is none, or that it cannot be read.
    pub fn read(dir: &Path) -> Result<Record, JournalError> {
        let journal = Journal::open_read_only(dir)?;
        let config = journal.config();
        let number = |name: &str| config.get(name).and_then(Value::as_u64);
        let text = |name: &str| config.get(name).and_then(Value::as_str).map(str::to_owned);
        // Asked for before the steps are read, so that a run that ends meanwhile is finished.
        let pid = journal::writer(dir);
        let paused = pause::why(dir).filter(|_| pid.is_none());
        let steps = journal.steps()?;
        let mut exchanges = journal.replies()?.exchanges()?;
        exchanges.sort_by_key(|(_, exchange)| place(&exchange.request.role));
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
            planned: number("steps"),
            planned_of_model: number("llm_steps"),
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

    /// Tests of changes on training queries, in their order.
    pub fn decisions(&self) -> impl Iterator<Item = Decision> {
        self.steps.iter().filter(|step| step.kind == DECISION).filter_map(body)
    }

    /// How many changes were tested, and how many of them were kept.
    pub fn tested_and_accepted(&self) -> (usize, usize) {
        self.decisions().fold((0, 0), |(tested, accepted), decision| {
            (tested + 1, accepted + usize::from(decision.accepted))
        })
    }

    /// Steps by kind.
    pub fn kinds(&self) -> BTreeMap<&str, u64> {
        let mut kinds = BTreeMap::new();
        for step in &self.steps {
            *kinds.entry(step.kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// What was spent, by role in the order of tables.
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
        costs.sort_by_key(|(role, _)| place(role));
        costs
    }

    /// The same, to be told.
    pub fn of_roles(&self) -> Vec<OfRole> {
        self.costs().into_iter().map(|(role, cost)| OfRole { role, cost }).collect()
    }

    /// What was spent by all roles.
    pub fn cost(&self) -> RoleCost {
        self.costs().into_iter().fold(RoleCost::default(), |sum, (_, cost)| RoleCost {
            spent: sum.spent.and(cost.spent),
            from_cache: sum.from_cache + cost.from_cache,
            estimated: sum.estimated + cost.estimated,
        })
    }

    /// The program of every category: of a finished run the frozen one, otherwise the one accepted
    /// last, or the first that was tried on validation.
    pub fn standings(&self) -> Vec<Standing> {
        if self.state == State::Finished
            && let Ok(bundle) = Bundle::read(&self.dir.join(BUNDLE_FILE))
        {
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
        // Category, and its program with its parameters.
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

    /// The category of a program; empty when it says none.
    pub fn category(&self, program: &str) -> &str {
        self.categories.get(program).map_or("", String::as_str)
    }

    /// When it was begun, and how long it took. The times of the database's files tell neither: who
    /// only reads a run changes them.
    pub fn times(&self) -> Times {
        let of = |name: &str| fs::metadata(self.dir.join(name)).ok();
        let seconds = |time: SystemTime| {
            time.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_secs())
        };
        let begun = of(DATABASE_FILE).and_then(|file| seconds(file.created().ok()?));
        let changed = of(TIMES_FILE).and_then(|file| seconds(file.modified().ok()?));
        let worked = changed.map(|_| Timing::read(&self.dir).seconds.round() as u64);
        Times { begun, changed, seconds: worked }
    }
}

/// The result of a step, typed; none when another version wrote it.
pub fn body<T: for<'a> Deserialize<'a>>(step: &StepRecord) -> Option<T> {
    T::deserialize(&step.body).ok()
}

/// The prices that a run was begun with.
fn prices(config: &Value) -> BTreeMap<String, Price> {
    let known = config.get("prices").and_then(|prices| BTreeMap::deserialize(prices).ok());
    known.unwrap_or_default()
}
