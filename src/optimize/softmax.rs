//! Code that the trainers of the router, the re-ranker and the cut-off share. All three train
//! softmax models by full-batch Adam (Kingma & Ba 2015).

use std::collections::BTreeMap;

use rayon::prelude::*;

use agent_train::Adam;

/// Number of gradient steps of Adam.
pub(crate) const STEPS: usize = 300;
/// Step size of Adam.
pub(crate) const RATE: f64 = 0.05;

/// Returns the sum of weighted features.
pub(crate) fn dot<const N: usize>(features: &[f32; N], weights: &[f64; N]) -> f64 {
    features.iter().zip(weights).map(|(feature, weight)| f64::from(*feature) * weight).sum()
}

/// Returns the unnormalized probabilities of a softmax: `exp(log - max)` of each number in `logs`.
pub(crate) fn powers(logs: &[f64]) -> Vec<f64> {
    let largest = logs.iter().copied().fold(f64::MIN, f64::max);
    logs.iter().map(|log| (log - largest).exp()).collect()
}

/// Adds features, multiplied by `share`, to a gradient.
pub(crate) fn add<const N: usize>(gradient: &mut [f64; N], features: &[f32; N], share: f64) {
    for (part, feature) in gradient.iter_mut().zip(features) {
        *part += share * f64::from(*feature);
    }
}

/// Maximises the mean of an objective over queries, minus half of `ridge` times the squared
/// distance of the weights to `start`; no weight is below its number in `least`. `gradient` returns
/// the gradient of the objective on one query; `None` counts as 0. Gradients are summed in the
/// order of queries, so that the result does not depend on the number of threads. Returns the
/// weight of each feature.
pub(crate) fn fit<const N: usize, Q: Sync>(
    names: &[&str; N],
    start: [f64; N],
    least: [f64; N],
    ridge: f64,
    queries: &[Q],
    gradient: impl Fn(&Q, &[f64; N]) -> Option<[f64; N]> + Sync,
) -> BTreeMap<String, f32> {
    let n = queries.len().max(1) as f64;
    let (mut weights, mut adam) = (start, Adam::new(N, RATE));
    for _ in 0..STEPS {
        let gradients: Vec<_> = queries.par_iter().map(|one| gradient(one, &weights)).collect();
        let mut total: [f64; N] = std::array::from_fn(|at| -ridge * (weights[at] - start[at]));
        for one in gradients.into_iter().flatten() {
            total.iter_mut().zip(one).for_each(|(sum, part)| *sum += part / n);
        }
        adam.ascend(&mut weights, &total);
        weights.iter_mut().zip(least).for_each(|(weight, least)| *weight = weight.max(least));
    }
    names.iter().zip(weights).map(|(name, weight)| ((*name).to_owned(), weight as f32)).collect()
}
