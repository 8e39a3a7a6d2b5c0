//! Adam (Kingma & Ba 2015): ascent with a step of its own for every weight. One order of summation,
//! so that the same gradients give the same weights. Must not know what is learnt.

use rayon::prelude::*;

/// Share of the mean gradient that stays at a step, and that of the new gradient.
const KEPT_MEAN: f64 = 0.9;
const NEW_MEAN: f64 = 0.1;
/// The same for the mean squared gradient.
const KEPT_SQUARE: f64 = 0.999;
const NEW_SQUARE: f64 = 0.001;
/// Keeps a weight whose gradient was always 0 where it is.
const LEAST: f64 = 1e-9;

/// What is remembered of earlier gradients, one number each for every weight.
pub struct Adam {
    pub(super) rate: f64,
    pub(super) steps: i32,
    pub mean: Vec<f64>,
    pub square: Vec<f64>,
}

impl Adam {
    /// Nothing is remembered yet of `n` weights; a step moves a weight by about `rate`.
    pub fn new(n: usize, rate: f64) -> Self {
        Self { rate, steps: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }

    /// Moves every weight up its gradient.
    pub fn ascend(&mut self, weights: &mut [f64], gradient: &[f64]) {
        self.steps += 1;
        let [bias_mean, bias_square] = biases(self.steps);
        for (at, part) in gradient.iter().enumerate() {
            self.mean[at] = KEPT_MEAN * self.mean[at] + NEW_MEAN * part;
            self.square[at] = KEPT_SQUARE * self.square[at] + NEW_SQUARE * part * part;
            let (first, second) = (self.mean[at] / bias_mean, self.square[at] / bias_square);
            weights[at] += self.rate * first / (second.sqrt() + LEAST);
        }
    }
}

/// What means and mean squares are divided by after so many steps, as both began at 0.
fn biases(steps: i32) -> [f64; 2] {
    [KEPT_MEAN, KEPT_SQUARE].map(|kept| 1.0 - kept.powi(steps))
}

/// Adam over numbers of 4 bytes. Of the rows of a table few have a gradient at a step: the others stay,
/// and so does what is remembered of them.
pub(super) struct RowAdam {
    pub(super) rate: f64,
    pub(super) steps: i32,
    pub(super) mean: Vec<f32>,
    pub(super) square: Vec<f32>,
}

impl RowAdam {
    /// Nothing is remembered yet of `n` numbers; a step moves a number by about `rate`.
    pub(super) fn new(n: usize, rate: f64) -> Self {
        Self { rate, steps: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }

    /// Moves rows down their gradients, rows ascending.
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
                [&mut numbers, &mut mean, &mut square].map(|of| cut(of, skipped, dim));
            parts.push((of_numbers, of_mean, of_square, gradient));
        }
        parts.into_par_iter().for_each(|(numbers, mean, square, gradient)| {
            for (at, part) in gradient.iter().enumerate() {
                let first = KEPT_MEAN * f64::from(mean[at]) + NEW_MEAN * part;
                let second = KEPT_SQUARE * f64::from(square[at]) + NEW_SQUARE * part * part;
                (mean[at], square[at]) = (first as f32, second as f32);
                let by = self.rate * (first / bias_mean) / ((second / bias_square).sqrt() + LEAST);
                numbers[at] = (f64::from(numbers[at]) - by) as f32;
            }
        });
    }
}

/// Numbers of which one thread moves so many at a time.
const BLOCK: usize = 1 << 16;

impl RowAdam {
    /// Moves all numbers down their gradients by about `rate`, and shrinks each by `rate` times its
    /// decay (AdamW, Loshchilov & Hutter 2019). `parts` cuts the numbers into runs of a length with a
    /// decay each.
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
                [&mut numbers, &mut mean, &mut square].map(|of| cut(of, 0, n));
            let (of_gradient, rest) = gradient.split_at(n);
            gradient = rest;
            let blocks = of_numbers.par_chunks_mut(BLOCK).zip(of_gradient.par_chunks(BLOCK));
            let moments = of_mean.par_chunks_mut(BLOCK).zip(of_square.par_chunks_mut(BLOCK));
            blocks.zip(moments).for_each(|((numbers, gradient), (mean, square))| {
                for (at, &part) in gradient.iter().enumerate() {
                    let part = f64::from(part);
                    let first = KEPT_MEAN * f64::from(mean[at]) + NEW_MEAN * part;
                    let second = KEPT_SQUARE * f64::from(square[at]) + NEW_SQUARE * part * part;
                    (mean[at], square[at]) = (first as f32, second as f32);
                    let by = (first / bias_mean) / ((second / bias_square).sqrt() + LEAST);
                    let number = f64::from(numbers[at]);
                    numbers[at] = (number - rate * (by + decay * number)) as f32;
                }
            });
        }
    }
}

/// The next `n` numbers behind those skipped; both are gone from `of` then.
fn cut<'a>(of: &mut &'a mut [f32], skipped: usize, n: usize) -> &'a mut [f32] {
    let rest = std::mem::take(of).split_at_mut(skipped).1;
    let (part, rest) = rest.split_at_mut(n);
    *of = rest;
    part
}
