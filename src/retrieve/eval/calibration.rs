//! Checks whether probabilities match outcomes: the expected calibration error (Naeini, Cooper &
//! Hauskrecht, *Obtaining well calibrated probabilities using Bayesian binning*, AAAI 2015).

use serde::Serialize;

/// Number of bins: equal parts of the range `[0, 1]` of probabilities.
pub const BINS: usize = 5;

/// Agreement of predicted probabilities and outcomes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Number of predictions.
    pub n: usize,
    /// Mean probability.
    pub expected: f64,
    /// Share of the predictions that came true.
    pub observed: f64,
    /// Expected calibration error in `[0, 1]`: the absolute difference between `expected` and
    /// `observed` of each bin, averaged over bins with their numbers of predictions as weights.
    pub error: f64,
    /// The bins that have predictions, by ascending probability.
    pub bins: Vec<Bin>,
}

/// The predictions in one bin, which have similar probabilities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// Number of predictions.
    pub n: usize,
    /// Mean probability.
    pub expected: f64,
    /// Share of the predictions that came true.
    pub observed: f64,
}

/// Summarises the predictions of one bin; `None` without predictions.
fn bin(predictions: &[(f64, bool)]) -> Option<Bin> {
    let n = predictions.len();
    let n_true = predictions.iter().filter(|pair| pair.1).count();
    (n > 0).then(|| Bin {
        n,
        expected: predictions.iter().map(|pair| pair.0).sum::<f64>() / n as f64,
        observed: n_true as f64 / n as f64,
    })
}

/// Measures the calibration of predictions; `None` without predictions. A prediction is a
/// probability, clamped to `[0, 1]`, and whether the predicted event happened. In a bin with few
/// predictions, chance alone raises the error above 0.
pub fn calibration(predictions: &[(f64, bool)]) -> Option<Calibration> {
    let predictions: Vec<(f64, bool)> = predictions
        .iter()
        .map(|&(probability, outcome)| (probability.clamp(0.0, 1.0), outcome))
        .collect();
    let bin_of = |probability: f64| ((probability * BINS as f64) as usize).min(BINS - 1);
    let members = |index: usize| -> Vec<(f64, bool)> {
        predictions.iter().copied().filter(|pair| bin_of(pair.0) == index).collect()
    };
    let bins: Vec<Bin> = (0..BINS).filter_map(|index| bin(&members(index))).collect();
    let Bin { n, expected, observed } = bin(&predictions)?;
    let distance = |bin: &Bin| bin.n as f64 * (bin.expected - bin.observed).abs();
    let error = bins.iter().map(distance).sum::<f64>() / n as f64;
    Some(Calibration { n, expected, observed, error, bins })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_the_distance_in_each_bin_weighted_by_its_predictions() {
        // Bins of four, two and one: 0.75 for 0.5, 0.3 for 0.5, 1 for 1.
        let predictions = [
            (0.7, true),
            (0.7, true),
            (0.75, false),
            (0.75, false),
            (0.3, true),
            (0.3, false),
            (1.0, true),
        ];
        let found = calibration(&predictions).unwrap();
        assert_eq!(found.bins.iter().map(|bin| bin.n).collect::<Vec<_>>(), [2, 4, 1]);
        let expected = (2.0 * 0.2 + 4.0 * (0.725 - 0.5)) / 7.0;
        assert!((found.error - expected).abs() < 1e-12, "{found:?}");
        assert_eq!((found.n, found.observed), (7, 4.0 / 7.0));
    }

    #[test]
    fn what_always_comes_true_when_it_is_sure_is_without_error() {
        let sure = calibration(&[(1.0, true), (0.0, false), (2.0, true)]).unwrap();
        assert_eq!((sure.error, sure.bins.len()), (0.0, 2));
        assert_eq!(calibration(&[]), None);
    }
}
