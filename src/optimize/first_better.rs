//! Reports when a run's programs first beat every baseline on training queries.
//!
//! Two milestones are reported: one for a single program on the training queries of its trial, and
//! one for all programs together on all training queries. For the second milestone, each query is
//! routed by a router that was trained without this query. Programs beat the baselines if their
//! mean reciprocal rank is above that of every baseline. In addition, the 95 % interval of the
//! difference from the best baseline must be above 0. Programs are fitted to training answers, so a
//! milestone proves no gain. Validation queries are not used, and no decision of a run depends on
//! milestones.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Event, Result, Run,
    category_programs::CategoryProgram,
    trial::{largest, mean},
};
use agent_dataset::LabelledQuery;
use agent_infer::Runtime;
use agent_retrieve::{
    Baseline, RetrieveError, Retriever, System,
    eval::{Interval, statistics::bootstrap_interval},
};

/// Maximum number of queries on which programs and baselines are compared, evenly spread over the
/// available queries.
const MAX_COMPARED: usize = 100;
/// Minimum number of queries on which programs and baselines are compared.
const MIN_COMPARED: usize = 10;
/// Number of nodes that a baseline ranks. The ranking of `hybrid` is an exception: it is the list
/// of candidates that programs receive.
const DEPTH: usize = 100;

/// The programs that are compared with the baselines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One program, compared on the training queries of its trial.
    Program,
    /// All current programs, on all training queries; the router chooses the program of each query.
    Together,
}

/// The moment at which programs of a run first beat every baseline, with their scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Milestone {
    /// The programs that beat every baseline.
    #[serde(rename = "what")]
    pub scope: Scope,
    /// Seconds since the start of the run.
    pub seconds: f64,
    /// Number of training queries on which programs and baselines were compared.
    pub n: usize,
    /// Number of training queries from which the compared queries were taken.
    #[serde(rename = "of")]
    pub total: usize,
    /// Mean reciprocal rank of the programs on the compared queries.
    pub mrr: f64,
    /// Name of the baseline with the highest mean reciprocal rank on the compared queries.
    pub baseline: String,
    /// Mean reciprocal rank of this baseline on the compared queries.
    pub baseline_mrr: f64,
    /// 95 % interval of the mean difference of reciprocal ranks, programs minus best baseline.
    pub ci95: Interval,
}

impl Milestone {
    /// Creates a milestone of one program, reached `seconds` after the start of the run.
    #[cfg(test)]
    pub(crate) fn for_test(seconds: f64) -> Self {
        Self {
            scope: Scope::Program,
            seconds,
            n: 20,
            total: 40,
            mrr: 0.5,
            baseline: "bm25".to_owned(),
            baseline_mrr: 0.2,
            ci95: Interval { low: 0.1, high: 0.5 },
        }
    }
}

/// Reciprocal rank of each baseline on one query, in the order of [`System::ALL`].
type BaselineRanks = [f32; System::ALL.len()];

/// Cached reciprocal ranks of the baselines on training queries, and the scopes whose milestones
/// were reported.
#[derive(Default)]
pub(super) struct FirstBetter {
    ranks: Vec<Option<BaselineRanks>>,
    reported: Vec<Scope>,
}

/// Returns at most [`MAX_COMPARED`] of the positions `0..n`, evenly spread, ascending.
fn spread(n: usize) -> Vec<usize> {
    let count = n.min(MAX_COMPARED);
    (0..count).map(|i| i * n / count).collect()
}

/// Returns the reciprocal rank of each baseline on one query; 0 for a baseline that cannot search
/// for the query's text.
fn baseline_ranks(runtime: &Runtime, query: &LabelledQuery) -> Result<BaselineRanks> {
    let mut ranks = BaselineRanks::default();
    for (rank, system) in ranks.iter_mut().zip(System::ALL) {
        let found = match system {
            System::Hybrid => runtime.default_ranking(&query.text),
            system => Baseline::new(runtime.base().clone(), system).retrieve(&query.text, DEPTH),
        };
        match found {
            Ok(ranking) => *rank = runtime.reciprocal_rank(&ranking, &query.answers),
            Err(RetrieveError::EmptyQuery | RetrieveError::LongQuery(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(ranks)
}

impl Run<'_> {
    /// Reports the milestone of a scope if its programs beat every baseline on `queries` (positions
    /// of training queries), at most once per run. `ranks` are the reciprocal ranks of the programs
    /// on these queries.
    pub(super) fn compare(&mut self, scope: Scope, queries: &[usize], ranks: &[f32]) -> Result<()> {
        if self.first_better.reported.contains(&scope) || queries.len() < MIN_COMPARED {
            return Ok(());
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let places = spread(queries.len());
        let compared: Vec<usize> = places.iter().map(|&place| queries[place]).collect();
        let own: Vec<f32> = places.iter().map(|&place| ranks[place]).collect();
        let baselines = self.baselines_on(&compared)?;
        let best = largest(System::ALL.into_iter().enumerate().map(|(at, system)| {
            let ranks: Vec<f32> = baselines.iter().map(|ranks| ranks[at]).collect();
            (mean(&ranks), (system, ranks))
        }));
        let mrr = mean(&own);
        let Some((baseline_mrr, (system, theirs))) = best.filter(|best| mrr > best.0) else {
            return Ok(());
        };
        let differences: Vec<f64> =
            own.iter().zip(&theirs).map(|(own, theirs)| f64::from(own - theirs)).collect();
        let ci95 = bootstrap_interval(&differences, self.options.seed)?;
        if ci95.low > 0.0 {
            self.first_better.reported.push(scope);
            let (n, total, baseline) = (own.len(), queries.len(), system.name().to_owned());
            let better = Milestone { scope, seconds, n, total, mrr, baseline, baseline_mrr, ci95 };
            (self.watch)(Event::Milestone(&better));
        }
        Ok(())
    }

    /// Calls [`Run::compare`] for all programs together on all training queries. `probabilities`
    /// has, for each query, the probability of each category, from a router that was trained
    /// without this query.
    pub(super) fn compare_together(
        &mut self,
        probabilities: &[Vec<f32>],
        categories: &[CategoryProgram],
    ) -> Result<()> {
        let routed = |(query, probabilities): (usize, &Vec<f32>)| {
            let probabilities = probabilities.iter().map(|&probability| f64::from(probability));
            largest(probabilities.zip(categories)).map_or(0.0, |top| top.1.train[query])
        };
        let ranks: Vec<f32> = probabilities.iter().enumerate().map(routed).collect();
        let all: Vec<usize> = (0..ranks.len()).collect();
        self.compare(Scope::Together, &all, &ranks)
    }

    /// Returns the reciprocal ranks of the baselines on each of `queries` (positions of training
    /// queries). The baselines search for each query only once in a run.
    fn baselines_on(&mut self, queries: &[usize]) -> Result<Vec<BaselineRanks>> {
        self.trials.check_stop()?;
        self.first_better.ranks.resize(self.train.queries.len(), None);
        let (known, runtime) = (&self.first_better.ranks, &self.trials.runtime);
        let ranks = |&at: &usize| match known[at] {
            Some(ranks) => Ok(ranks),
            None => baseline_ranks(runtime, &self.train.queries[at]),
        };
        let found: Vec<BaselineRanks> = queries.par_iter().map(ranks).collect::<Result<_>>()?;
        for (&at, ranks) in queries.iter().zip(&found) {
            self.first_better.ranks[at] = Some(*ranks);
        }
        Ok(found)
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
