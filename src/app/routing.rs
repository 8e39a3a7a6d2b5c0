//! Measures the calibration of a bundle's router on validation queries, from the trials in the
//! journal: how well its probabilities match the outcomes. Does not depend on how this is shown.

use rayon::prelude::*;

use agent_dataset::LabelledQuery;
use agent_index::IndexedBase;
use agent_infer::bundle::{Bundle, router::features};
use agent_optimize::{
    journal::{Journal, JournalError},
    record::body,
    trial::{TRIAL, Trial},
};
use agent_retrieve::eval::{Calibration, calibration};

/// Name of the pool of queries whose trials are used.
pub(crate) const VALIDATION: &str = "validation";

/// Reads the trials in a journal, in the order of its steps. Leaves out trials in an unknown
/// format.
///
/// # Errors
/// If the journal cannot be read.
pub fn trials(journal: &Journal) -> Result<Vec<Trial>, JournalError> {
    Ok(journal.steps()?.iter().filter(|step| step.kind == TRIAL).filter_map(body).collect())
}

/// Measures how well the router's probabilities match the outcomes: for each query, whether the
/// program of the most probable category answers it as well as any other program. Of an ensemble,
/// measures the first router. Leaves out queries that no program answers. `None` if no query is
/// left, or if a program has no trial on all queries.
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
        // Ties go to the first category, as when a query is answered.
        let top = probabilities.iter().zip(&ranks).rev().max_by(|a, b| a.0.total_cmp(b.0));
        top.filter(|_| best > 0.0).map(|(most, rank)| (f64::from(*most), *rank >= best))
    };
    let predictions: Vec<(f64, bool)> =
        queries.par_iter().enumerate().filter_map(prediction).collect();
    calibration(&predictions)
}

/// Describes a router's calibration in one sentence.
pub fn told(of: &Calibration) -> String {
    format!(
        "the program of the router's first category is as good as any other on {:.1} % of {} \
         answered queries; the router expected {:.1} %, expected calibration error {:.1} points \
         ({} bins)",
        100.0 * of.observed,
        of.n,
        100.0 * of.expected,
        100.0 * of.error,
        of.bins.len()
    )
}
