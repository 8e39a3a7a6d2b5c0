//! The Adam optimizer (Kingma & Ba 2015). The order of operations is fixed, so that equal gradients
//! give equal weights.

use rayon::prelude::*;

/// Share of the running mean of gradients that a step keeps.
const KEPT_MEAN: f64 = 0.9;
/// Share of the new gradient in the running mean of gradients.
const NEW_MEAN: f64 = 0.1;
/// Share of the running mean of squared gradients that a step keeps.
const KEPT_SQUARE: f64 = 0.999;
/// Share of the new squared gradient in the running mean of squared gradients.
const NEW_SQUARE: f64 = 0.001;
/// Number added to the square root of the mean squared gradient before dividing by it, so that a
/// weight whose gradient was always 0 stays unchanged.
const EPSILON: f64 = 1e-9;
/// Number of weights that one thread updates at a time.
const BLOCK: usize = 1 << 16;

/// State of Adam over `f64` weights.
pub struct Adam {
    pub(super) rate: f64,
    pub(super) steps: i32,
    /// Running mean of each weight's gradients.
    pub mean: Vec<f64>,
    /// Running mean of each weight's squared gradients.
    pub square: Vec<f64>,
}

impl Adam {
    /// Returns the initial state for `n` weights; each step moves a weight by about `rate`.
    pub fn new(n: usize, rate: f64) -> Self {
        Self { rate, steps: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }

    /// Makes one step: moves every weight in the direction of its gradient, which increases the
    /// objective.
    pub fn ascend(&mut self, weights: &mut [f64], gradient: &[f64]) {
        self.steps += 1;
        let [bias_mean, bias_square] = biases(self.steps);
        for (i, part) in gradient.iter().enumerate() {
            self.mean[i] = KEPT_MEAN * self.mean[i] + NEW_MEAN * part;
            self.square[i] = KEPT_SQUARE * self.square[i] + NEW_SQUARE * part * part;
            let (first, second) = (self.mean[i] / bias_mean, self.square[i] / bias_square);
            weights[i] += self.rate * first / (second.sqrt() + EPSILON);
        }
    }
}

/// Returns the bias corrections after a number of steps: the divisors of the running means of
/// gradients and of squared gradients, which start at 0.
fn biases(steps: i32) -> [f64; 2] {
    [KEPT_MEAN, KEPT_SQUARE].map(|kept| 1.0 - kept.powi(steps))
}

/// State of Adam over `f32` weights, such as the rows of a table.
pub(super) struct RowAdam {
    pub(super) rate: f64,
    pub(super) steps: i32,
    pub(super) mean: Vec<f32>,
    pub(super) square: Vec<f32>,
}

impl RowAdam {
    /// Returns the initial state for `n` weights; each step moves a weight by about `rate`.
    pub(super) fn new(n: usize, rate: f64) -> Self {
        Self { rate, steps: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }

    /// Makes one step: moves the given rows of the table `numbers` against their gradients, which
    /// decreases the loss. `rows` holds pairs of row number and gradient, by ascending row number.
    /// All other rows and their running means stay unchanged.
    pub(super) fn descend(&mut self, numbers: &mut [f32], rows: &[(u32, Vec<f64>)]) {
        self.steps += 1;
        let [bias_mean, bias_square] = biases(self.steps);
        let dim = rows.first().map_or(0, |row| row.1.len());
        let (mut numbers, mut mean, mut square) =
            (numbers, self.mean.as_mut_slice(), self.square.as_mut_slice());
        let mut parts = Vec::with_capacity(rows.len());
        let mut next = 0;
        for (row, gradient) in rows {
            let skipped = (*row as usize - next) * dim;
            next = *row as usize + 1;
            let [of_numbers, of_mean, of_square] =
                [&mut numbers, &mut mean, &mut square].map(|slice| take_part(slice, skipped, dim));
            parts.push((of_numbers, of_mean, of_square, gradient));
        }
        parts.into_par_iter().for_each(|(numbers, mean, square, gradient)| {
            for (i, part) in gradient.iter().enumerate() {
                let first = KEPT_MEAN * f64::from(mean[i]) + NEW_MEAN * part;
                let second = KEPT_SQUARE * f64::from(square[i]) + NEW_SQUARE * part * part;
                (mean[i], square[i]) = (first as f32, second as f32);
                let step =
                    self.rate * (first / bias_mean) / ((second / bias_square).sqrt() + EPSILON);
                numbers[i] = (f64::from(numbers[i]) - step) as f32;
            }
        });
    }

    /// Makes one step: moves all weights `numbers` against their gradients by about `rate`, and
    /// multiplies each by `1 - rate * decay` (AdamW, Loshchilov & Hutter 2019). `parts` divides
    /// `numbers` into consecutive parts: pairs of length and `decay`.
    pub(super) fn descend_all(
        &mut self,
        numbers: &mut [f32],
        gradient: &[f32],
        parts: &[(usize, f64)],
        rate: f64,
    ) {
        self.steps += 1;
        let [bias_mean, bias_square] = biases(self.steps);
        let (mut numbers, mut mean, mut square, mut gradient) =
            (numbers, self.mean.as_mut_slice(), self.square.as_mut_slice(), gradient);
        for &(n, decay) in parts {
            let [of_numbers, of_mean, of_square] =
                [&mut numbers, &mut mean, &mut square].map(|slice| take_part(slice, 0, n));
            let (of_gradient, rest) = gradient.split_at(n);
            gradient = rest;
            let blocks = of_numbers.par_chunks_mut(BLOCK).zip(of_gradient.par_chunks(BLOCK));
            let moments = of_mean.par_chunks_mut(BLOCK).zip(of_square.par_chunks_mut(BLOCK));
            blocks.zip(moments).for_each(|((numbers, gradient), (mean, square))| {
                for (i, &part) in gradient.iter().enumerate() {
                    let part = f64::from(part);
                    let first = KEPT_MEAN * f64::from(mean[i]) + NEW_MEAN * part;
                    let second = KEPT_SQUARE * f64::from(square[i]) + NEW_SQUARE * part * part;
                    (mean[i], square[i]) = (first as f32, second as f32);
                    let step = (first / bias_mean) / ((second / bias_square).sqrt() + EPSILON);
                    let number = f64::from(numbers[i]);
                    numbers[i] = (number - rate * (step + decay * number)) as f32;
                }
            });
        }
    }
}

/// Removes the first `skipped` numbers from `slice`, then removes and returns the next `n`.
fn take_part<'a>(slice: &mut &'a mut [f32], skipped: usize, n: usize) -> &'a mut [f32] {
    let rest = std::mem::take(slice).split_at_mut(skipped).1;
    let (part, rest) = rest.split_at_mut(n);
    *slice = rest;
    part
}
