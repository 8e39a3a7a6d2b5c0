//! Whether a bundle may be carried over to a later version of its base: the validation queries are
//! answered on what the base is now, and the scores compared with those that the bundle states.
//!
//! It may if no relation that its programs name is gone, no program fails, neither the whole nor a
//! category lost, and it is not below the best baseline. Something lost if what the bundle states
//! lies above the 95 % interval of what is found, of few queries above a bound that holds for any
//! number: so few queries prove no loss, and say so.

use std::collections::BTreeSet;

use anyhow::anyhow;
use serde::Serialize;

use crate::{
    Context, Exit,
    printer::{plain, table},
    verify::{
        Args,
        replay::{Replay, replay},
    },
};
use agent_app::{
    dataset,
    error::{Explain, Result},
    llm, named,
    systems::{Resources, read_bundle},
};
use agent_dataset::{Split, is_synthetic, load_split};
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, Drift};
use agent_optimize::trial::mean;
use agent_retrieve::eval::{Interval, statistics::bootstrap_interval};
use agent_sandbox::{Origin, Place};

/// Characters of a category.
const MAX_SHOWN: usize = 60;
/// Queries below which a category proves little.
const FEW: usize = 10;

/// What is printed as JSON.
#[derive(Serialize)]
struct Told<'a> {
    /// Whether the bundle may be carried over.
    fits: bool,
    /// Why not, each in a line.
    reasons: Vec<String>,
    n: usize,
    /// Whether the queries were made, not labelled.
    synthetic: bool,
    stated_mrr: f64,
    mrr: f64,
    ci95: Interval,
    /// The best baseline on the base of now.
    baseline: &'a str,
    baseline_mrr: f64,
    categories: Vec<CategoryDrift<'a>>,
    /// Relations that programs name and the base lacks.
    relations_gone: &'a BTreeSet<String>,
    accepted: bool,
}

/// A category then and now.
#[derive(Serialize)]
struct CategoryDrift<'a> {
    name: &'a str,
    n: usize,
    /// None where no query of validation was of it.
    stated_mrr: Option<f64>,
    mrr: Option<f64>,
    ci95: Option<Interval>,
    lost: bool,
}

pub(super) fn run(args: &Args, ctx: &Context) -> Result<Exit> {
    let bundle = read_bundle(&args.file, ctx)?;
    let name = args.dataset.as_deref().unwrap_or(&bundle.dataset.name);
    let dataset = dataset::chosen(args.dataset.as_deref(), &bundle.dataset.name, ctx)?;
    let base = dataset::open(&dataset, ctx)?;
    let is_same = bundle.check_base(&base).is_ok();
    if is_same && !args.json {
        ctx.printer.notice(&format!("\"{name}\" is the base it was made for: nothing drifted"));
        return Ok(Exit::Done);
    }
    let queries = load_split(&dataset.base, &Split::Val)?;
    if queries.is_empty() {
        return Err(anyhow!("\"{name}\" has no validation queries to compare with"))
            .hint("give the questions with the update, or label some");
    }
    let gone = gone(&bundle, &base);
    let llm = llm::open_for_programs(&bundle, ctx);
    let llm = llm.hint("its programs ask a language model")?;
    let resources = Resources::new(llm.as_ref(), args.sandbox.places(ctx)?, ctx);
    let replayed = replay(&bundle, &queries, &base, &resources, ctx)?;
    let Some(replayed) = replayed else {
        return Err(anyhow!("a program of the bundle does not compile")).hint("optimize again");
    };
    let seed = bundle.provenance.seed;
    let ci95 = interval(&replayed.ranks, seed)?;
    let categories = categories(&bundle, &replayed, seed)?;
    let all: Vec<usize> = (0..replayed.ranks.len()).collect();
    let whole = replayed.score(&all, seed)?;
    let (baseline, baseline_mrr) =
        whole.as_ref().map_or(("", 0.0), |score| (score.baseline.as_str(), score.baseline_mrr));
    let mut told = Told {
        fits: false,
        reasons: Vec::new(),
        n: replayed.ranks.len(),
        synthetic: is_synthetic(&queries),
        stated_mrr: bundle.validation.mrr,
        mrr: mean(&replayed.ranks),
        ci95,
        baseline,
        baseline_mrr,
        categories,
        relations_gone: &gone,
        accepted: false,
    };
    told.reasons = reasons(&told, &replayed);
    told.fits = told.reasons.is_empty();
    if args.accept_drift && told.fits && !is_same {
        accept(args, bundle.clone(), &base, &replayed, ctx)?;
        told.accepted = true;
    }
    if args.json {
        ctx.printer.json(&told)?;
    } else {
        print(&told, ctx)?;
    }
    Ok(if told.fits { Exit::Done } else { Exit::Failed })
}

fn interval(ranks: &[f32], seed: u64) -> Result<Interval> {
    let ranks: Vec<f64> = ranks.iter().map(|&rank| f64::from(rank)).collect();
    Ok(bootstrap_interval(&ranks, seed)?)
}

/// Relations that programs name and the base does not have.
fn gone(bundle: &Bundle, base: &IndexedBase) -> BTreeSet<String> {
    let named = bundle.relations().into_iter();
    named.filter(|name| base.kb.relation_id(name).is_none()).collect()
}

fn categories<'a>(
    bundle: &'a Bundle,
    replayed: &Replay,
    seed: u64,
) -> Result<Vec<CategoryDrift<'a>>> {
    let told = bundle.categories.iter().enumerate().map(|(at, category)| {
        let queries = replayed.of_category(at);
        let ranks: Vec<f32> =
            queries.iter().filter_map(|&query| replayed.ranks.get(query)).copied().collect();
        let stated_mrr = category.validation.as_ref().map(|score| score.mrr);
        let ci95 = match ranks.is_empty() {
            true => None,
            false => Some(interval(&ranks, seed)?),
        };
        let lost = stated_mrr.zip(ci95).is_some_and(|(stated, now)| is_lost(stated, &ranks, now));
        Ok(CategoryDrift {
            name: &category.name,
            n: ranks.len(),
            stated_mrr,
            mrr: ci95.map(|_| mean(&ranks)),
            ci95,
            lost,
        })
    });
    told.collect()
}

/// Whether a mean of reciprocal ranks is above what some ranks may be the mean of: their bootstrap
/// interval, which few ranks make too narrow, or for these a bound that holds for any number
/// (Hoeffding 1963, one-sided, 97.5 %).
fn is_lost(stated: f64, ranks: &[f32], now: Interval) -> bool {
    let bound = mean(ranks) + (40f64.ln() / (2.0 * ranks.len().max(1) as f64)).sqrt();
    stated > if ranks.len() < FEW { bound } else { now.high }
}

/// Why the bundle may not be carried over.
fn reasons(told: &Told<'_>, replayed: &Replay) -> Vec<String> {
    let mut reasons = Vec::new();
    if !told.relations_gone.is_empty() {
        let names: Vec<String> =
            told.relations_gone.iter().map(|name| plain(name, MAX_SHOWN)).collect();
        reasons.push(format!("programs follow relations that are gone: {}", names.join(", ")));
    }
    if let Some((n, first)) = &replayed.failed {
        reasons.push(format!("programs failed {n} times, first: {}", plain(first, 3 * MAX_SHOWN)));
    }
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    if is_lost(told.stated_mrr, &replayed.ranks, told.ci95) {
        let (stated, now) = (percent(told.stated_mrr), percent(told.mrr));
        reasons.push(format!("validation MRR fell from {stated} to {now}"));
    }
    for of in told.categories.iter().filter(|of| of.lost) {
        let [stated, now] = [of.stated_mrr, of.mrr].map(|mrr| percent(mrr.unwrap_or_default()));
        let name = plain(of.name, MAX_SHOWN);
        reasons.push(format!("\"{name}\" fell from {stated} to {now} (n {})", of.n));
    }
    if told.mrr < told.baseline_mrr {
        let (baseline, mrr) = (percent(told.baseline_mrr), percent(told.mrr));
        reasons.push(format!("{} is better now: {baseline} against {mrr}", told.baseline));
    }
    reasons
}

/// Writes the bundle with fingerprints and scores of the base of now.
fn accept(
    args: &Args,
    mut bundle: Bundle,
    base: &IndexedBase,
    replayed: &Replay,
    ctx: &Context,
) -> Result<()> {
    let seed = bundle.provenance.seed;
    let was_trusted = ctx.private.trust().place(Origin::Bundle(&bundle.digest)) == Place::Process;
    bundle.provenance.drift.push(Drift {
        from: std::mem::replace(&mut bundle.dataset.kb, base.kb.fingerprint().to_owned()),
        to: base.kb.fingerprint().to_owned(),
        mrr_before: bundle.validation.mrr,
        mrr_after: mean(&replayed.ranks),
        n: replayed.ranks.len(),
    });
    base.fingerprint().clone_into(&mut bundle.dataset.index);
    bundle.dataset.embedder = base.embedder().describe();
    for (at, category) in bundle.categories.iter_mut().enumerate() {
        category.validation = replayed.score(&replayed.of_category(at), seed)?;
    }
    bundle.validation.n = replayed.ranks.len();
    bundle.validation.mrr = mean(&replayed.ranks);
    bundle.validation.baselines = replayed.baseline_mrr();
    // These were found on the base of before, and are found by optimizing alone.
    bundle.validation.held_out = None;
    bundle.validation.best_program = None;
    bundle.validation.proof = None;
    let bundle = bundle.sealed();
    bundle.write(&named::bundle_file(&args.file, &ctx.home)?)?;
    // Its programs are those of before; who wrote them has not changed.
    if was_trusted {
        ctx.private.trust().keep(Origin::Bundle(&bundle.digest));
    }
    Ok(())
}

fn print(told: &Told<'_>, ctx: &Context) -> Result<()> {
    let percent =
        |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.1}", 100.0 * s));
    let verdict = match (told.fits, told.accepted) {
        (true, true) => "Carried over: the bundle is one of the updated base now",
        (true, false) => "May be carried over (--accept-drift writes that into the bundle)",
        (false, _) => "Optimize again: the bundle does not fit the updated base",
    };
    let range = |ci: Interval| format!("[{:.1}, {:.1}]", 100.0 * ci.low, 100.0 * ci.high);
    ctx.printer.text(&format!(
        "{verdict}.\nvalidation{} MRR {} {} against {} when it was frozen, n {}; {} {}\n\n",
        if told.synthetic { " (synthetic questions)" } else { "" },
        percent(Some(told.mrr)),
        range(told.ci95),
        percent(Some(told.stated_mrr)),
        told.n,
        told.baseline,
        percent(Some(told.baseline_mrr)),
    ))?;
    let mut rows = table(["question type", "n", "frozen", "now", "95 %", ""], &[1, 2, 3]);
    for of in &told.categories {
        let mark = match (of.lost, of.n) {
            (true, _) => "lost",
            (false, n) if n < FEW => "few",
            (false, _) => "",
        };
        rows.add_row([
            plain(of.name, MAX_SHOWN),
            of.n.to_string(),
            percent(of.stated_mrr),
            percent(of.mrr),
            of.ci95.map_or_else(String::new, range),
            mark.to_owned(),
        ]);
    }
    ctx.printer.table(&rows)?;
    let reasons: String = told.reasons.iter().map(|why| format!("why        {why}\n")).collect();
    ctx.printer.text(&reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_queries_prove_no_loss_unless_all_of_them_fail() {
        let lost = |stated, ranks: &[f32]| is_lost(stated, ranks, interval(ranks, 1).unwrap());
        // The one question that is left of a category was never answered well.
        assert!(!lost(0.69, &[0.05]));
        assert!(!lost(0.9, &[0.5, 0.5, 0.5]));
        assert!(lost(0.9, &[0.0; 8]));
        assert!(lost(0.9, &[0.5; 10]) && !lost(0.5, &[0.5; 10]));
    }
}
