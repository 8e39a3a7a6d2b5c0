//! Measures systems on labelled queries, with progress, and warns of failed queries. Must not draw
//! conclusions from the results.

use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;
use agent_llm::ledger::Spending;
use agent_retrieve::{
    Ranking, Retriever,
    eval::{Definitions, Evaluation, QueryResult, SEED},
    measure::{self, Measure},
};

use crate::{App, Result, systems::STAND_IN};

/// Default number of nodes ranked for every query.
pub const DEPTH: u32 = 1_000;
/// Maximum number of failed queries listed individually.
const MAX_LISTED: usize = 5;

/// How each query is measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Number of ranked nodes.
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
    /// Answers queries for which a system fails.
    pub stand_in: &'a dyn Retriever,
    /// How each query is measured.
    pub how: How,
}

/// Results of one system.
pub struct Measured {
    /// Its name.
    pub system: String,
    /// Results by query, in the order of the queries.
    pub results: Vec<QueryResult>,
    /// Rankings by query; empty unless they are kept.
    pub rankings: Vec<Ranking>,
    /// By query: the last rank of the ranking's answers, if the system determines it.
    pub ends: Vec<Option<usize>>,
    /// Means and intervals over all queries.
    pub evaluation: Evaluation,
    /// Number of queries for which a service gave no reply; if above 0, the means are invalid.
    pub outages: usize,
    /// Spending on language models; the caller sets it.
    pub llm: Spending,
    /// Cost of all replies used, cached ones included; the caller sets it.
    pub used: Spending,
    /// Number of queries that a language model should have helped with but did not.
    pub unassisted: usize,
}

impl Benchmark<'_> {
    /// Runs a system on all queries, in parallel; results are in the order of the queries.
    ///
    /// # Errors
    /// If the operation was stopped.
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
    /// Returns why the means are invalid, if they are.
    pub fn invalid(&self) -> Option<String> {
        invalid(self.outages, self.evaluation.n)
    }

    /// Returns the mean time per query, seconds.
    pub fn seconds(&self) -> f64 {
        let ms: f64 = self.results.iter().map(|result| result.latency_ms).sum();
        ms / 1e3 / self.results.len().max(1) as f64
    }

    /// Warns of failed queries, invalid means, and a language model that did not help.
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

/// Describes how many queries a system failed on; `None` if it failed on none.
pub fn failed(system: &str, evaluation: &Evaluation) -> Option<String> {
    let (n, of, name) = (evaluation.failed, evaluation.n, STAND_IN.name());
    (n > 0).then(|| {
        format!("{system}: {n} of {of} queries failed and count with the ranking of {name}")
    })
}

/// Returns why means over `n` queries are invalid, if they are.
pub fn invalid(outages: usize, n: usize) -> Option<String> {
    (outages > 0).then(|| format!("a service gave no answer to {outages} of {n} queries"))
}

/// Returns a warning that the means of a system are invalid.
pub fn invalid_line(system: &str, why: &str) -> String {
    format!("{system}: this evaluation is invalid: {why}; evaluate again")
}
