//! Trains the weights of mFAR on labelled queries, with a gradient in closed form.
//!
//! The objective is the mean over queries of the logarithm of the answers' total share, minus an L2
//! penalty that pulls weights towards 0 and `gamma` towards 1. The shares of a query's candidates
//! are a softmax over their scores, divided by a temperature. With `r_d` the derivative with
//! respect to the score of candidate `d`, `x_dj` the standardized score of `d` by scorer `j`, and
//! `R_j = sum_d r_d x_dj`:
//!
//! ```text
//! d gamma_j = w_j R_j
//! d z_j     = w_j (gamma_j R_j - sum_k w_k gamma_k R_k)      z_j = b_j + a_j . phi
//! d a_jc    = phi_c d z_j
//! ```
//!
//! The optimizer is Adam (Kingma & Ba 2015) with all queries in each step. The gradients of queries
//! are summed in the order of the queries.

use std::sync::atomic::AtomicBool;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Adam, Result, TrainError, ValidationPoint, Watch,
    mfar::{
        Conditioning, Mfar, Scorers,
        examples::{self, Example, Standard, conditions, n_conditions, vocabulary},
    },
    store::best_of,
};
use agent_dataset::LabelledQuery;

/// Temperature by which scores are divided in the softmax over candidates.
pub(super) const TEMPERATURE: f64 = 0.05;
/// Number of steps between two validations.
const VALIDATION_INTERVAL: usize = 10;
/// Number of folds of cross-validation.
const FOLDS: usize = 4;

/// Settings of training an mFAR model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Features of a query that weights depend on; if `None`, they are chosen by cross-validation
    /// over training queries.
    pub conditioning: Option<Conditioning>,
    /// Seed for dividing training queries into the folds of cross-validation.
    pub seed: u64,
    /// Number of gradient steps.
    pub steps: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// Strength of the L2 penalty on the weights.
    pub ridge: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { conditioning: None, seed: 1, steps: 250, rate: 0.05, ridge: 1e-2 }
    }
}

/// Progress of training an mFAR model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// All scorers score the candidates of queries.
    Asking {
        /// Number of finished queries.
        done: usize,
        /// Total number of queries.
        total: usize,
    },
    /// Cross-validation chooses the conditioning.
    Choosing {
        /// Conditioning that is being validated.
        conditioning: Conditioning,
        /// Number of finished gradient steps, over all conditionings and folds.
        done: usize,
        /// Total number of gradient steps, over all conditionings and folds.
        total: usize,
    },
    /// Training of the final weights: the latest validation, and the total number of gradient
    /// steps.
    Learning(ValidationPoint, usize),
}

/// Result of cross-validating one conditioning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// The conditioning that was validated.
    pub conditioning: Conditioning,
    /// Number of gradient steps with the highest mean reciprocal rank.
    pub step: usize,
    /// Mean reciprocal rank on training queries after `step` steps. The candidates of each query
    /// are ranked by weights that were trained on the other folds.
    pub mrr: f64,
}

/// Result of training an mFAR model.
pub struct TrainedModel {
    /// Model with the best weights.
    pub model: Mfar,
    /// Results of cross-validation, one for each conditioning; empty if the settings give a
    /// conditioning.
    pub cross_validation: Vec<CrossValidation>,
    /// Validation results during training. The model has the weights of the point with the highest
    /// mean reciprocal rank; of several such points, the first.
    pub curve: Vec<ValidationPoint>,
}

/// All weights of a model in training, in one array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weights {
    pub(super) n_scorers: usize,
    /// For each feature of `phi`, a weight for each scorer; then `gamma` of each scorer.
    pub(super) all: Vec<f64>,
}

impl Weights {
    /// Returns initial weights, with which all scorers count equally for every query.
    pub(super) fn equal(n_conditions: usize, n_scorers: usize) -> Self {
        let mut all = vec![0.0; n_conditions * n_scorers];
        all.resize(all.len() + n_scorers, 1.0);
        Self { n_scorers, all }
    }

    pub(super) fn gammas(&self) -> &[f64] {
        &self.all[self.all.len() - self.n_scorers..]
    }

    pub(super) fn of_condition(&self, condition: usize) -> &[f64] {
        &self.all[condition * self.n_scorers..(condition + 1) * self.n_scorers]
    }

    /// Returns the weight of each scorer for a query with the features `phi`; the weights are a
    /// softmax and sum to 1.
    pub(super) fn of_query(&self, phi: &[(u32, f32)]) -> Vec<f64> {
        let mut z = vec![0.0; self.n_scorers];
        for &(condition, value) in phi {
            for (sum, weight) in z.iter_mut().zip(self.of_condition(condition as usize)) {
                *sum += f64::from(value) * weight;
            }
        }
        softmax(&mut z);
        z
    }
}

/// Replaces each number `x` by its share in a softmax, proportional to `exp(x)`; the shares sum to
/// 1.
fn softmax(logs: &mut [f64]) {
    let largest = logs.iter().copied().fold(f64::MIN, f64::max);
    logs.iter_mut().for_each(|log| *log = (*log - largest).exp());
    let sum: f64 = logs.iter().sum();
    logs.iter_mut().for_each(|power| *power /= sum);
}

/// An example with the features `phi` of its query.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) example: &'a Example,
    pub(super) phi: &'a [(u32, f32)],
}

/// Logarithm of the answers' share for one query, and its gradient.
pub(super) struct Gradient {
    /// Natural logarithm of the total share of the answers among the candidates.
    pub(super) log_share: f64,
    /// Gradient with respect to `z` of each scorer, the argument of the softmax over scorers.
    pub(super) z: Vec<f64>,
    /// Gradient with respect to `gamma` of each scorer.
    pub(super) gamma: Vec<f64>,
}

impl Case<'_> {
    /// Returns the score of each candidate, and the weight of each scorer for the query.
    fn scores(&self, weights: &Weights) -> (Vec<f64>, Vec<f64>) {
        let shares = weights.of_query(self.phi);
        let gains: Vec<f64> =
            shares.iter().zip(weights.gammas()).map(|(share, gamma)| share * gamma).collect();
        let score = |candidate| {
            let row = self.example.row(candidate).iter();
            row.map(|response| gains[response.scorer as usize] * f64::from(response.score)).sum()
        };
        ((0..self.example.len()).map(score).collect(), shares)
    }

    /// Computes the logarithm of the answers' total share, and its gradient.
    pub(super) fn gradient(&self, weights: &Weights) -> Gradient {
        let (mut powers, shares) = self.scores(weights);
        powers.iter_mut().for_each(|score| *score /= TEMPERATURE);
        softmax(&mut powers);
        let answers = &self.example.answers;
        let right: f64 = powers.iter().zip(answers).filter(|pair| *pair.1).map(|pair| pair.0).sum();
        // Avoids division by zero.
        let right = right.max(f64::MIN_POSITIVE);
        let mut sums = vec![0.0; weights.n_scorers];
        for (candidate, (power, is_answer)) in powers.iter().zip(answers).enumerate() {
            let r = (if *is_answer { power / right } else { 0.0 } - power) / TEMPERATURE;
            for response in self.example.row(candidate) {
                sums[response.scorer as usize] += r * f64::from(response.score);
            }
        }
        let gammas = weights.gammas();
        let mean: f64 = shares.iter().zip(gammas).zip(&sums).map(|((w, g), r)| w * g * r).sum();
        let z = shares.iter().zip(gammas).zip(&sums).map(|((w, g), r)| w * (g * r - mean));
        Gradient {
            log_share: right.ln(),
            z: z.collect(),
            gamma: shares.iter().zip(&sums).map(|(w, r)| w * r).collect(),
        }
    }

    /// Returns the reciprocal rank of the highest-ranked answer among the candidates that scorers
    /// found; 0 if no scorer found an answer.
    fn reciprocal_rank(&self, weights: &Weights) -> f64 {
        let (scores, _) = self.scores(weights);
        let found = &scores[..self.example.n_found];
        let answers = found.iter().zip(&self.example.answers).enumerate();
        // Of equal scores, the smaller node ranks first.
        let best = answers
            .filter(|(_, pair)| *pair.1)
            .map(|(index, pair)| (index, *pair.0))
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(0.0, |(position, score)| {
            let before = found
                .iter()
                .enumerate()
                .filter(|&(index, &other)| other > score || (other == score && index < position));
            1.0 / (before.count() + 1) as f64
        })
    }
}

/// Computes the mean loss of `cases`, without the penalty, and the gradient of the objective, with
/// the penalty, with respect to all weights.
pub(super) fn gradient(cases: &[Case<'_>], weights: &Weights, ridge: f64) -> (f64, Vec<f64>) {
    let parts: Vec<Gradient> = cases.par_iter().map(|case| case.gradient(weights)).collect();
    let n = cases.len().max(1) as f64;
    let n_weights = weights.all.len() - weights.n_scorers;
    let mut gradient: Vec<f64> = weights.all.iter().map(|weight| -ridge * weight).collect();
    gradient[n_weights..].iter_mut().for_each(|part| *part += ridge);
    let mut loss = 0.0;
    for (case, part) in cases.iter().zip(parts) {
        loss -= part.log_share / n;
        for &(condition, value) in case.phi {
            let start = condition as usize * weights.n_scorers;
            let sums = &mut gradient[start..start + weights.n_scorers];
            for (sum, z) in sums.iter_mut().zip(&part.z) {
                *sum += f64::from(value) * z / n;
            }
        }
        for (sum, gamma) in gradient[n_weights..].iter_mut().zip(&part.gamma) {
            *sum += gamma / n;
        }
    }
    (loss, gradient)
}

/// Cases to train on, cases to validate on, and the settings of training.
struct Run<'a> {
    training: Vec<Case<'a>>,
    validation: Vec<Case<'a>>,
    settings: &'a Settings,
}

impl Run<'_> {
    /// Trains from initial weights. Calls `validate` every [`VALIDATION_INTERVAL`] steps and after
    /// the last step, with the current weights and a validation point. The `mrr` of this point is
    /// the sum, not the mean, of the reciprocal ranks of validation queries.
    fn ascend(
        &self,
        mut weights: Weights,
        validate: &mut dyn FnMut(ValidationPoint, &Weights) -> Result<()>,
    ) -> Result<()> {
        let mut adam = Adam::new(weights.all.len(), self.settings.rate);
        for step in 0..=self.settings.steps {
            let (loss, gradient) = gradient(&self.training, &weights, self.settings.ridge);
            if step % VALIDATION_INTERVAL == 0 || step == self.settings.steps {
                let ranks: Vec<f64> =
                    self.validation.par_iter().map(|case| case.reciprocal_rank(&weights)).collect();
                validate(ValidationPoint { step, loss, mrr: ranks.iter().sum() }, &weights)?;
            }
            adam.ascend(&mut weights.all, &gradient);
        }
        Ok(())
    }
}

/// Computes the features `phi` of queries by a conditioning; the vocabulary comes from training
/// examples.
struct Phi<'a> {
    conditioning: Conditioning,
    standard: &'a Standard,
    vocabulary: Vec<String>,
    dim: usize,
}

impl<'a> Phi<'a> {
    fn new(conditioning: Conditioning, standard: &'a Standard, training: &[&Example]) -> Self {
        let vocabulary = match conditioning {
            Conditioning::Words => vocabulary(training),
            _ => Vec::new(),
        };
        let dim = training.first().map_or(0, |example| example.features.vector.len());
        Self { conditioning, standard, vocabulary, dim }
    }

    fn of(&self, examples: &[&Example]) -> Vec<Vec<(u32, f32)>> {
        let of = |example: &&Example| {
            conditions(self.conditioning, &self.vocabulary, &example.features, self.standard)
        };
        examples.iter().map(of).collect()
    }

    /// Returns initial weights, with which all scorers count equally for every query.
    fn equal_weights(&self) -> Weights {
        let n_scorers = self.standard.scales.len();
        let n = n_conditions(self.conditioning, &self.vocabulary, n_scorers, self.dim);
        Weights::equal(n, n_scorers)
    }
}

fn cases<'a>(examples: &[&'a Example], phis: &'a [Vec<(u32, f32)>]) -> Vec<Case<'a>> {
    examples.iter().zip(phis).map(|(example, phi)| Case { example, phi }).collect()
}

/// Cross-validates a conditioning: for each fold, trains on the other folds and validates on the
/// fold. Chooses the number of steps with the highest mean reciprocal rank over all folds. Calls
/// `on_step` with the number of finished steps at each validation.
fn cross_validate(
    conditioning: Conditioning,
    examples: &[Example],
    standard: &Standard,
    settings: &Settings,
    on_step: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<CrossValidation> {
    let mut folds: Vec<usize> = (0..examples.len()).map(|index| index % FOLDS).collect();
    folds.shuffle(&mut ChaCha8Rng::seed_from_u64(settings.seed));
    let mut sums: Vec<ValidationPoint> = Vec::new();
    for fold in 0..FOLDS {
        let part = |inside: bool| -> Vec<&Example> {
            let part = examples.iter().zip(&folds).filter(|(_, of)| (**of == fold) == inside);
            part.map(|pair| pair.0).collect()
        };
        let (training, held_out) = (part(false), part(true));
        let phi = Phi::new(conditioning, standard, &training);
        let phis = [&training, &held_out].map(|part| phi.of(part));
        let (training, validation) = (cases(&training, &phis[0]), cases(&held_out, &phis[1]));
        let run = Run { training, validation, settings };
        let mut index = 0;
        run.ascend(phi.equal_weights(), &mut |point, _| {
            match sums.get_mut(index) {
                Some(sum) => (sum.mrr, sum.loss) = (sum.mrr + point.mrr, sum.loss + point.loss),
                None => sums.push(point),
            }
            index += 1;
            on_step(point.step)
        })?;
    }
    let best = best_of(&sums).map_or((0, 0.0), |best| (best.step, best.mrr));
    Ok(CrossValidation { conditioning, step: best.0, mrr: best.1 / examples.len().max(1) as f64 })
}

/// Trains weights on training queries, and keeps the weights that rank validation queries best.
/// Chooses the conditioning by cross-validation over training queries, if the settings give none.
///
/// Takes O(steps x scores of candidates) time. A query has at most 30 candidates from each scorer,
/// 300 from BM25 of the whole document, and its answers.
///
/// # Errors
/// [`TrainError::NoQueries`] if no training or no validation query has an answer among the
/// candidates; [`TrainError::Index`] if a scorer fails; [`TrainError::Stopped`] soon after `stop`
/// is set.
pub fn train(
    scorers: &Scorers,
    train: &[LabelledQuery],
    val: &[LabelledQuery],
    settings: &Settings,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<TrainedModel> {
    let watch = Watch { report, stop };
    let has_vectors = scorers.has_dense() || settings.conditioning == Some(Conditioning::Encoder);
    let of = |queries| examples::of_queries(queries, scorers, has_vectors, &watch);
    let (mut examples, mut validation) = (of(train)?, of(val)?);
    for (split, examples) in [("train", &examples), ("val", &validation)] {
        if examples.is_empty() {
            return Err(TrainError::NoQueries(split));
        }
    }
    let standard = Standard::of_examples(&examples.iter().collect::<Vec<_>>(), scorers);
    examples.iter_mut().chain(&mut validation).for_each(|example| standard.apply(example));
    let mut cross_validation = Vec::new();
    if settings.conditioning.is_none() {
        let tried = Conditioning::ALL.into_iter();
        let tried: Vec<Conditioning> =
            tried.filter(|one| has_vectors || *one != Conditioning::Encoder).collect();
        let total = tried.len() * FOLDS * settings.steps;
        let mut before = 0;
        for conditioning in tried {
            let mut on_step = |step: usize| {
                let done = before + step;
                if step == settings.steps {
                    before += settings.steps;
                }
                (watch.report)(Progress::Choosing { conditioning, done, total });
                watch.check_stop()
            };
            let validated =
                cross_validate(conditioning, &examples, &standard, settings, &mut on_step)?;
            cross_validation.push(validated);
        }
    }
    let best =
        cross_validation.iter().reduce(|best, next| if next.mrr > best.mrr { next } else { best });
    let conditioning =
        settings.conditioning.or(best.map(|best| best.conditioning)).unwrap_or(Conditioning::None);
    let [all, validation]: [Vec<&Example>; 2] =
        [&examples, &validation].map(|part| part.iter().collect());
    let phi = Phi::new(conditioning, &standard, &all);
    let phis = [&all, &validation].map(|part| phi.of(part));
    let n_validation = validation.len() as f64;
    let (training, validation) = (cases(&all, &phis[0]), cases(&validation, &phis[1]));
    let run = Run { training, validation, settings };
    let (mut curve, mut kept) = (Vec::<ValidationPoint>::new(), None);
    run.ascend(phi.equal_weights(), &mut |point, weights| {
        let point = ValidationPoint { mrr: point.mrr / n_validation, ..point };
        if best_of(&curve).is_none_or(|best| point.mrr > best.mrr) {
            kept = Some(weights.clone());
        }
        curve.push(point);
        (watch.report)(Progress::Learning(point, settings.steps));
        watch.check_stop()
    })?;
    let weights = kept.unwrap_or_else(|| phi.equal_weights());
    let model = Mfar::new(scorers, conditioning, phi.vocabulary, standard.clone(), &weights);
    Ok(TrainedModel { model, cross_validation, curve })
}
