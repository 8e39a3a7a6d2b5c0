//! Prints the result of a run: its bundle against the best baseline, in total and by question type,
//! figures on the test split if it was opened, unproven results, and the next command. Does not
//! depend on how programs were found.

use crate::{Context, Exit, eval::signed, printer::short_labels, table};
use agent_app::{
    Result, count,
    optimize::{Ended, OnTest, SystemOnTest},
    p_cell, p_value, percent, routing, test_split,
};
use agent_infer::bundle::{Bundle, CategoryScore, Provenance};
use agent_llm::ledger::Spending;
use agent_optimize::{Outcome, Standing, Verdict};
use agent_retrieve::{
    System,
    eval::{Interval, Metric},
};

/// Prints the result of a run; the first line is the verdict.
///
/// # Errors
/// If stdout cannot be written to.
pub(super) fn print(ended: &Ended, ctx: &Context) -> Result<()> {
    let (bundle, test) = (&ended.outcome.bundle, ended.test.as_ref());
    ctx.printer.data(&verdict(&ended.outcome.verdict, test, &bundle.provenance))?;
    ctx.printer.data("\n")?;
    print_categories(bundle, ctx)?;
    if let Some(test) = test {
        print_test(test, bundle, ctx)?;
    }
    statistics(ended, ctx);
    let mut lines = vec![format!("bundle: {}", ended.bundle_file().display())];
    lines.extend(lacking(&ended.outcome));
    ctx.printer.data(&format!("\n{}\n", lines.join("\n")))?;
    if ended.spent.calls > 0 {
        let Spending { calls, tokens_in, tokens_out, usd, unpriced } = ended.spent;
        let price = match unpriced {
            0 => format!("{usd:.4} USD"),
            n => format!("{usd:.4} USD and {n} calls without a known price"),
        };
        ctx.watch.notice(&format!(
            "{calls} LLM calls, {} tokens sent, {} received, {price}",
            count(tokens_in),
            count(tokens_out)
        ));
    }
    ctx.watch.notice(&format!(
        "took {:.0} s; to ask a question: agent query --bundle {} --dataset {} \"...\" --explain",
        ended.seconds,
        ended.bundle_file().display(),
        ended.dataset
    ));
    if ended.spent.calls == 0 {
        ctx.watch.notice(
            "for better answers, let a language model read each question: --effort 1 --model NAME",
        );
    }
    Ok(())
}

/// Prints further estimates as details, which appear only with `--verbose`.
fn statistics(ended: &Ended, ctx: &Context) {
    let validation = &ended.outcome.bundle.validation;
    if let Some(held_out) = &validation.held_out {
        ctx.watch.detail(&format!(
            "estimated by cross-fitting on validation queries: MRR {} ({} folds)",
            percent(held_out.mrr, held_out.ci95),
            held_out.folds
        ));
    }
    if let Some(best) = validation.best_program {
        let best = hundred(best);
        ctx.watch.detail(&format!("oracle that picks the best answer to each query: MRR {best}"));
    }
    if let Some(router) = &ended.router {
        ctx.watch.detail(&routing::told(router));
    }
}

/// Returns one line for an unproven bundle and one for unproven changes, each with the estimated
/// number of further validation questions that a proof needs.
fn lacking(outcome: &Outcome) -> Vec<String> {
    let verdict = &outcome.verdict;
    let mut lines = Vec::new();
    if let (Standing::Unproven, Some(more)) = (verdict.standing, verdict.needed) {
        lines.push(format!(
            "label {} more validation questions to decide whether the bundle is better than {}",
            about(more),
            verdict.baseline
        ));
    }
    let proof = outcome.bundle.validation.proof.as_ref();
    if let Some(more) = proof.filter(|proof| !proof.proven).and_then(|proof| proof.needed) {
        lines.push(format!(
            "label {} more validation questions to prove the changes of this run; the bundle \
             does not contain them",
            about(more)
        ));
    }
    lines
}

/// Describes the verdict in two lines: the gain over the best baseline, then the mean reciprocal
/// ranks of the bundle and of that baseline, with the p-value.
fn verdict(verdict: &Verdict, test: Option<&OnTest>, made: &Provenance) -> String {
    let opened = match test {
        Some(test) => test_split::told(test.openings),
        None => "test not opened".to_owned(),
    };
    let told = |head: &str, versus| {
        let versus = (versus, verdict.baseline.as_str());
        gain(head, verdict.difference, verdict.difference_ci95, versus, verdict.n)
    };
    let first = match verdict.standing {
        Standing::Better => test.and_then(gain_on).unwrap_or_else(|| told("validation: ", "over")),
        Standing::Unproven => {
            let by = if verdict.difference < 0.0 { "against" } else { "over" };
            told("frozen, not proven better: ", by)
        }
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
        percent(verdict.mrr, verdict.ci95),
        hundred(verdict.baseline_mrr),
        p_value(verdict.p),
        System::ALL.len()
    )
}

/// Returns the gain on the test split over the best baseline (the first of several equal ones), as
/// [`verdict`] prints it. `None` if the bundle's figures are invalid or were not compared with that
/// baseline.
fn gain_on(test: &OnTest) -> Option<String> {
    let OnTest { baselines, bundle, .. } = test;
    if bundle.invalid.is_some() {
        return None;
    }
    let mrr = |one: &SystemOnTest| one.evaluation.means.get(Metric::Mrr);
    let best =
        baselines.iter().reduce(|best, next| if mrr(next) > mrr(best) { next } else { best })?;
    let versus = best.bundle_better_by.as_ref()?;
    let (against, n) = (("over", best.system.as_str()), bundle.evaluation.n);
    Some(gain("test: ", versus.difference, versus.ci95, against, n))
}

/// Formats a gain: `test: +18.4 MRR over bm25+names [13.4, 23.6], n 150`.
fn gain(
    head: &str,
    difference: f64,
    ci95: Interval,
    (versus, baseline): (&str, &str),
    n: usize,
) -> String {
    let signed = signed(difference, ci95);
    let (points, interval) = signed.split_once(' ').unwrap_or((&signed, ""));
    format!("{head}{points} MRR {versus} {baseline} {interval}, n {n}")
}

/// Returns `words` if the questions are synthetic, else nothing.
fn synthetic<'a>(made: &Provenance, words: &'a str) -> &'a str {
    if made.synthetic { words } else { "" }
}

/// Formats a share in percent with one decimal, without the sign.
fn hundred(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// Formats an estimated number of questions, as `about 120`.
fn about(n: usize) -> String {
    format!("about {}", count(n as u64))
}

fn print_categories(bundle: &Bundle, ctx: &Context) -> Result<Exit> {
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
    ctx.watch.notice(&format!(
        "validation{questions}, by the category a query is routed to; MRR in percent"
    ));
    ctx.printer.table(&rows)
}

fn print_test(test: &OnTest, bundle: &Bundle, ctx: &Context) -> Result<Exit> {
    let headings = ["system", "n", "hit@1", "recall@20", "mrr", "bundle better by (mrr)", "p"];
    let mut rows = table(headings, &[1, 2, 3, 4, 5, 6]);
    for one in test.systems() {
        let evaluation = &one.evaluation;
        let mut row = vec![one.system.clone(), evaluation.n.to_string()];
        for metric in [Metric::Hit1, Metric::Recall20, Metric::Mrr] {
            row.push(percent(evaluation.means.get(metric), evaluation.ci95.get(metric)));
        }
        if let Some(versus) = &one.bundle_better_by {
            let p = one.p_holm.map_or(String::new(), p_cell);
            row.extend([signed(versus.difference, versus.ci95), p]);
        }
        rows.add_row(row);
    }
    ctx.printer.data("\n")?;
    let questions = synthetic(&bundle.provenance, " (synthetic questions)");
    ctx.watch.notice(&format!(
        "test{questions}: means in percent with 95 % intervals, Holm-corrected p-values"
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
