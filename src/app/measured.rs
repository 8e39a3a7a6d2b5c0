//! Measures systems on labelled queries, reports progress, and warns of failed queries. Does not
//! compare systems.

use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;
use agent_llm::ledger::Spending;
use agent_retrieve::{
    Ranking, Retriever,
    eval::{Definitions, Evaluation, QueryResult, SEED},
    measure::{self, Measure},
};

use crate::{App, Result, STAND_IN};

/// Default number of nodes that a system ranks for each query.
pub const DEPTH: u32 = 1_000;
/// Maximum number of failed queries that warnings list per system.
const MAX_LISTED: usize = 5;

/// How each query is measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Number of nodes that a system ranks for each query.
    pub depth: usize,
    /// Which definitions of the metrics apply.
    pub definitions: Definitions,
    /// Whether the rankings are kept in memory, besides the metrics.
    pub keep: bool,
}

impl Default for How {
    fn default() -> How {
        How { depth: DEPTH as usize, definitions: Definitions::default(), keep: false }
    }
}

/// Labelled queries to measure systems on.
pub struct Benchmark<'a> {
    /// The labelled queries.
    pub queries: &'a [LabelledQuery],
    /// The base that the systems search.
    pub base: &'a IndexedBase,
    /// Answers the queries on which a measured system fails; these rankings count as those of the
    /// system.
    pub stand_in: &'a dyn Retriever,
    /// How the systems are measured on each query.
    pub how: How,
}

/// Results of one system on the queries of a benchmark.
pub struct Measured {
    /// Name of the system.
    pub system: String,
    /// Results by query, in the order of the queries.
    pub results: Vec<QueryResult>,
    /// Rankings by query, in the order of the queries; empty unless [`How::keep`].
    pub rankings: Vec<Ranking>,
    /// For each query, the number of nodes at the start of the ranking that the system counts as
    /// answers; `None` if the system does not predict this number.
    pub ends: Vec<Option<usize>>,
    /// Mean and confidence interval of each metric over all queries.
    pub evaluation: Evaluation,
    /// Number of queries for which a service gave no reply; if above 0, the means are invalid.
    pub outages: usize,
    /// Requests to language models that were sent, and their cost; zero until the caller sets it.
    pub llm: Spending,
    /// Requests to language models whose replies were used, cached replies included; zero until the
    /// caller sets it.
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
    /// Returns why the means are invalid; `None` if they are valid.
    pub fn invalid(&self) -> Option<String> {
        invalid(self.outages, self.evaluation.n)
    }

    /// Returns the mean time per query, in seconds.
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
                "{}: the language model gave no usable reply for {n} of {of} queries; these were \
                 answered without the model",
                self.system
            ));
        }
    }
}

/// Describes on how many queries a system failed; `None` if it failed on no query.
pub fn failed(system: &str, evaluation: &Evaluation) -> Option<String> {
    let (n, of, name) = (evaluation.failed, evaluation.n, STAND_IN.name());
    (n > 0).then(|| {
        format!("{system}: {n} of {of} queries failed; the ranking of {name} counts instead")
    })
}

/// Returns why means over `n` queries are invalid: a service gave no reply for `outages` of them.
/// `None` if they are valid.
pub fn invalid(outages: usize, n: usize) -> Option<String> {
    (outages > 0).then(|| format!("a service gave no answer to {outages} of {n} queries"))
}

/// Returns the warning that the means of a system are invalid; `why` is the result of [`invalid`].
pub fn invalid_line(system: &str, why: &str) -> String {
    format!("{system}: this evaluation is invalid: {why}; evaluate again")
}
