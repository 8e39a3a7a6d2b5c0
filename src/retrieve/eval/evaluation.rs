//! Summaries of many queries: means, intervals, failures and latencies.
//!
//! Means are macro means over all queries, including failed ones. Results may come in any order;
//! they are sorted by query id, so the same results give the same bytes.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::eval::metrics::{MetricTable, N_METRICS};
use crate::eval::statistics::{self, Interval, StatisticsError};

/// Why results cannot be summarised or compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// No results.
    #[error("no query was evaluated; choose a split that has queries")]
    NoQueries,
    /// A query has more than one result.
    #[error("query {query_id} has more than one result; evaluate each query once")]
    RepeatedQuery {
        /// The query's id.
        query_id: i64,
    },
    /// Only one of the two compared systems has a result for a query.
    #[error(
        "query {query_id} has a result from the {present} system only; evaluate both on the same queries"
    )]
    UnpairedQuery {
        /// The smallest query id that the other system lacks.
        query_id: i64,
        /// The system that has the result: `first` or `second`.
        present: &'static str,
    },
    /// The numbers of labels and results differ.
    #[error("{n_labels} group labels for {n_results} results; give one per result")]
    Labels {
        /// Number of labels.
        n_labels: usize,
        /// Number of results.
        n_results: usize,
    },
    /// A latency or metric is infinite or not a number.
    #[error("cannot summarise the {quantity} of the evaluated queries")]
    Statistics {
        /// Which numbers: `latencies`, `metrics`, `values` or `differences`.
        quantity: &'static str,
        /// Why the statistic cannot be computed.
        source: StatisticsError,
    },
}

/// Result of one query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryResult {
    /// The query's id in its dataset.
    pub query_id: i64,
    /// Metrics of the returned ranking; for a failed query, of its baseline ranking.
    pub metrics: MetricTable<f64>,
    /// Wall time to answer, in milliseconds.
    pub latency_ms: f64,
    /// Why the system failed; its answer is then the baseline ranking. `None` if it succeeded.
    pub failure: Option<String>,
}

/// Nearest-rank percentiles of the wall time per query, in milliseconds.
#[derive(Copy, Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the queries took at most this long.
    pub p50: f64,
    /// 95 of 100 queries took at most this long.
    pub p95: f64,
    /// 99 of 100 queries took at most this long.
    pub p99: f64,
}

/// The summary of one system on one set of queries.
///
/// As JSON: `{"n","failed","metrics":{"hit@1",…},"ci95":{"hit@1":[low,high],…},"latency_ms":{…}}`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Number of queries, including failed ones.
    pub n: usize,
    /// Number of failed queries, which count with the baseline ranking.
    pub failed: usize,
    /// Mean of each metric over all `n` queries.
    #[serde(rename = "metrics")]
    pub means: MetricTable<f64>,
    /// 95 % bootstrap interval of each mean; [`statistics`] describes what the interval covers.
    pub ci95: MetricTable<Interval>,
    /// Percentiles of the latency over all `n` queries.
    #[serde(rename = "latency_ms")]
    pub latency: Latency,
}

impl Evaluation {
    /// Summarises results, which may be in any order; `seed` seeds the bootstrap.
    ///
    /// # Errors
    /// [`EvalError::NoQueries`], [`EvalError::RepeatedQuery`], [`EvalError::Statistics`].
    pub fn from_results(results: &[QueryResult], seed: u64) -> Result<Evaluation, EvalError> {
        let all: Vec<&QueryResult> = results.iter().collect();
        summarize(&all, seed)
    }
}

/// Summarises each group of results separately; `labels[i]` is the group of `results[i]`.
///
/// Groups are in the order of their labels. Their intervals are not corrected for multiple
/// comparisons.
///
/// # Errors
/// [`EvalError::Labels`] and the errors of [`Evaluation::from_results`]; a query must not be
/// repeated within or across groups.
pub fn evaluate_groups<L: AsRef<str>>(
    results: &[QueryResult],
    labels: &[L],
    seed: u64,
) -> Result<BTreeMap<String, Evaluation>, EvalError> {
    if results.len() != labels.len() {
        return Err(EvalError::Labels { n_labels: labels.len(), n_results: results.len() });
    }
    if results.is_empty() {
        return Err(EvalError::NoQueries);
    }
    let mut seen = HashSet::with_capacity(results.len());
    let mut groups = BTreeMap::<&str, Vec<&QueryResult>>::new();
    for (result, label) in results.iter().zip(labels) {
        if !seen.insert(result.query_id) {
            return Err(EvalError::RepeatedQuery { query_id: result.query_id });
        }
        groups.entry(label.as_ref()).or_default().push(result);
    }
    let evaluate = |(label, group): (&str, Vec<&QueryResult>)| {
        Ok((label.to_owned(), summarize(&group, seed)?))
    };
    groups.into_iter().map(evaluate).collect()
}

/// Sorts results by ascending query id.
///
/// # Errors
/// [`EvalError::NoQueries`], [`EvalError::RepeatedQuery`].
fn by_query_id<'a>(results: &[&'a QueryResult]) -> Result<Vec<&'a QueryResult>, EvalError> {
    let mut sorted = results.to_vec();
    sorted.sort_by_key(|result| result.query_id);
    if sorted.is_empty() {
        return Err(EvalError::NoQueries);
    }
    match sorted.windows(2).find(|pair| pair[0].query_id == pair[1].query_id) {
        Some(pair) => Err(EvalError::RepeatedQuery { query_id: pair[0].query_id }),
        None => Ok(sorted),
    }
}

fn summarize(results: &[&QueryResult], seed: u64) -> Result<Evaluation, EvalError> {
    let results = by_query_id(results)?;
    let n = results.len();
    let rows: Vec<[f64; N_METRICS]> =
        results.iter().map(|result| *result.metrics.values()).collect();
    let intervals = statistics::bootstrap_intervals(&rows, seed)
        .map_err(|source| EvalError::Statistics { quantity: "metrics", source })?;
    let mut means = [0.0; N_METRICS];
    for row in &rows {
        for (mean, value) in means.iter_mut().zip(row) {
            *mean += value;
        }
    }
    let latencies: Vec<f64> = results.iter().map(|result| result.latency_ms).collect();
    let [p50, p95, p99] = statistics::percentiles(&latencies, [50.0, 95.0, 99.0])
        .map_err(|source| EvalError::Statistics { quantity: "latencies", source })?;
    Ok(Evaluation {
        n,
        failed: results.iter().filter(|result| result.failure.is_some()).count(),
        means: MetricTable::from_values(means.map(|sum| sum / n as f64)),
        ci95: MetricTable::from_values(intervals),
        latency: Latency { p50, p95, p99 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::metrics::{Metric, Metrics};
    use crate::eval::ranks::Candidates;

    fn result(query_id: i64, rank: u32, failure: Option<&str>) -> QueryResult {
        let ranking: Vec<(u32, f32)> = (0..100).map(|i| (i, -(i as f32))).collect();
        QueryResult {
            query_id,
            metrics: Metrics::new(&ranking, &[rank - 1], Candidates::All(200)).into(),
            latency_ms: query_id as f64,
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn summary_has_the_published_json_shape() {
        let results = [result(1, 1, None), result(2, 4, Some("deadline"))];
        let evaluation = Evaluation::from_results(&results, 5).unwrap();
        let json = serde_json::to_value(&evaluation).unwrap();
        assert_eq!(json["n"], 2);
        assert_eq!(json["failed"], 1);
        assert_eq!(json["metrics"]["hit@1"], 0.5);
        assert_eq!(json["metrics"]["mrr"], 0.625);
        assert_eq!(json["ci95"]["mrr"], serde_json::json!([0.25, 1.0]));
        assert_eq!(json["latency_ms"], serde_json::json!({"p50": 1.0, "p95": 2.0, "p99": 2.0}));
        let names: Vec<&String> = json["metrics"].as_object().unwrap().keys().collect();
        assert_eq!(names, Metric::ALL.map(Metric::name));
    }

    #[test]
    fn results_are_taken_by_query_id_whatever_their_order() {
        let mut results: Vec<QueryResult> =
            [1, 9, 2, 30, 4].iter().zip(1..).map(|(&rank, id)| result(id, rank, None)).collect();
        let evaluation = Evaluation::from_results(&results, 5).unwrap();
        results.swap(0, 3);
        assert_eq!(Evaluation::from_results(&results, 5), Ok(evaluation));
    }

    #[test]
    fn no_queries_and_repeated_queries_are_errors() {
        assert_eq!(Evaluation::from_results(&[], 0), Err(EvalError::NoQueries));
        let results = [result(3, 1, None), result(1, 1, None), result(3, 2, None)];
        let repeated = Err(EvalError::RepeatedQuery { query_id: 3 });
        assert_eq!(Evaluation::from_results(&results, 0), repeated);
        assert!(evaluate_groups(&results, &["a", "a", "b"], 0).is_err());
        assert!(evaluate_groups(&results, &["a"], 0).is_err());
    }

    #[test]
    fn groups_are_summed_up_apart() {
        let results = [result(1, 1, None), result(2, 2, None), result(3, 1, Some("parse"))];
        let groups = evaluate_groups(&results, &["b", "a", "b"], 0).unwrap();
        assert_eq!(groups.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(groups["a"].means.get(Metric::Hit1), 0.0);
        assert_eq!((groups["b"].n, groups["b"].failed), (2, 1));
        assert_eq!(groups["b"].means.get(Metric::Hit1), 1.0);
    }
}
