//! Measures a system on labelled queries, in parallel: metrics, latencies and failures. If the
//! system fails on a query, the ranking of a stand-in counts. Does not depend on the command line,
//! and does not interpret the results.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Instant,
};

use rayon::prelude::*;

use crate::{
    Answer, AssistFailure, Detail, Ranking, Retriever,
    eval::{Candidates, Definitions, QueryResult},
};
use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;

/// Settings of a measurement.
pub struct Measure<'a> {
    /// The labelled queries on which the system is measured.
    pub queries: &'a [LabelledQuery],
    /// The base that the system searches.
    pub base: &'a IndexedBase,
    /// Answers the queries on which the system fails.
    pub stand_in: &'a dyn Retriever,
    /// Definitions of the metrics.
    pub definitions: Definitions,
    /// Maximum number of nodes to rank for each query.
    pub depth: usize,
    /// Whether to keep the rankings.
    pub keep_rankings: bool,
    /// Set to `true` to stop the measurement early.
    pub stop: &'a AtomicBool,
    /// Called with the number of finished queries, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// Results of a system; every list is in the order of the queries.
#[derive(Debug, Default)]
pub struct Measurements {
    /// Metrics of each ranking, in the order of the queries.
    pub results: Vec<QueryResult>,
    /// The ranking of each query; empty unless [`Measure::keep_rankings`].
    pub rankings: Vec<Ranking>,
    /// Estimated last rank of the answers in each ranking; `None` if the system does not estimate
    /// it.
    pub ends: Vec<Option<usize>>,
    /// Number of queries that failed because of an outage, plus those that a language model did not
    /// assist for a transient reason. If this number is above 0, the means are invalid.
    pub outages: usize,
    /// Number of queries that a language model should have assisted but did not.
    pub unassisted: usize,
}

/// The measurement was stopped; no result was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the measurement was stopped; no result was kept")]
pub struct Stopped;

impl Measure<'_> {
    /// Measures a system on all queries, in parallel.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn run(&self, system: &dyn Retriever) -> Result<Measurements, Stopped> {
        let done = AtomicU64::new(0);
        let (outages, unassisted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let add = |count: &AtomicUsize, is_counted: bool| {
            count.fetch_add(usize::from(is_counted), Ordering::Relaxed);
        };
        let candidates = Candidates::of_base(&self.base.kb);
        let stopped = || self.stop.load(Ordering::Relaxed);
        let measure = |query: &LabelledQuery| {
            if stopped() {
                return Err(Stopped);
            }
            let start = Instant::now();
            let answer = system.answer(&query.text, self.depth, Detail::default());
            let latency_ms = start.elapsed().as_secs_f64() * 1e3;
            let (answer, failure) = match answer {
                Ok(answer) => (answer, None),
                // A stop is not a failure of the system.
                Err(_) if stopped() => return Err(Stopped),
                // If the stand-in fails too, the ranking is empty.
                Err(error) => {
                    add(&outages, error.is_outage());
                    let ranking =
                        self.stand_in.retrieve(&query.text, self.depth).unwrap_or_default();
                    (Answer::from_ranking(ranking), Some(error.to_string()))
                }
            };
            add(&unassisted, answer.unassisted.is_some());
            add(&outages, answer.unassisted.is_some_and(AssistFailure::is_transient));
            let (end, ranking) = (answer.end, answer.into_ranking());
            let metrics = self.definitions.measure(&ranking, &query.answers, candidates);
            let ranking = if self.keep_rankings { ranking } else { Ranking::new() };
            (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1);
            let result = QueryResult { query_id: query.id, metrics, latency_ms, failure };
            Ok((result, (ranking, end.map(|end| end.rank))))
        };
        let all = self.queries.par_iter().map(measure).collect::<Result<Vec<_>, Stopped>>()?;
        let (results, answers): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let (rankings, ends) = answers.into_iter().unzip();
        let (outages, unassisted) = (outages.into_inner(), unassisted.into_inner());
        Ok(Measurements { results, rankings, ends, outages, unassisted })
    }
}
