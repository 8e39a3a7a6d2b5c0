//! Trains the router by gradient ascent on the expected value of the routed answer.
//!
//! Let `p(c | q)` be the router's probability of category `c` for training query `q`, and
//! `worth[q][c]` the reciprocal rank of the category's program on this query. The objective is the
//! mean over queries of `ln(sum_c p(c | q) * (worth[q][c] + floor))` minus an L2 penalty. The
//! objective is smooth, and close to the log likelihood if one program is correct and all others
//! are wrong. It is maximised by full-batch Adam (Kingma & Ba 2015) from zero weights; the result
//! is deterministic.

use std::collections::BTreeMap;

use crate::softmax::{RATE, STEPS, powers};
use agent_infer::bundle::router::{Features, Router};
use agent_train::Adam;

/// Constant that is added to every reciprocal rank, so that queries that no program answers do not
/// dominate.
const FLOOR: f64 = 0.02;
/// A feature that occurs in fewer training queries than this gets no weight.
const MIN_QUERIES: usize = 2;

/// Trains a router for `n_categories` categories with L2 penalty `ridge`. `features` has the
/// features of each training query, and `worth`, in the same order, the reciprocal rank of each
/// category's program on it.
pub fn train(features: &[Features], worth: &[Vec<f32>], n_categories: usize, ridge: f64) -> Router {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, _) in features.iter().flatten() {
        *counts.entry(name).or_default() += 1;
    }
    counts.retain(|_, n| *n >= MIN_QUERIES);
    let ids: BTreeMap<&str, usize> =
        counts.keys().enumerate().map(|(at, &name)| (name, at)).collect();
    let known = |(name, value): &(String, f32)| Some((*ids.get(name.as_str())?, f64::from(*value)));
    let rows: Vec<Vec<(usize, f64)>> =
        features.iter().map(|query| query.iter().filter_map(known).collect()).collect();
    let n = n_categories;
    let mut weights = vec![0.0f64; ids.len() * n];
    let mut adam = Adam::new(weights.len(), RATE);
    for _ in 0..STEPS {
        let mut gradient: Vec<f64> = weights.iter().map(|weight| -ridge * weight).collect();
        for (row, worth) in rows.iter().zip(worth) {
            let mut logs = vec![0.0f64; n];
            for &(id, value) in row {
                for (log, weight) in logs.iter_mut().zip(&weights[id * n..]) {
                    *log += weight * value;
                }
            }
            let powers = powers(&logs);
            let sum: f64 = powers.iter().sum();
            let value = |c: usize| f64::from(worth[c]) + FLOOR;
            let expected: f64 = (0..n).map(|c| powers[c] / sum * value(c)).sum();
            for c in 0..n {
                let p = powers[c] / sum;
                let part = p * (value(c) - expected) / expected / rows.len() as f64;
                for &(id, feature) in row {
                    gradient[id * n + c] += part * feature;
                }
            }
        }
        adam.ascend(&mut weights, &gradient);
    }
    let row = |id: usize| weights[id * n..(id + 1) * n].iter().map(|&weight| weight as f32);
    let weights = ids.into_iter().map(|(name, id)| (name.to_owned(), row(id).collect())).collect();
    Router { n_categories, weights }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_router_learns_which_word_tells_the_better_program() {
        let say = |word: &str| vec![("always".to_owned(), 1.0), (format!("says {word}"), 0.5)];
        let queries: Vec<_> = ["brand", "cites", "brand", "cites"].map(say).to_vec();
        let worth = vec![vec![1.0, 0.1], vec![0.0, 1.0], vec![0.8, 0.2], vec![0.1, 0.9]];
        let router = train(&queries, &worth, 2, 1e-3);
        assert!(router.probabilities(&say("brand"))[0] > 0.8);
        assert!(router.probabilities(&say("cites"))[1] > 0.8);
        assert_eq!(router, train(&queries, &worth, 2, 1e-3));
    }
}
