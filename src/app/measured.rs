//! Measures systems on labelled queries, with progress, and warns of failed queries. Must not know
//! what is concluded from the figures.

use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;
use agent_llm::ledger::Spending;
use agent_retrieve::{
    Ranking, Retriever,
    eval::{Definitions, Evaluation, QueryResult, SEED},
    measure::{self, Measure},
};

use crate::{App, Result, systems::STAND_IN};

/// Nodes ranked for every query where nothing else is said.
pub const DEPTH: u32 = 1_000;
/// Maximum failed queries listed individually.
const MAX_LISTED: usize = 5;

/// How each query is measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Nodes ranked.
    pub depth: usize,
    /// Definitions of the metrics.
    pub definitions: Definitions,
    /// Whether rankings are kept.
    pub keep: bool,
}

impl Default for How {
    fn default() -> How {
        How { depth: DEPTH as usize, definitions: Definitions::default(), keep: false }
    }
}

/// Labelled queries to measure systems on.
pub struct Benchmark<'a> {
    /// The queries.
    pub queries: &'a [LabelledQuery],
    /// The searched base.
    pub base: &'a IndexedBase,
    /// Answers where a system fails.
    pub stand_in: &'a dyn Retriever,
    /// How each query is measured.
    pub how: How,
}

/// Figures of one system.
pub struct Measured {
    /// Its name.
    pub system: String,
    /// By query.
    pub results: Vec<QueryResult>,
    /// By query; empty ones unless they are kept.
    pub rankings: Vec<Ranking>,
    /// Where each ranking's answers end, as far as the system says so.
    pub ends: Vec<Option<usize>>,
    /// Over all queries.
    pub evaluation: Evaluation,
    /// Queries for which a service gave no answer: with any, the means say nothing.
    pub outages: usize,
    /// Spending on language models; the caller sets it.
    pub llm: Spending,
    /// What its replies took, kept ones included; the caller sets it.
    pub used: Spending,
    /// Queries that a model was to help with and did not.
    pub unassisted: usize,
}

impl Benchmark<'_> {
    /// Runs a system on all queries, in parallel; results are in the order of the queries.
    ///
    /// # Errors
    /// That it was stopped.
    pub fn measure(&self, name: &str, system: &dyn Retriever, app: &App) -> Result<Measured> {
        let progress = app.watch.progress();
        let measure = Measure {
            queries: self.queries,
            base: self.base,
            stand_in: self.stand_in,
            definitions: self.how.definitions,
            depth: self.how.depth,
            keep_rankings: self.how.keep,
            stop: &app.stop,
            progress: &|done| progress.at(name, done, self.queries.len() as u64),
        };
        let measure::Measurements { results, rankings, ends, outages, unassisted } =
            measure.run(system)?;
        drop(progress);
        let evaluation = Evaluation::from_results(&results, SEED)?;
        Ok(Measured {
            system: name.to_owned(),
            results,
            rankings,
            ends,
            evaluation,
            outages,
            llm: Spending::default(),
            used: Spending::default(),
            unassisted,
        })
    }
}

impl Measured {
    /// Why the means say nothing, if that is so.
    pub fn invalid(&self) -> Option<String> {
        invalid(self.outages, self.evaluation.n)
    }

    /// Seconds for a query, on average.
    pub fn seconds(&self) -> f64 {
        let ms: f64 = self.results.iter().map(|result| result.latency_ms).sum();
        ms / 1e3 / self.results.len().max(1) as f64
    }

    /// Warns of failed queries, of means that say nothing, and of a model that did not help.
    pub fn warn(&self, app: &App) {
        let failed = self
            .results
            .iter()
            .filter_map(|result| Some((result.query_id, result.failure.as_ref()?)));
        for (id, failure) in failed.take(MAX_LISTED) {
            app.watch.warning(&format!("{}: query {id} failed: {failure}", self.system));
        }
        if let Some(why) = self.invalid() {
            app.watch.warning(&invalid_line(&self.system, &why));
        }
        if self.unassisted > 0 {
            let (n, of) = (self.unassisted, self.evaluation.n);
            app.watch.warning(&format!(
                "{}: the language model gave no usable reply for {n} of {of} queries; they are \
                 answered without it",
                self.system
            ));
        }
    }
}

/// How many queries a system failed on, in words; none if it failed on none.
pub fn failed(system: &str, evaluation: &Evaluation) -> Option<String> {
    let (n, of, name) = (evaluation.failed, evaluation.n, STAND_IN.name());
    (n > 0).then(|| {
        format!("{system}: {n} of {of} queries failed and count with the ranking of {name}")
    })
}

/// Why means over `n` queries say nothing, if that is so.
pub fn invalid(outages: usize, n: usize) -> Option<String> {
    (outages > 0).then(|| format!("a service gave no answer to {outages} of {n} queries"))
}

/// A warning that the means of a system say nothing.
pub fn invalid_line(system: &str, why: &str) -> String {
    format!("{system}: this evaluation is invalid: {why}; evaluate again")
}
