//! Learns the weights of mFAR from labelled queries, in closed form.
//!
//! The objective is the mean over queries of the logarithm of the share that all answers together
//! have of a softmax over the candidates, scores divided by a temperature, less an L2 penalty that
//! draws weights to 0 and `gamma` to 1. With `r_d` the derivative by the score of candidate `d`,
//! `x_dj` its scaled score by scorer `j`, and `R_j = sum_d r_d x_dj`:
//!
//! ```text
//! d gamma_j = w_j R_j
//! d z_j     = w_j (gamma_j R_j - sum_k w_k gamma_k R_k)      z_j = b_j + a_j . phi
//! d a_jc    = phi_c d z_j
//! ```
//!
//! Full-batch Adam (Kingma & Ba 2015); queries are summed in their order.

use std::sync::atomic::AtomicBool;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Adam, Look, TrainError, Watch,
    mfar::{
        Conditioning, Mfar, Scorers,
        examples::{self, Example, conditions, n_conditions, scales, vocabulary},
    },
    store::best_of,
};
use agent_dataset::LabelledQuery;

/// Divides scores in the softmax over candidates.
pub(super) const TEMPERATURE: f64 = 0.05;
/// Steps between two looks at the queries that do not teach.
const LOOK_EVERY: usize = 10;
/// Parts of the training queries, each ranked by what the others teach.
const FOLDS: usize = 4;

/// How weights are learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// What weights depend on; none has it chosen by cross-validation over training queries.
    pub conditioning: Option<Conditioning>,
    /// Deals training queries into the folds of cross-validation.
    pub seed: u64,
    /// Steps of ascent.
    pub steps: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// L2 penalty.
    pub ridge: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { conditioning: None, seed: 1, steps: 250, rate: 0.05, ridge: 1e-2 }
    }
}

/// How far training is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// Queries that the scorers were asked.
    Asking {
        /// Queries done.
        done: usize,
        /// Queries in all.
        of: usize,
    },
    /// Cross-validation, with so many steps in all.
    Choosing {
        /// What is tried.
        conditioning: Conditioning,
        /// Steps done.
        done: usize,
        /// Steps in all.
        of: usize,
    },
    /// The weights that are kept.
    Learning(Look, usize),
}

/// What cross-validation says of one conditioning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validated {
    /// The conditioning.
    pub conditioning: Conditioning,
    /// The steps after which its mean is best.
    pub step: usize,
    /// Mean reciprocal rank there, among candidates, each training query ranked by what others teach.
    pub mrr: f64,
}

/// What was learnt.
pub struct Trained {
    /// The weights.
    pub model: Mfar,
    /// What cross-validation says; empty where the conditioning was given.
    pub cross_validation: Vec<Validated>,
    /// Looks at validation queries; the weights are those of the best, the first of equals.
    pub curve: Vec<Look>,
}

/// Weights in the making, all in one row, as Adam takes them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Weights {
    pub(super) n_scorers: usize,
    /// For each condition a weight of each scorer; then `gamma` of each scorer.
    pub(super) all: Vec<f64>,
}

impl Weights {
    /// Where ascent begins: all scorers weigh the same, whatever the query.
    pub(super) fn equal(n_conditions: usize, n_scorers: usize) -> Self {
        let mut all = vec![0.0; n_conditions * n_scorers];
        all.resize(all.len() + n_scorers, 1.0);
        Self { n_scorers, all }
    }

    pub(super) fn gammas(&self) -> &[f64] {
        &self.all[self.all.len() - self.n_scorers..]
    }

    pub(super) fn of_condition(&self, at: usize) -> &[f64] {
        &self.all[at * self.n_scorers..(at + 1) * self.n_scorers]
    }

    /// The weights of all scorers for a query: a softmax.
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

/// Makes logarithms to shares of 1.
fn softmax(logs: &mut [f64]) {
    let largest = logs.iter().copied().fold(f64::MIN, f64::max);
    logs.iter_mut().for_each(|log| *log = (*log - largest).exp());
    let sum: f64 = logs.iter().sum();
    logs.iter_mut().for_each(|power| *power /= sum);
}

/// An example with its conditions.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) example: &'a Example,
    pub(super) phi: &'a [(u32, f32)],
}

/// What one query says of the weights.
pub(super) struct Gradient {
    /// Logarithm of the share of the answers.
    pub(super) log_share: f64,
    /// By the logarithm of the weight of each scorer.
    pub(super) z: Vec<f64>,
    /// By `gamma` of each scorer.
    pub(super) gamma: Vec<f64>,
}

impl Case<'_> {
    /// The score of each candidate, `inverse` holding `1 / scale` of each scorer.
    fn scores(&self, weights: &Weights, inverse: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let shares = weights.of_query(self.phi);
        let parts = shares.iter().zip(weights.gammas()).zip(inverse);
        let gains: Vec<f64> =
            parts.map(|((share, gamma), inverse)| share * gamma * inverse).collect();
        let score = |at| {
            let row = self.example.row(at).iter();
            row.map(|one| gains[one.scorer as usize] * f64::from(one.score)).sum()
        };
        ((0..self.example.len()).map(score).collect(), shares)
    }

    /// The derivative of the logarithm of the answers' share.
    pub(super) fn gradient(&self, weights: &Weights, inverse: &[f64]) -> Gradient {
        let (mut powers, shares) = self.scores(weights, inverse);
        powers.iter_mut().for_each(|score| *score /= TEMPERATURE);
        softmax(&mut powers);
        let answers = &self.example.answers;
        let right: f64 = powers.iter().zip(answers).filter(|pair| *pair.1).map(|pair| pair.0).sum();
        // A share too small for a number teaches as the smallest one.
        let right = right.max(f64::MIN_POSITIVE);
        let mut sums = vec![0.0; weights.n_scorers];
        for (at, (power, is_answer)) in powers.iter().zip(answers).enumerate() {
            let r = (if *is_answer { power / right } else { 0.0 } - power) / TEMPERATURE;
            for one in self.example.row(at) {
                let scorer = one.scorer as usize;
                sums[scorer] += r * f64::from(one.score) * inverse[scorer];
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

    /// One by the rank of the first answer among what scorers put forward; 0 if there is none.
    fn reciprocal_rank(&self, weights: &Weights, inverse: &[f64]) -> f64 {
        let (scores, _) = self.scores(weights, inverse);
        let found = &scores[..self.example.n_found];
        let answers = found.iter().zip(&self.example.answers).enumerate();
        // The first of equals has the smaller id.
        let best = answers
            .filter(|(_, pair)| *pair.1)
            .map(|(at, pair)| (at, *pair.0))
            .reduce(|best, one| if one.1 > best.1 { one } else { best });
        best.map_or(0.0, |(place, score)| {
            let before = found
                .iter()
                .enumerate()
                .filter(|&(at, &other)| other > score || (other == score && at < place));
            1.0 / (before.count() + 1) as f64
        })
    }
}

/// Mean loss of cases and the gradient of the objective.
pub(super) fn gradient(
    cases: &[Case<'_>],
    weights: &Weights,
    inverse: &[f64],
    ridge: f64,
) -> (f64, Vec<f64>) {
    let parts: Vec<Gradient> =
        cases.par_iter().map(|case| case.gradient(weights, inverse)).collect();
    let n = cases.len().max(1) as f64;
    let n_weights = weights.all.len() - weights.n_scorers;
    let mut gradient: Vec<f64> = weights.all.iter().map(|weight| -ridge * weight).collect();
    gradient[n_weights..].iter_mut().for_each(|part| *part += ridge);
    let mut loss = 0.0;
    for (case, one) in cases.iter().zip(parts) {
        loss -= one.log_share / n;
        for &(condition, value) in case.phi {
            let start = condition as usize * weights.n_scorers;
            let parts = &mut gradient[start..start + weights.n_scorers];
            for (part, z) in parts.iter_mut().zip(&one.z) {
                *part += f64::from(value) * z / n;
            }
        }
        for (part, gamma) in gradient[n_weights..].iter_mut().zip(&one.gamma) {
            *part += gamma / n;
        }
    }
    (loss, gradient)
}

/// One run of ascent.
struct Run<'a> {
    taught: Vec<Case<'a>>,
    looked_at: Vec<Case<'a>>,
    inverse: &'a [f64],
    settings: &'a Settings,
}

impl Run<'_> {
    /// Ascends; `look` gets the weights now and then, with the loss of training queries and the
    /// reciprocal ranks of the others, summed.
    fn ascend(
        &self,
        n_conditions: usize,
        look: &mut dyn FnMut(Look, &Weights) -> Result<(), TrainError>,
    ) -> Result<(), TrainError> {
        let mut weights = Weights::equal(n_conditions, self.inverse.len());
        let mut adam = Adam::new(weights.all.len(), self.settings.rate);
        for step in 0..=self.settings.steps {
            let (loss, gradient) =
                gradient(&self.taught, &weights, self.inverse, self.settings.ridge);
            if step % LOOK_EVERY == 0 || step == self.settings.steps {
                let ranks: Vec<f64> = self
                    .looked_at
                    .par_iter()
                    .map(|case| case.reciprocal_rank(&weights, self.inverse))
                    .collect();
                look(Look { step, loss, mrr: ranks.iter().sum() }, &weights)?;
            }
            adam.ascend(&mut weights.all, &gradient);
        }
        Ok(())
    }
}

/// The conditions of examples.
fn all_conditions(
    conditioning: Conditioning,
    vocabulary: &[String],
    examples: &[&Example],
) -> Vec<Vec<(u32, f32)>> {
    let of = |one: &&Example| conditions(conditioning, vocabulary, &one.stems, &one.best);
    examples.iter().map(of).collect()
}

fn cases<'a>(examples: &[&'a Example], phis: &'a [Vec<(u32, f32)>]) -> Vec<Case<'a>> {
    examples.iter().zip(phis).map(|(example, phi)| Case { example, phi }).collect()
}

/// How well a conditioning ranks training queries by what others teach. Each fold is a run of its
/// own; the means of all are looked at together, so that one number of steps is chosen.
fn cross_validate(
    conditioning: Conditioning,
    examples: &[Example],
    folds: &[usize],
    inverse: &[f64],
    settings: &Settings,
    on_step: &mut dyn FnMut(usize) -> Result<(), TrainError>,
) -> Result<Validated, TrainError> {
    let mut sums: Vec<Look> = Vec::new();
    for fold in 0..FOLDS {
        let part = |inside: bool| -> Vec<&Example> {
            let of = examples.iter().zip(folds).filter(|(_, at)| (**at == fold) == inside);
            of.map(|pair| pair.0).collect()
        };
        let (taught, held) = (part(false), part(true));
        let vocabulary = vocabulary(&taught);
        let n = n_conditions(conditioning, &vocabulary, inverse.len());
        let phis = [&taught, &held].map(|of| all_conditions(conditioning, &vocabulary, of));
        let (taught, looked_at) = (cases(&taught, &phis[0]), cases(&held, &phis[1]));
        let run = Run { taught, looked_at, inverse, settings };
        let mut at = 0;
        run.ascend(n, &mut |look, _| {
            match sums.get_mut(at) {
                Some(sum) => (sum.mrr, sum.loss) = (sum.mrr + look.mrr, sum.loss + look.loss),
                None => sums.push(look),
            }
            at += 1;
            on_step(look.step)
        })?;
    }
    let best = best_of(&sums).map_or((0, 0.0), |best| (best.step, best.mrr));
    Ok(Validated { conditioning, step: best.0, mrr: best.1 / examples.len().max(1) as f64 })
}

/// Learns weights: training queries teach, validation queries say after which step to stop, and
/// cross-validation over training queries says what weights depend on.
///
/// O(steps x responses of candidates); the candidates of a query are at most 30 for each field, 300
/// for the document, and the answers.
///
/// # Errors
/// [`TrainError::NoQueries`]; [`TrainError::Stopped`] soon after `stop` is set.
pub fn train(
    scorers: &Scorers,
    train: &[LabelledQuery],
    val: &[LabelledQuery],
    settings: &Settings,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<Trained, TrainError> {
    let watch = Watch { report, stop };
    let examples = examples::of_queries(train, scorers, &watch)?;
    let held = examples::of_queries(val, scorers, &watch)?;
    for (split, examples) in [("train", &examples), ("val", &held)] {
        if examples.is_empty() {
            return Err(TrainError::NoQueries { split });
        }
    }
    let all: Vec<&Example> = examples.iter().collect();
    let scales = scales(&all, scorers.len());
    let inverse: Vec<f64> = scales
        .iter()
        .map(|&scale| if scale > 0.0 { 1.0 / f64::from(scale) } else { 0.0 })
        .collect();
    let mut cross_validation = Vec::new();
    if settings.conditioning.is_none() {
        let mut folds: Vec<usize> = (0..examples.len()).map(|at| at % FOLDS).collect();
        folds.shuffle(&mut ChaCha8Rng::seed_from_u64(settings.seed));
        let of = Conditioning::ALL.len() * FOLDS * settings.steps;
        let mut before = 0;
        for conditioning in Conditioning::ALL {
            let mut on_step = |step: usize| {
                let done = before + step;
                if step == settings.steps {
                    before += settings.steps;
                }
                (watch.report)(Progress::Choosing { conditioning, done, of });
                watch.go_on()
            };
            cross_validation.push(cross_validate(
                conditioning,
                &examples,
                &folds,
                &inverse,
                settings,
                &mut on_step,
            )?);
        }
    }
    let best =
        cross_validation.iter().reduce(|best, one| if one.mrr > best.mrr { one } else { best });
    let conditioning =
        settings.conditioning.or(best.map(|best| best.conditioning)).unwrap_or(Conditioning::None);
    let vocabulary = match conditioning {
        Conditioning::Words => vocabulary(&all),
        Conditioning::None | Conditioning::Responses => Vec::new(),
    };
    let n = n_conditions(conditioning, &vocabulary, scorers.len());
    let held: Vec<&Example> = held.iter().collect();
    let phis = [&all, &held].map(|of| all_conditions(conditioning, &vocabulary, of));
    let (taught, looked_at) = (cases(&all, &phis[0]), cases(&held, &phis[1]));
    let run = Run { taught, looked_at, inverse: &inverse, settings };
    let (mut curve, mut kept) = (Vec::<Look>::new(), None);
    run.ascend(n, &mut |look, weights| {
        let look = Look { mrr: look.mrr / held.len() as f64, ..look };
        if best_of(&curve).is_none_or(|best| look.mrr > best.mrr) {
            kept = Some(weights.clone());
        }
        curve.push(look);
        (watch.report)(Progress::Learning(look, settings.steps));
        watch.go_on()
    })?;
    let weights = kept.unwrap_or_else(|| Weights::equal(n, scorers.len()));
    let model = Mfar::new(scorers, conditioning, vocabulary, &scales, &weights);
    Ok(Trained { model, cross_validation, curve })
}
