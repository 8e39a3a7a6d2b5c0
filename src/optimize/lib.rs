//! The loop: finds programs for categories of queries, proves them on validation, freezes them.
//!
//! ```text
//! search actor: mine metapaths -> shortlist plans -> trials on training queries -> categories
//! llm actor:    find categories -> put queries into them -> write programs -> mend, try, tune
//!    -> steps: change a category's best program by an operator or by a model's rewrite; keep what
//!       training queries speak for
//!    -> tune parameters -> sequential test of the changes on validation -> router -> bundle
//! ```
//!
//! The search actor needs no language model. Everything is a function of the base, the two pools,
//! the seed, the options and the model's replies; trials and replies are kept in a journal, so that
//! an interrupted run goes on where it was and ends in the same bundle.
//!
//! Must not know: answers of the test split, how programs are run, how models are asked.

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
mod freeze;
mod gate;
#[cfg(test)]
#[path = "../../tests/it/support/given.rs"]
mod given;
mod improve;
pub mod journal;
pub mod leak;
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
pub mod trial;
pub mod tune;
pub mod user;
pub mod verdict;
pub mod wording;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tracing::info_span;

pub use crate::{
    ablation::Ablation,
    accept::Decision,
    actor::{ACTOR_ROLE, Attempt, Categories, CategoryFound, Estimate, Range, estimate},
    first_better::{Better, What},
    improve::Choice,
    verdict::{Standing, Verdict},
};
use crate::{
    actor::{Actor, LLM},
    archive::Archived,
    asks::Allowance,
    category_programs::CategoryProgram,
    discover::Bound,
    first_better::FirstBetter,
    freeze::{Finished, Routing},
    improve::Begun,
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

/// Memory for answers of tool calls, bytes.
const CACHE_BYTES: usize = 2 << 30;
/// File of the frozen bundle in the run's directory.
pub const BUNDLE_FILE: &str = "bundle.json";

/// What a run depends on, beside base and queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Name of the dataset, for the bundle.
    pub dataset: String,
    /// Seed of every random choice.
    pub seed: u64,
    /// Steps of improvement by the search actor.
    pub steps: usize,
    /// Steps of improvement by a language model in every category.
    pub llm_steps: usize,
    /// Steps of the longest metapath that is mined, 2 or [`mine::MAX_HOPS`].
    pub hops: usize,
    /// Who proposes programs.
    pub actors: Actors,
    /// Whether programs of the model may call tools that ask one, within [`asks::most_runs`]; a bundle
    /// of such programs needs one too.
    pub llm_tools: bool,
    /// Whether models are told of the functions of the AvaTaR tool API; programs may always call
    /// them.
    pub avatar_tools: bool,
    /// Programs that the user brings, at most [`user::MAX_USER_PROGRAMS`].
    pub programs: Vec<UserProgram>,
    /// Where programs run; the result does not depend on it.
    #[serde(skip)]
    pub sandbox: SandboxOptions,
    /// Parts that are left out, ascending, each once.
    pub without: Vec<Ablation>,
    /// Wall time after which no further step is begun; the best so far is frozen.
    pub budget: Option<Duration>,
}

impl Options {
    /// The tools that models are told of; `query` says whether the base has a query language.
    pub(crate) fn told(&self, query: bool) -> ToolkitScope {
        ToolkitScope { avatar: self.avatar_tools, llm: self.llm_tools, query }
    }
}

/// Who proposes programs; at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actors {
    /// Mines, mutates and tunes; needs no language model.
    pub search: bool,
    /// Asks a language model.
    pub llm: bool,
}

impl Actors {
    /// Their names, such as `search,llm`.
    pub fn names(self) -> String {
        let named = [(self.search, SEARCH), (self.llm, LLM)];
        named.into_iter().filter(|one| one.0).map(|one| one.1).collect::<Vec<_>>().join(",")
    }

    /// The actors of [`Actors::names`]; none if a name is not known or there is none.
    pub fn named(names: &str) -> Option<Actors> {
        let mut actors = Actors { search: false, llm: false };
        for name in names.split(',') {
            match name {
                SEARCH => actors.search = true,
                LLM => actors.llm = true,
                _ => return None,
            }
        }
        Some(actors)
    }
}

/// Why a run ended without a bundle.
#[derive(Debug, thiserror::Error)]
pub enum OptimizeError {
    /// The caller asked to stop; everything done so far is kept.
    #[error("stopped; everything done so far is kept: go on with --resume")]
    Stopped,
    /// A pool is empty.
    #[error("the dataset has no {0} queries; add them to qa.csv and split/{1}.index")]
    NoQueries(&'static str, &'static str),
    /// The run was begun with other options, queries or another base.
    #[error(
        "the run in {0} was begun with {1}; resume it with the same, or start another with --run DIR"
    )]
    OtherRun(String, String),
    /// A program does not run.
    #[error("program {0} does not run: {1}")]
    Program(String, Box<Failure>),
    /// The worker threads could not be started.
    #[error("cannot start worker threads: {0}")]
    Workers(std::io::Error),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An index failed.
    #[error(transparent)]
    Index(IndexError),
    /// A query cannot be searched.
    #[error(transparent)]
    Retrieve(RetrieveError),
    /// A statistic cannot be computed.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// The bundle could not be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The run was continued and tested too often.
    #[error("the run holds {0} sequential tests, the limit; start another with --run DIR")]
    SequentialTests(usize),
    /// A prompt cannot be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// A model gave no reply, and the run cannot go on without it.
    #[error(transparent)]
    Llm(LlmError),
    /// What is at the address of the service does not even answer one short question.
    #[error("the model answers nothing: {0}")]
    NoService(LlmError),
    /// The llm actor was asked for without a model.
    #[error("no LLM configured, which the llm actor needs")]
    NoLlm,
}

impl OptimizeError {
    /// Whether a service gave no answer: nothing is frozen, and the run goes on where it was once
    /// the service answers.
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Llm(error) => error.is_outage(),
            Self::NoService(_) => true,
            _ => false,
        }
    }
}

impl From<LlmError> for OptimizeError {
    fn from(error: LlmError) -> Self {
        match error {
            LlmError::Stopped => Self::Stopped,
            other => Self::Llm(other),
        }
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
        match error {
            IndexError::Stopped => Self::Stopped,
            other => Self::Index(other),
        }
    }
}

/// What happens in a run, for those who watch.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Work goes on: done of total units.
    Progress {
        /// What is being done.
        phase: &'static str,
        /// Units done.
        done: usize,
        /// Units in all.
        total: usize,
    },
    /// A category was found.
    Category {
        /// Its name.
        name: &'a str,
        /// Training queries that its program answers best.
        n: usize,
        /// Mean reciprocal rank on them.
        mrr: f64,
        /// What the metapaths of a composed program could bring there.
        bound: Option<Bound>,
    },
    /// The llm actor did something worth a line.
    Told(String),
    /// A change was tested on the training queries of its category.
    Tested {
        /// The category.
        name: &'a str,
        /// What was changed.
        change: &'a str,
        /// Difference of the mean reciprocal ranks.
        difference: f64,
        /// Two-sided p of the paired test.
        p: f64,
        /// Whether it was kept.
        accepted: bool,
    },
    /// Something was better than every baseline for the first time, on training queries.
    Better(&'a Better),
    /// All changes together were tested on validation.
    SequentialTest(&'a Proof),
}

/// What a run ended with.
#[derive(Debug)]
pub struct Outcome {
    /// The frozen bundle.
    pub bundle: Bundle,
    /// How it stands against the best baseline.
    pub verdict: Verdict,
    /// Why it ended.
    pub stopped: Stop,
    /// Tool calls answered from the cache, and not.
    pub cache: (u64, u64),
    /// Those of them that were made while parameters were tuned.
    pub tuning_cache: (u64, u64),
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All steps were done.
    Done,
    /// The time was used up.
    Minutes,
    /// The next request could have passed a ceiling; the message names it.
    Budget(String),
    /// The model gave nothing usable, however often it was asked; what was found so far is frozen.
    Unusable(String),
}

impl Stop {
    /// In one word, for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Minutes => "minutes",
            Self::Budget(_) => "budget",
            Self::Unusable(_) => "unusable",
        }
    }
}

/// Everything a run works on.
struct Run<'a> {
    base: Arc<IndexedBase>,
    options: &'a Options,
    train: Pool,
    validation: Pool,
    trials: Trials<'a>,
    /// What programs that were written after a look at training queries must not say.
    forbidden: ForbiddenWords,
    /// Program runs that may still ask a model.
    allowance: Allowance,
    /// Answers of tool calls.
    cache: Arc<ToolCache>,
    /// Tool calls answered from the cache, and not, while parameters were tuned.
    tuning_cache: (u64, u64),
    watch: &'a mut dyn FnMut(Event<'_>),
    started: Instant,
    first_better: FirstBetter,
}

/// What a run works on, and with.
pub struct Inputs<'a> {
    /// The base.
    pub base: Arc<IndexedBase>,
    /// The language model, where one is configured.
    pub assistant: Option<Arc<Assistant>>,
    /// Queries that programs are made and tuned with.
    pub train: Vec<LabelledQuery>,
    /// Queries that choose.
    pub validation: Vec<LabelledQuery>,
    /// What was asked for.
    pub options: &'a Options,
    /// Where the bundle is written.
    pub dir: &'a Path,
    /// The run's journal, new or resumed; a resumed run must have the same options and queries.
    pub journal: &'a mut Journal,
    /// Programs that run side by side.
    pub threads: usize,
    /// Other processes that run programs too; the bundle does not depend on them.
    pub evaluators: Option<&'a dyn Evaluators>,
    /// Told what happens.
    pub watch: &'a mut dyn FnMut(Event<'_>),
    /// Set when the run is to end.
    pub stop: &'a Arc<AtomicBool>,
}

/// Optimizes programs on a base and freezes the best into `dir/bundle.json`.
///
/// The bundle is the same for any number of `threads` and however often the run was interrupted,
/// unless a time budget ends it.
///
/// # Errors
/// [`OptimizeError`]; what was done is in the journal.
pub fn run(inputs: Inputs<'_>) -> Result<Outcome, OptimizeError> {
    let Inputs { base, assistant, train, validation, options, dir, journal, threads, .. } = inputs;
    let Inputs { evaluators, watch, stop, .. } = inputs;
    check_queries(&train, &validation)?;
    let _span = info_span!("run", dataset = options.dataset, seed = options.seed).entered();
    let workers = Arc::new(Workers::new(threads).map_err(OptimizeError::Workers)?);
    let cache_bytes = if options.without.contains(&Ablation::Cache) { 0 } else { CACHE_BYTES };
    let cache = Arc::new(ToolCache::new(cache_bytes));
    let runtime = || {
        let cached = Some(cache.clone());
        Runtime::in_sandbox(base.clone(), workers.clone(), cached, &options.sandbox)
            .stoppable(stop.clone())
    };
    let asking = runtime()
        .with_assistant(assistant.clone().filter(|_| options.llm_tools))
        .with_llm_limits(asks::REQUESTS_PER_RUN, asks::TOKENS_PER_RUN);
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
        (true, Some(assistant)) => Some(Actor::new(assistant, &run)),
    };
    run.check_same_run(dir, actor.as_ref())?;
    if let Some(actor) = &mut actor {
        run.begins("asking the model");
        actor.greet()?;
    }
    run.begins("reading queries");
    let features = freeze::PoolFeatures::new(&run)?;
    let beginning = run.begin(actor.as_mut())?;
    let (found, begun) = (beginning.found, beginning.category_programs.clone());
    run.begins("training the router");
    let routing = Routing::new(&features, &begun);
    run.compare_together(&routing.train, &begun)?;
    let (category_programs, stopped) = run.improve(beginning, actor.as_mut())?;
    run.compare_together(&routing.train, &category_programs)?;
    run.begins("testing on validation");
    let routed: Vec<Vec<usize>> = begun
        .iter()
        .zip(&routing.validation)
        .map(|(category_program, own)| category_program.routed(own))
        .collect();
    let challenge = run.challenge(&begun, category_programs, &routed)?;
    let finished = Finished { found, begun, challenge };
    let (bundle, verdict) = freeze::freeze(&mut run, &finished, &features, actor.as_ref())?;
    bundle.write(&dir.join(BUNDLE_FILE))?;
    // A run that goes on may freeze the same bundle and end for another reason.
    let key = format!("{} {}", bundle.digest, stopped.word());
    run.trials.journal.commit("bundle", &key, &stopped.word(), &[])?;
    let (cache, tuning_cache) = (run.cache.hits_and_misses(), run.tuning_cache);
    Ok(Outcome { bundle, verdict, stopped, cache, tuning_cache })
}

/// Fails if a pool is empty, so that no run is begun that cannot go on.
///
/// # Errors
/// [`OptimizeError::NoQueries`].
pub fn check_queries(
    train: &[LabelledQuery],
    validation: &[LabelledQuery],
) -> Result<(), OptimizeError> {
    match (train.is_empty(), validation.is_empty()) {
        (true, _) => Err(OptimizeError::NoQueries("training", "train")),
        (_, true) => Err(OptimizeError::NoQueries("validation", "val")),
        _ => Ok(()),
    }
}

/// Names and ids of the answers of all queries, and the words that only one of them says.
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
    /// Tells that a part of the run begins whose extent is not known.
    fn begins(&mut self, phase: &'static str) {
        (self.watch)(Event::Progress { phase, done: 0, total: 1 });
    }

    /// A journal belongs to one base, one set of queries and one set of options.
    fn check_same_run(&mut self, dir: &Path, actor: Option<&Actor>) -> Result<(), OptimizeError> {
        let mut identity = serde_json::json!({
            "index": self.base.fingerprint(),
            "train": self.train.digest(),
            "validation": self.validation.digest(),
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
        match self.trials.journal.find::<serde_json::Value>("run", "identity")? {
            None => Ok(self.trials.journal.commit("run", "identity", &identity, &[])?),
            Some(begun) if begun == identity => Ok(()),
            Some(begun) => {
                let value = |part: &str| format!("{part} {}", begun[part]);
                let parts: Vec<String> = [
                    ("index", "another base or index".to_owned()),
                    ("train", "other training queries".to_owned()),
                    ("validation", "other validation queries".to_owned()),
                    ("seed", value("seed")),
                    ("steps", value("steps")),
                    ("hops", "metapaths of another length (--hops)".to_owned()),
                    ("without", "other parts left out".to_owned()),
                    ("programs", user::OTHER_PROGRAMS.to_owned()),
                    ("llm", "other actors, models, settings of models or prompts".to_owned()),
                ]
                .into_iter()
                .filter(|(part, _)| begun.get(part) != identity.get(part))
                .map(|(_, text)| text)
                .collect();
                Err(OptimizeError::OtherRun(dir.display().to_string(), parts.join(", ")))
            }
        }
    }

    /// A trial of a program on queries of a pool: reciprocal ranks in their order.
    fn trial(
        &mut self,
        program: &Program,
        params: &ParamValues,
        on_validation: bool,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<Vec<f32>, OptimizeError> {
        let pool = if on_validation { &self.validation } else { &self.train };
        let ranks = self.trials.run(program, params, pool, queries, origin)?.reciprocal_ranks;
        if !on_validation {
            self.compare(What::Program, queries, &ranks)?;
        }
        Ok(ranks)
    }

    /// A program on all training queries, or on a part of them.
    fn category_program(
        &mut self,
        plan: Option<Plan>,
        program: Program,
        params: ParamValues,
        part: Option<Vec<usize>>,
        origin: &Origin,
    ) -> Result<CategoryProgram, OptimizeError> {
        let n = self.train.queries.len();
        let queries = part.clone().unwrap_or_else(|| (0..n).collect());
        let ranks = self.trial(&program, &params, false, &queries, origin)?;
        let mut train = vec![0.0; n];
        queries.iter().zip(ranks).for_each(|(&query, rank)| train[query] = rank);
        let proposed_by = origin.proposed_by.clone();
        let (name, queries) = (None, None);
        Ok(CategoryProgram { plan, program, params, proposed_by, name, queries, train, part })
    }

    /// The categories to begin with, what was measured on the way, and the metapaths that operators
    /// draw from.
    fn begin(&mut self, actor: Option<&mut Actor>) -> Result<Begun, OptimizeError> {
        let Begun { found, mut category_programs, mut archive, metapaths, .. } =
            match self.options.actors.search {
                true => self.discover()?,
                false => Begun { category_programs: self.programs_of_user()?, ..Begun::default() },
            };
        let challengers = match actor {
            Some(actor) => self.write_programs(actor, &mut category_programs)?,
            None => Vec::new(),
        };
        for category_program in &category_programs {
            let change = "the category's first program".to_owned();
            archive.add(Archived {
                category_program: category_program.clone(),
                change,
                whole: true,
            });
        }
        Ok(Begun { found, category_programs, archive, metapaths, challengers })
    }
}
