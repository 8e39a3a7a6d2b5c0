//! Two common ways to define the reported metrics: the STaRK benchmark ranks every candidate, TREC
//! tools only the retrieved nodes. If the ranking holds all answers, both give the same values.
//! Otherwise only hits and recalls agree, and only if their cut-off is within the ranking.

use std::collections::HashSet;

use crate::eval::NodeId;
use crate::eval::metrics::{Definition, Metric, MetricTable, Metrics};
use crate::eval::ranks::Candidates;

/// Source of the definitions of the reported metrics.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Definitions {
    /// The definitions of STaRK ([`crate::eval::ranks`]): unranked answers have ranks after the
    /// ranked nodes, and answers that are not candidates are dropped.
    #[default]
    Stark,
    /// The definitions of `trec_eval`: `success`, `recall`, `recip_rank`, `map` and `Rprec`.
    /// Unranked answers add nothing. All answers and ranked nodes count, candidates or not. A query
    /// without ranked nodes counts 0 in all metrics, as with `trec_eval -c`; `pytrec_eval` drops
    /// such a query.
    Trec,
}

impl Definitions {
    /// Computes all reported metrics of one ranking. `answers` may have any order; duplicates count
    /// once.
    ///
    /// `ranking` must hold distinct nodes. [`Definitions::Stark`] sorts them. [`Definitions::Trec`]
    /// expects them best first and keeps the order of ties, as TREC tools do with a file of
    /// [`crate::eval::trec::write_run`]; like these tools, it computes in double precision.
    pub fn measure(
        self,
        ranking: &[(NodeId, f32)],
        answers: &[NodeId],
        candidates: Candidates<'_>,
    ) -> MetricTable<f64> {
        match self {
            Definitions::Stark => Metrics::new(ranking, answers, candidates).into(),
            Definitions::Trec => trec_metrics(ranking, answers),
        }
    }
}

/// Computes the metrics by the definitions of `trec_eval`.
fn trec_metrics(ranking: &[(NodeId, f32)], answers: &[NodeId]) -> MetricTable<f64> {
    let relevant: HashSet<NodeId> = answers.iter().copied().collect();
    let n_relevant = relevant.len();
    let is_answer = |&(_, &(node, _)): &(usize, &(NodeId, f32))| relevant.contains(&node);
    let ranks: Vec<usize> = (1..).zip(ranking).filter(is_answer).map(|(rank, _)| rank).collect();
    let found_within = |k: usize| ranks.partition_point(|&rank| rank <= k);
    let share = |part: f64| if n_relevant == 0 { 0.0 } else { part / n_relevant as f64 };
    let recall = |k| share(found_within(k) as f64);
    let value = |metric: Metric| match metric.definition() {
        Definition::Hit(k) => f64::from(found_within(k) > 0),
        Definition::Recall(k) => recall(k),
        Definition::ReciprocalRank => ranks.first().map_or(0.0, |&rank| 1.0 / rank as f64),
        Definition::AveragePrecision => {
            share((1..).zip(&ranks).map(|(found, &rank)| f64::from(found) / rank as f64).sum())
        }
        Definition::RPrecision => recall(n_relevant),
    };
    MetricTable::from_values(Metric::ALL.map(value))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::eval::trec::{self, DocIds};

    /// Output of `scripts/trec-golden.py`.
    #[derive(Deserialize)]
    struct Golden {
        queries: Vec<Query>,
        /// The files that pytrec_eval read.
        run: String,
        qrels: String,
    }

    #[derive(Deserialize)]
    struct Query {
        ranking: Vec<(NodeId, f32)>,
        answers: Vec<NodeId>,
        /// Values of pytrec_eval by metric name; empty for a query without ranked nodes.
        values: BTreeMap<String, f64>,
    }

    fn golden() -> Golden {
        serde_json::from_str(include_str!("../../../tests/data/metrics/trec.json")).unwrap()
    }

    #[test]
    fn the_files_written_are_those_that_pytrec_eval_read() {
        let golden = golden();
        let (mut run, mut qrels, ids) = (Vec::new(), Vec::new(), DocIds::Numbers(u32::MAX));
        for (id, query) in (0..).zip(&golden.queries) {
            trec::write_run(&mut run, ids, id, &query.ranking, "tag").unwrap();
            trec::write_qrels(&mut qrels, ids, id, &query.answers).unwrap();
        }
        assert_eq!(String::from_utf8(run).unwrap(), golden.run);
        assert_eq!(String::from_utf8(qrels).unwrap(), golden.qrels);
    }

    #[test]
    fn usual_metrics_are_those_of_pytrec_eval() {
        let (mut compared, mut unranked) = (0, 0);
        for query in golden().queries {
            // Half of the answers are not candidates, which makes no difference here.
            let candidates = Candidates::All(100);
            let found = Definitions::Trec.measure(&query.ranking, &query.answers, candidates);
            for (metric, value) in found.iter() {
                let known = |metric: Metric| query.values.get(metric.name()).copied();
                let expected = match metric {
                    // The file has recall instead: a hit is a recall above 0.
                    Metric::Hit100 => {
                        known(Metric::Recall100).map(|recall| f64::from(recall > 0.0))
                    }
                    metric => known(metric),
                };
                let expected = expected.unwrap_or_default();
                assert!((value - expected).abs() < 1e-9, "{metric}: {value} {expected}");
                compared += 1;
            }
            let is_ranked = |answer: &NodeId| query.ranking.iter().any(|pair| pair.0 == *answer);
            unranked += usize::from(!query.answers.iter().all(is_ranked));
        }
        assert!(compared == 16 * 15 && unranked > 4);
    }

    #[test]
    fn an_answer_that_is_not_ranked_counts_by_the_benchmark_only() {
        let (ranking, candidates) = ([(5, 2.0), (6, 1.0)], Candidates::All(10));
        let measure = |definitions: Definitions, metric| {
            definitions.measure(&ranking, &[6, 0], candidates).get(metric)
        };
        // Node 0 is the first of those that are not ranked, at rank 3.
        let expected = f64::from(((0.5 + f64::from(2.0f32 / 3.0)) / 2.0) as f32);
        assert_eq!(measure(Definitions::Stark, Metric::Map), expected);
        assert_eq!(measure(Definitions::Trec, Metric::Map), 0.25);
        assert_eq!(measure(Definitions::Stark, Metric::Recall5), 1.0);
        assert_eq!(measure(Definitions::Trec, Metric::Recall5), 0.5);
        assert_eq!(measure(Definitions::Trec, Metric::RPrecision), 0.5);
        assert_eq!(Definitions::Trec.measure(&ranking, &[], candidates), MetricTable::default());
    }
}
