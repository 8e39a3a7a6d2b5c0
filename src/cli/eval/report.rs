//! Prints an evaluation of rankings: as tables for people, as Markdown or CSV for documents. Does
//! not depend on how anything was measured.

use crate::{Context, Exit, table};
use agent_app::{
    Measured, Result,
    eval::{
        COMPARED,
        figures::{About, SystemFigures, Versus},
    },
    p_cell, percent, synthetic, test_split,
};
use agent_llm::ledger::Spending;
use agent_retrieve::eval::{Evaluation, Interval, Metric};

/// Metrics on the first nodes of a ranking: the share of queries with an answer among the first 20,
/// 50 and 100 nodes.
const DEPTHS: [Metric; 3] = [Metric::Hit20, Metric::Hit50, Metric::Hit100];
/// Label of the row with the means over all queries, printed beside the rows of groups.
pub(super) const ALL: &str = "all";

/// Format of the printed means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Columns aligned with spaces.
    #[default]
    Table,
    /// Markdown tables.
    Markdown,
    /// One line per metric, group and system.
    Csv,
}

/// Prints the heading of a table of means, `what` first; prints nothing if the format is CSV.
pub(super) fn tell_means(about: &About, what: &str, format: Format, ctx: &Context) {
    if format != Format::Csv {
        let About { dataset, split, .. } = about;
        ctx.watch.notice(&format!("{dataset} {split}: {what}means in percent with 95 % intervals"));
    }
}

/// Prints how often the test split was opened, below figures on that split; prints nothing if
/// `openings` is `None` or the format is CSV.
pub(super) fn tell_openings(openings: Option<u64>, format: Format, ctx: &Context) -> Result<Exit> {
    if let Some(openings) = openings.filter(|_| format != Format::Csv) {
        ctx.printer.data(&format!("\n{}\n", test_split::told(openings)))?;
    }
    Ok(Exit::Done)
}

/// Table whose cells are text.
pub(super) struct Rows {
    pub(super) headings: Vec<&'static str>,
    /// Index (from 0) of the first column of numbers, which are aligned to the right.
    pub(super) numbers: usize,
    pub(super) rows: Vec<Vec<String>>,
}

impl Rows {
    pub(super) fn print(self, format: Format, ctx: &Context) -> Result<Exit> {
        match format {
            Format::Table => {
                let right: Vec<usize> = (self.numbers..self.headings.len()).collect();
                let mut shown = table(self.headings, &right);
                shown.add_rows(self.rows);
                ctx.printer.table(&shown)
            }
            Format::Markdown => ctx.printer.text(&self.markdown()),
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(Vec::new());
                csv.write_record(&self.headings)?;
                self.rows.iter().try_for_each(|row| csv.write_record(row))?;
                ctx.printer.data(&String::from_utf8_lossy(&csv.into_inner()?))
            }
        }
    }

    fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = |at| if at < self.numbers { "---" } else { "---:" }.to_owned();
        let headings: Vec<String> = self.headings.iter().map(|&name| name.to_owned()).collect();
        let rules: Vec<String> = (0..self.headings.len()).map(rule).collect();
        let mut page = line(&headings) + line(&rules).as_str();
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            page += line(&cells).as_str();
        }
        page
    }
}

/// Metrics of the rankings of one system.
type Figures = SystemFigures<Evaluation>;

/// Prints the means, then the comparisons with the first system; in CSV only the means.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print(
    systems: &[Figures],
    measured: &[Measured],
    format: Format,
    ctx: &Context,
) -> Result<Exit> {
    if format == Format::Csv {
        return means_by_metric(systems).print(format, ctx);
    }
    let Some(SystemFigures { about, .. }) = systems.first() else { return Ok(Exit::Done) };
    tell_means(about, "", format, ctx);
    means(systems, measured).print(format, ctx)?;
    if about.synthetic {
        ctx.printer.data(&format!("\n{}\n", synthetic::TOLD))?;
    }
    tell_openings(about.openings, format, ctx)?;
    if systems.iter().all(|one| one.versus.is_empty()) {
        return Ok(Exit::Done);
    }
    ctx.watch.notice("paired differences in percentage points, Holm-corrected p-values");
    ctx.printer.data("\n")?;
    differences(systems).print(format, ctx)
}

/// Returns each evaluation with the name of its group and of its system: first the evaluations over
/// all queries, then the evaluations of each group. Within a group, systems keep their order.
pub(super) fn evaluations<'a, E, G>(
    systems: &'a [SystemFigures<E, G>],
    all: impl Fn(&'a E) -> &'a G,
) -> Vec<(&'a str, &'a str, &'a G)> {
    let whole = systems.iter().map(|one| (ALL, one.system.as_str(), all(&one.evaluation)));
    let labels = systems.first().into_iter().flat_map(|one| one.groups.iter().flatten());
    let groups = labels.flat_map(|(label, _)| {
        let of = |one: &'a SystemFigures<E, G>| {
            Some((label.as_str(), one.system.as_str(), one.groups.as_ref()?.get(label)?))
        };
        systems.iter().filter_map(of)
    });
    whole.chain(groups).collect()
}

fn means(systems: &[Figures], measured: &[Measured]) -> Rows {
    let grouped = systems.iter().any(|one| one.groups.is_some());
    let row = |(group, system, evaluation): (&str, &str, &Evaluation)| {
        let mut row = if grouped { vec![group.to_owned()] } else { Vec::new() };
        row.extend([system.to_owned(), evaluation.n.to_string(), evaluation.failed.to_string()]);
        row.extend(
            COMPARED
                .map(|metric| percent(evaluation.means.get(metric), evaluation.ci95.get(metric))),
        );
        row.extend(DEPTHS.map(|metric| format!("{:.1}", 100.0 * evaluation.means.get(metric))));
        row.extend([evaluation.latency.p50, evaluation.latency.p95].map(|ms| format!("{ms:.1}")));
        row
    };
    let mut headings = if grouped { vec!["queries"] } else { Vec::new() };
    headings.extend(["system", "n", "failed"]);
    headings.extend(COMPARED.map(Metric::name));
    headings.extend(DEPTHS.map(Metric::name));
    headings.extend(["p50 ms", "p95 ms"]);
    let mut rows: Vec<Vec<String>> = evaluations(systems, |all| all).into_iter().map(row).collect();
    if measured.iter().any(|one| one.used.calls > 0) {
        headings.extend(COSTS);
        // Costs appear only in the rows over all queries, which come first.
        let costs = measured.iter().map(costs).map(Some).chain(std::iter::repeat(None));
        for (row, costs) in rows.iter_mut().zip(costs) {
            row.extend(costs.unwrap_or_default());
        }
    }
    Rows { numbers: 1 + usize::from(grouped), headings, rows }
}

fn means_by_metric(systems: &[Figures]) -> Rows {
    let about = systems.first().map(|one| &one.about);
    let synthetic = if about.is_some_and(|of| of.synthetic) { " (synthetic)" } else { "" };
    let [dataset, split] = about.map_or(["", ""], |of| [of.dataset.as_str(), of.split.as_str()]);
    let split = format!("{split}{synthetic}");
    let row = |(group, system, evaluation): (&str, &str, &Evaluation), metric: Metric| {
        let interval = evaluation.ci95.get(metric);
        let mut row = [dataset, &split, group, system].map(str::to_owned).to_vec();
        row.extend([evaluation.n.to_string(), evaluation.failed.to_string()]);
        row.push(metric.name().to_owned());
        let mean = evaluation.means.get(metric);
        row.extend([mean, interval.low, interval.high].map(|number| number.to_string()));
        row
    };
    let evaluations = evaluations(systems, |all| all).into_iter();
    let rows = evaluations.flat_map(|one| Metric::ALL.map(|metric| row(one, metric))).collect();
    let headings = vec![
        "dataset",
        "split",
        "queries",
        "system",
        "n",
        "failed",
        "metric",
        "mean",
        "ci95_low",
        "ci95_high",
    ];
    Rows { numbers: headings.len(), headings, rows }
}

fn differences(systems: &[Figures]) -> Rows {
    let row = |(one, versus): (&Figures, &Versus)| {
        let Versus { system: other, metric, comparison, p_holm } = versus;
        let mut row = vec![format!("{} - {other}", one.system), metric.name().to_owned()];
        row.push(percent(comparison.difference, comparison.ci95));
        row.push(p_cell(*p_holm));
        let counts = [comparison.wins, comparison.losses, comparison.ties];
        row.extend(counts.map(|count| count.to_string()));
        row
    };
    let headings = vec!["system", "metric", "difference", "p", "better", "worse", "equal"];
    let pairs = systems.iter().flat_map(|one| one.versus.iter().map(move |versus| (one, versus)));
    Rows { headings, numbers: 2, rows: pairs.map(row).collect() }
}

/// Headings of the columns with the mean costs of one query with a language model.
const COSTS: [&str; 4] = ["requests", "tokens", "s", "USD"];

/// Returns the mean costs per query of one system, in the order of [`COSTS`]; cached replies count
/// too.
fn costs(one: &Measured) -> [String; COSTS.len()] {
    let n = one.evaluation.n.max(1) as f64;
    let Spending { calls, tokens_in, tokens_out, usd, unpriced } = one.used;
    let usd = if unpriced > 0 { "not known".to_owned() } else { format!("{:.5}", usd / n) };
    [
        format!("{:.1}", calls as f64 / n),
        format!("{:.0}", (tokens_in + tokens_out) as f64 / n),
        format!("{:.2}", one.seconds()),
        usd,
    ]
}

/// Formats a difference with its confidence interval, both in percentage points.
pub(crate) fn signed(difference: f64, interval: Interval) -> String {
    // Rounded first, so that a tiny negative value is not shown as -0.
    let points = |share: f64| (1_000.0 * share).round() / 10.0 + 0.0;
    let [low, high] = [interval.low, interval.high].map(points);
    format!("{:+.1} [{low:.1}, {high:.1}]", points(difference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_keeps_its_columns_whatever_a_cell_holds() {
        let rows = Rows {
            headings: vec!["system", "n"],
            numbers: 1,
            rows: vec![vec!["program:a|b.rhai".to_owned(), "3".to_owned()]],
        };
        let page = "| system | n |\n| --- | ---: |\n| program:a\\|b.rhai | 3 |\n";
        assert_eq!(rows.markdown(), page);
    }
}
