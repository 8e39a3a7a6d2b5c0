//! `agent eval --metrics set`: prints metrics of the answers as sets of nodes. Does not depend on
//! how anything was measured.

use super::report::{Format, Rows, evaluations, tell_means, tell_openings};
use crate::{Context, Exit};
use agent_app::{Result, eval::figures::SetFigures, percent, synthetic};
use agent_retrieve::eval::{SetEvaluation, sets::SET_METRICS};

/// Placeholder for the set metrics of a system that does not predict where its answers end.
const NONE: &str = "-";
/// Headings of the columns after the set metrics, in the order printed.
const BESIDE: [&str; 3] = ["best k", "f1 at best k", "f1 at best end"];

/// Prints the set metrics of every system, for all queries and for each group of queries. For the
/// test split, also prints how often it was opened.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print(systems: &[SetFigures], format: Format, ctx: &Context) -> Result<Exit> {
    let Some(SetFigures { about, .. }) = systems.first() else { return Ok(Exit::Done) };
    tell_means(about, "answers as sets, ", format, ctx);
    rows(systems).print(format, ctx)?;
    if format != Format::Csv && about.synthetic {
        ctx.printer.data(&format!("{}\n", synthetic::TOLD))?;
    }
    tell_openings(about.openings, format, ctx)?;
    for one in systems {
        let of = &one.evaluation.evaluation;
        let (none, n) = (of.without_end, of.n);
        if of.means.is_none() {
            let what = "does not predict where its answers end, so there are no sets to measure";
            ctx.watch.notice(&format!("{NONE}: {} {what}", one.system));
        } else if none > 0 {
            let what = "have no predicted end and count as 0";
            ctx.watch.notice(&format!("{}: answers to {none} of {n} queries {what}", one.system));
        }
    }
    Ok(Exit::Done)
}

/// Returns the table with one row per group and system, group by group; within a group, systems
/// keep their order.
fn rows(systems: &[SetFigures]) -> Rows {
    let grouped = systems.iter().any(|one| one.groups.is_some());
    let mut headings = if grouped { vec!["queries"] } else { Vec::new() };
    headings.extend(["system", "n"]);
    headings.extend(SET_METRICS);
    headings.extend(BESIDE);
    let row = |(group, system, evaluation): (&str, &str, &SetEvaluation)| {
        let mut row = if grouped { vec![group.to_owned()] } else { Vec::new() };
        row.extend([system.to_owned(), evaluation.n.to_string()]);
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
    let rows = evaluations(systems, |all| &all.evaluation).into_iter().map(row).collect();
    Rows { numbers: 1 + usize::from(grouped), headings, rows }
}
