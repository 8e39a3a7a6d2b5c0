//! How good answers are as sets. Must not know how anything was ranked.

use std::collections::BTreeMap;

use super::figures::{About, SetFigures, SetSummary, SystemFigures};
use crate::{Result, measured::Measured};
use agent_dataset::LabelledQuery;
use agent_retrieve::eval::{SEED, SetEvaluation, SetResult};

/// The set metrics of every system, of all queries and of those with each label.
///
/// # Errors
/// That a statistic cannot be computed.
pub(super) fn figures(
    (about, test_openings): (&About, Option<u64>),
    measured: &[Measured],
    queries: &[LabelledQuery],
    labels: Option<&[String]>,
) -> Result<Vec<SetFigures>> {
    let figures = measured.iter().map(|one| {
        let answered = queries.iter().zip(one.rankings.iter().zip(&one.ends));
        let results: Vec<SetResult> = answered
            .map(|(query, (ranking, &end))| SetResult::new(query.id, ranking, end, &query.answers))
            .collect();
        let evaluation = SetEvaluation::from_results(&results.iter().collect::<Vec<_>>(), SEED)?;
        let (failed, latency) = (one.evaluation.failed, one.evaluation.latency);
        let summary = SetSummary { failed, evaluation, latency };
        Ok(SystemFigures {
            llm: Some(one.llm.into()),
            invalid: one.invalid(),
            test_openings,
            groups: labels.map(|labels| grouped(&results, labels)).transpose()?,
            ..SystemFigures::new(about, &one.system, summary)
        })
    });
    figures.collect()
}

fn grouped(results: &[SetResult], labels: &[String]) -> Result<BTreeMap<String, SetEvaluation>> {
    let mut by_label: BTreeMap<&String, Vec<&SetResult>> = BTreeMap::new();
    for (label, result) in labels.iter().zip(results) {
        by_label.entry(label).or_default().push(result);
    }
    let sum_up = |(label, results): (&String, Vec<&SetResult>)| {
        Ok((label.clone(), SetEvaluation::from_results(&results, SEED)?))
    };
    by_label.into_iter().map(sum_up).collect()
}
