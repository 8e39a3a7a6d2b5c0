//! A table of word vectors, the texts it stands for, and the derivative of the contrastive loss by
//! its rows, in closed form.
//!
//! A text is a bag of rows with weights `x`; its vector is `v = u / |u|`, `u = sum over w of x_w E_w`.
//! With `s_ij = q_i . d_j / t` of the queries and documents of a batch, of which document `i` answers
//! query `i`, the loss is the mean over `i` of
//!
//! ```text
//! -1/2 ln softmax_j(s_ij)_i  -  1/2 ln softmax_k(s_ki)_i
//! ```
//!
//! where a document that answers query `i` too, and is not document `i`, is left out. With `G_ij` the
//! derivative by `q_i . d_j`:
//!
//! ```text
//! d q_i = sum_j G_ij d_j        d d_j = sum_i G_ij q_i
//! d u   = (d v - (d v . v) v) / |u|        d E_w = x_w d u
//! ```
//!
//! Must not know nodes or files.

use rayon::prelude::*;

use crate::{
    embed::matrix::{add_scaled, normalise},
    train::dense::words::Bag,
};

/// Norms below it are of texts without known words, which teach nothing.
const LEAST_NORM: f64 = 1e-12;

/// `[rows, dim]` numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) dim: usize,
    pub(super) numbers: Vec<f32>,
}

/// The vector of a text in the making.
struct Text {
    /// Norm 1, or zeros.
    vector: Vec<f64>,
    /// The norm before.
    norm: f64,
}

/// What a batch says of the table.
pub(super) struct Gradient {
    /// Mean over its pairs, nats.
    pub(super) loss: f64,
    /// The derivative by each row that its texts have, rows ascending.
    pub(super) rows: Vec<(u32, Vec<f64>)>,
}

impl Table {
    fn row(&self, row: u32) -> &[f32] {
        &self.numbers[row as usize * self.dim..][..self.dim]
    }

    /// The vector of a text for search, norm 1; zeros without known words.
    pub(super) fn embed(&self, bag: &[(u32, f32)]) -> Vec<f32> {
        let mut vector = vec![0.0; self.dim];
        bag.iter().for_each(|&(row, weight)| add_scaled(&mut vector, weight, self.row(row)));
        normalise(&mut vector);
        vector
    }

    fn text(&self, bag: &Bag) -> Text {
        let mut vector = vec![0.0; self.dim];
        for &(row, weight) in bag {
            for (sum, number) in vector.iter_mut().zip(self.row(row)) {
                *sum += f64::from(weight) * f64::from(*number);
            }
        }
        let norm = product(&vector, &vector).sqrt();
        let scale = if norm > LEAST_NORM { 1.0 / norm } else { 0.0 };
        vector.iter_mut().for_each(|number| *number *= scale);
        Text { vector, norm }
    }

    /// The loss of a batch and its derivative by the rows. The first documents answer the queries, in
    /// their order; `is_hidden(i, j)` leaves document `j` out for query `i`. In one order of
    /// summation on any number of threads.
    pub(super) fn gradient(
        &self,
        queries: &[&Bag],
        documents: &[&Bag],
        is_hidden: &(dyn Fn(usize, usize) -> bool + Sync),
        temperature: f64,
    ) -> Gradient {
        let bags: Vec<&Bag> = queries.iter().chain(documents).copied().collect();
        let texts: Vec<Text> = bags.par_iter().map(|bag| self.text(bag)).collect();
        let (q, d) = texts.split_at(queries.len());
        let (loss, by_score) = contrast(q, d, is_hidden, temperature);
        let by_vector = |at: usize| {
            let mut sum = vec![0.0; self.dim];
            match at.checked_sub(q.len()) {
                None => by_score[at].iter().zip(d).for_each(|(g, d)| add(&mut sum, *g, &d.vector)),
                Some(j) => {
                    by_score.iter().zip(q).for_each(|(row, q)| add(&mut sum, row[j], &q.vector));
                }
            }
            let Text { vector, norm } = &texts[at];
            let along = product(&sum, vector);
            add(&mut sum, -along, vector);
            let scale = if *norm > LEAST_NORM { 1.0 / norm } else { 0.0 };
            sum.iter_mut().for_each(|part| *part *= scale);
            sum
        };
        let by_sum: Vec<Vec<f64>> = (0..texts.len()).into_par_iter().map(by_vector).collect();
        let mut entries: Vec<(u32, u32, f32)> = (0..)
            .zip(&bags)
            .flat_map(|(at, bag)| bag.iter().map(move |&(row, weight)| (row, at, weight)))
            .collect();
        entries.sort_unstable_by_key(|&(row, at, _)| (row, at));
        let of_rows: Vec<&[(u32, u32, f32)]> = entries.chunk_by(|a, b| a.0 == b.0).collect();
        let row = |same: &&[(u32, u32, f32)]| {
            let mut sum = vec![0.0; self.dim];
            for &(_, at, weight) in *same {
                add(&mut sum, f64::from(weight), &by_sum[at as usize]);
            }
            (same.first().map_or(0, |entry| entry.0), sum)
        };
        Gradient { loss, rows: of_rows.par_iter().map(row).collect() }
    }
}

fn product(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

fn add(target: &mut [f64], factor: f64, row: &[f64]) {
    target.iter_mut().zip(row).for_each(|(sum, number)| *sum += factor * number);
}

/// The loss of a batch, and its derivative by the product of each query and document.
fn contrast(
    queries: &[Text],
    documents: &[Text],
    is_hidden: &(dyn Fn(usize, usize) -> bool + Sync),
    temperature: f64,
) -> (f64, Vec<Vec<f64>>) {
    let n = queries.len();
    // Where a document is left out there is no score.
    let scores: Vec<Vec<f64>> = (0..n)
        .into_par_iter()
        .map(|i| {
            let score = |(j, document): (usize, &Text)| match i != j && is_hidden(i, j) {
                true => f64::NEG_INFINITY,
                false => product(&queries[i].vector, &document.vector) / temperature,
            };
            documents.iter().enumerate().map(score).collect()
        })
        .collect();
    let part = 0.5 / n.max(1) as f64;
    let mut loss = 0.0;
    let mut gradient = vec![vec![0.0; documents.len()]; n];
    for i in 0..n {
        let shares = shares(scores[i].iter().copied());
        loss -= part * shares[i].1;
        for (sum, (share, _)) in gradient[i].iter_mut().zip(&shares) {
            *sum += part * share / temperature;
        }
        let back = self::shares(scores.iter().map(|row| row[i]));
        loss -= part * back[i].1;
        for (row, (share, _)) in gradient.iter_mut().zip(&back) {
            row[i] += part * share / temperature;
        }
        gradient[i][i] -= 2.0 * part / temperature;
    }
    (loss, gradient)
}

/// The shares of a softmax, with their logarithms.
fn shares(scores: impl Iterator<Item = f64> + Clone) -> Vec<(f64, f64)> {
    let largest = scores.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum = scores.clone().map(|score| (score - largest).exp()).sum::<f64>().ln();
    scores.map(|score| score - largest - sum).map(|log| (log.exp(), log)).collect()
}
