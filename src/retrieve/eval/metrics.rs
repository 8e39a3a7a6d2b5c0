//! Names and tables of the reported metrics: the fourteen that STaRK reports per query, and
//! `hit@100`, the recall of a shortlist. [`crate::eval::ranks`] defines them. Their names are the
//! keys of every file and table.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::eval::NodeId;
use crate::eval::ranks::{AnswerRanks, Candidates};

/// Number of reported metrics.
pub const N_METRICS: usize = 15;

/// One reported metric. [`Metric::ALL`] fixes the order in tables and files.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// 1 if an answer is at rank 1.
    Hit1,
    /// 1 if an answer is among the first 3.
    Hit3,
    /// 1 if an answer is among the first 5.
    Hit5,
    /// 1 if an answer is among the first 10.
    Hit10,
    /// 1 if an answer is among the first 20.
    Hit20,
    /// 1 if an answer is among the first 50.
    Hit50,
    /// 1 if an answer is among the first 100.
    Hit100,
    /// Share of the answers among the first 5.
    Recall5,
    /// Share of the answers among the first 10.
    Recall10,
    /// Share of the answers among the first 20.
    Recall20,
    /// Share of the answers among the first 50.
    Recall50,
    /// Share of the answers among the first 100.
    Recall100,
    /// Reciprocal of the best answer's rank, however low that rank is.
    Mrr,
    /// Average precision over all answers, however low their ranks are.
    Map,
    /// Share of the answers among the first `a`, where `a` is the number of answers.
    RPrecision,
}

impl Metric {
    /// All metrics in reporting order, with their names and definitions.
    const TABLE: [(Metric, &'static str, Definition); N_METRICS] = [
        (Metric::Hit1, "hit@1", Definition::Hit(1)),
        (Metric::Hit3, "hit@3", Definition::Hit(3)),
        (Metric::Hit5, "hit@5", Definition::Hit(5)),
        (Metric::Hit10, "hit@10", Definition::Hit(10)),
        (Metric::Hit20, "hit@20", Definition::Hit(20)),
        (Metric::Hit50, "hit@50", Definition::Hit(50)),
        (Metric::Hit100, "hit@100", Definition::Hit(100)),
        (Metric::Recall5, "recall@5", Definition::Recall(5)),
        (Metric::Recall10, "recall@10", Definition::Recall(10)),
        (Metric::Recall20, "recall@20", Definition::Recall(20)),
        (Metric::Recall50, "recall@50", Definition::Recall(50)),
        (Metric::Recall100, "recall@100", Definition::Recall(100)),
        (Metric::Mrr, "mrr", Definition::ReciprocalRank),
        (Metric::Map, "map", Definition::AveragePrecision),
        (Metric::RPrecision, "rprecision", Definition::RPrecision),
    ];

    /// All metrics in reporting order; `ALL[i] as usize == i`.
    pub const ALL: [Metric; N_METRICS] = {
        let mut all = [Metric::Hit1; N_METRICS];
        let mut at = 0;
        while at < N_METRICS {
            all[at] = Metric::TABLE[at].0;
            at += 1;
        }
        all
    };

    /// Returns the name of the metric in files and on the command line, such as `hit@1`.
    pub fn name(self) -> &'static str {
        Metric::TABLE[self as usize].1
    }

    /// Returns the definition of the metric.
    pub(super) fn definition(self) -> Definition {
        Metric::TABLE[self as usize].2
    }
}

/// Definition of a metric, as a function of the ranks of the answers.
#[derive(Copy, Clone)]
pub(super) enum Definition {
    /// Whether an answer is at this rank or better.
    Hit(usize),
    /// Share of the answers at this rank or better.
    Recall(usize),
    ReciprocalRank,
    AveragePrecision,
    RPrecision,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One value per [`Metric`]; as JSON an object with the metric names as keys, in reporting order.
#[derive(Copy, Clone, Debug, PartialEq, Default)]
pub struct MetricTable<T> {
    values: [T; N_METRICS],
}

/// The metrics of one query, each in `[0, 1]`.
pub type Metrics = MetricTable<f32>;

impl From<Metrics> for MetricTable<f64> {
    fn from(metrics: Metrics) -> Self {
        MetricTable { values: metrics.values.map(f64::from) }
    }
}

impl<T: Copy> MetricTable<T> {
    /// Creates a table from values in the order of [`Metric::ALL`].
    pub fn from_values(values: [T; N_METRICS]) -> MetricTable<T> {
        MetricTable { values }
    }

    /// Returns the value of one metric.
    pub fn get(&self, metric: Metric) -> T {
        self.values[metric as usize]
    }

    /// Returns the values in the order of [`Metric::ALL`].
    pub fn values(&self) -> &[T; N_METRICS] {
        &self.values
    }

    /// Returns the metrics with their values, in the order of [`Metric::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Metric, T)> + '_ {
        Metric::ALL.into_iter().zip(self.values.iter().copied())
    }
}

impl<T: Serialize> Serialize for MetricTable<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Metric::ALL.map(Metric::name).iter().zip(&self.values))
    }
}

impl Metrics {
    /// Computes all reported metrics of one ranking.
    ///
    /// `ranking` must hold distinct nodes with scores; any order is allowed, best first is faster.
    /// `answers` may have any order; duplicates count once. [`crate::eval::ranks`] explains
    /// candidates and ties.
    pub fn new(
        ranking: &[(NodeId, f32)],
        answers: &[NodeId],
        candidates: Candidates<'_>,
    ) -> Metrics {
        Metrics::from_ranks(&AnswerRanks::new(ranking, answers, candidates))
    }

    /// Computes all reported metrics from the ranks of the answers.
    pub fn from_ranks(ranks: &AnswerRanks) -> Metrics {
        MetricTable::from_values(Metric::ALL.map(|metric| match metric.definition() {
            Definition::Hit(k) => ranks.hit_at(k as u64),
            Definition::Recall(k) => ranks.recall_at(k as u64),
            Definition::ReciprocalRank => ranks.reciprocal_rank(),
            Definition::AveragePrecision => ranks.average_precision(),
            Definition::RPrecision => ranks.r_precision(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_in_the_order_of_their_numbers() {
        for metric in Metric::ALL {
            assert_eq!(Metric::ALL[metric as usize], metric);
        }
    }
}
