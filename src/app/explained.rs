//! Explains where a bundle lost the answers to labelled queries, by category. Does not depend on
//! how this is shown.

use anyhow::Context as _;

use crate::{App, Result, each};
use agent_dataset::LabelledQuery;
use agent_infer::explain::{Cause, ExplainedQuery, Explainer, causes};
use agent_optimize::trial::mean;

/// Explains every query, in parallel; returns the explanations in the order of the queries. The
/// explanations have no tool calls, unless there is only one query.
///
/// # Errors
/// If a query cannot be answered, or the operation was stopped.
pub fn explain_all(
    explainer: &Explainer,
    queries: &[LabelledQuery],
    app: &App,
) -> Result<Vec<ExplainedQuery>> {
    let keep_calls = queries.len() == 1;
    each(queries, "explaining", "nothing was explained", app, |query| {
        let mut explained = explainer
            .explain(&query.text, &query.answers)
            .with_context(|| format!("query {} cannot be answered", query.id))?;
        if !keep_calls {
            // Traces hold all tool results, which is too much for many queries.
            explained.calls = Vec::new();
        }
        Ok(explained)
    })
}

/// Queries with the same most probable category, and the causes of their losses.
pub struct Group<'a> {
    /// Name of the category.
    pub name: &'a str,
    /// Source text of the category's program.
    pub source: &'a str,
    /// Id of the category's program.
    pub id: &'a str,
    /// Number of queries in the group.
    pub n: usize,
    /// Mean reciprocal rank of the first correct answer over these queries.
    pub mrr: f64,
    /// Causes of lost answers.
    pub causes: Vec<Cause>,
    /// Causes of losses in this category's program. Covers only those queries of the group that
    /// another category's program would answer better.
    pub within: Vec<Cause>,
}

impl Group<'_> {
    /// Groups queries by category, in the order of the bundle's categories. Leaves out categories
    /// without queries.
    pub fn all<'a>(explainer: &'a Explainer, explained: &[ExplainedQuery]) -> Vec<Group<'a>> {
        let groups = explainer.categories().enumerate().map(|(at, category)| {
            let of_it = || explained.iter().filter(|explained| explained.category == at);
            let ranks: Vec<f32> = of_it().map(|explained| explained.reciprocal_rank).collect();
            Group {
                name: &category.name,
                source: category.program.source(),
                id: category.program.id(),
                n: ranks.len(),
                mrr: mean(&ranks),
                causes: causes(of_it().filter_map(|explained| explained.loss.as_ref())),
                within: causes(of_it().filter_map(|explained| explained.within.as_ref())),
            }
        });
        groups.filter(|group| group.n > 0).collect()
    }

    /// Returns the number (from 1) of each line of the program that lost answers, with a
    /// description of its losses. Gains are averaged over `n` queries.
    pub fn marks(&self, n: usize) -> impl Iterator<Item = (usize, String)> {
        self.causes.iter().chain(&self.within).filter_map(move |cause| {
            let gain = points(cause.gain, n);
            Some((cause.line?, format!("{} {}, gain {gain}", cause.n, cause.kind.name())))
        })
    }
}

/// Formats `gain`, a sum of reciprocal ranks, as its mean over `n` queries, in points (1/100).
pub fn points(gain: f64, n: usize) -> String {
    format!("{:.1}", 100.0 * gain / n.max(1) as f64)
}
