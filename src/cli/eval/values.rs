//! `agent eval --metrics value`: prints metrics of answers that are values, not nodes. Does not
//! depend on how an answer was computed.

use super::report::{ALL, Format, Rows, tell_means, tell_openings};
use crate::{Context, Exit};
use agent_app::{
    Result,
    eval::figures::{ValueFigures, ValueSummary},
    percent,
};
use agent_retrieve::eval::{ValueEvaluation, values::ValueMean};

/// Placeholder for a metric that applies to no query.
const NONE: &str = "-";

/// Prints, for every system, the metrics of answers that are values. For the test split, also
/// prints how often it was opened.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print(systems: &[ValueFigures], format: Format, ctx: &Context) -> Result<Exit> {
    let Some(ValueFigures { about, .. }) = systems.first() else { return Ok(Exit::Done) };
    tell_means(about, "answers as values, ", format, ctx);
    rows(systems).print(format, ctx)?;
    tell_openings(about.openings, format, ctx)
}

fn rows(systems: &[ValueFigures]) -> Rows {
    let grouped = systems.iter().any(|one| one.groups.is_some());
    let mean =
        |mean: Option<ValueMean>| mean.map_or(NONE.to_owned(), |one| percent(one.mean, one.ci95));
    let row = |names: Vec<String>, of: &ValueSummary| -> Vec<String> {
        let ValueEvaluation { exact, numeric, table_f1 } = of.evaluation;
        let means = [Some(exact), numeric, table_f1].map(mean);
        let times = [of.latency.p50, of.latency.p95].map(|ms| format!("{ms:.1}"));
        let counts = [of.n.to_string(), of.failed.to_string()];
        names.into_iter().chain(counts).chain(means).chain(times).collect()
    };
    let mut rows = Vec::new();
    for one in systems {
        let names = |group: &str| {
            let group = grouped.then(|| group.to_owned());
            [one.system.to_owned()].into_iter().chain(group).collect()
        };
        rows.push(row(names(ALL), &one.evaluation));
        rows.extend(one.groups.iter().flatten().map(|(group, of)| row(names(group), of)));
    }
    let first = if grouped { vec!["system", "group"] } else { vec!["system"] };
    let numbers = first.len();
    let others = ["n", "failed", "exact", "numeric", "table f1", "p50 ms", "p95 ms"];
    Rows { numbers, headings: first.into_iter().chain(others).collect(), rows }
}
