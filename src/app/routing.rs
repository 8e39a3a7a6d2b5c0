//! How well a bundle's router knows which program answers best, on validation queries: from the
//! trials in the journal and the router in the bundle. Must not know how that is shown.

use rayon::prelude::*;

use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, router::features};
use agent_optimize::{
    journal::{Journal, JournalError, StepRecord},
    trial::{TRIAL, Trial},
};
use agent_retrieve::eval::{Calibration, calibration};

/// The pool whose trials are read.
const VALIDATION: &str = "validation";

/// The trials of a journal, in their order; steps of another version are left out.
///
/// # Errors
/// That the journal cannot be read.
pub fn trials(journal: &Journal) -> Result<Vec<Trial>, JournalError> {
    let trial = |step: StepRecord| serde_json::from_value(step.body).ok();
    Ok(journal.steps()?.into_iter().filter(|step| step.kind == TRIAL).filter_map(trial).collect())
}

/// How sure the router is of its first category, against how often no other program answers better
/// than that category's; of an ensemble, its first router. Queries that no program answers are left out; none when there are no
/// others, or when a program of the bundle has no trial on all queries.
pub fn calibrated(
    bundle: &Bundle,
    base: &IndexedBase,
    queries: &[LabelledQuery],
    trials: &[Trial],
) -> Option<Calibration> {
    let of_programs: Option<Vec<&Trial>> = bundle
        .categories
        .iter()
        .take(bundle.router.n_categories)
        .map(|category| {
            trials.iter().find(|trial| {
                trial.pool == VALIDATION
                    && trial.queries.iter().copied().eq(0..queries.len())
                    && trial.reciprocal_ranks.len() == queries.len()
                    && trial.program == category.program.id()
                    && trial.params == category.params
            })
        })
        .collect();
    let of_programs = of_programs?;
    let prediction = |(at, query): (usize, &LabelledQuery)| {
        let ranks: Vec<f32> = of_programs
            .iter()
            .filter_map(|trial| trial.reciprocal_ranks.get(at).copied())
            .collect();
        let best = ranks.iter().copied().fold(0.0, f32::max);
        let probabilities = bundle.router.probabilities(&features(base, &query.text));
        // The first of equal ones, as where a query is answered.
        let top =
            probabilities.iter().zip(&ranks).fold(
                None,
                |top: Option<(f32, f32)>, next| match top {
                    Some((most, _)) if *next.0 <= most => top,
                    _ => Some((*next.0, *next.1)),
                },
            );
        top.filter(|_| best > 0.0).map(|(most, rank)| (f64::from(most), rank >= best))
    };
    let predictions: Vec<(f64, bool)> =
        queries.par_iter().enumerate().filter_map(prediction).collect();
    calibration(&predictions)
}

/// The same in words.
pub fn told(of: &Calibration) -> String {
    format!(
        "no other program answers better than that of the router's first category on {:.1} % of {} \
         answered queries; the router expected {:.1} %, expected calibration error {:.1} points \
         ({} bins)",
        100.0 * of.observed,
        of.n,
        100.0 * of.expected,
        100.0 * of.error,
        of.bins.len()
    )
}
