//! Finds retrieval programs for a dataset, tests that they are better, and freezes them as a
//! bundle. A request passes through these files in this order:
//!
//! | file | step |
//! | --- | --- |
//! | `programs` | read and check the user's programs |
//! | `plan` | for a dry run: forecast the run and stop |
//! | `model` | check the language model |
//! | `data` | open the base, its index, training and validation queries |
//! | `run` | open the run's directory, journal and options; if the model's service does not reply: note why the run is paused, and stop |
//! | `events` | run the loop and report its events; `timing` measures its phases |
//! | `test` | measure the frozen bundle on the test split |
//! | `reply` | return the results, as `agent optimize --json` prints them |

mod data;
pub mod events;
mod model;
mod plan;
pub mod programs;
mod reply;
mod run;
mod test;
mod timing;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    App, Bounded, Explain, LlmArgs, Perform, Result, SandboxArgs,
    choice::{PartName, choice},
    llm, refused, routing,
    unit::pool::Pool,
};
use agent_dataset::Base;
use agent_index::IndexedBase;
use agent_optimize::{Ablation, ablation, mine::MAX_HOPS};

use self::{data::Data, model::Model, run::Run};
pub use self::{
    plan::Forecast,
    reply::{Ended, Paused, Reply},
    test::{OnTest, SystemOnTest},
};

/// Maximum number of relations in a mined metapath.
pub type Hops = Bounded<2, { MAX_HOPS as u64 }>;

/// A number of threads.
pub type Threads = Bounded<1, 256>;

/// A number of improvement steps.
pub type Steps = Bounded<0, 100_000>;

/// Options of an optimization: the dataset, the actors that propose programs, and limits.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Installed dataset, directory to import, or built-in sample (amazon, mag, prime)
    #[arg(long, value_name = "N")]
    pub dataset: String,
    /// Propose programs with these actors [default: `search,llm` if a language model is configured,
    /// else `search`]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ACTORS")]
    #[serde(default)]
    pub actor: Vec<Actor>,
    /// Do not let programs call functions that ask a language model, so that the bundle's programs
    /// never ask one
    #[arg(long)]
    #[serde(default)]
    pub no_llm_tools: bool,
    /// Let programs call functions that ask a language model (the default)
    #[arg(long, conflicts_with = "no_llm_tools")]
    #[serde(default)]
    pub llm_tools: bool,
    /// Also tell models about the AvaTaR functions, which take one node or lists of nodes; programs
    /// may call these functions in any case
    #[arg(long)]
    #[serde(default)]
    pub avatar_tools: bool,
    /// Let the model improve programs for K steps per category [default: 0, or 3 with
    /// `--without comparator`]
    #[arg(long, value_name = "K")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 100_000)]
    pub llm_steps: Option<Steps>,
    /// Language model to use, with its budget, reply files and prompts.
    #[command(flatten)]
    #[serde(default)]
    pub llm: LlmArgs,
    /// Also try this program (.rhai or .wasm); may be repeated, at most 32 times
    #[arg(long, value_name = "FILE")]
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub program: Vec<PathBuf>,
    /// Disable this part of the optimizer, to measure its effect; may be repeated
    #[arg(long, value_name = "PART", value_parser = choice::<Ablation>())]
    #[serde(default)]
    #[schema(value_type = Vec<PartName>)]
    pub without: Vec<Ablation>,
    /// Use this random seed [default: 1]
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Let the search actor improve programs for K steps after it finds categories [default: 24]
    #[arg(long, value_name = "K")]
    #[schema(value_type = Option<u64>, minimum = 0, maximum = 100_000)]
    pub steps: Option<Steps>,
    /// Mine metapaths of at most this many relations from linked entities to answers [default: 2]
    #[arg(long, value_name = "H")]
    #[schema(value_type = Option<u64>, minimum = 2, maximum = 3)]
    pub hops: Option<Hops>,
    /// Start no further step after this many minutes; the best programs so far are frozen
    #[arg(long, value_name = "M")]
    pub budget_minutes: Option<f64>,
    /// Keep the run in this directory [default: a new one in the home directory]
    #[arg(long, value_name = "DIR")]
    #[schema(value_type = Option<String>)]
    pub run: Option<PathBuf>,
    /// Continue the run in --run, or the latest one of the dataset
    #[arg(long)]
    #[serde(default)]
    pub resume: bool,
    /// Also measure the frozen bundle and all baselines on the test split, and count this as an
    /// opening of the split [always on for built-in samples]
    #[arg(long)]
    #[serde(default)]
    pub test: bool,
    /// If the dataset has no labelled questions, first make 500, as `agent data synthesize` does
    #[arg(long)]
    #[serde(default)]
    pub synthesize: bool,
    /// Print the plan and its cost, and do nothing
    #[arg(long)]
    #[serde(default)]
    pub dry_run: bool,
    /// Run programs on this many threads [default: all cores]; the result does not depend on their
    /// number
    #[arg(long, value_name = "N")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 256)]
    pub threads: Option<Threads>,
    /// Also let processes of `agent unit work DIR` run programs; the result does not depend on them
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    #[schema(value_type = Option<String>)]
    pub pool: Option<PathBuf>,
    /// Where Rhai programs run: in this process or inside WebAssembly.
    #[command(flatten)]
    #[serde(default)]
    pub sandbox: SandboxArgs,
}

/// An actor that proposes programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Actor {
    /// Mines, mutates and tunes; needs no language model
    Search,
    /// Asks a language model
    Llm,
}

/// An open run, with the data, language model and other processes that it uses.
struct Session {
    data: Data,
    run: Run,
    /// The language model, if the llm actor takes part.
    model: Option<Model>,
    /// The pool of other processes that run programs, if there is one.
    pool: Option<Pool>,
}

impl Perform for Request {
    const NAME: &'static str = "optimize";
    const SUMMARY: &'static str = "Find, test and freeze retrieval programs for a dataset";
    const CHANGES: bool = true;
    type Reply = Reply;

    fn perform(&self, app: &App) -> Result<Reply> {
        self.perform_with(|| Data::open(self, app), app)
    }
}

impl Request {
    /// Executes the request on a base that is already open, whatever dataset the request names.
    /// Measures on the test split only if the request has `test`.
    ///
    /// # Errors
    /// As [`Perform::perform`].
    pub fn perform_on(&self, base: &Base, indexed: &Arc<IndexedBase>, app: &App) -> Result<Reply> {
        self.perform_with(|| Data::new(base.clone(), indexed.clone(), self.test), app)
    }

    fn perform_with(&self, open: impl FnOnce() -> Result<Data>, app: &App) -> Result<Reply> {
        self.check(app)?;
        let programs = programs::read_programs(&self.program, self.sandbox, app)?;
        if self.dry_run {
            return Ok(Reply::Planned(plan::forecast(self, app)?));
        }
        // Fail on an unusable model before any import, index or run.
        let start = model::check(self, app)?;
        let data = open()?;
        let of_pool = |dir: &PathBuf| Pool::open(dir, (&data.base.name, &data.indexed), app);
        let pool = self.pool.as_ref().map(of_pool).transpose()?;
        let run = Run::open(self, &start, &data.base, &programs, app)?;
        let model = model::open(self, &run, app)?;
        run.announce(&data, model.as_ref(), app);
        data.warn(app);
        let kept = run.kept();
        app.watch.resumable(&kept);
        match self.freeze(Session { data, run, model, pool }, app) {
            Err(_) if app.stop.load(Ordering::Relaxed) => Err(anyhow!(kept).into()),
            done => done,
        }
    }

    /// Runs the optimization, which freezes a bundle, then measures the bundle.
    fn freeze(&self, mut session: Session, app: &App) -> Result<Reply> {
        let began = Instant::now();
        let (outcome, timing) = events::learn(&mut session, app);
        let Session { data, run, model, .. } = &session;
        let finish = || model.as_ref().map_or(Ok(()), |model| model.opened.finish(app));
        let outcome = match outcome {
            Err(error) if error.is_outage() => {
                finish()?;
                return Ok(Reply::Paused(run.pause(&error, app)?));
            }
            outcome => outcome?,
        };
        let seconds = began.elapsed().as_secs_f64();
        events::report_cache(&outcome, app);
        let trials = routing::trials(&run.journal)?;
        let router = routing::calibrated(&outcome.bundle, &data.indexed, &data.validation, &trials);
        run.keep_trust(&outcome.bundle, app);
        let test = test::measure(&outcome.bundle, &session, app);
        finish()?;
        let test = test?;
        if self.test && test.is_none() {
            let why = "has no test questions with nodes as answers, so --test measures nothing";
            app.watch.notice(&format!("\"{}\" {why}", data.base.name));
        }
        let spent = model.as_ref().map(Model::spent).unwrap_or_default();
        let (dataset, dir) = (self.dataset.clone(), app.shown_path(&run.dir).to_owned());
        Ok(Reply::Ended(Box::new(Ended {
            dataset,
            run: dir,
            outcome,
            test,
            seconds,
            timing,
            router,
            spent,
        })))
    }

    /// Rejects options that contradict one another and, in requests over a network, options that
    /// name files.
    fn check(&self, app: &App) -> Result<()> {
        if app.network.is_some() {
            if self.run.is_some() || self.pool.is_some() || !self.program.is_empty() {
                return refused("a request over a network must not name a run, program or pool")
                    .hint("leave them out; the run is kept in the home directory of the server");
            }
            llm::open_if_configured(&self.llm, false, app)?;
        }
        if self.budget_minutes.is_some_and(|minutes| !(minutes > 0.0 && minutes < 1e6)) {
            return refused("--budget-minutes must be above 0 and below 1,000,000");
        }
        if self.llm_tools && self.no_llm_tools {
            return refused("--llm-tools contradicts --no-llm-tools");
        }
        let without = self.ablations();
        // A run resumed without --actor keeps its actors; the parts are checked against them later.
        let is_of_run = self.resume && self.actor.is_empty();
        if !without.is_empty() && !is_of_run {
            let actors = model::new_actors(self, app)?;
            if let Some(why) = ablation::conflict(&without, actors) {
                return refused(why);
            }
        }
        let asks = self.actor.is_empty() || self.actor.contains(&Actor::Llm) || self.resume;
        if !asks && (self.llm_tools || self.avatar_tools || self.llm_steps.is_some()) {
            return refused(
                "--llm-steps, --llm-tools and --avatar-tools require the llm actor; add it with \
                 --actor search,llm",
            );
        }
        Ok(())
    }

    /// Returns the parts of the optimizer to leave out, each once, in the order of [`Ablation`].
    fn ablations(&self) -> Vec<Ablation> {
        let mut parts: Vec<Ablation> = self.without.clone();
        parts.sort_unstable();
        parts.dedup();
        parts
    }
}

/// Returns a hint with the command that continues a run.
fn resume_command(dataset: &str, dir: &Path) -> String {
    format!("continue with `agent optimize --dataset {dataset} --run {} --resume`", dir.display())
}
