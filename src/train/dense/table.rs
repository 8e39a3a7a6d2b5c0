//! A table of word vectors: computes the vectors of texts, and the gradient of the contrastive loss
//! with respect to the table's rows, in closed form.
//!
//! A text is a bag of words `w` with weights `x_w`; `E_w` is the row of word `w`. The vector of the
//! text is `v = u / |u|` with `u = sum over w of x_w E_w`. With `d v` the derivative of the
//! [loss](super::loss) with respect to `v`:
//!
//! ```text
//! d u = (d v - (d v . v) v) / |u|        d E_w = x_w d u
//! ```

use rayon::prelude::*;

use crate::dense::{
    loss::{Contrast, add, contrast, product},
    words::Bag,
};
use agent_embed::matrix::{add_scaled, normalise};

/// If the norm of a text's weighted sum of word vectors is at most this, the text gets the zero
/// vector and no gradient.
const MIN_NORM: f64 = 1e-12;

/// A table of word vectors, `[rows, dim]`, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) dim: usize,
    pub(super) numbers: Vec<f32>,
}

/// Vector of a text, with the norm that it had before scaling.
struct Text {
    /// The vector, of norm 1 or all zeros.
    vector: Vec<f64>,
    /// Norm of the weighted sum of word vectors, before scaling.
    norm: f64,
}

/// Loss of a batch, and its gradient with respect to the rows of the table.
pub(super) struct Gradient {
    /// Mean loss of the batch's pairs, in nats.
    pub(super) loss: f64,
    /// Pairs of a row number and the gradient with respect to this row, for each row that the texts
    /// use, by ascending row number.
    pub(super) rows: Vec<(u32, Vec<f64>)>,
}

impl AsRef<[f32]> for Table {
    fn as_ref(&self) -> &[f32] {
        &self.numbers
    }
}

impl Table {
    fn row(&self, row: u32) -> &[f32] {
        &self.numbers[row as usize * self.dim..][..self.dim]
    }

    /// Embeds a bag, in `f32` as for search, into a vector of norm 1; an empty bag gets the zero
    /// vector.
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
        let scale = if norm > MIN_NORM { 1.0 / norm } else { 0.0 };
        vector.iter_mut().for_each(|number| *number *= scale);
        Text { vector, norm }
    }

    /// Computes the loss of a batch and its gradient with respect to the table's rows. Document `i`
    /// is the answer to query `i`; there may be further documents. If `is_hidden(i, j)`, document
    /// `j != i` is left out for query `i`. The result does not depend on the number of threads.
    pub(super) fn gradient(
        &self,
        queries: &[&Bag],
        documents: &[&Bag],
        is_hidden: &(dyn Fn(usize, usize) -> bool + Sync),
        temperature: f64,
    ) -> Gradient {
        let bags: Vec<&Bag> = queries.iter().chain(documents).copied().collect();
        let texts: Vec<Text> = bags.par_iter().map(|bag| self.text(bag)).collect();
        let vectors: Vec<&[f64]> = texts.iter().map(|text| &text.vector[..]).collect();
        let Contrast { loss, by_vector } =
            contrast(&vectors, queries.len(), is_hidden, temperature);
        let by_sum = |(mut sum, text): (Vec<f64>, &Text)| {
            let Text { vector, norm } = text;
            let along = product(&sum, vector);
            add(&mut sum, -along, vector);
            let scale = if *norm > MIN_NORM { 1.0 / norm } else { 0.0 };
            sum.iter_mut().for_each(|part| *part *= scale);
            sum
        };
        let by_sum: Vec<Vec<f64>> = by_vector.into_par_iter().zip(&texts).map(by_sum).collect();
        let mut entries: Vec<(u32, u32, f32)> = (0..)
            .zip(&bags)
            .flat_map(|(text, bag)| bag.iter().map(move |&(row, weight)| (row, text, weight)))
            .collect();
        entries.sort_unstable_by_key(|&(row, text, _)| (row, text));
        let of_rows: Vec<&[(u32, u32, f32)]> = entries.chunk_by(|a, b| a.0 == b.0).collect();
        let row = |group: &&[(u32, u32, f32)]| {
            let mut sum = vec![0.0; self.dim];
            for &(_, text, weight) in *group {
                add(&mut sum, f64::from(weight), &by_sum[text as usize]);
            }
            (group.first().map_or(0, |entry| entry.0), sum)
        };
        Gradient { loss, rows: of_rows.par_iter().map(row).collect() }
    }
}
