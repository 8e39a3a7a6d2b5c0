//! The optimizer: finds a program for each category of queries, tests the programs on validation
//! queries, and freezes the result in a bundle.
//!
//! ```text
//! search actor: mine metapaths -> shortlist plans -> trials on training queries -> categories
//! llm actor:    find categories -> assign queries -> write programs -> repair, try, tune
//!    -> steps: change a category's best program by an operator or by a model's rewrite; keep a
//!       change that improves training queries
//!    -> tune parameters -> sequential test of the changes on validation -> router -> bundle
//! ```
//!
//! The search actor needs no language model. The result of a run depends only on the base, the
//! training and validation queries, the seed, the options and the model's replies. Trials and
//! replies are stored in a journal, so that an interrupted run can be resumed and ends in the same
//! bundle. The optimizer never reads answers of the test split.

pub mod ablation;
mod accept;
mod actor;
mod archive;
pub mod asks;
mod bandit;
mod category_programs;
pub mod cutoff;
pub mod discover;
pub mod e_value;
pub mod fallback;
mod first_better;
pub mod foreign;
mod freeze;
mod gate;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
mod improve;
pub mod journal;
pub mod leak;
mod lexicon;
pub mod mine;
pub mod mutate;
pub mod plan;
pub mod reading;
pub mod record;
pub mod reranker;
pub mod roles;
pub mod route;
mod search;
mod sequential_test;
mod softmax;
pub mod trial;
pub mod tune;
pub mod user;
pub mod verdict;
pub mod wording;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tracing::info_span;

pub use crate::{
    ablation::Ablation,
    accept::Decision,
    actor::{ACTOR_ROLE, Attempt, Categories, CategoryRecord, Estimate, Range, estimate},
    first_better::{Milestone, Scope},
    freeze::category_score,
    improve::Choice,
    verdict::{Standing, Verdict},
};
use crate::{
    actor::{Actor, LLM},
    archive::ArchivedProgram,
    asks::Allowance,
    category_programs::CategoryProgram,
    discover::Bound,
    first_better::FirstBetter,
    freeze::{FinalPrograms, Routing},
    improve::InitialPrograms,
    journal::{Journal, JournalError},
    leak::ForbiddenWords,
    plan::Plan,
    trial::{Evaluators, Origin, Pool, Trials},
    user::UserProgram,
};
use agent_dataset::LabelledQuery;
use agent_index::{IndexError, IndexedBase};
use agent_infer::{
    ParamValues, Runtime,
    bundle::{Bundle, BundleError, Proof, SEARCH},
};
use agent_kb::Kb;
use agent_llm::{LlmError, prompts::PromptError};
use agent_retrieve::{RetrieveError, eval::statistics::StatisticsError};
use agent_sandbox::{Failure, SandboxOptions, Workers, program::Program};
use agent_tools::{Assistant, ToolCache, ToolkitScope};

/// Size in bytes of the cache of tool calls.
const CACHE_BYTES: usize = 2 << 30;
/// Name of the frozen bundle's file in the run's directory.
pub const BUNDLE_FILE: &str = "bundle.json";

/// Settings of an optimizer run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Name of the dataset; the bundle stores this name.
    pub dataset: String,
    /// Seed of all random choices of the run.
    pub seed: u64,
    /// Number of improvement steps of the search actor.
    pub steps: usize,
    /// Number of improvement steps of the llm actor per category.
    pub llm_steps: usize,
    /// Maximum number of steps of mined metapaths: 2 or [`mine::MAX_HOPS`].
    pub hops: usize,
    /// Actors that propose programs.
    pub actors: Actors,
    /// Whether programs of the llm actor may call tools that ask a language model, in at most
    /// [`asks::max_runs`] program runs. A bundle with such programs needs a model to answer
    /// questions.
    pub llm_tools: bool,
    /// Whether prompts list the functions of the AvaTaR tool API; programs may call these functions
    /// in any case.
    pub avatar_tools: bool,
    /// Programs of the user that the run tries, at most [`user::MAX_USER_PROGRAMS`].
    pub programs: Vec<UserProgram>,
    /// Where the sandbox runs programs and stores compiled code; does not change the result.
    #[serde(skip)]
    pub sandbox: SandboxOptions,
    /// Parts of the optimizer that are disabled, ascending, without duplicates.
    pub without: Vec<Ablation>,
    /// Wall time, from the start of the run or its resumption, after which no further step starts;
    /// the best programs so far are then frozen. `None` for no limit.
    pub budget: Option<Duration>,
}

impl Options {
    /// Whether a part of the optimizer is disabled.
    pub(crate) fn lacks(&self, part: Ablation) -> bool {
        self.without.contains(&part)
    }

    /// Returns the number of improvement steps of the llm actor per category; 0 if
    /// [`Ablation::Steps`] is disabled.
    pub(crate) fn model_steps(&self) -> usize {
        if self.lacks(Ablation::Steps) { 0 } else { self.llm_steps }
    }

    /// Returns which groups of tools the prompts list; `query` states whether the base has a query
    /// language.
    pub(crate) fn listed_tools(&self, query: bool) -> ToolkitScope {
        ToolkitScope { avatar: self.avatar_tools, llm: self.llm_tools, query }
    }
}

/// The actors that propose programs; at least one of them is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actors {
    /// The search actor, which mines metapaths, mutates plans and tunes parameters; needs no
    /// language model.
    pub search: bool,
    /// The llm actor, which asks a language model to write programs.
    pub llm: bool,
}

impl Actors {
    /// Returns the comma-separated names of the actors, such as `search,llm`.
    pub fn names(self) -> String {
        let actors = [(self.search, SEARCH), (self.llm, LLM)].into_iter();
        actors.filter(|actor| actor.0).map(|actor| actor.1).collect::<Vec<_>>().join(",")
    }

    /// Parses comma-separated names, as [`Actors::names`] returns them; `None` if a name is
    /// unknown.
    pub fn named(names: &str) -> Option<Actors> {
        let has = |actor| names.split(',').any(|name| name == actor);
        let are_known = names.split(',').all(|name| [SEARCH, LLM].contains(&name));
        are_known.then(|| Actors { search: has(SEARCH), llm: has(LLM) })
    }
}

/// Result of a function that may end a run.
pub type Result<T, E = OptimizeError> = std::result::Result<T, E>;

/// Error that ends a run without a bundle.
#[derive(Debug, thiserror::Error)]
pub enum OptimizeError {
    /// The caller asked the run to stop; the journal keeps all completed steps.
    #[error("stopped; all completed steps are saved: continue with --resume")]
    Stopped,
    /// The training or the validation split has no queries; holds the split's description and the
    /// name of its file.
    #[error("the dataset has no {0} queries; add them to qa.csv and split/{1}.index")]
    NoQueries(&'static str, &'static str),
    /// The run in this directory was started with other options, other queries or another base;
    /// holds the directory and the differences.
    #[error(
        "the run in {0} was started with {1}; resume it with the same settings, or start another run with --run DIR"
    )]
    OtherRun(String, String),
    /// A program does not compile or run; holds its short id and the failure.
    #[error("program {0} does not run: {1}")]
    Program(String, Box<Failure>),
    /// The worker threads of the sandbox could not be started.
    #[error("cannot start worker threads: {0}")]
    Workers(std::io::Error),
    /// The journal of the run could not be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An index of the base could not be used.
    #[error(transparent)]
    Index(IndexError),
    /// A search in the base failed.
    #[error(transparent)]
    Retrieve(RetrieveError),
    /// A statistic, such as a confidence interval, could not be computed.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// The bundle could not be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The run reached the maximum number of sequential tests; holds this maximum.
    #[error(
        "the run has reached the limit of {0} sequential tests; start another run with --run DIR"
    )]
    SequentialTests(usize),
    /// A prompt for the language model cannot be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A language model gave no reply.
    #[error(transparent)]
    Llm(LlmError),
    /// The service of the language model does not answer the first short request of a run.
    #[error("the language model does not answer: {0}")]
    NoService(LlmError),
    /// The llm actor was requested, but no language model is configured.
    #[error("no LLM configured; the llm actor needs one")]
    NoLlm,
}

impl OptimizeError {
    /// Whether the service of the language model was unavailable; the run can be resumed once the
    /// service answers.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::NoService(_)) || matches!(self, Self::Llm(error) if error.is_outage())
    }
}

impl From<LlmError> for OptimizeError {
    fn from(error: LlmError) -> Self {
        if matches!(error, LlmError::Stopped) { Self::Stopped } else { Self::Llm(error) }
    }
}

impl From<RetrieveError> for OptimizeError {
    fn from(error: RetrieveError) -> Self {
        match error {
            RetrieveError::Llm(error) => error.into(),
            other => Self::Retrieve(other),
        }
    }
}

impl From<IndexError> for OptimizeError {
    fn from(error: IndexError) -> Self {
        if matches!(error, IndexError::Stopped) { Self::Stopped } else { Self::Index(error) }
    }
}

/// Event that a run reports to its caller: progress, or a result so far.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Progress of a phase of the run.
    Progress {
        /// Name of the phase, such as `trying plans`.
        phase: &'static str,
        /// Number of completed units of the phase, such as plans.
        done: usize,
        /// Total number of units of the phase.
        total: usize,
    },
    /// A category was found, and has its first program.
    Category {
        /// Name of the category.
        name: &'a str,
        /// Number of training queries of the category.
        n: usize,
        /// Mean reciprocal rank of the category's program on these queries.
        mrr: f64,
        /// The best scores that the program's metapaths can reach on these queries; `None` if the
        /// program was not composed from metapaths.
        bound: Option<Bound>,
    },
    /// A message for the user.
    Message(String),
    /// A change was tested on the training queries of its category.
    Tested(&'a Decision),
    /// One program, or all programs together, beat every baseline on training queries for the first
    /// time.
    Milestone(&'a Milestone),
    /// The accepted changes were tested on validation queries, with this result.
    SequentialTest(&'a Proof),
}

/// Result of an optimizer run.
#[derive(Debug)]
pub struct Outcome {
    /// The frozen bundle.
    pub bundle: Bundle,
    /// Comparison of the bundle with the best baseline on validation queries.
    pub verdict: Verdict,
    /// Why the run stopped improving programs.
    pub stopped: Stop,
    /// Numbers of tool calls that the cache answered (hits) and did not answer (misses).
    pub cache: (u64, u64),
    /// The part of [`Outcome::cache`] that comes from tuning of parameters.
    pub tuning_cache: (u64, u64),
}

/// Why a run stopped improving programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All improvement steps were done.
    Done,
    /// The time budget of the run was used up.
    Minutes,
    /// The next request to the language model could have exceeded a cost ceiling, or its price is
    /// unknown. Holds the message.
    Budget(String),
    /// Too many consecutive replies of the language model were unusable; the best programs so far
    /// are frozen. Holds the message.
    Unusable(String),
}

impl Stop {
    /// Returns the reason's name in output that scripts read, such as `done`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Minutes => "minutes",
            Self::Budget(_) => "budget",
            Self::Unusable(_) => "unusable",
        }
    }
}

/// State of an optimizer run.
struct Run<'a> {
    base: Arc<IndexedBase>,
    options: &'a Options,
    train: Pool,
    validation: Pool,
    trials: Trials<'a>,
    /// Words that text literals of programs written by a model must not contain.
    forbidden: ForbiddenWords,
    /// Number of program runs that may still ask a language model.
    allowance: Allowance,
    cache: Arc<ToolCache>,
    /// Numbers of tool calls during tuning that the cache answered (hits) and did not answer
    /// (misses).
    tuning_cache: (u64, u64),
    watch: &'a mut dyn FnMut(Event<'_>),
    started: Instant,
    first_better: FirstBetter,
}

/// Inputs of [`run`].
pub struct Inputs<'a> {
    /// The base, with its indexes, that the programs search.
    pub base: Arc<IndexedBase>,
    /// The language model, if one is configured.
    pub assistant: Option<Arc<Assistant>>,
    /// Training queries: programs are found and tuned on them.
    pub train: Vec<LabelledQuery>,
    /// Validation queries, for the sequential test and the choice of the bundle's programs.
    pub validation: Vec<LabelledQuery>,
    /// Settings of the run.
    pub options: &'a Options,
    /// Directory of the run, to which the bundle is written.
    pub dir: &'a Path,
    /// The journal of the run, new or resumed. A resumed run must have the same base, options and
    /// queries as before.
    pub journal: &'a mut Journal,
    /// Maximum number of programs that run in parallel.
    pub threads: usize,
    /// Other processes that run programs, if any; they do not change the bundle.
    pub evaluators: Option<&'a dyn Evaluators>,
    /// Function that receives every event of the run.
    pub watch: &'a mut dyn FnMut(Event<'_>),
    /// Counter to which the run adds the milliseconds that the llm actor waits for replies of the
    /// model.
    pub waited: Arc<AtomicU64>,
    /// Flag that the caller sets to stop the run.
    pub stop: &'a Arc<AtomicBool>,
}

/// Runs the optimizer: finds and improves programs for a base, and freezes the best into
/// `dir/bundle.json`.
///
/// Unless a time budget ends the run, the bundle does not depend on the number of threads or on
/// interruptions.
///
/// # Errors
/// Any [`OptimizeError`]; the journal keeps all completed steps.
pub fn run(inputs: Inputs<'_>) -> Result<Outcome> {
    let Inputs { base, assistant, train, validation, options, dir, journal, threads, .. } = inputs;
    let Inputs { evaluators, watch, waited, stop, .. } = inputs;
    check_queries(&train, &validation)?;
    let _span = info_span!("run", dataset = options.dataset, seed = options.seed).entered();
    let workers = Arc::new(Workers::new(threads).map_err(OptimizeError::Workers)?);
    let cache_bytes = if options.lacks(Ablation::Cache) { 0 } else { CACHE_BYTES };
    let cache = Arc::new(ToolCache::new(cache_bytes));
    let runtime = || {
        let cached = Some(cache.clone());
        Runtime::in_sandbox(base.clone(), workers.clone(), cached, &options.sandbox)
            .stoppable(stop.clone())
    };
    let asking = runtime()
        .with_assistant(assistant.clone().filter(|_| options.llm_tools))
        .asking_at_most(asks::REQUESTS_PER_RUN, asks::TOKENS_PER_RUN);
    let forbidden = forbidden_words(&base.kb, &train, &validation);
    let allowance = Allowance::new(validation.len());
    let mut run = Run {
        base: base.clone(),
        options,
        train: Pool::new("train", train),
        validation: Pool::new("validation", validation),
        trials: Trials {
            runtime: Arc::new(asking),
            offline: Arc::new(runtime()),
            journal,
            stop,
            evaluators,
        },
        forbidden,
        allowance,
        cache,
        tuning_cache: (0, 0),
        watch,
        started: Instant::now(),
        first_better: FirstBetter::default(),
    };
    let mut actor = match (options.actors.llm, assistant) {
        (false, _) => None,
        (true, None) => return Err(OptimizeError::NoLlm),
        (true, Some(assistant)) => Some(Actor::new(assistant, waited, &run)),
    };
    run.check_same_run(dir, actor.as_ref())?;
    let mut questions = BTreeMap::new();
    if let Some(actor) = &mut actor {
        run.report_phase("asking the model");
        actor.greet()?;
        questions = run.write_questions(actor)?;
    }
    run.report_phase("reading queries");
    let features = freeze::PoolFeatures::new(&run, lexicon::phrasings(&run.base, questions))?;
    let start = run.initial_programs(actor.as_mut())?;
    let (search_count, initial) = (start.search_count, start.categories.clone());
    run.report_phase("training the router");
    let routing = Routing::new(&features, &initial);
    run.compare_together(&routing.train, &initial)?;
    let (categories, stopped) = run.improve(start, actor.as_mut())?;
    run.compare_together(&routing.train, &categories)?;
    run.report_phase("testing on validation");
    let routed = initial.iter().zip(&routing.validation);
    let assigned = |(category, routed): (&CategoryProgram, &Vec<usize>)| {
        category.queries.as_ref().map_or(routed, |queries| &queries.validation).clone()
    };
    let routed: Vec<_> = routed.map(assigned).collect();
    let test = run.run_sequential_test(&initial, categories, &routed)?;
    let finished = FinalPrograms { search_count, initial, test };
    let (bundle, verdict) = freeze::freeze(&mut run, &finished, &features, actor.as_ref())?;
    bundle.write(&dir.join(BUNDLE_FILE))?;
    // A resumed run may freeze the same bundle and end for another reason.
    let key = format!("{} {}", bundle.digest, stopped.name());
    run.trials.journal.commit("bundle", &key, &stopped.name(), &[])?;
    let (cache, tuning_cache) = (run.cache.hits_and_misses(), run.tuning_cache);
    Ok(Outcome { bundle, verdict, stopped, cache, tuning_cache })
}

/// Checks that there are training queries and validation queries.
///
/// # Errors
/// [`OptimizeError::NoQueries`] if one of the lists is empty.
pub fn check_queries(train: &[LabelledQuery], validation: &[LabelledQuery]) -> Result<()> {
    match (train.is_empty(), validation.is_empty()) {
        (true, _) => Err(OptimizeError::NoQueries("training", "train")),
        (_, true) => Err(OptimizeError::NoQueries("validation", "val")),
        _ => Ok(()),
    }
}

/// Collects the words that programs must not contain: names and ids of the answers of all training
/// and validation queries, and words that occur in only one of these queries.
fn forbidden_words(
    kb: &Kb,
    train: &[LabelledQuery],
    validation: &[LabelledQuery],
) -> ForbiddenWords {
    let queries = || train.iter().chain(validation);
    let ids: Vec<String> =
        queries().flat_map(|query| &query.answers).map(ToString::to_string).collect();
    let names = queries().flat_map(|query| &query.answers).map(|&answer| kb.name(answer));
    let schema = kb.types().iter().chain(kb.relations()).chain(kb.field_names());
    ForbiddenWords::new(
        queries().map(|query| query.text.as_str()),
        names.chain(ids.iter().map(String::as_str)),
        schema.map(String::as_str),
    )
}

impl Run<'_> {
    /// Reports a message for the user.
    fn report(&mut self, message: String) {
        (self.watch)(Event::Message(message));
    }

    /// Reports the start of a phase whose length is unknown.
    fn report_phase(&mut self, phase: &'static str) {
        (self.watch)(Event::Progress { phase, done: 0, total: 1 });
    }

    /// Fails unless the journal in `dir` belongs to a run with this base, these queries and these
    /// options; a new journal stores them.
    fn check_same_run(&mut self, dir: &Path, actor: Option<&Actor>) -> Result<()> {
        let mut identity = serde_json::json!({
            "index": self.base.fingerprint(),
            "train": self.train.digest,
            "validation": self.validation.digest,
            "seed": self.options.seed,
            "steps": self.options.steps,
        });
        if !self.options.without.is_empty() {
            identity["without"] = serde_json::json!(self.options.without);
        }
        if self.options.hops != mine::DEFAULT_HOPS {
            identity["hops"] = self.options.hops.into();
        }
        if !self.options.programs.is_empty() {
            identity["programs"] = user::digest(&self.options.programs).into();
        }
        if let Some(actor) = actor {
            identity["llm"] = actor.identity(self.options);
        }
        let own = || Ok::<_, JournalError>((identity.clone(), Vec::new()));
        let stored = self.trials.journal.step("run", "identity", own)?;
        if stored == identity {
            return Ok(());
        }
        let value = |part: &str| format!("{part} {}", stored[part]);
        let parts = [
            ("index", "another base or index".to_owned()),
            ("train", "other training queries".to_owned()),
            ("validation", "other validation queries".to_owned()),
            ("seed", value("seed")),
            ("steps", value("steps")),
            ("hops", "another maximum metapath length (--hops)".to_owned()),
            ("without", "other disabled parts".to_owned()),
            ("programs", user::OTHER_PROGRAMS.to_owned()),
            ("llm", "other actors, models, model settings or prompts".to_owned()),
        ];
        let differs = |(part, _): &(&str, String)| stored.get(part) != identity.get(part);
        let parts: Vec<String> = parts.into_iter().filter(differs).map(|(_, text)| text).collect();
        Err(OptimizeError::OtherRun(dir.display().to_string(), parts.join(", ")))
    }

    /// Runs a trial of a program on training queries, given as positions; returns the reciprocal
    /// ranks in the same order.
    fn trial(
        &mut self,
        program: &Program,
        params: &ParamValues,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<Vec<f32>> {
        let trial = self.trials.run(program, params, &self.train, queries, origin)?;
        self.compare(Scope::Program, queries, &trial.reciprocal_ranks)?;
        Ok(trial.reciprocal_ranks)
    }

    /// Runs a trial of a program on the training queries in `part` (positions), or on all if it is
    /// `None`, and returns a category with this program.
    fn category_program(
        &mut self,
        plan: Option<Plan>,
        program: Program,
        params: ParamValues,
        part: Option<Vec<usize>>,
        origin: &Origin,
    ) -> Result<CategoryProgram> {
        let n = self.train.queries.len();
        let queries = part.clone().unwrap_or_else(|| (0..n).collect());
        let ranks = self.trial(&program, &params, &queries, origin)?;
        let (train, proposed_by) = (self.on_training(&queries, &ranks), origin.proposed_by.clone());
        let (name, queries) = (None, None);
        Ok(CategoryProgram { plan, program, params, proposed_by, name, queries, train, part })
    }

    /// Returns the reciprocal rank on each training query: the value in `ranks` for the queries in
    /// `queries` (positions), 0 for all others.
    fn on_training(&self, queries: &[usize], ranks: &[f32]) -> Vec<f32> {
        let mut train = vec![0.0; self.train.queries.len()];
        queries.iter().zip(ranks).for_each(|(&query, &rank)| train[query] = rank);
        train
    }

    /// Finds the categories and the first program of each.
    fn initial_programs(&mut self, actor: Option<&mut Actor>) -> Result<InitialPrograms> {
        let mut initial = match self.options.actors.search {
            true => self.discover()?,
            false => {
                let categories = self.programs_of_user()?;
                InitialPrograms { categories, ..InitialPrograms::default() }
            }
        };
        if let Some(actor) = actor {
            initial.challengers = self.write_programs(actor, &mut initial.categories)?;
        }
        for category in initial.categories.iter().cloned() {
            let change = "the category's first program".to_owned();
            initial.archive.add(ArchivedProgram { category, change, is_complete: true });
        }
        Ok(initial)
    }
}
