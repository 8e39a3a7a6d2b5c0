//! Metrics of answers that are sets: the nodes of a ranking up to its estimated end.
//!
//! Precision is the share of the returned nodes that are correct; recall is the share of the
//! correct nodes that are returned. F1 is their harmonic mean (van Rijsbergen, *Information
//! Retrieval*, 1979, chapter 7). An answer is exact if it holds all correct nodes and no others.
//! Means are macro means over all queries; a query whose ranking has no end counts 0 in each mean.
//!
//! Two bounds use knowledge of the answers. One is the fixed end `k` with the best mean F1 over all
//! queries. The other is the best end for each query: an upper bound on F1 for any choice of ends.
//!
//! Unlike in [`crate::eval::ranks`], nodes that are not candidates count, because users see them.

use std::collections::HashSet;

use serde::Serialize;

use crate::eval::{
    NodeId,
    evaluation::EvalError,
    statistics::{Interval, bootstrap_intervals},
};

/// Largest number of nodes that is tried as a fixed end.
pub const MAX_FIXED_END: usize = 100;
/// Number of metrics in [`SetMetrics`].
const N: usize = 4;
/// Names of the metrics in [`SetMetrics`], in order.
pub const SET_METRICS: [&str; N] = ["precision", "recall", "f1", "exact"];

/// Metrics of a set as the answer to one query, or their means; each in `0..=1`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct SetMetrics<T = f64> {
    /// Share of the returned nodes that are correct; 0 without returned nodes.
    pub precision: T,
    /// Share of the correct nodes that are returned.
    pub recall: T,
    /// Harmonic mean of precision and recall; 0 if no returned node is correct.
    pub f1: T,
    /// 1 if exactly the correct nodes are returned, else 0.
    pub exact: T,
}

impl<T: Copy> SetMetrics<T> {
    /// The metrics in the order of [`SET_METRICS`].
    pub fn values(&self) -> [T; N] {
        [self.precision, self.recall, self.f1, self.exact]
    }

    fn from_values([precision, recall, f1, exact]: [T; N]) -> Self {
        Self { precision, recall, f1, exact }
    }
}

impl SetMetrics {
    /// Measures the first `end` nodes of a ranking of distinct nodes against at least one answer;
    /// duplicate answers count once.
    pub fn new(ranking: &[(NodeId, f32)], end: usize, answers: &[NodeId]) -> Self {
        let n_given = end.min(ranking.len());
        let sought: HashSet<NodeId> = answers.iter().copied().collect();
        let n_right = ranking.iter().take(n_given).filter(|pair| sought.contains(&pair.0)).count();
        let share = |total: usize| if total == 0 { 0.0 } else { n_right as f64 / total as f64 };
        Self {
            precision: share(n_given),
            recall: share(sought.len()),
            f1: f1(n_right, n_given, sought.len()),
            exact: f64::from(n_right == n_given && n_right == sought.len()),
        }
    }
}

/// Returns the F1 of a set of `given` nodes with `right` correct nodes, if there are `sought`
/// correct nodes in total.
fn f1(right: usize, given: usize, sought: usize) -> f64 {
    2.0 * right as f64 / (given + sought).max(1) as f64
}

/// Returns the F1 of the first 1, 2, ... nodes of a ranking, up to `max_end` nodes or all nodes if
/// there are fewer.
pub fn f1_by_end(ranking: &[(NodeId, f32)], answers: &[NodeId], max_end: usize) -> Vec<f64> {
    let sought: HashSet<NodeId> = answers.iter().copied().collect();
    let mut n_right = 0;
    let ends = ranking.iter().take(max_end).enumerate().map(|(index, pair)| {
        n_right += usize::from(sought.contains(&pair.0));
        f1(n_right, index + 1, sought.len())
    });
    ends.collect()
}

/// Metrics of one query's ranking as a set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetResult {
    /// The query's id in its dataset.
    pub query_id: i64,
    /// Metrics of the nodes up to the estimated end; `None` if the ranking has no estimated end.
    pub at_end: Option<SetMetrics>,
    /// Values of [`f1_by_end`] for ends up to [`MAX_FIXED_END`].
    pub by_end: Vec<f64>,
}

impl SetResult {
    /// Measures the ranking of a query against the query's answers; `end` is the estimated last
    /// rank of an answer, if any.
    pub fn new(
        query_id: i64,
        ranking: &[(NodeId, f32)],
        end: Option<usize>,
        answers: &[NodeId],
    ) -> Self {
        let at_end = end.map(|end| SetMetrics::new(ranking, end, answers));
        Self { query_id, at_end, by_end: f1_by_end(ranking, answers, MAX_FIXED_END) }
    }

    /// Returns the F1 of the first `k` nodes (at least 1, at most [`MAX_FIXED_END`]), or of all
    /// nodes if there are fewer.
    fn f1_at(&self, k: usize) -> f64 {
        self.by_end.get(k - 1).or(self.by_end.last()).copied().unwrap_or(0.0)
    }
}

/// A number of returned nodes that is the same for all queries.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct FixedEnd {
    /// Number of nodes that are returned for every query.
    pub k: usize,
    /// Mean F1 over all queries with this number of nodes.
    pub f1: f64,
}

/// The summary of one system on one set of queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetEvaluation {
    /// Number of queries.
    pub n: usize,
    /// Number of queries whose ranking has no end.
    pub without_end: usize,
    /// Means over all queries; `None` if no ranking has an end.
    #[serde(rename = "metrics")]
    pub means: Option<SetMetrics>,
    /// 95 % bootstrap interval of each mean; `None` if `means` is `None`.
    pub ci95: Option<SetMetrics<Interval>>,
    /// The fixed end with the best mean F1; if several are equally good, the smallest.
    pub best_fixed: FixedEnd,
    /// Mean F1 over all queries if every ranking had its best end.
    pub best_f1: f64,
}

impl SetEvaluation {
    /// Summarises results in any order; `seed` seeds the bootstrap.
    ///
    /// # Errors
    /// [`EvalError::NoQueries`].
    pub fn from_results(results: &[&SetResult], seed: u64) -> Result<SetEvaluation, EvalError> {
        if results.is_empty() {
            return Err(EvalError::NoQueries);
        }
        let mut sorted = results.to_vec();
        sorted.sort_by_key(|result| result.query_id);
        let n = sorted.len();
        let mean = |value: &dyn Fn(&SetResult) -> f64| {
            sorted.iter().map(|result| value(result)).sum::<f64>() / n as f64
        };
        let without_end = sorted.iter().filter(|result| result.at_end.is_none()).count();
        let (mut means, mut ci95) = (None, None);
        if without_end < n {
            let row = |result: &&SetResult| result.at_end.unwrap_or_default().values();
            let rows: Vec<[f64; N]> = sorted.iter().map(row).collect();
            let sum = |column: usize| rows.iter().filter_map(|row| row.get(column)).sum::<f64>();
            means =
                Some(SetMetrics::from_values(std::array::from_fn(|column| sum(column) / n as f64)));
            let intervals = bootstrap_intervals(&rows, seed)
                .map_err(|source| EvalError::Statistics { quantity: "metrics", source })?;
            ci95 = Some(SetMetrics::from_values(intervals));
        }
        let best_fixed = (1..=MAX_FIXED_END)
            .map(|k| FixedEnd { k, f1: mean(&|result| result.f1_at(k)) })
            .reduce(|best, next| if next.f1 > best.f1 { next } else { best })
            .unwrap_or(FixedEnd { k: 1, f1: 0.0 });
        let best_f1 = mean(&|result| result.by_end.iter().copied().fold(0.0, f64::max));
        Ok(SetEvaluation { n, without_end, means, ci95, best_fixed, best_f1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(nodes: &[NodeId]) -> Vec<(NodeId, f32)> {
        nodes.iter().map(|&node| (node, 1.0 / (node + 1) as f32)).collect()
    }

    #[test]
    fn sets_are_measured_as_by_hand() {
        let ranking = ranking(&[4, 1, 7, 9]);
        let two_of_three = SetMetrics::new(&ranking, 3, &[1, 4, 8, 9]);
        let [precision, recall, f1, exact] = two_of_three.values();
        assert_eq!((precision, recall, exact), (2.0 / 3.0, 0.5, 0.0));
        assert!((f1 - 4.0 / 7.0).abs() < 1e-12, "{f1}");
        assert_eq!(SetMetrics::new(&ranking, 2, &[1, 4]).values(), [1.0; 4]);
        assert_eq!(SetMetrics::new(&ranking, 1, &[4]).values(), [1.0; 4]);
        assert_eq!(SetMetrics::new(&ranking, 2, &[7]).values(), [0.0; 4]);
        assert_eq!(SetMetrics::new(&[], 0, &[7]).values(), [0.0; 4]);
        assert_eq!(SetMetrics::new(&ranking, 9, &[4, 1, 7, 9]).values(), [1.0; 4]);
    }

    #[test]
    fn by_end_is_f1_of_every_beginning() {
        let ranking = ranking(&[4, 1, 7, 9, 2]);
        let answers = [1, 9, 30];
        let by_end = f1_by_end(&ranking, &answers, 100);
        assert_eq!(by_end.len(), 5);
        for (at, f1) in by_end.iter().enumerate() {
            assert_eq!(*f1, SetMetrics::new(&ranking, at + 1, &answers).f1, "{at}");
        }
        assert_eq!(f1_by_end(&ranking, &answers, 2), by_end[..2]);
    }

    #[test]
    fn a_query_without_an_end_counts_and_a_system_without_one_has_no_means() {
        let ranking = ranking(&[4, 1, 7]);
        let exact = SetResult::new(9, &ranking, Some(2), &[1, 4]);
        let open = SetResult::new(3, &ranking, None, &[4]);
        let sums = SetEvaluation::from_results(&[&exact, &open], 0).unwrap();
        assert_eq!((sums.n, sums.without_end), (2, 1));
        assert_eq!(sums.means.unwrap().values(), [0.5; 4]);
        assert_eq!(sums.ci95.unwrap().f1, Interval { low: 0.0, high: 1.0 });
        // One node: 2/3 and 1; two nodes: 1 and 2/3; one is taken.
        assert_eq!(sums.best_fixed.k, 1);
        assert!((sums.best_fixed.f1 - 5.0 / 6.0).abs() < 1e-12);
        assert_eq!(sums.best_f1, 1.0);
        assert_eq!(SetEvaluation::from_results(&[&open, &exact], 0).unwrap(), sums);
        let none = SetEvaluation::from_results(&[&open], 0).unwrap();
        assert_eq!((none.means, none.ci95, none.without_end), (None, None, 1));
        assert_eq!(SetEvaluation::from_results(&[], 0), Err(EvalError::NoQueries));
    }
}
