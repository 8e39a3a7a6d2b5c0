//! Adam (Kingma & Ba 2015): ascent with a step of its own for every weight. One order of summation,
//! so that the same gradients give the same weights. Must not know what is learnt.

/// Share of the mean gradient that stays at a step, and that of the new gradient.
const KEPT_MEAN: f64 = 0.9;
const NEW_MEAN: f64 = 0.1;
/// The same for the mean squared gradient.
const KEPT_SQUARE: f64 = 0.999;
const NEW_SQUARE: f64 = 0.001;
/// Keeps a weight whose gradient was always 0 where it is.
const LEAST: f64 = 1e-9;

/// What is remembered of earlier gradients, one number each for every weight.
pub(crate) struct Adam {
    rate: f64,
    steps: i32,
    mean: Vec<f64>,
    square: Vec<f64>,
}

impl Adam {
    /// Nothing is remembered yet of `n` weights; a step moves a weight by about `rate`.
    pub(crate) fn new(n: usize, rate: f64) -> Self {
        Self { rate, steps: 0, mean: vec![0.0; n], square: vec![0.0; n] }
    }

    /// Moves every weight up its gradient.
    pub(crate) fn ascend(&mut self, weights: &mut [f64], gradient: &[f64]) {
        self.steps += 1;
        let bias = |kept: f64| 1.0 - kept.powi(self.steps);
        let (bias_mean, bias_square) = (bias(KEPT_MEAN), bias(KEPT_SQUARE));
        for (at, part) in gradient.iter().enumerate() {
            self.mean[at] = KEPT_MEAN * self.mean[at] + NEW_MEAN * part;
            self.square[at] = KEPT_SQUARE * self.square[at] + NEW_SQUARE * part * part;
            let (first, second) = (self.mean[at] / bias_mean, self.square[at] / bias_square);
            weights[at] += self.rate * first / (second.sqrt() + LEAST);
        }
    }
}
