//! Checks whether a bundle still fits an updated version of its base: answers the validation
//! queries on the current base, and compares the scores with those in the bundle.
//!
//! The bundle fits if all of this holds: the base has all relations that the programs name; no
//! program fails; there is no loss overall or in a category; no baseline is better. A loss means
//! that the recorded score is above the 95 % interval of the current score. With few queries,
//! that interval is too narrow, and a wider bound replaces it.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::anyhow;
use serde::Serialize;

use super::{
    Request,
    replay::{Replay, replay},
};
use crate::{App, Dataset, Explain, Resources, Result, dataset, llm, named, plain, read_bundle};
use agent_dataset::{Split, is_synthetic, load_split};
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, Drift};
use agent_optimize::trial::mean;
use agent_retrieve::eval::{Interval, statistics::bootstrap_interval};
use agent_sandbox::{Origin, Place};

/// Maximum length of a name in a reason, in characters.
const MAX_SHOWN: usize = 60;
/// With fewer queries than this, the wider bound applies.
pub const FEW: usize = 10;

/// How well a bundle works on the current version of its base.
#[derive(Debug, Serialize)]
pub struct DriftReport {
    /// Whether the bundle fits the current base.
    pub fits: bool,
    /// Why the bundle does not fit, one line per reason; empty if it fits.
    pub reasons: Vec<String>,
    /// Number of validation queries that were answered.
    pub n: usize,
    /// Whether any query is synthetic.
    pub synthetic: bool,
    /// Mean reciprocal rank recorded in the bundle.
    pub stated_mrr: f64,
    /// Mean reciprocal rank of the bundle on the current base.
    pub mrr: f64,
    /// The 95 % interval of `mrr`.
    pub ci95: Interval,
    /// Name of the best baseline on the current base.
    pub baseline: String,
    /// Mean reciprocal rank of this baseline.
    pub baseline_mrr: f64,
    /// Results by category, in the order of the bundle's categories.
    pub categories: Vec<CategoryDrift>,
    /// Relations that programs name but the current base does not have.
    pub relations_gone: BTreeSet<String>,
    /// Whether the bundle was rewritten for the current base.
    pub accepted: bool,
}

/// The recorded and the current score of a category.
#[derive(Debug, Serialize)]
pub struct CategoryDrift {
    /// Name of the category.
    pub name: String,
    /// Number of validation queries whose most probable category is this one.
    pub n: usize,
    /// Recorded mean reciprocal rank; absent if the category had no validation queries.
    pub stated_mrr: Option<f64>,
    /// Current mean reciprocal rank; absent if no query belongs to the category now.
    pub mrr: Option<f64>,
    /// The 95 % interval of `mrr`.
    pub ci95: Option<Interval>,
    /// Whether the current score is significantly below the recorded one.
    pub lost: bool,
}

/// A bundle opened on the current version of its base.
pub struct Session {
    bundle: Bundle,
    dataset: Dataset,
    base: Arc<IndexedBase>,
    /// Name of the base, as the request or the bundle names it.
    pub name: String,
    /// Whether the bundle was made for this version of the base.
    pub is_same: bool,
}

impl Session {
    /// Opens the bundle of a request and the current version of its base.
    ///
    /// # Errors
    /// If the bundle or the base cannot be opened.
    pub fn open(request: &Request, app: &App) -> Result<Session> {
        let bundle = read_bundle(&request.bundle, None, app)?;
        let name = request.dataset.as_ref().unwrap_or(&bundle.dataset.name).clone();
        let dataset = dataset::chosen(request.dataset.as_deref(), &bundle.dataset.name, app)?;
        let base = dataset::open(&dataset, app)?;
        let is_same = bundle.check_base(&base).is_ok();
        Ok(Session { bundle, dataset, base, name, is_same })
    }

    /// Answers the validation queries and reports the scores. If the request accepts drift and the
    /// bundle fits a changed base, rewrites the bundle for that base.
    ///
    /// # Errors
    /// If there are no validation queries, a program does not compile, a needed language model is
    /// not usable, the operation was stopped, or the bundle cannot be written.
    pub fn measure(self, request: &Request, app: &App) -> Result<DriftReport> {
        let Session { bundle, dataset, base, name, is_same } = self;
        let queries = load_split(&dataset.base, &Split::Val)?;
        if queries.is_empty() {
            return Err(anyhow!("\"{name}\" has no validation queries to compare with"))
                .hint("include questions in the update, or label some");
        }
        let llm = llm::open_for_programs(&bundle, app);
        let llm = llm.hint("its programs ask a language model")?;
        let resources = Resources::new(llm.as_ref(), request.sandbox.places(app)?, app);
        let Some(replayed) = replay(&bundle, &queries, &base, &resources, app)? else {
            return Err(anyhow!("a program of the bundle does not compile")).hint("optimize again");
        };
        let mut report = report(&bundle, &base, &replayed, is_synthetic(&queries))?;
        if request.accept_drift && report.fits && !is_same {
            accept(request, bundle, &base, &replayed, app)?;
            report.accepted = true;
        }
        Ok(report)
    }
}

fn report(
    bundle: &Bundle,
    base: &IndexedBase,
    replayed: &Replay,
    synthetic: bool,
) -> Result<DriftReport> {
    let seed = bundle.provenance.seed;
    let all: Vec<usize> = (0..replayed.ranks.len()).collect();
    let (baseline, baseline_mrr) = replayed
        .score(&all, seed)?
        .map_or((String::new(), 0.0), |score| (score.baseline, score.baseline_mrr));
    let mut report = DriftReport {
        fits: false,
        reasons: Vec::new(),
        n: replayed.ranks.len(),
        synthetic,
        stated_mrr: bundle.validation.mrr,
        mrr: mean(&replayed.ranks),
        ci95: interval(&replayed.ranks, seed)?,
        baseline,
        baseline_mrr,
        categories: categories(bundle, replayed, seed)?,
        relations_gone: gone(bundle, base),
        accepted: false,
    };
    report.reasons = reasons(&report, replayed);
    report.fits = report.reasons.is_empty();
    Ok(report)
}

fn interval(ranks: &[f32], seed: u64) -> Result<Interval> {
    let ranks: Vec<f64> = ranks.iter().map(|&rank| f64::from(rank)).collect();
    Ok(bootstrap_interval(&ranks, seed)?)
}

/// Returns the relations that programs of the bundle name but the base does not have.
fn gone(bundle: &Bundle, base: &IndexedBase) -> BTreeSet<String> {
    let named = bundle.relations().into_iter();
    named.filter(|name| base.kb.relation_id(name).is_none()).collect()
}

fn categories(bundle: &Bundle, replayed: &Replay, seed: u64) -> Result<Vec<CategoryDrift>> {
    let drifts = bundle.categories.iter().enumerate().map(|(at, category)| {
        let queries = replayed.of_category(at);
        let ranks: Vec<f32> =
            queries.iter().filter_map(|&query| replayed.ranks.get(query)).copied().collect();
        let stated_mrr = category.validation.as_ref().map(|score| score.mrr);
        let ci95 = (!ranks.is_empty()).then(|| interval(&ranks, seed)).transpose()?;
        let lost = stated_mrr.zip(ci95).is_some_and(|(stated, now)| is_lost(stated, &ranks, now));
        Ok(CategoryDrift {
            name: category.name.clone(),
            n: ranks.len(),
            stated_mrr,
            mrr: ci95.map(|_| mean(&ranks)),
            ci95,
            lost,
        })
    });
    drifts.collect()
}

/// Whether `stated`, the recorded mean reciprocal rank, is significantly above the mean of `ranks`,
/// the current reciprocal ranks: above `now`, the bootstrap interval of this mean. With fewer than
/// [`FEW`] ranks, this interval is too narrow, and a bound that is valid for few ranks replaces it
/// (Hoeffding 1963, one-sided, 97.5 %).
fn is_lost(stated: f64, ranks: &[f32], now: Interval) -> bool {
    let bound = mean(ranks) + (40f64.ln() / (2.0 * ranks.len().max(1) as f64)).sqrt();
    stated > if ranks.len() < FEW { bound } else { now.high }
}

/// Returns why the bundle does not fit, one line per reason; empty if it fits.
fn reasons(report: &DriftReport, replayed: &Replay) -> Vec<String> {
    let mut reasons = Vec::new();
    if !report.relations_gone.is_empty() {
        let names: Vec<String> =
            report.relations_gone.iter().map(|name| plain(name, MAX_SHOWN)).collect();
        reasons.push(format!("programs use relations that no longer exist: {}", names.join(", ")));
    }
    if let Some((n, first)) = &replayed.failed {
        reasons.push(format!("programs failed {n} times, first: {}", plain(first, 3 * MAX_SHOWN)));
    }
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    if is_lost(report.stated_mrr, &replayed.ranks, report.ci95) {
        let (stated, now) = (percent(report.stated_mrr), percent(report.mrr));
        reasons.push(format!("validation MRR fell from {stated} to {now}"));
    }
    for of in report.categories.iter().filter(|of| of.lost) {
        let [stated, now] = [of.stated_mrr, of.mrr].map(|mrr| percent(mrr.unwrap_or_default()));
        let name = plain(&of.name, MAX_SHOWN);
        reasons.push(format!("\"{name}\" fell from {stated} to {now} (n {})", of.n));
    }
    if report.mrr < report.baseline_mrr {
        let (baseline, mrr) = (percent(report.baseline_mrr), percent(report.mrr));
        reasons.push(format!(
            "baseline {} is now better: {baseline} against {mrr} of the bundle",
            report.baseline
        ));
    }
    reasons
}

/// Rewrites the file of the bundle with the fingerprints of the current base and the scores on it.
/// A bundle that was trusted stays trusted.
fn accept(
    request: &Request,
    mut bundle: Bundle,
    base: &IndexedBase,
    replayed: &Replay,
    app: &App,
) -> Result<()> {
    let seed = bundle.provenance.seed;
    let was_trusted = app.private.trust().place(Origin::Bundle(&bundle.digest)) == Place::Process;
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
    // Only an optimization measures these; the values of the previous base are obsolete.
    bundle.validation.held_out = None;
    bundle.validation.best_program = None;
    bundle.validation.proof = None;
    let bundle = bundle.sealed();
    bundle.write(&named::bundle_file(&request.bundle, None, app)?)?;
    // The programs are unchanged.
    if was_trusted {
        app.private.trust().keep(Origin::Bundle(&bundle.digest));
    }
    Ok(())
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
