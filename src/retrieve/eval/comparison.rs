//! Paired comparison of two systems on the same queries. It is an error if only one system has a
//! result for a query.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::eval::evaluation::{EvalError, QueryResult};
use crate::eval::metrics::Metric;
use crate::eval::statistics::{self, Interval, StatisticsError};

/// Comparison of a first system with a second system, in one metric.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Number of queries.
    pub n: usize,
    /// Mean of the first system minus mean of the second; positive if the first is better.
    pub difference: f64,
    /// Paired bootstrap interval of the difference.
    pub ci95: Interval,
    /// Two-sided p-value of the paired randomisation test; not corrected for other comparisons
    /// (see [`statistics::holm`]).
    pub p: f64,
    /// Number of queries on which the first system is better.
    pub wins: usize,
    /// Number of queries on which the second system is better.
    pub losses: usize,
    /// Number of queries on which both systems have exactly the same value.
    pub ties: usize,
}

impl Comparison {
    /// Summarizes the difference of each query, first system minus second; `seed` as in
    /// [`compare`].
    ///
    /// # Errors
    /// [`StatisticsError`] if there is no difference, or one is not finite.
    pub fn of_differences(differences: &[f64], seed: u64) -> Result<Self, StatisticsError> {
        Ok(Comparison {
            n: differences.len(),
            difference: statistics::mean(differences)?,
            ci95: statistics::bootstrap_interval(differences, seed)?,
            p: statistics::randomization_p(differences, seed)?,
            wins: differences.iter().filter(|&&difference| difference > 0.0).count(),
            losses: differences.iter().filter(|&&difference| difference < 0.0).count(),
            ties: differences.iter().filter(|&&difference| difference == 0.0).count(),
        })
    }
}

/// Compares the results of a first and a second system in one metric; each list may have any order,
/// and both must have the same query ids.
///
/// Failed queries count with the metrics of the baseline ranking. `seed` seeds the bootstrap and,
/// if more than [`statistics::MAX_EXACT_DIFFERENCES`] queries differ, the test.
///
/// # Errors
/// [`EvalError::NoQueries`], [`EvalError::RepeatedQuery`], [`EvalError::UnpairedQuery`],
/// [`EvalError::Statistics`].
pub fn compare(
    first: &[QueryResult],
    second: &[QueryResult],
    metric: Metric,
    seed: u64,
) -> Result<Comparison, EvalError> {
    let differences = paired_differences(first, second, metric)?;
    if differences.is_empty() {
        return Err(EvalError::NoQueries);
    }
    Comparison::of_differences(&differences, seed)
        .map_err(|source| EvalError::Statistics { quantity: "differences", source })
}

/// Computes the difference of each query's metric, first system minus second, by ascending query
/// id.
fn paired_differences(
    first: &[QueryResult],
    second: &[QueryResult],
    metric: Metric,
) -> Result<Vec<f64>, EvalError> {
    let first = values_by_query(first, metric)?;
    let second = values_by_query(second, metric)?;
    for (present, these, others) in [("first", &first, &second), ("second", &second, &first)] {
        if let Some(&query_id) = these.keys().find(|query_id| !others.contains_key(query_id)) {
            return Err(EvalError::UnpairedQuery { query_id, present });
        }
    }
    Ok(first.values().zip(second.values()).map(|(a, b)| a - b).collect())
}

fn values_by_query(
    results: &[QueryResult],
    metric: Metric,
) -> Result<BTreeMap<i64, f64>, EvalError> {
    let mut values = BTreeMap::new();
    for &QueryResult { query_id, ref metrics, .. } in results {
        if values.insert(query_id, metrics.get(metric)).is_some() {
            return Err(EvalError::RepeatedQuery { query_id });
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::metrics::Metrics;
    use crate::eval::ranks::Candidates;

    /// Results of queries 0, 1, … whose only answer has these ranks.
    fn results(ranks: &[u32]) -> Vec<QueryResult> {
        let ranking: Vec<(u32, f32)> = (0..100).map(|i| (i, -(i as f32))).collect();
        let metrics = |&rank| Metrics::new(&ranking, &[rank - 1], Candidates::All(200)).into();
        let result =
            |(query_id, metrics)| QueryResult { query_id, metrics, latency_ms: 1.0, failure: None };
        (0..).zip(ranks.iter().map(metrics)).map(result).collect()
    }

    #[test]
    fn pairs_by_query_id_whatever_the_order() {
        let first = results(&[1, 1, 2, 4]);
        let mut second = results(&[2, 1, 1, 8]);
        second.reverse();
        let comparison = compare(&first, &second, Metric::Mrr, 1).unwrap();
        assert_eq!((comparison.n, comparison.wins), (4, 2));
        assert_eq!((comparison.losses, comparison.ties), (1, 1));
        assert_eq!(comparison.difference, (0.5 + 0.0 - 0.5 + 0.125) / 4.0);
        // Signs of 0.5, 0.5, 0.125: every one of the 8 sums is at least 0.125 in size.
        assert_eq!(comparison.p, 1.0);
        let mirrored = compare(&second, &first, Metric::Mrr, 1).unwrap();
        assert_eq!(mirrored.difference, -comparison.difference);
        assert_eq!(mirrored.wins, comparison.losses);
    }

    #[test]
    fn insists_on_the_same_queries() {
        let three = results(&[1, 2, 3]);
        let error = |a: &[QueryResult], b: &[QueryResult]| compare(a, b, Metric::Hit1, 0).err();
        let unpaired = |query_id, present| Some(EvalError::UnpairedQuery { query_id, present });
        assert_eq!(error(&three[..2], &three), unpaired(2, "second"));
        assert_eq!(error(&three, &three[1..]), unpaired(0, "first"));
        assert_eq!(error(&three, &[]), unpaired(0, "first"));
        assert_eq!(error(&[], &[]), Some(EvalError::NoQueries));
        let repeated = [three[1].clone(), three[1].clone()];
        assert_eq!(error(&repeated, &three), Some(EvalError::RepeatedQuery { query_id: 1 }));
    }
}
