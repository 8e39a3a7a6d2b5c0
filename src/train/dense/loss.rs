//! The contrastive loss of a batch, and its gradient with respect to the vectors, in closed form.
//!
//! Document `i` of a batch answers query `i`. With `s_ij = q_i . d_j / t`, for temperature `t`, the
//! loss is the mean over `i` of
//!
//! ```text
//! -1/2 ln softmax_j(s_ij)_i  -  1/2 ln softmax_k(s_ki)_i
//! ```
//!
//! Documents `j` other than `i` that also answer query `i` are left out of the sums. With `G_ij`
//! the derivative of the loss with respect to `q_i . d_j`:
//!
//! ```text
//! d q_i = sum_j G_ij d_j        d d_j = sum_i G_ij q_i
//! ```

use rayon::prelude::*;

/// Loss of a batch, and its gradient with respect to the vectors of queries and documents.
pub(super) struct Contrast {
    /// Mean loss of the queries, in nats.
    pub(super) loss: f64,
    /// Gradient with respect to each vector, in the order of the vectors.
    pub(super) by_vector: Vec<Vec<f64>>,
}

/// Computes the loss of a batch and its gradient. The first `n` of `vectors` are queries, the rest
/// documents; document `i` is the answer to query `i`, for `i < n`. If `is_hidden(i, j)`, document
/// `j != i` is left out for query `i`. The result does not depend on the number of threads.
pub(super) fn contrast(
    vectors: &[&[f64]],
    n: usize,
    is_hidden: &(dyn Fn(usize, usize) -> bool + Sync),
    temperature: f64,
) -> Contrast {
    let (queries, documents) = vectors.split_at(n);
    // Excluded documents score minus infinity.
    let scores: Vec<Vec<f64>> = (0..n)
        .into_par_iter()
        .map(|i| {
            let score = |(j, document): (usize, &&[f64])| match i != j && is_hidden(i, j) {
                true => f64::NEG_INFINITY,
                false => product(queries[i], document) / temperature,
            };
            documents.iter().enumerate().map(score).collect()
        })
        .collect();
    let part = 0.5 / n.max(1) as f64;
    let mut loss = 0.0;
    let mut by_score = vec![vec![0.0; documents.len()]; n];
    for i in 0..n {
        let shares = shares(scores[i].iter().copied());
        loss -= part * shares[i].1;
        for (sum, (share, _)) in by_score[i].iter_mut().zip(&shares) {
            *sum += part * share / temperature;
        }
        let back = self::shares(scores.iter().map(|row| row[i]));
        loss -= part * back[i].1;
        for (row, (share, _)) in by_score.iter_mut().zip(&back) {
            row[i] += part * share / temperature;
        }
        by_score[i][i] -= 2.0 * part / temperature;
    }
    let by_vector = |index: usize| {
        let mut sum = vec![0.0; vectors[index].len()];
        match index.checked_sub(n) {
            None => by_score[index].iter().zip(documents).for_each(|(g, d)| add(&mut sum, *g, d)),
            Some(j) => by_score.iter().zip(queries).for_each(|(row, q)| add(&mut sum, row[j], q)),
        }
        sum
    };
    Contrast { loss, by_vector: (0..vectors.len()).into_par_iter().map(by_vector).collect() }
}

pub(super) fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

pub(super) fn add(target: &mut [f64], factor: f64, row: &[f64]) {
    target.iter_mut().zip(row).for_each(|(sum, number)| *sum += factor * number);
}

/// Returns the softmax of `scores`: for each score, its share and the natural logarithm of the
/// share.
fn shares(scores: impl Iterator<Item = f64> + Clone) -> Vec<(f64, f64)> {
    let largest = scores.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum = scores.clone().map(|score| (score - largest).exp()).sum::<f64>().ln();
    scores.map(|score| score - largest - sum).map(|log| (log.exp(), log)).collect()
}
