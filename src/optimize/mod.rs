//! The loop: finds programs for categories of queries, proves them on validation, freezes them.
//!
//! ```text
//! mine walks -> shortlist plans -> trials on training queries -> categories
//!    -> mutate and tune, accept by a paired test on validation -> router -> bundle
//! ```
//!
//! This is the built-in search actor: it needs no language model. Everything is a function of the
//! base, the two pools, the seed and the options; trials are kept in a journal, so that an
//! interrupted run goes on where it was and ends in the same bundle.
//!
//! Must not know: answers of the test split, how programs are run.

pub mod discover;
mod freeze;
pub mod journal;
pub mod mine;
pub mod mutate;
pub mod plan;
pub mod route;
pub mod trial;
pub mod tune;

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{
    bundle::{Bundle, BundleError},
    dataset::LabelledQuery,
    eval::statistics::{StatisticsError, randomization_p},
    index::{IndexError, IndexedBase},
    infer::{ParamValues, Runtime},
    optimize::{
        discover::Walk,
        journal::{Journal, JournalError},
        plan::Plan,
        trial::{Origin, Pool, Trials},
    },
    program::Program,
    retrieve::RetrieveError,
    sandbox::{Failure, SandboxOptions, Workers},
    tools::ToolCache,
};

/// Name under which the search actor's proposals are kept.
const SEARCH: &str = "search";
/// Plans that are run after mining.
const SHORTLISTED: usize = 60;
/// Categories at most.
const MAX_CATEGORIES: usize = 12;
/// Share of the training queries that a category must add, as reciprocal rank.
const MIN_CATEGORY_GAIN: f64 = 0.006;
/// A change is accepted below this two-sided p of the paired test on validation.
const ACCEPT_P: f64 = 0.2;
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
    /// Steps of mutation.
    pub steps: usize,
    /// Where programs run; the result does not depend on it.
    #[serde(skip)]
    pub sandbox: SandboxOptions,
    /// Wall time after which no further step is begun; the best so far is frozen.
    pub budget: Option<Duration>,
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
    Retrieve(#[from] RetrieveError),
    /// A statistic cannot be computed.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// The bundle could not be written.
    #[error(transparent)]
    Bundle(#[from] BundleError),
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
    },
    /// A change was tested on validation.
    Tested {
        /// The category.
        name: &'a str,
        /// What was changed.
        change: &'a str,
        /// Difference of the mean reciprocal ranks on validation.
        difference: f64,
        /// Two-sided p of the paired test.
        p: f64,
        /// Whether it was accepted.
        accepted: bool,
    },
}

/// What a run ended with.
#[derive(Debug)]
pub struct Outcome {
    /// The frozen bundle.
    pub bundle: Bundle,
    /// Why it ended: `done` or `minutes`.
    pub stopped: &'static str,
    /// Tool calls answered from the cache, and not.
    pub cache: (u64, u64),
}

/// A category while it is being improved.
struct Member {
    plan: Plan,
    program: Program,
    params: ParamValues,
    proposed_by: String,
    /// Reciprocal rank on every training query.
    train: Vec<f32>,
    /// Reciprocal rank on every validation query.
    validation: Vec<f32>,
}

/// Everything a run works on.
struct Run<'a> {
    base: Arc<IndexedBase>,
    options: &'a Options,
    train: Pool,
    validation: Pool,
    trials: Trials<'a>,
    watch: &'a mut dyn FnMut(Event<'_>),
    started: Instant,
}

/// Optimizes programs on a base and freezes the best into `dir/bundle.json`.
///
/// `journal` is the run's, new or resumed; a resumed run must have the same options and queries.
/// The bundle is the same for any number of `threads` and however often the run was interrupted,
/// unless a time budget ends it.
///
/// # Errors
/// [`OptimizeError`]; what was done is in the journal.
#[expect(clippy::too_many_arguments, reason = "each is a separate thing that only the caller has")]
pub fn run(
    base: Arc<IndexedBase>,
    train: Vec<LabelledQuery>,
    validation: Vec<LabelledQuery>,
    options: &Options,
    dir: &Path,
    journal: &mut Journal,
    threads: usize,
    watch: &mut dyn FnMut(Event<'_>),
    stop: &AtomicBool,
) -> Result<Outcome, OptimizeError> {
    check_queries(&train, &validation)?;
    let workers = Arc::new(Workers::new(threads).map_err(OptimizeError::Workers)?);
    let cache = Arc::new(ToolCache::new(CACHE_BYTES));
    let cached = Some(cache.clone());
    let runtime = Runtime::in_sandbox(base.clone(), workers, cached, &options.sandbox);
    let runtime = Arc::new(runtime);
    let mut run = Run {
        base,
        options,
        train: Pool::new("train", train),
        validation: Pool::new("validation", validation),
        trials: Trials { runtime, journal, stop },
        watch,
        started: Instant::now(),
    };
    run.check_same_run(dir)?;
    let (mut members, walks) = run.discover()?;
    let features = freeze::PoolFeatures::new(&run);
    let stopped = run.improve(&mut members, &walks, &features)?;
    let bundle = freeze::freeze(&mut run, &members, &features)?;
    bundle.write(&dir.join(BUNDLE_FILE))?;
    run.trials.journal.commit("bundle", "frozen", &bundle.digest, &[])?;
    Ok(Outcome { bundle, stopped, cache: cache.hits_and_misses() })
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

impl Run<'_> {
    /// A journal belongs to one base, one set of queries and one set of options.
    fn check_same_run(&mut self, dir: &Path) -> Result<(), OptimizeError> {
        let identity = serde_json::json!({
            "index": self.base.fingerprint(),
            "train": self.train.digest(),
            "validation": self.validation.digest(),
            "seed": self.options.seed,
            "steps": self.options.steps,
        });
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
        Ok(self.trials.run(program, params, pool, queries, origin)?.reciprocal_ranks)
    }

    /// A program on all queries of both pools.
    fn member(
        &mut self,
        plan: Plan,
        program: Program,
        params: ParamValues,
        origin: &Origin,
    ) -> Result<Member, OptimizeError> {
        let all: Vec<usize> = (0..self.train.queries.len()).collect();
        let train = self.trial(&program, &params, false, &all, origin)?;
        let all: Vec<usize> = (0..self.validation.queries.len()).collect();
        let validation = self.trial(&program, &params, true, &all, origin)?;
        let proposed_by = origin.proposed_by.clone();
        Ok(Member { plan, program, params, proposed_by, train, validation })
    }

    /// Mines walks, runs the plans they suggest and keeps those that together answer best.
    fn discover(&mut self) -> Result<(Vec<Member>, Vec<Walk>), OptimizeError> {
        let n = self.train.queries.len();
        let min_support = (n / 100).max(2);
        (self.watch)(Event::Progress { phase: "mining walks", done: 0, total: 1 });
        let walks = discover::walks(&mine::mine(
            &self.base,
            &self.train.queries,
            min_support,
            self.trials.stop,
        )?);
        let mut plans = discover::shortlist(&walks, n, min_support, SHORTLISTED);
        let everywhere = (0..n).map(|query| (query, 0.0)).collect();
        plans.push((Plan { target: None, branches: Vec::new() }, everywhere));
        let origin = Origin {
            proposed_by: SEARCH.to_owned(),
            change: "composed from mined walks".to_owned(),
            parent: None,
        };
        let mut worths: Vec<discover::Worth> = Vec::new();
        for (at, (plan, supported)) in plans.iter().enumerate() {
            (self.watch)(Event::Progress { phase: "trying plans", done: at, total: plans.len() });
            let program = plan::render(&self.base, plan);
            let queries: Vec<usize> = supported.iter().map(|pair| pair.0).collect();
            let ranks = self.trial(&program, &ParamValues::new(), false, &queries, &origin)?;
            worths.push(queries.into_iter().zip(ranks.into_iter().map(f64::from)).collect());
        }
        let borrowed: Vec<&[(usize, f64)]> = worths.iter().map(Vec::as_slice).collect();
        let mut chosen =
            discover::cover(&borrowed, n, MAX_CATEGORIES, n as f64 * MIN_CATEGORY_GAIN);
        if chosen.is_empty() {
            chosen.push(plans.len() - 1);
        }
        let mut members = Vec::new();
        for (done, &at) in chosen.iter().enumerate() {
            (self.watch)(Event::Progress {
                phase: "building categories",
                done,
                total: chosen.len(),
            });
            let plan = plans[at].0.clone();
            let program = plan::render(&self.base, &plan);
            members.push(self.member(plan, program, ParamValues::new(), &origin)?);
        }
        let members = needed(members, n);
        for (queries, member) in assign(&members, n).iter().zip(&members) {
            let ranks: Vec<f32> = queries.iter().map(|&at| member.train[at]).collect();
            let name = member.program.category().unwrap_or_default();
            (self.watch)(Event::Category { name, n: queries.len(), mrr: trial::mean(&ranks) });
        }
        Ok((members, walks))
    }

    /// Mutates and tunes programs of categories; a change stays when validation accepts it.
    fn improve(
        &mut self,
        members: &mut [Member],
        walks: &[Walk],
        features: &freeze::PoolFeatures,
    ) -> Result<&'static str, OptimizeError> {
        let total = self.options.steps + members.len();
        let routing = freeze::Routing::new(features, members);
        for step in 0..total {
            if self.options.budget.is_some_and(|budget| self.started.elapsed() >= budget) {
                return Ok("minutes");
            }
            (self.watch)(Event::Progress { phase: "improving programs", done: step, total });
            let assigned = assign(members, self.train.queries.len());
            if step >= self.options.steps {
                let at = step - self.options.steps;
                self.tune(&mut members[at], &assigned[at], &routing.validation[at])?;
                continue;
            }
            let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
            rng.set_stream(step as u64 + 1);
            let at = most_to_gain(members, &assigned, &mut rng);
            let (queries, routed) = (&assigned[at], &routing.validation[at]);
            self.mutate(&mut members[at], walks, queries, routed, &mut rng)?;
        }
        Ok("done")
    }

    fn mutate(
        &mut self,
        member: &mut Member,
        walks: &[Walk],
        queries: &[usize],
        routed: &[usize],
        rng: &mut ChaCha8Rng,
    ) -> Result<(), OptimizeError> {
        let Some((plan, change)) = mutate::mutate(&member.plan, walks, queries, rng) else {
            return Ok(());
        };
        let program = plan::render(&self.base, &plan);
        let parent = Some(member.program.id().to_owned());
        let origin = Origin { proposed_by: SEARCH.to_owned(), change, parent };
        let ranks = self.trial(&program, &member.params, false, queries, &origin)?;
        let before: Vec<f32> = queries.iter().map(|&at| member.train[at]).collect();
        if trial::mean(&ranks) <= trial::mean(&before) {
            return Ok(());
        }
        let changed = self.member(plan, program, member.params.clone(), &origin)?;
        self.accept(member, changed, routed, &origin)
    }

    fn tune(
        &mut self,
        member: &mut Member,
        queries: &[usize],
        routed: &[usize],
    ) -> Result<(), OptimizeError> {
        self.trials.check_stop()?;
        let key = format!("{} {} {queries:?}", member.program.id(), self.train.digest());
        let key = blake3::hash(key.as_bytes()).to_hex().to_string();
        let params = match self.trials.journal.find::<ParamValues>("tune", &key)? {
            Some(params) => params,
            None => {
                let params = tune::tune(
                    &self.trials,
                    &member.program,
                    &member.params,
                    &self.train,
                    queries,
                )?;
                self.trials.journal.commit("tune", &key, &params, &[])?;
                params
            }
        };
        if params == member.params {
            return Ok(());
        }
        let origin = Origin {
            proposed_by: "tuner".to_owned(),
            change: "tuned numbers".to_owned(),
            parent: Some(member.program.id().to_owned()),
        };
        let mut tuned =
            self.member(member.plan.clone(), member.program.clone(), params, &origin)?;
        tuned.proposed_by.clone_from(&member.proposed_by);
        self.accept(member, tuned, routed, &origin)
    }

    /// Replaces a category's program if the paired test on its validation queries says so.
    fn accept(
        &mut self,
        member: &mut Member,
        changed: Member,
        routed: &[usize],
        origin: &Origin,
    ) -> Result<(), OptimizeError> {
        let differences: Vec<f64> = routed
            .iter()
            .map(|&at| f64::from(changed.validation[at]) - f64::from(member.validation[at]))
            .collect();
        let difference = (differences.iter().sum::<f64>() + 0.0) / differences.len().max(1) as f64;
        let p = match differences.is_empty() {
            true => 1.0,
            false => randomization_p(&differences, self.options.seed)?,
        };
        let accepted = difference > 0.0 && p < ACCEPT_P;
        let (name, change) = (member.program.category().unwrap_or_default(), &origin.change);
        (self.watch)(Event::Tested { name, change, difference, p, accepted });
        let decision = Decision {
            category: name.to_owned(),
            from: member.program.id().to_owned(),
            to: changed.program.id().to_owned(),
            params: changed.params.clone(),
            change: change.clone(),
            n: routed.len(),
            difference,
            p,
            accepted,
        };
        let key = serde_json::to_string(&decision).unwrap_or_default();
        let key = blake3::hash(key.as_bytes()).to_hex().to_string();
        self.trials.journal.commit("decision", &key, &decision, &[])?;
        if accepted {
            *member = changed;
        }
        Ok(())
    }
}

/// A test on validation, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The category.
    pub category: String,
    /// The program it had.
    pub from: String,
    /// The program that was tested; the same when only numbers changed.
    pub to: String,
    /// Numbers of the tested program that differ from the declared ones.
    pub params: ParamValues,
    /// What was changed.
    pub change: String,
    /// Validation queries of the category.
    pub n: usize,
    /// Difference of the mean reciprocal ranks.
    pub difference: f64,
    /// Two-sided p of the paired randomisation test.
    pub p: f64,
    /// Whether the change was kept.
    pub accepted: bool,
}

/// The members that still add to the others when each is judged on all training queries; plans
/// were chosen on those that their walks support.
fn needed(members: Vec<Member>, n: usize) -> Vec<Member> {
    let worths: Vec<discover::Worth> = members
        .iter()
        .map(|member| member.train.iter().map(|&rank| f64::from(rank)).enumerate().collect())
        .collect();
    let borrowed: Vec<&[(usize, f64)]> = worths.iter().map(Vec::as_slice).collect();
    let mut kept = discover::cover(&borrowed, n, MAX_CATEGORIES, n as f64 * MIN_CATEGORY_GAIN);
    if kept.is_empty() {
        kept.push(0);
    }
    let mut members: Vec<Option<Member>> = members.into_iter().map(Some).collect();
    kept.into_iter().filter_map(|at| members[at].take()).collect()
}

/// Training queries by the category whose program answers them best; ties go to the earlier
/// category, queries that no program answers to none.
fn assign(members: &[Member], n: usize) -> Vec<Vec<usize>> {
    let mut assigned = vec![Vec::new(); members.len()];
    for query in 0..n {
        let best =
            members.iter().enumerate().fold(None, |best: Option<(usize, f32)>, (at, member)| {
                match best {
                    Some((_, most)) if member.train[query] <= most => best,
                    _ if member.train[query] > 0.0 => Some((at, member.train[query])),
                    _ => best,
                }
            });
        if let Some((at, _)) = best {
            assigned[at].push(query);
        }
    }
    assigned
}

/// A category drawn by what its queries still lack.
fn most_to_gain(members: &[Member], assigned: &[Vec<usize>], rng: &mut ChaCha8Rng) -> usize {
    let lacking: Vec<f64> = members
        .iter()
        .zip(assigned)
        .map(|(member, queries)| {
            queries.iter().map(|&at| 1.0 - f64::from(member.train[at])).sum::<f64>() + 0.5
        })
        .collect();
    let mut left = rng.random::<f64>() * lacking.iter().sum::<f64>();
    for (at, lack) in lacking.iter().enumerate() {
        left -= lack;
        if left <= 0.0 {
            return at;
        }
    }
    members.len() - 1
}
