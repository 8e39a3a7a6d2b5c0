//! What an evaluation prints: tables for people, Markdown and CSV for documents, JSON for programs.
//! Must not know how anything was measured.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Context,
    eval::measures::Measures,
    printer::{p_cell, table},
};
use agent_app::{error::Result, measured::Measured, synthetic, test_split};
use agent_llm::ledger::Spending;
use agent_retrieve::eval::{Comparison, Evaluation, Interval, Metric};

/// Metrics in tables that are compared; CSV and JSON have all.
pub(super) const SHOWN: [Metric; 4] = [Metric::Hit1, Metric::Hit5, Metric::Recall20, Metric::Mrr];
/// The recall of the shortlist: shares of queries with an answer up to there.
const DEPTHS: [Metric; 3] = [Metric::Hit20, Metric::Hit50, Metric::Hit100];
/// What the row of all queries is called where there are groups.
pub(super) const ALL: &str = "all";

/// How means are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Columns for the eye.
    #[default]
    Table,
    /// Tables of a Markdown page.
    Markdown,
    /// One line for each metric, group and system.
    Csv,
}

/// Evaluations by group.
pub(super) type Groups = BTreeMap<String, Evaluation>;

/// A system against another one, in one metric.
#[derive(Serialize)]
pub(super) struct Versus<'a> {
    #[serde(skip)]
    pub(super) system: &'a str,
    #[serde(rename = "system")]
    pub(super) other: &'a str,
    #[serde(serialize_with = "metric_name")]
    pub(super) metric: Metric,
    #[serde(flatten)]
    pub(super) comparison: Comparison,
    /// `p`, corrected for all comparisons of this evaluation (Holm 1979).
    pub(super) p_holm: f64,
}

fn metric_name<S: serde::Serializer>(
    metric: &Metric,
    out: S,
) -> std::result::Result<S::Ok, S::Error> {
    out.serialize_str(metric.name())
}

/// Everything that was measured.
pub(super) struct Report<'a> {
    pub(super) dataset: &'a str,
    pub(super) split: String,
    /// Whether the questions were made, not labelled.
    pub(super) synthetic: bool,
    pub(super) measured: &'a [Measured],
    /// What was ranked and by which definitions it was measured.
    pub(super) measures: Measures,
    /// By system, as `measured`; empty if no groups were asked for.
    pub(super) groups: Vec<Groups>,
    pub(super) versus: Vec<Versus<'a>>,
    /// How often the test split was opened, if these are figures on it.
    pub(super) openings: Option<u64>,
}

/// LLM use of a system.
#[derive(Serialize)]
pub(super) struct LlmUse {
    calls: u64,
    tokens_in: u64,
    tokens_out: u64,
    usd: f64,
}

impl From<Spending> for LlmUse {
    fn from(spent: Spending) -> Self {
        let Spending { calls, tokens_in, tokens_out, usd, .. } = spent;
        Self { calls, tokens_in, tokens_out, usd }
    }
}

#[derive(Serialize)]
struct Printed<'a> {
    dataset: &'a str,
    split: &'a str,
    /// Only if the questions were made, not labelled.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    synthetic: bool,
    system: &'a str,
    #[serde(flatten)]
    evaluation: &'a Evaluation,
    llm: LlmUse,
    /// What its replies took, those that had been kept among them; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<LlmUse>,
    /// Queries that a model was to help with and did not; only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unassisted: Option<usize>,
    /// What the defaults do not say.
    #[serde(flatten)]
    measures: Measures,
    /// Only if the means say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
    /// Only of figures on the test split.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_openings: Option<u64>,
    /// Only if groups were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<&'a Groups>,
    /// Only if there is another system to compare with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    versus: Vec<&'a Versus<'a>>,
}

/// Says below figures on the test split how often it was opened; CSV holds figures alone.
pub(super) fn tell_openings(openings: Option<u64>, format: Format, ctx: &Context) -> Result<()> {
    match openings.filter(|_| format != Format::Csv) {
        Some(openings) => ctx.printer.data(&format!("\n{}\n", test_split::told(openings))),
        None => Ok(()),
    }
}

/// Rows of text under headings.
pub(super) struct Rows {
    pub(super) headings: Vec<&'static str>,
    /// Columns of numbers begin here.
    pub(super) numbers: usize,
    pub(super) rows: Vec<Vec<String>>,
}

impl Rows {
    pub(super) fn print(self, format: Format, ctx: &Context) -> Result<()> {
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

impl Report<'_> {
    /// One JSON object per system.
    pub(super) fn print_json(&self, ctx: &Context) -> Result<()> {
        for (at, one) in self.measured.iter().enumerate() {
            ctx.printer.json(&Printed {
                dataset: self.dataset,
                split: &self.split,
                synthetic: self.synthetic,
                system: &one.system,
                evaluation: &one.evaluation,
                llm: one.llm.into(),
                asked: (one.used.calls > 0).then(|| one.used.into()),
                unassisted: Some(one.unassisted).filter(|&n| n > 0),
                measures: self.measures,
                invalid: one.invalid(),
                test_openings: self.openings,
                groups: self.groups.get(at),
                versus: self.versus.iter().filter(|row| row.system == one.system).collect(),
            })?;
        }
        Ok(())
    }

    /// Tables; as CSV, the means alone.
    pub(super) fn print(&self, format: Format, ctx: &Context) -> Result<()> {
        if format == Format::Csv {
            return self.means_by_metric().print(format, ctx);
        }
        let (dataset, split) = (self.dataset, &self.split);
        ctx.printer.notice(&format!("{dataset} {split}: means in percent with 95 % intervals"));
        self.means().print(format, ctx)?;
        if self.synthetic {
            ctx.printer.data(&format!("\n{}\n", synthetic::TOLD))?;
        }
        tell_openings(self.openings, format, ctx)?;
        if self.versus.is_empty() {
            return Ok(());
        }
        ctx.printer.notice("paired differences in percentage points, p corrected after Holm");
        ctx.printer.data("\n")?;
        self.differences().print(format, ctx)
    }

    /// Every evaluation with its group and system, group by group, systems in the order given.
    fn evaluations(&self) -> impl Iterator<Item = (&str, &str, &Evaluation)> {
        let all = self.measured.iter().map(|one| (ALL, one.system.as_str(), &one.evaluation));
        let labels = self.groups.first().into_iter().flat_map(Groups::keys);
        let groups = labels.flat_map(move |label| {
            let systems = self.measured.iter().zip(&self.groups);
            systems.filter_map(move |(one, groups)| {
                Some((label.as_str(), one.system.as_str(), groups.get(label)?))
            })
        });
        all.chain(groups)
    }

    fn means(&self) -> Rows {
        let row = |(group, system, evaluation): (&str, &str, &Evaluation)| {
            let mut row = vec![group.to_owned(), system.to_owned()];
            row.extend([evaluation.n.to_string(), evaluation.failed.to_string()]);
            row.extend(
                SHOWN.map(|metric| {
                    percent(evaluation.means.get(metric), evaluation.ci95.get(metric))
                }),
            );
            row.extend(DEPTHS.map(|metric| format!("{:.1}", 100.0 * evaluation.means.get(metric))));
            row.extend(
                [evaluation.latency.p50, evaluation.latency.p95].map(|ms| format!("{ms:.1}")),
            );
            row
        };
        let mut headings = vec!["queries", "system", "n", "failed"];
        headings.extend(SHOWN.map(Metric::name));
        headings.extend(DEPTHS.map(Metric::name));
        headings.extend(["p50 ms", "p95 ms"]);
        let mut rows: Vec<Vec<String>> = self.evaluations().map(row).collect();
        if self.measured.iter().any(|one| one.used.calls > 0) {
            headings.extend(COSTS);
            // Rows of groups follow those of all queries; what they cost is not told apart.
            let costs = self.measured.iter().map(costs).map(Some).chain(std::iter::repeat(None));
            for (row, costs) in rows.iter_mut().zip(costs) {
                row.extend(costs.unwrap_or_default());
            }
        }
        let mut numbers = 2;
        if self.groups.is_empty() {
            headings.remove(0);
            rows.iter_mut().for_each(|row| drop(row.remove(0)));
            numbers = 1;
        }
        Rows { numbers, headings, rows }
    }

    fn means_by_metric(&self) -> Rows {
        let synthetic = if self.synthetic { " (synthetic)" } else { "" };
        let split = format!("{}{synthetic}", self.split);
        let row = |(group, system, evaluation): (&str, &str, &Evaluation), metric: Metric| {
            let interval = evaluation.ci95.get(metric);
            let mut row = [self.dataset, &split, group, system].map(str::to_owned).to_vec();
            row.extend([evaluation.n.to_string(), evaluation.failed.to_string()]);
            row.push(metric.name().to_owned());
            let mean = evaluation.means.get(metric);
            row.extend([mean, interval.low, interval.high].map(|number| number.to_string()));
            row
        };
        let rows = self.evaluations().flat_map(|one| Metric::ALL.map(|metric| row(one, metric)));
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
        Rows { numbers: headings.len(), headings, rows: rows.collect() }
    }

    fn differences(&self) -> Rows {
        let row = |Versus { system, other, metric, comparison, p_holm }: &Versus<'_>| {
            let mut row = vec![format!("{system} - {other}"), metric.name().to_owned()];
            row.push(percent(comparison.difference, comparison.ci95));
            row.push(p_cell(*p_holm));
            let counts = [comparison.wins, comparison.losses, comparison.ties];
            row.extend(counts.map(|count| count.to_string()));
            row
        };
        let headings = vec!["system", "metric", "difference", "p", "better", "worse", "equal"];
        let rows = self.versus.iter().map(row).collect();
        Rows { headings, numbers: 2, rows }
    }
}

/// What a query costs with a language model, on average.
const COSTS: [&str; 4] = ["requests", "tokens", "s", "USD"];

/// These for one system: replies that had been kept count as well.
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

/// A mean with its interval, both in percent.
pub(crate) fn percent(mean: f64, interval: Interval) -> String {
    format!("{:.1} [{:.1}, {:.1}]", 100.0 * mean, 100.0 * interval.low, 100.0 * interval.high)
}

/// A difference with its interval, both in percentage points.
pub(crate) fn signed(difference: f64, interval: Interval) -> String {
    // Rounded first, so that next to nothing is not shown as -0.
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
