//! `agent eval --metrics set`: how good the answers are as sets. Must not know how anything was
//! measured.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    Context,
    eval::{
        Args, SEED, joined,
        report::{ALL, Format, LlmUse, Rows, percent, tell_openings},
    },
};
use agent_app::{error::Result, measured::Measured, synthetic};
use agent_dataset::{LabelledQuery, is_synthetic};
use agent_retrieve::eval::{Latency, SetEvaluation, SetResult, sets::SET_METRICS};

/// Stands for numbers of a system that does not say where its answers end.
const NONE: &str = "-";
/// What is printed beside the set metrics, in order.
const BESIDE: [&str; 3] = ["best k", "f1 at best k", "f1 at best end"];

/// What one system came to.
#[derive(Serialize)]
struct Printed<'a> {
    dataset: &'a str,
    split: &'a str,
    /// Only if the questions were made, not labelled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    synthetic: bool,
    system: &'a str,
    failed: usize,
    #[serde(flatten)]
    evaluation: SetEvaluation,
    latency_ms: Latency,
    llm: LlmUse,
    /// Only if the means say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
    /// Only of figures on the test split.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_openings: Option<u64>,
    /// Only if groups were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<BTreeMap<&'a str, SetEvaluation>>,
}

/// Prints the set metrics of every system, of all queries and of those with each label; of figures
/// on the test split with the number of its openings.
///
/// # Errors
/// That stdout cannot be written to.
pub(super) fn print(
    args: &Args,
    measured: &[Measured],
    queries: &[LabelledQuery],
    labels: Option<&[String]>,
    test_openings: Option<u64>,
    ctx: &Context,
) -> Result<()> {
    let split = joined(&args.split);
    let of_system = |one| printed(args, &split, one, queries, labels, test_openings);
    let systems = measured.iter().map(of_system).collect::<Result<Vec<Printed<'_>>>>()?;
    if args.json {
        return systems.iter().try_for_each(|one| ctx.printer.json(one));
    }
    if args.format != Format::Csv {
        let what = "means in percent with 95 % intervals";
        ctx.printer.notice(&format!("{} {split}: answers as sets, {what}", args.dataset));
    }
    rows(&systems, labels.is_some()).print(args.format, ctx)?;
    if args.format != Format::Csv {
        ctx.printer.data(&synthetic::line(queries))?;
    }
    tell_openings(test_openings, args.format, ctx)?;
    for one in systems.iter().filter(|one| one.evaluation.means.is_none()) {
        let what = "does not say where its answers end, so it gives no sets to measure";
        ctx.printer.notice(&format!("{NONE}: {} {what}", one.system));
    }
    for one in systems.iter().filter(|one| one.evaluation.means.is_some()) {
        let (none, n) = (one.evaluation.without_end, one.evaluation.n);
        if none > 0 {
            let what = "have no end and count 0";
            ctx.printer.notice(&format!("{}: answers to {none} of {n} queries {what}", one.system));
        }
    }
    Ok(())
}

/// The numbers of one system.
fn printed<'a>(
    args: &'a Args,
    split: &'a str,
    one: &'a Measured,
    queries: &[LabelledQuery],
    labels: Option<&'a [String]>,
    test_openings: Option<u64>,
) -> Result<Printed<'a>> {
    let answered = queries.iter().zip(one.rankings.iter().zip(&one.ends));
    let results: Vec<SetResult> = answered
        .map(|(query, (ranking, &end))| SetResult::new(query.id, ranking, end, &query.answers))
        .collect();
    let mut by_label: BTreeMap<&str, Vec<&SetResult>> = BTreeMap::new();
    for (label, result) in labels.unwrap_or_default().iter().zip(&results) {
        by_label.entry(label).or_default().push(result);
    }
    let sum_up = |(label, results): (&'a str, Vec<&SetResult>)| {
        Ok((label, SetEvaluation::from_results(&results, SEED)?))
    };
    let groups = by_label.into_iter().map(sum_up).collect::<Result<BTreeMap<_, _>>>()?;
    Ok(Printed {
        dataset: &args.dataset,
        split,
        synthetic: is_synthetic(queries),
        system: &one.system,
        failed: one.evaluation.failed,
        evaluation: SetEvaluation::from_results(&results.iter().collect::<Vec<_>>(), SEED)?,
        latency_ms: one.evaluation.latency,
        llm: one.llm.into(),
        invalid: one.invalid(),
        test_openings,
        groups: labels.map(|_| groups),
    })
}

/// One row for each group and system, group by group, systems in the order given.
fn rows(systems: &[Printed<'_>], grouped: bool) -> Rows {
    let labels: BTreeSet<&str> =
        systems.iter().flat_map(|one| one.groups.iter().flatten()).map(|group| *group.0).collect();
    let all = systems.iter().map(|one| (ALL, one, &one.evaluation));
    let groups = labels.into_iter().flat_map(|label| {
        systems.iter().filter_map(move |one| Some((label, one, one.groups.as_ref()?.get(label)?)))
    });
    let mut headings = if grouped { vec!["queries"] } else { Vec::new() };
    headings.extend(["system", "n"]);
    headings.extend(SET_METRICS);
    headings.extend(BESIDE);
    let row = |(group, one, evaluation): (&str, &Printed<'_>, &SetEvaluation)| {
        let mut row = if grouped { vec![group.to_owned()] } else { Vec::new() };
        row.extend([one.system.to_owned(), evaluation.n.to_string()]);
        row.extend(match evaluation.means.zip(evaluation.ci95) {
            None => SET_METRICS.map(|_| NONE.to_owned()),
            Some((means, ci95)) => {
                let (means, ci95) = (means.values(), ci95.values());
                std::array::from_fn(|at| percent(means[at], ci95[at]))
            }
        });
        let best = evaluation.best_fixed;
        row.push(best.k.to_string());
        row.extend([best.f1, evaluation.best_f1].map(|f1| format!("{:.1}", 100.0 * f1)));
        row
    };
    let rows = all.chain(groups).map(row).collect();
    Rows { numbers: headings.len() - 1 - SET_METRICS.len() - BESIDE.len(), headings, rows }
}
