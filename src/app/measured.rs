//! Measures systems on labelled queries, reports progress, and warns of failed queries. Does not
//! compare systems.

use std::sync::Arc;

use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;
use agent_llm::ledger::Spending;
use agent_retrieve::{
    Baseline, Retriever,
    eval::{Definitions, Evaluation, SEED},
    measure::{Measure, Measurements},
};

use crate::{App, Result, STAND_IN};

/// Default number of nodes that a system ranks for each query.
pub const DEPTH: u32 = 1_000;
/// Maximum number of failed queries that warnings list per system.
const MAX_LISTED: usize = 5;

/// Labelled queries to measure systems on.
pub struct Benchmark<'a> {
    /// The labelled queries.
    pub queries: &'a [LabelledQuery],
    /// The base that the systems search.
    pub base: &'a Arc<IndexedBase>,
    /// Number of nodes that a system ranks for each query.
    pub depth: usize,
    /// Which definitions of the metrics apply.
    pub definitions: Definitions,
    /// Whether the rankings are kept in memory, besides the metrics.
    pub keep: bool,
}

/// Results of one system on the queries of a benchmark.
pub struct Measured {
    /// Name of the system.
    pub system: String,
    /// Results by query, in the order of the queries; rankings are empty unless
    /// [`Benchmark::keep`]. If there are outages, the means are invalid.
    pub measurements: Measurements,
    /// Mean and confidence interval of each metric over all queries.
    pub evaluation: Evaluation,
    /// Requests to language models that were sent, and their cost; zero until the caller sets it.
    pub llm: Spending,
    /// Requests to language models whose replies were used, cached replies included; zero until the
    /// caller sets it.
    pub used: Spending,
}

impl<'a> Benchmark<'a> {
    /// Measures at the default depth by the default definitions, and keeps no rankings.
    pub fn new(queries: &'a [LabelledQuery], base: &'a Arc<IndexedBase>) -> Self {
        let (depth, definitions) = (DEPTH as usize, Definitions::default());
        Benchmark { queries, base, depth, definitions, keep: false }
    }

    /// Runs a system on all queries, in parallel; results are in the order of the queries. The
    /// ranking of the baseline [`STAND_IN`] counts for queries on which the system fails.
    ///
    /// # Errors
    /// If the operation was stopped.
    pub fn measure(&self, name: &str, system: &dyn Retriever, app: &App) -> Result<Measured> {
        let progress = app.watch.progress();
        let stand_in = Baseline::new(self.base.clone(), STAND_IN);
        let measure = Measure {
            queries: self.queries,
            base: self.base,
            stand_in: &stand_in,
            definitions: self.definitions,
            depth: self.depth,
            keep_rankings: self.keep,
            stop: &app.stop,
            progress: &|done| progress.at(name, done, self.queries.len() as u64),
        };
        let measurements = measure.run(system)?;
        drop(progress);
        let evaluation = Evaluation::from_results(&measurements.results, SEED)?;
        let (system, llm, used) = (name.to_owned(), Spending::default(), Spending::default());
        Ok(Measured { system, measurements, evaluation, llm, used })
    }
}

impl Measured {
    /// Returns why the means are invalid; `None` if they are valid.
    pub fn invalid(&self) -> Option<String> {
        invalid(self.measurements.outages, self.evaluation.n)
    }

    /// Returns the mean time per query, in seconds.
    pub fn seconds(&self) -> f64 {
        let results = &self.measurements.results;
        let ms: f64 = results.iter().map(|result| result.latency_ms).sum();
        ms / 1e3 / results.len().max(1) as f64
    }

    /// Warns of failed queries, invalid means, and a language model that did not help.
    pub fn warn(&self, app: &App) {
        let results = self.measurements.results.iter();
        let failed = results.filter_map(|of| Some((of.query_id, of.failure.as_deref()?)));
        warn_of_failed(&self.system, failed, app);
        warn_of_invalid(&self.system, self.invalid().as_deref(), app);
        warn_of_unassisted(&self.system, self.measurements.unassisted, self.evaluation.n, app);
    }
}

/// Warns of the first queries on which a system failed. `failed` holds their ids and failures.
pub(crate) fn warn_of_failed<'a>(
    system: &str,
    failed: impl Iterator<Item = (i64, &'a str)>,
    app: &App,
) {
    for (id, failure) in failed.take(MAX_LISTED) {
        app.watch.warning(&format!("{system}: query {id} failed: {failure}"));
    }
}

/// Warns that the means of a system are invalid, if `why` is given; see [`invalid`].
pub(crate) fn warn_of_invalid(system: &str, why: Option<&str>, app: &App) {
    if let Some(why) = why {
        app.watch.warning(&format!("{system}: this evaluation is invalid: {why}; evaluate again"));
    }
}

/// Warns if a language model should have helped with `n` of `of` queries but did not.
pub(crate) fn warn_of_unassisted(system: &str, n: usize, of: usize, app: &App) {
    if n > 0 {
        app.watch.warning(&format!(
            "{system}: the language model gave no usable reply for {n} of {of} queries; these were \
             answered without the model"
        ));
    }
}

/// Describes on how many queries a system failed; `None` if it failed on no query.
pub fn failed(system: &str, evaluation: &Evaluation) -> Option<String> {
    let (n, of, name) = (evaluation.failed, evaluation.n, STAND_IN.name());
    (n > 0).then(|| {
        format!("{system}: {n} of {of} queries failed; the ranking of {name} is used instead")
    })
}

/// Returns why means over `n` queries are invalid: a service gave no reply for `outages` of them.
/// `None` if they are valid.
pub fn invalid(outages: usize, n: usize) -> Option<String> {
    (outages > 0).then(|| format!("a service did not reply for {outages} of {n} queries"))
}
