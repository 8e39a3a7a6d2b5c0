//! When a run's programs were first better than every baseline, on training queries.
//!
//! Two moments are told: of one program, on the training queries on which it was tried; and of all
//! programs together, on all training queries, each answered by the program that a router sends it
//! to which did not see it. Better means that the mean reciprocal rank is above that of every
//! baseline, and that the 95 % interval of the difference to the best of them is above 0. Programs
//! are made with training answers in hand, and tried first on queries that their metapaths can
//! answer: this says when, and is no proof of how much. Validation queries are not looked at.
//!
//! Nothing a run decides depends on it. Must not know: where programs come from.

use std::time::Duration;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Event, OptimizeError, Run,
    category_programs::CategoryProgram,
    trial::{mean, reciprocal_rank},
};
use agent_dataset::LabelledQuery;
use agent_infer::Runtime;
use agent_retrieve::{
    Baseline, Ranking, RetrieveError, Retriever, System,
    eval::{Interval, statistics::bootstrap_interval},
};

/// Queries on which programs are compared with baselines, at most; evenly spread over those there
/// are, so that the comparison stays cheap beside the run.
const MAX_COMPARED: usize = 100;
/// Queries below which nothing is said.
const MIN_COMPARED: usize = 10;
/// Nodes that a baseline ranks for it; `hybrid` ranks the candidates of programs.
const DEPTH: usize = 100;

/// What was better than every baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// One program, on the queries on which it was tried.
    Program,
    /// All programs so far, on all queries, each answered by the one it is routed to.
    Together,
}

/// The moment at which something was first better than every baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Better {
    /// What was better.
    pub what: What,
    /// Seconds since the run was begun.
    pub seconds: f64,
    /// Training queries compared.
    pub n: usize,
    /// Training queries of which these are a part: those on which a program was tried, or all.
    pub of: usize,
    /// Its mean reciprocal rank on the `n` queries.
    pub mrr: f64,
    /// The baseline that is best on them.
    pub baseline: String,
    /// Mean reciprocal rank of that baseline.
    pub baseline_mrr: f64,
    /// 95 % interval of the difference.
    pub ci95: Interval,
}

impl Better {
    /// That of one program, after so many seconds, for tests.
    #[cfg(test)]
    pub(crate) fn of_test(seconds: f64) -> Self {
        Self {
            what: What::Program,
            seconds,
            n: 20,
            of: 40,
            mrr: 0.5,
            baseline: "bm25".to_owned(),
            baseline_mrr: 0.2,
            ci95: Interval { low: 0.1, high: 0.5 },
        }
    }
}

/// Reciprocal ranks of the baselines, in the order of [`System::ALL`].
type OfBaselines = [f32; System::ALL.len()];

/// What baselines reach on training queries, as far as it was needed, and what was told already.
#[derive(Default)]
pub(super) struct FirstBetter {
    ranks: Vec<Option<OfBaselines>>,
    told: Vec<What>,
}

/// At most [`MAX_COMPARED`] of some positions, evenly spread.
fn spread(n: usize) -> Vec<usize> {
    let most = n.min(MAX_COMPARED);
    (0..most).map(|at| at * n / most).collect()
}

/// What the baselines reach on one query; nothing where they cannot search it.
fn of_baselines(runtime: &Runtime, query: &LabelledQuery) -> Result<OfBaselines, OptimizeError> {
    let mut ranks = OfBaselines::default();
    for (rank, system) in ranks.iter_mut().zip(System::ALL) {
        let found = match system {
            System::Hybrid => runtime.candidates(&query.text).map(|candidates| -> Ranking {
                let n = candidates.len() as f32;
                candidates.iter().enumerate().map(|(at, &node)| (node, n - at as f32)).collect()
            }),
            system => Baseline::new(runtime.base().clone(), system).retrieve(&query.text, DEPTH),
        };
        match found {
            Ok(ranking) => *rank = reciprocal_rank(runtime, &ranking, &query.answers),
            Err(RetrieveError::EmptyQuery | RetrieveError::LongQuery(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ranks)
}

impl Run<'_> {
    /// Tells, once, that reciprocal ranks on some training queries are better than those of every
    /// baseline.
    pub(super) fn compare(
        &mut self,
        what: What,
        queries: &[usize],
        ranks: &[f32],
    ) -> Result<(), OptimizeError> {
        if self.first_better.told.contains(&what) || queries.len() < MIN_COMPARED {
            return Ok(());
        }
        let since = self.started.elapsed();
        let places = spread(queries.len());
        let compared: Vec<usize> = places.iter().map(|&place| queries[place]).collect();
        let own: Vec<f32> = places.iter().map(|&place| ranks[place]).collect();
        let baselines = self.baselines_on(&compared)?;
        if let Some(better) = self.better(what, since, queries.len(), &own, &baselines)? {
            self.first_better.told.push(what);
            (self.watch)(Event::Better(&better));
        }
        Ok(())
    }

    /// [`Run::compare`] of all programs on all training queries, which are sent where routers that
    /// did not see them send them; `probabilities` are theirs.
    pub(super) fn compare_together(
        &mut self,
        probabilities: &[Vec<f32>],
        category_programs: &[CategoryProgram],
    ) -> Result<(), OptimizeError> {
        let routed = |(query, probabilities): (usize, &Vec<f32>)| {
            let top =
                probabilities.iter().enumerate().fold(None, |top: Option<(usize, f32)>, next| {
                    match top {
                        Some((_, most)) if *next.1 <= most => top,
                        _ => Some((next.0, *next.1)),
                    }
                });
            top.and_then(|(at, _)| category_programs.get(at))
                .map_or(0.0, |category_program| category_program.train[query])
        };
        let ranks: Vec<f32> = probabilities.iter().enumerate().map(routed).collect();
        let all: Vec<usize> = (0..ranks.len()).collect();
        self.compare(What::Together, &all, &ranks)
    }

    /// What the baselines reach on some training queries; each query is searched once in a run.
    fn baselines_on(&mut self, queries: &[usize]) -> Result<Vec<OfBaselines>, OptimizeError> {
        self.trials.check_stop()?;
        self.first_better.ranks.resize(self.train.queries.len(), None);
        let (known, runtime) = (&self.first_better.ranks, &self.trials.runtime);
        let found: Result<Vec<OfBaselines>, OptimizeError> = queries
            .par_iter()
            .map(|&at| match known[at] {
                Some(ranks) => Ok(ranks),
                None => of_baselines(runtime, &self.train.queries[at]),
            })
            .collect();
        let found = found?;
        for (&at, ranks) in queries.iter().zip(&found) {
            self.first_better.ranks[at] = Some(*ranks);
        }
        Ok(found)
    }

    /// The moment, if `own` is better than every baseline.
    fn better(
        &self,
        what: What,
        since: Duration,
        of: usize,
        own: &[f32],
        baselines: &[OfBaselines],
    ) -> Result<Option<Better>, OptimizeError> {
        let mut best: Option<(System, Vec<f32>, f64)> = None;
        for (at, system) in System::ALL.into_iter().enumerate() {
            let ranks: Vec<f32> = baselines.iter().map(|of| of[at]).collect();
            let mrr = mean(&ranks);
            if best.as_ref().is_none_or(|(_, _, most)| mrr > *most) {
                best = Some((system, ranks, mrr));
            }
        }
        let mrr = mean(own);
        let Some((system, theirs, baseline_mrr)) = best.filter(|best| mrr > best.2) else {
            return Ok(None);
        };
        let differences: Vec<f64> =
            own.iter().zip(&theirs).map(|(own, theirs)| f64::from(own - theirs)).collect();
        let ci95 = bootstrap_interval(&differences, self.options.seed)?;
        let better = Better {
            what,
            seconds: since.as_secs_f64(),
            n: own.len(),
            of,
            mrr,
            baseline: system.name().to_owned(),
            baseline_mrr,
            ci95,
        };
        Ok((ci95.low > 0.0).then_some(better))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_compared_evenly_spread_and_each_once() {
        assert_eq!(spread(3), [0, 1, 2]);
        let many = spread(250);
        assert_eq!((many.len(), many[0], many[1], many[99]), (100, 0, 2, 247));
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(spread(0), [0usize; 0]);
    }
}
