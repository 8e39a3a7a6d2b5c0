//! What came of a run: first how its bundle stands against the best baseline, then by kind of
//! question, on the test split if that was opened, what lacks proof, and where to go on.
//! Must not know how programs were found.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use serde::Serialize;

use crate::{
    Context,
    eval::{print_failed, signed},
    printer::{short_labels, table},
};
use agent_app::{
    error::{AppError, Result},
    measured::{Benchmark, How, Measured},
    routing, test_split,
    text::{count, p_cell, p_value, percent},
};
use agent_dataset::Base;
use agent_index::IndexedBase;
use agent_infer::{
    BundleRetriever, Runtime,
    bundle::{Bundle, CategoryScore, Provenance},
};
use agent_llm::ledger::Spending;
use agent_optimize::{BUNDLE_FILE, Outcome, Scope, Standing, Verdict, record::timing::Timing};
use agent_retrieve::{
    Baseline, Retriever, System,
    eval::{
        Calibration, Comparison, Evaluation, Interval, Metric, SEED, compare, statistics::holm,
    },
};
use agent_sandbox::{SandboxOptions, Workers};
use agent_tools::Assistant;

/// What is told at the end of a run.
pub(super) struct Report<'a> {
    /// The dataset, as it was named.
    pub(super) dataset: &'a str,
    /// The run's directory.
    pub(super) dir: &'a Path,
    pub(super) outcome: &'a Outcome,
    /// Figures on the test split, if it was opened.
    pub(super) test: Option<OnTest>,
    pub(super) seconds: f64,
    pub(super) timing: &'a Timing,
    /// How well the router knows which program answers best.
    pub(super) router: Option<Calibration>,
    pub(super) spent: Spending,
}

/// Figures on the test split.
pub(super) struct OnTest {
    /// The bundle.
    bundle: Measured,
    /// All baselines, each with the bundle compared to it and the p of that, corrected for their
    /// number (Holm 1979).
    baselines: Vec<(Measured, Comparison, f64)>,
    /// How often the split was opened, this time included.
    openings: u64,
}

impl OnTest {
    /// What the bundle gains over the best baseline, in the words of [`verdict`]; the first of
    /// several that are equal. None where its figures say nothing.
    fn gain(&self) -> Option<String> {
        if self.bundle.invalid().is_some() {
            return None;
        }
        let mrr = |one: &Measured| one.evaluation.means.get(Metric::Mrr);
        let (baseline, versus, _) = self
            .baselines
            .iter()
            .reduce(|best, next| if mrr(&next.0) > mrr(&best.0) { next } else { best })?;
        let n = self.bundle.evaluation.n;
        Some(told_gain("test: ", versus.difference, versus.ci95, ("over", &baseline.system), n))
    }
}

/// Measures the bundle, whose programs may ask the language model, and all baselines on the test
/// split, and tells of queries that failed; none where the split has no query that nodes answer.
///
/// # Errors
/// That the split is damaged, or that it was stopped.
pub(super) fn on_test(
    bundle: &Bundle,
    indexed: &Arc<IndexedBase>,
    base: &Base,
    assistant: Option<Arc<Assistant>>,
    (threads, sandbox): (usize, &SandboxOptions),
    ctx: &Context,
) -> Result<Option<OnTest>> {
    if base.record.splits.get("test").is_none_or(|&n| n == 0) {
        return Ok(None);
    }
    let workers = Arc::new(Workers::new(threads).context("cannot start worker threads")?);
    let runtime = Runtime::in_sandbox(indexed.clone(), workers, None, sandbox)
        .with_assistant(assistant.filter(|_| bundle.asks()))
        .stoppable(ctx.stop.clone());
    let frozen = BundleRetriever::new(Arc::new(runtime), bundle)?;
    let queries = test_split::load(test_split::Part::Whole, base)?;
    if queries.is_empty() {
        return Ok(None);
    }
    let openings = test_split::count(base, ctx);
    let stand_in = Baseline::new(indexed.clone(), System::Hybrid);
    let how = How::default();
    let benchmark = Benchmark { queries: &queries, base: indexed, stand_in: &stand_in, how };
    let measured = |name: &str, system: &dyn Retriever| {
        let one = benchmark.measure(name, system, ctx)?;
        one.warn(ctx);
        print_failed(std::slice::from_ref(&one), ctx);
        Ok::<_, AppError>(one)
    };
    let bundle = measured(&frozen.name(), &frozen)?;
    let mut compared = Vec::new();
    for system in System::ALL {
        let baseline = measured(system.name(), &Baseline::new(indexed.clone(), system))?;
        let versus = compare(&bundle.results, &baseline.results, Metric::Mrr, SEED)?;
        compared.push((baseline, versus));
    }
    let p_values: Vec<f64> = compared.iter().map(|(_, versus)| versus.p).collect();
    let baselines = compared.into_iter().zip(holm(&p_values)?);
    let baselines = baselines.map(|((baseline, versus), p)| (baseline, versus, p)).collect();
    Ok(Some(OnTest { bundle, baselines, openings }))
}

/// One category in the JSON at the end.
#[derive(Serialize)]
struct PrintedCategory<'a> {
    name: &'a str,
    n: usize,
    baseline: Option<f64>,
    baseline_name: Option<&'a str>,
    frozen: Option<f64>,
    difference: Option<f64>,
    ci95: Option<Interval>,
    program: &'a str,
}

/// One system on the test split in the JSON at the end.
#[derive(Serialize)]
struct PrintedTest<'a> {
    system: &'a str,
    #[serde(flatten)]
    evaluation: &'a Evaluation,
    /// Of baselines: the bundle less the baseline, in mean reciprocal rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    bundle_better_by: Option<&'a Comparison>,
    /// The p of that, corrected for the number of baselines.
    #[serde(skip_serializing_if = "Option::is_none")]
    p_holm: Option<f64>,
    /// Only if the means say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    invalid: Option<String>,
}

impl Report<'_> {
    /// The result for people; the verdict is its first line.
    ///
    /// # Errors
    /// That it cannot be written.
    pub(super) fn print(&self, ctx: &Context) -> Result<()> {
        let bundle = &self.outcome.bundle;
        ctx.printer.data(&verdict(
            &self.outcome.verdict,
            self.test.as_ref(),
            &bundle.provenance,
        ))?;
        ctx.printer.data("\n")?;
        print_categories(bundle, ctx)?;
        if let Some(test) = &self.test {
            print_test(test, bundle, ctx)?;
        }
        ctx.printer.data(&format!("\n{}", self.further()))?;
        if self.spent.calls > 0 {
            let Spending { calls, tokens_in, tokens_out, usd, unpriced } = self.spent;
            let price = match unpriced {
                0 => format!("{usd:.4} USD"),
                n => format!("{usd:.4} USD and {n} calls without a known price"),
            };
            ctx.printer.notice(&format!(
                "{calls} LLM calls, {} tokens sent, {} received, {price}",
                count(tokens_in),
                count(tokens_out)
            ));
        }
        ctx.printer.notice(&format!(
            "took {:.0} s; ask it: agent query --bundle {} --dataset {} \"...\" --explain",
            self.seconds,
            self.dir.join(BUNDLE_FILE).display(),
            self.dataset
        ));
        Ok(())
    }

    /// Estimates beside the verdict, the place of the bundle, and what would prove what is not.
    fn further(&self) -> String {
        let validation = &self.outcome.bundle.validation;
        let mut lines = Vec::new();
        if let Some(held_out) = &validation.held_out {
            lines.push(format!(
                "estimated on queries that did not choose: MRR {} ({} folds)",
                percent(held_out.mrr, held_out.ci95),
                held_out.folds
            ));
        }
        if let Some(best) = validation.best_program {
            lines.push(format!(
                "the best answer of each query, if it were known: MRR {}",
                hundred(best)
            ));
        }
        lines.extend(self.router.as_ref().map(routing::told));
        lines.push(format!("bundle: {}", self.dir.join(BUNDLE_FILE).display()));
        lines.extend(self.lacking());
        lines.join("\n") + "\n"
    }

    /// What would prove what is not proven.
    fn lacking(&self) -> Vec<String> {
        let verdict = &self.outcome.verdict;
        let mut lines = Vec::new();
        if let (Standing::Unproven, Some(more)) = (verdict.standing, verdict.needed) {
            lines.push(format!(
                "label {} more questions for validation to tell whether the bundle is better than {}",
                about(more),
                verdict.baseline
            ));
        }
        let proof = self.outcome.bundle.validation.proof.as_ref();
        if let Some(more) = proof.filter(|proof| !proof.proven).and_then(|proof| proof.needed) {
            lines.push(format!(
                "label {} more questions for validation to prove the changes of this run, which are \
                 left out",
                about(more)
            ));
        }
        lines
    }

    /// One JSON object.
    ///
    /// # Errors
    /// That it cannot be written.
    pub(super) fn print_json(&self, ctx: &Context) -> Result<()> {
        let bundle = &self.outcome.bundle;
        let categories: Vec<PrintedCategory<'_>> = bundle
            .categories
            .iter()
            .map(|category| {
                let score = category.validation.as_ref();
                PrintedCategory {
                    name: &category.name,
                    n: score.map_or(0, |score| score.n),
                    baseline: score.map(|score| score.baseline_mrr),
                    baseline_name: score.map(|score| score.baseline.as_str()),
                    frozen: score.map(|score| score.mrr),
                    difference: score.map(|score| score.difference),
                    ci95: score.map(|score| score.ci95),
                    program: category.program.id(),
                }
            })
            .collect();
        ctx.printer.json(&serde_json::json!({
            "run": self.dir,
            "bundle": self.dir.join(BUNDLE_FILE),
            "seed": bundle.provenance.seed,
            "steps": bundle.provenance.steps,
            "synthetic": bundle.provenance.synthetic,
            "baseline_frozen": bundle.provenance.baseline,
            "verdict": self.outcome.verdict,
            "categories": categories,
            "validation": bundle.validation,
            "test": self.test.as_ref().map(printed_test),
            "test_openings": self.test.as_ref().map(|test| test.openings),
            "router": self.router,
            "seconds_to_first_better": self.timing.seconds_to(Scope::Program),
            "first_better": self.timing.first_better,
            "phases": self.timing.summaries(),
            "cost": {
                "calls": self.spent.calls,
                "tokens_in": self.spent.tokens_in,
                "tokens_out": self.spent.tokens_out,
                "usd": self.spent.usd,
                "seconds": self.seconds,
            },
            "stopped": self.outcome.stopped.name(),
        }))
    }
}

/// How the bundle stands, in two lines; the first says the main thing.
fn verdict(verdict: &Verdict, test: Option<&OnTest>, made: &Provenance) -> String {
    let Verdict {
        standing,
        n,
        mrr,
        ci95,
        baseline,
        baseline_mrr,
        difference,
        difference_ci95,
        p,
        ..
    } = verdict;
    let opened = match test {
        Some(test) => test_split::told(test.openings),
        None => "test not opened".to_owned(),
    };
    let told = |head: &str, versus| {
        told_gain(head, *difference, *difference_ci95, (versus, baseline.as_str()), *n)
    };
    let first = match standing {
        Standing::Better => {
            test.and_then(OnTest::gain).unwrap_or_else(|| told("validation: ", "over"))
        }
        Standing::Unproven => told("frozen, not proven better: ", "over"),
        Standing::NotBetter => {
            let frozen = made.baseline.as_ref();
            let frozen = frozen.map_or(String::new(), |name| format!(", so {name} is frozen"));
            told(&format!("not better{frozen}: "), "against")
        }
    };
    let questions = synthetic(made, " synthetic questions");
    let validation = synthetic(made, " (synthetic questions)");
    format!(
        "{first}{questions} ({opened})\n\
         validation{validation} MRR {} against {} of the best baseline, {} (Holm over {} baselines)\n",
        percent(*mrr, *ci95),
        hundred(*baseline_mrr),
        p_value(*p),
        System::ALL.len()
    )
}

/// `test: +18.4 MRR over bm25+names [13.4, 23.6], n 150`.
fn told_gain(
    head: &str,
    difference: f64,
    ci95: Interval,
    (versus, baseline): (&str, &str),
    n: usize,
) -> String {
    let gain = signed(difference, ci95);
    let (gain, interval) = gain.split_once(' ').unwrap_or((&gain, ""));
    format!("{head}{gain} MRR {versus} {baseline} {interval}, n {n}")
}

/// Words that are said where the questions are synthetic.
fn synthetic<'a>(made: &Provenance, words: &'a str) -> &'a str {
    if made.synthetic { words } else { "" }
}

/// A share in percent.
fn hundred(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// A number of questions that is an estimate.
fn about(n: usize) -> String {
    format!("about {}", count(n as u64))
}

fn print_categories(bundle: &Bundle, ctx: &Context) -> Result<()> {
    let names: Vec<&str> = bundle.categories.iter().map(|one| one.name.as_str()).collect();
    let headings = ["question type", "n", "best baseline", "MRR", "bundle", "gain"];
    let mut rows = table(headings, &[1, 3, 4, 5]);
    for (category, label) in bundle.categories.iter().zip(short_labels(&names)) {
        let mut row = vec![label];
        match &category.validation {
            Some(CategoryScore { n, baseline, baseline_mrr, mrr, difference, ci95 }) => {
                row.extend([
                    n.to_string(),
                    baseline.clone(),
                    hundred(*baseline_mrr),
                    hundred(*mrr),
                    signed(*difference, *ci95),
                ])
            }
            None => row.extend(["0", "-", "-", "-", "-"].map(str::to_owned)),
        }
        rows.add_row(row);
    }
    let questions = synthetic(&bundle.provenance, " (synthetic questions)");
    ctx.printer.notice(&format!(
        "validation{questions}, by the category a query is routed to; MRR in percent"
    ));
    ctx.printer.table(&rows)
}

/// The systems on the test split as JSON, baselines first.
fn printed_test(test: &OnTest) -> Vec<PrintedTest<'_>> {
    let baselines = test.baselines.iter().map(|(baseline, versus, p)| PrintedTest {
        system: &baseline.system,
        evaluation: &baseline.evaluation,
        bundle_better_by: Some(versus),
        p_holm: Some(*p),
        invalid: None,
    });
    let bundle = PrintedTest {
        system: &test.bundle.system,
        evaluation: &test.bundle.evaluation,
        bundle_better_by: None,
        p_holm: None,
        invalid: test.bundle.invalid(),
    };
    baselines.chain([bundle]).collect()
}

fn print_test(test: &OnTest, bundle: &Bundle, ctx: &Context) -> Result<()> {
    let headings = ["system", "n", "hit@1", "recall@20", "mrr", "bundle better by (mrr)", "p"];
    let mut rows = table(headings, &[1, 2, 3, 4, 5, 6]);
    let row = |one: &Measured| {
        let evaluation = &one.evaluation;
        let mut row = vec![one.system.clone(), evaluation.n.to_string()];
        for metric in [Metric::Hit1, Metric::Recall20, Metric::Mrr] {
            row.push(percent(evaluation.means.get(metric), evaluation.ci95.get(metric)));
        }
        row
    };
    for (baseline, versus, p) in &test.baselines {
        let mut row = row(baseline);
        row.extend([signed(versus.difference, versus.ci95), p_cell(*p)]);
        rows.add_row(row);
    }
    rows.add_row(row(&test.bundle));
    ctx.printer.data("\n")?;
    let questions = synthetic(&bundle.provenance, " (synthetic questions)");
    ctx.printer.notice(&format!(
        "test{questions}: means in percent with 95 % intervals, p corrected after Holm"
    ));
    ctx.printer.table(&rows)?;
    ctx.printer.data(&format!("{}\n", test_split::told(test.openings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_whether_the_bundle_is_better() {
        let interval = |low, high| Interval { low, high };
        let told = |standing, difference: f64| {
            let of = Verdict {
                standing,
                n: 150,
                mrr: 0.789,
                ci95: interval(0.733, 0.841),
                baseline: "bm25+names".to_owned(),
                baseline_mrr: 0.789 - difference,
                difference,
                difference_ci95: interval(difference - 0.05, difference + 0.05),
                p: 0.000_01,
                needed: None,
            };
            let made = Provenance {
                version: String::new(),
                seed: 1,
                steps: 0,
                n_train: 0,
                n_validation: of.n,
                llm: None,
                without: Vec::new(),
                drift: Vec::new(),
                synthetic: standing == Standing::Unproven,
                baseline: (standing == Standing::NotBetter).then(|| of.baseline.clone()),
            };
            verdict(&of, None, &made).lines().next().unwrap().to_owned()
        };
        let better = told(Standing::Better, 0.185);
        assert_eq!(
            better,
            "validation: +18.5 MRR over bm25+names [13.5, 23.5], n 150 (test not opened)"
        );
        assert!(better.len() <= 80);
        let baseline = told(Standing::NotBetter, -0.01);
        assert!(baseline.starts_with("not better, so bm25+names is frozen: -1.0 MRR against bm25"));
        let unsure = told(Standing::Unproven, 0.01);
        assert!(unsure.starts_with("frozen, not proven better: +1.0 MRR over"), "{unsure}");
        assert!(unsure.contains("n 150 synthetic questions"), "{unsure}");
    }
}
