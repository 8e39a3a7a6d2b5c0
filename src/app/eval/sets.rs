//! Measures answers as sets of nodes. Does not depend on how nodes were ranked.

use super::{
    figures::{About, SetFigures, SetSummary, SystemFigures},
    queries::grouped,
};
use crate::{Measured, Result};
use agent_dataset::LabelledQuery;
use agent_retrieve::{
    eval::{SEED, SetEvaluation, SetResult},
    measure::Measurements,
};

/// Returns the set metrics of every system, over all queries and over the queries of each label.
/// `labels[i]` is the label of `queries[i]`.
///
/// # Errors
/// If a statistic cannot be computed.
pub(super) fn figures(
    about: &About,
    measured: &[Measured],
    queries: &[LabelledQuery],
    labels: Option<&[String]>,
) -> Result<Vec<SetFigures>> {
    let figures = measured.iter().map(|one| {
        let Measurements { rankings, ends, .. } = &one.measurements;
        let answered = queries.iter().zip(rankings.iter().zip(ends));
        let results: Vec<SetResult> = answered
            .map(|(query, (ranking, &end))| SetResult::new(query.id, ranking, end, &query.answers))
            .collect();
        let sum_up = |results: &[&SetResult]| Ok(SetEvaluation::from_results(results, SEED)?);
        let evaluation = sum_up(&results.iter().collect::<Vec<_>>())?;
        let (failed, latency) = (one.evaluation.failed, one.evaluation.latency);
        let summary = SetSummary { failed, evaluation, latency };
        Ok(SystemFigures {
            llm: Some(one.llm),
            invalid: one.invalid(),
            groups: labels.map(|labels| grouped(&results, labels, sum_up)).transpose()?,
            ..SystemFigures::new(about, &one.system, summary)
        })
    });
    figures.collect()
}
