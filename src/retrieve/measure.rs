//! A system on labelled queries, side by side: what it ranks for each, how long that takes, where it
//! fails. A query that it fails on counts with the ranking of another system.
//!
//! Must not know: command lines, what is concluded from the figures.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Instant,
};

use rayon::prelude::*;

use crate::{
    Answer, Detail, Miss, Ranking, Retriever,
    eval::{Candidates, Definitions, QueryResult},
};
use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;

/// What is asked, and how the answers are measured.
pub struct Measure<'a> {
    /// The queries with their answers.
    pub queries: &'a [LabelledQuery],
    /// The base that is searched.
    pub base: &'a IndexedBase,
    /// Answers where the system fails.
    pub stand_in: &'a dyn Retriever,
    /// By which definitions rankings are measured.
    pub definitions: Definitions,
    /// Nodes ranked for each query.
    pub depth: usize,
    /// Whether rankings are kept.
    pub keep: bool,
    /// Set when the process is to end.
    pub stop: &'a AtomicBool,
    /// Told how many queries are done, from any thread.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// What a system did, by query.
#[derive(Debug, Default)]
pub struct Measured {
    /// How good each ranking is; in the order of the queries.
    pub results: Vec<QueryResult>,
    /// Each ranking; empty ones unless they are kept.
    pub rankings: Vec<Ranking>,
    /// The rank behind which each ranking's answers end, as far as the system says so.
    pub ends: Vec<Option<usize>>,
    /// Queries that failed, or that a language model did not help with, because a service gave no
    /// answer: with any, means say nothing.
    pub outages: usize,
    /// Queries that a language model was to help with and did not.
    pub unassisted: usize,
}

/// The process is to end; no result was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no result was kept")]
pub struct Stopped;

impl Measure<'_> {
    /// Asks a system all queries, in parallel.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn of(&self, system: &dyn Retriever) -> Result<Measured, Stopped> {
        let done = AtomicU64::new(0);
        let (outages, unassisted) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let add = |to: &AtomicUsize, is_one: bool| {
            to.fetch_add(usize::from(is_one), Ordering::Relaxed);
        };
        let candidates = Candidates::of(&self.base.kb);
        let stopped = || self.stop.load(Ordering::Relaxed);
        let one = |query: &LabelledQuery| {
            if stopped() {
                return Err(Stopped);
            }
            let began = Instant::now();
            let answer = system.answer(&query.text, self.depth, Detail::default());
            let latency_ms = began.elapsed().as_secs_f64() * 1e3;
            let (answer, failure) = match answer {
                Ok(answer) => (answer, None),
                // It was ended, and says nothing of the system.
                Err(_) if stopped() => return Err(Stopped),
                // A query that no system can read is answered with nothing.
                Err(error) => {
                    add(&outages, error.is_outage());
                    let other = self.stand_in.retrieve(&query.text, self.depth).unwrap_or_default();
                    (Answer::of(other), Some(error.to_string()))
                }
            };
            add(&unassisted, answer.unassisted.is_some());
            add(&outages, answer.unassisted.is_some_and(Miss::passes));
            let (end, ranking) = (answer.end, answer.into_ranking());
            let metrics = self.definitions.measure(&ranking, &query.answers, candidates);
            let ranking = if self.keep { ranking } else { Ranking::new() };
            (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1);
            let result = QueryResult { query_id: query.id, metrics, latency_ms, failure };
            Ok((result, (ranking, end.map(|end| end.rank))))
        };
        let all = self.queries.par_iter().map(one).collect::<Result<Vec<_>, Stopped>>()?;
        let (results, answers): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let (rankings, ends) = answers.into_iter().unzip();
        let (outages, unassisted) = (outages.into_inner(), unassisted.into_inner());
        Ok(Measured { results, rankings, ends, outages, unassisted })
    }
}
