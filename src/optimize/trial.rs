//! Trials: runs of a program with its parameters on queries of a pool.
//!
//! A trial is a step of the journal. The key of the step depends on all inputs of the trial's
//! result, so that no trial runs twice, even in a resumed run. The result is one reciprocal rank
//! per query. If the program fails on a query, the ranking is the default list of candidates.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tracing::debug_span;

use crate::{OptimizeError, Result, asks::asks, journal::Journal};
use agent_dataset::LabelledQuery;
use agent_infer::{ParamValues, Runtime};
use agent_retrieve::Ranking;
use agent_sandbox::{CompiledProgram, Failure, program::Program};

/// Kind of journal steps that store a [`Trial`].
pub const TRIAL: &str = "trial";

/// A pool: the queries of one split with their answers.
pub struct Pool {
    /// Name of the pool, `train` or `validation`.
    pub name: &'static str,
    /// The queries, in the order of the split.
    pub queries: Vec<LabelledQuery>,
    /// Digest of the ids, texts and answers of the queries, as hexadecimal digits.
    pub digest: String,
}

impl Pool {
    /// Creates a pool with this name, `train` or `validation`, from the queries of a split.
    pub fn new(name: &'static str, queries: Vec<LabelledQuery>) -> Self {
        let line =
            |query: &LabelledQuery| format!("{} {:?} {:?}\n", query.id, query.text, query.answers);
        let digest = digest(&queries.iter().map(line).collect::<String>());
        Self { name, queries, digest }
    }
}

/// Where a program comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the proposer of the program, such as an operator or the model.
    pub proposed_by: String,
    /// Description of the change that produced the program.
    pub change: String,
    /// Id of the program that was changed into this one, if any.
    pub parent: Option<String>,
}

impl Origin {
    /// Creates the origin of a program that was made from `parent`, if any.
    pub(crate) fn new(proposed_by: &str, change: &str, parent: Option<&Program>) -> Self {
        let parent = parent.map(|parent| parent.id().to_owned());
        Self { proposed_by: proposed_by.to_owned(), change: change.to_owned(), parent }
    }
}

/// A trial of a program on queries of a pool, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Id of the program that was run.
    pub program: String,
    /// The program's parameters that differ from the declared values.
    pub params: ParamValues,
    /// Name of the pool, `train` or `validation`.
    pub pool: String,
    /// Where the program comes from.
    pub origin: Origin,
    /// The queries of the trial, as positions in the pool.
    pub queries: Vec<usize>,
    /// Reciprocal rank of the best ranked answer to each query, in the order of `queries`; 0 if no
    /// answer is ranked.
    pub reciprocal_ranks: Vec<f32>,
    /// Number of queries on which the program failed.
    pub failed: usize,
    /// Message of the first failure; `None` if the program failed on no query.
    pub failure: Option<String>,
}

impl Trial {
    /// Returns the mean reciprocal rank over the queries of the trial; 0 without queries.
    pub fn mrr(&self) -> f64 {
        mean(&self.reciprocal_ranks)
    }
}

/// Returns the mean of reciprocal ranks; 0 if there are none.
pub fn mean(ranks: &[f32]) -> f64 {
    // An empty sum is -0.
    (sum(ranks) + 0.0) / ranks.len().max(1) as f64
}

/// Returns the sum of reciprocal ranks.
pub(crate) fn sum(ranks: &[f32]) -> f64 {
    ranks.iter().map(|&rank| f64::from(rank)).sum()
}

/// Returns the differences of reciprocal ranks, new minus old, query by query.
pub(crate) fn differences(new: &[f32], old: &[f32]) -> Vec<f64> {
    new.iter().zip(old).map(|(&new, &old)| f64::from(new) - f64::from(old)).collect()
}

/// Returns the pair with the largest number; if several pairs have this number, the first of them.
pub(crate) fn largest<T>(pairs: impl Iterator<Item = (f64, T)>) -> Option<(f64, T)> {
    pairs.reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// Returns the random generator of a run with this seed; each purpose has its own `stream`.
pub(crate) fn generator(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    rng
}

/// Returns the digest of a text, as hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The ranking of one query, and the failure message if the program failed on the query.
pub type TrialRanking = (Ranking, Option<String>);

/// Function that runs a program in this process on queries, given as positions, and returns their
/// rankings.
pub type LocalRun<'a> = dyn Fn(&[usize]) -> Result<Vec<TrialRanking>> + 'a;

/// Access to other processes that run programs.
pub trait Evaluators: Sync {
    /// Returns the rankings of a program for query texts, in the order of `queries`. The rankings
    /// are equal to those that this process would compute. `here` runs the program in this process,
    /// for queries that no other process ranks.
    ///
    /// # Errors
    /// Any error that `here` returns.
    fn rankings(
        &self,
        program: &Program,
        params: &ParamValues,
        queries: &[&str],
        here: &LocalRun<'_>,
    ) -> Result<Vec<TrialRanking>>;
}

/// Returns the key of a trial's journal step: a digest of all inputs on which the result depends.
fn key(program: &Program, params: &ParamValues, pool: &Pool, queries: &[usize]) -> String {
    digest(&format!("{} {params:?} {} {queries:?}", program.id(), pool.digest))
}

/// Creates the error for a program that does not compile or run.
pub fn program_failed(program: &Program, failure: Failure) -> OptimizeError {
    OptimizeError::Program(program.short_id().to_owned(), Box::new(failure))
}

/// Runs a program in this process on queries of a pool and returns its rankings, in the order of
/// `queries`. A query on which the program fails gets the default list of candidates, and the
/// failure message.
fn rankings(
    runtime: &Runtime,
    stop: &AtomicBool,
    compiled: &CompiledProgram,
    params: &ParamValues,
    pool: &Pool,
    queries: &[usize],
) -> Result<Vec<TrialRanking>> {
    let span = debug_span!("trial", pool = pool.name, queries = queries.len());
    let ranking = |&at: &usize| {
        // Worker threads do not inherit the span.
        let _span = span.enter();
        let text = &pool.queries[at].text;
        check_stop(stop)?;
        Ok(match runtime.run(compiled, params, text, None)? {
            Ok(outcome) => (outcome.ranking, None),
            Err(failure) => (runtime.default_ranking(text)?, Some(failure_text(&failure))),
        })
    };
    queries.par_iter().map(ranking).collect()
}

/// Fails with [`OptimizeError::Stopped`] if the stop flag is set.
fn check_stop(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(OptimizeError::Stopped) } else { Ok(()) }
}

/// Returns the reciprocal rank of each ranking, in the order of `queries`, which are positions in
/// the pool.
pub fn reciprocal_ranks(
    runtime: &Runtime,
    rankings: &[TrialRanking],
    pool: &Pool,
    queries: &[usize],
) -> Vec<f32> {
    let answers = queries.iter().map(|&at| &pool.queries[at].answers);
    let pairs = rankings.iter().zip(answers);
    pairs.map(|((ranking, _), answers)| runtime.reciprocal_rank(ranking, answers)).collect()
}

/// Formats a failure of a program, with the line of the source if known.
pub fn failure_text(failure: &Failure) -> String {
    match failure.position {
        Some(position) => format!("{failure} (line {})", position.line),
        None => failure.to_string(),
    }
}

/// Runs trials and stores them in the journal.
pub struct Trials<'a> {
    /// Runtime for programs that ask a language model.
    pub runtime: Arc<Runtime>,
    /// Runtime for all other programs. It sends no requests to a model, but can use cached replies
    /// to tools.
    pub offline: Arc<Runtime>,
    /// The journal of the run.
    pub journal: &'a mut Journal,
    /// Flag that is set to stop the trials.
    pub stop: &'a AtomicBool,
    /// Other processes that run programs which ask no model, if any.
    pub evaluators: Option<&'a dyn Evaluators>,
}

impl Trials<'_> {
    /// Checks whether the run must stop.
    ///
    /// # Errors
    /// [`OptimizeError::Stopped`] if the stop flag is set.
    pub fn check_stop(&self) -> Result<()> {
        check_stop(self.stop)
    }

    /// Parses a program and checks that it can be run.
    ///
    /// # Errors
    /// [`OptimizeError::Program`] if the program does not compile.
    pub fn compile(&self, program: &Program) -> Result<CompiledProgram> {
        self.runtime.compile(program).map_err(|failure| program_failed(program, failure))
    }

    /// Returns the runtime for a program: with a language model if the program asks one, otherwise
    /// without.
    pub fn runtime_of(&self, program: &Program) -> &Arc<Runtime> {
        if asks(program) { &self.runtime } else { &self.offline }
    }

    /// Runs a program on queries of a pool (given as positions), in other processes if there are
    /// some and the program asks no model. Returns its rankings, in the order of `queries`. A query
    /// on which the program fails gets the default list of candidates, and the failure message.
    ///
    /// # Errors
    /// As [`Trials::compile`]; [`OptimizeError::Stopped`]; [`OptimizeError::Llm`] if a model that a
    /// tool asked gave no reply; or an error of an index.
    pub fn rankings(
        &self,
        program: &Program,
        params: &ParamValues,
        pool: &Pool,
        queries: &[usize],
    ) -> Result<Vec<TrialRanking>> {
        let compiled = self.compile(program)?;
        let runtime = self.runtime_of(program);
        self.rankings_on(runtime, (program, &compiled), params, pool, queries)
    }

    /// Does the same as [`Trials::rankings`] for a compiled program and with a given runtime for
    /// this process.
    ///
    /// # Errors
    /// As [`Trials::rankings`].
    pub fn rankings_on(
        &self,
        runtime: &Runtime,
        (program, compiled): (&Program, &CompiledProgram),
        params: &ParamValues,
        pool: &Pool,
        queries: &[usize],
    ) -> Result<Vec<TrialRanking>> {
        let Some(evaluators) = self.evaluators.filter(|_| !asks(program)) else {
            return rankings(runtime, self.stop, compiled, params, pool, queries);
        };
        let texts: Vec<&str> = queries.iter().map(|&at| pool.queries[at].text.as_str()).collect();
        evaluators.rankings(program, params, &texts, &|places| {
            let some: Vec<usize> = places.iter().map(|&place| queries[place]).collect();
            rankings(runtime, self.stop, compiled, params, pool, &some)
        })
    }

    /// Returns the trial of a program on queries of a pool, given as positions. Reads the trial
    /// from the journal; if it is not there, runs the program and commits the trial.
    ///
    /// # Errors
    /// As [`Trials::rankings`], and errors of the journal.
    pub fn run(
        &mut self,
        program: &Program,
        params: &ParamValues,
        pool: &Pool,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<Trial> {
        self.check_stop()?;
        if let Some(trial) = self.journal.find(TRIAL, &key(program, params, pool, queries))? {
            return Ok(trial);
        }
        let rankings = self.rankings(program, params, pool, queries)?;
        self.keep((program, params), pool, queries, origin, &rankings)
    }

    /// Commits the trial with these rankings, unless the journal has this trial already. Returns
    /// the stored trial.
    ///
    /// # Errors
    /// Errors of the journal.
    pub fn keep(
        &mut self,
        (program, params): (&Program, &ParamValues),
        pool: &Pool,
        queries: &[usize],
        origin: &Origin,
        rankings: &[TrialRanking],
    ) -> Result<Trial> {
        let key = key(program, params, pool, queries);
        if let Some(trial) = self.journal.find(TRIAL, &key)? {
            return Ok(trial);
        }
        let reciprocal_ranks = reciprocal_ranks(&self.runtime, rankings, pool, queries);
        let trial = Trial {
            program: program.id().to_owned(),
            params: params.clone(),
            pool: pool.name.to_owned(),
            origin: origin.clone(),
            queries: queries.to_vec(),
            reciprocal_ranks,
            failed: rankings.iter().filter(|pair| pair.1.is_some()).count(),
            failure: rankings.iter().find_map(|pair| pair.1.clone()),
        };
        self.journal.commit(TRIAL, &key, &trial, std::slice::from_ref(program))?;
        Ok(trial)
    }
}
