//! Intervals, tests and percentiles over per-query numbers.
//!
//! Queries are assumed to be independent draws from one population. Splits are fixed and programs
//! are chosen on other queries of the same base, so intervals cover the variation between samples
//! of queries, but not between bases, seeds or models.
//!
//! - Intervals: percentile bootstrap (Efron & Tibshirani, *An Introduction to the Bootstrap*, 1993,
//!   chapter 13). They are too narrow for few queries (below about 30) or means near 0 or 1; for
//!   one query an interval is a point.
//! - Tests: paired randomisation (sign flips), recommended for retrieval by Smucker, Allan &
//!   Carterette, *A Comparison of Statistical Significance Tests for Information Retrieval
//!   Evaluation*, CIKM 2007. Null hypothesis: the sign of each query's difference is random.
//! - Multiple tests: Holm, *A Simple Sequentially Rejective Multiple Test Procedure*, 1979.
//!
//! Random numbers come from ChaCha8 streams, one per block of replicates, keyed by seed and block:
//! the same numbers in the same order give the same result on any number of threads.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Number of bootstrap replicates of an interval; about 250 replicates lie beyond each end.
pub const N_BOOTSTRAP_REPLICATES: usize = 10_000;

/// Number of sign assignments drawn by a test too large to enumerate; the standard error of a
/// p-value of 0.05 is then 0.0015, and no p-value is below 0.00005.
pub const N_RANDOMIZATION_DRAWS: usize = 20_000;

/// Maximum number of nonzero differences whose sign assignments are all enumerated (2^20, a few
/// ms).
pub const MAX_EXACT_DIFFERENCES: usize = 20;

/// Confidence level of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// Number of replicates or draws per stream of random numbers; each stream is one parallel task.
const BLOCK: usize = 250;

/// Tolerance for equal sums, as a share of the sum of absolute differences; it absorbs the rounding
/// of sums in another order.
const SUM_TOLERANCE: f64 = 1e-9;

/// Why a statistic cannot be computed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatisticsError {
    /// There are no values.
    #[error("no values to summarise; need at least one query")]
    Empty,
    /// A value is infinite or not a number.
    #[error("value {value} at position {position} is not finite; correct the measurement")]
    NotFinite {
        /// Position of the value in the input, from 0.
        position: usize,
        /// The infinite value or NaN.
        value: f64,
    },
    /// A percentile outside `(0, 100]`.
    #[error("percentile {percent} is outside (0, 100]")]
    Percentile {
        /// The percentile that was requested.
        percent: f64,
    },
}

/// An interval at [`CONFIDENCE`]; as JSON `[low, high]`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<[f64; 2]> for Interval {
    fn from([low, high]: [f64; 2]) -> Interval {
        Interval { low, high }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> [f64; 2] {
        [interval.low, interval.high]
    }
}

/// Returns the mean of the values.
///
/// # Errors
/// [`StatisticsError::Empty`], [`StatisticsError::NotFinite`].
pub fn mean(values: &[f64]) -> Result<f64, StatisticsError> {
    check(values)?;
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the percentile-bootstrap interval of the mean of `values`.
///
/// For a paired bootstrap of two systems, pass the per-query differences. The ends are the
/// nearest-rank percentiles of [`N_BOOTSTRAP_REPLICATES`] means of resamples with replacement. The
/// result depends on the order of `values`; sort by query id for a stable result.
///
/// # Errors
/// [`StatisticsError::Empty`], [`StatisticsError::NotFinite`].
pub fn bootstrap_interval(values: &[f64], seed: u64) -> Result<Interval, StatisticsError> {
    check(values)?;
    let rows: Vec<[f64; 1]> = values.iter().map(|&value| [value]).collect();
    let [interval] = bootstrap_intervals(&rows, seed)?;
    Ok(interval)
}

/// Returns the percentile-bootstrap intervals of the means of `N` columns; rows are resampled as a
/// whole.
///
/// `rows`: `[n, N]`, one row per query. Each interval equals [`bootstrap_interval`] of its column.
/// `O(n · N · replicates)`.
///
/// # Errors
/// [`StatisticsError::Empty`], [`StatisticsError::NotFinite`] (with the position of the row).
pub fn bootstrap_intervals<const N: usize>(
    rows: &[[f64; N]],
    seed: u64,
) -> Result<[Interval; N], StatisticsError> {
    if rows.is_empty() {
        return Err(StatisticsError::Empty);
    }
    for (position, row) in rows.iter().enumerate() {
        if let Some(&value) = row.iter().find(|value| !value.is_finite()) {
            return Err(StatisticsError::NotFinite { position, value });
        }
    }
    let replicates: Vec<[f64; N]> = (0..N_BOOTSTRAP_REPLICATES.div_ceil(BLOCK))
        .into_par_iter()
        .flat_map_iter(|block| {
            let mut random = stream(seed, block);
            let first = block * BLOCK;
            (first..N_BOOTSTRAP_REPLICATES.min(first + BLOCK)).map(move |_| {
                let mut sums = [0.0; N];
                for _ in 0..rows.len() {
                    let row = &rows[below(&mut random, rows.len())];
                    for (sum, value) in sums.iter_mut().zip(row) {
                        *sum += value;
                    }
                }
                sums.map(|sum| sum / rows.len() as f64)
            })
        })
        .collect();
    let tail = (1.0 - CONFIDENCE) / 2.0 * 100.0;
    let mut column = vec![0.0; replicates.len()];
    let mut intervals = [Interval::default(); N];
    for (i, interval) in intervals.iter_mut().enumerate() {
        for (cell, replicate) in column.iter_mut().zip(&replicates) {
            *cell = replicate[i];
        }
        column.sort_unstable_by(f64::total_cmp);
        interval.low = nearest_rank(&column, tail);
        interval.high = nearest_rank(&column, 100.0 - tail);
    }
    Ok(intervals)
}

/// Returns the two-sided p-value of the paired randomisation test; the null hypothesis is that the
/// mean difference is 0.
///
/// `differences`: one per query, first system minus second. The statistic is the absolute sum of
/// the nonzero differences under an assignment of signs. For at most [`MAX_EXACT_DIFFERENCES`]
/// nonzero differences, all assignments are enumerated. Otherwise [`N_RANDOMIZATION_DRAWS`]
/// assignments are drawn and the observed one is added, so that the p-value is valid and never 0.
/// Without nonzero differences the p-value is 1.
///
/// # Errors
/// [`StatisticsError::Empty`], [`StatisticsError::NotFinite`].
pub fn randomization_p(differences: &[f64], seed: u64) -> Result<f64, StatisticsError> {
    check(differences)?;
    let nonzero: Vec<f64> = differences.iter().copied().filter(|&d| d != 0.0).collect();
    if nonzero.is_empty() {
        return Ok(1.0);
    }
    let observed = nonzero.iter().sum::<f64>().abs();
    let at_least = observed - SUM_TOLERANCE * nonzero.iter().map(|d| d.abs()).sum::<f64>();
    if nonzero.len() <= MAX_EXACT_DIFFERENCES {
        return Ok(exact_share(&nonzero, at_least));
    }
    let n_extreme: usize = (0..N_RANDOMIZATION_DRAWS.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut random = stream(seed, block);
            let n_draws = BLOCK.min(N_RANDOMIZATION_DRAWS - block * BLOCK);
            (0..n_draws).filter(|_| flipped_sum(&nonzero, &mut random).abs() >= at_least).count()
        })
        .sum();
    Ok((n_extreme + 1) as f64 / (N_RANDOMIZATION_DRAWS + 1) as f64)
}

/// Returns Holm's adjusted p-values, in the order of the input, at most 1 each; empty for empty
/// input. If all tests with an adjusted p-value of at most `alpha` are rejected, the probability of
/// any false rejection is at most `alpha`, under any dependence.
///
/// # Errors
/// [`StatisticsError::NotFinite`].
pub fn holm(p_values: &[f64]) -> Result<Vec<f64>, StatisticsError> {
    check_finite(p_values)?;
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut largest = 0.0_f64;
    for (n_smaller, &i) in order.iter().enumerate() {
        let scaled = p_values[i] * (p_values.len() - n_smaller) as f64;
        largest = largest.max(scaled.min(1.0));
        adjusted[i] = largest;
    }
    Ok(adjusted)
}

/// Returns nearest-rank percentiles of `values`: for each of `percents`, the smallest value such
/// that at least that percentage of the values is not above it; never interpolated.
///
/// `percents` must be in `(0, 100]`; the result has their order. `O(n log n)`.
///
/// # Errors
/// [`StatisticsError::Empty`], [`StatisticsError::NotFinite`], [`StatisticsError::Percentile`].
pub fn percentiles<const N: usize>(
    values: &[f64],
    percents: [f64; N],
) -> Result<[f64; N], StatisticsError> {
    check(values)?;
    if let Some(&percent) = percents.iter().find(|&&percent| !(percent > 0.0 && percent <= 100.0)) {
        return Err(StatisticsError::Percentile { percent });
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Ok(percents.map(|percent| nearest_rank(&sorted, percent)))
}

/// Returns the share of the `2^n` sign assignments under which the absolute sum of the differences
/// is at least `at_least`.
///
/// The last sign is fixed, because negating all signs keeps the absolute sum. Successive
/// assignments differ in one sign (Gray code).
fn exact_share(differences: &[f64], at_least: f64) -> f64 {
    let n_assignments = 1_u32 << (differences.len() - 1);
    let mut signed = differences.to_vec();
    let mut sum: f64 = signed.iter().sum();
    let mut n_extreme = u32::from(sum.abs() >= at_least);
    for step in 1..n_assignments {
        let flipped = &mut signed[step.trailing_zeros() as usize];
        sum -= 2.0 * *flipped;
        *flipped = -*flipped;
        n_extreme += u32::from(sum.abs() >= at_least);
    }
    f64::from(n_extreme) / f64::from(n_assignments)
}

/// Sums the differences with random signs.
fn flipped_sum(differences: &[f64], random: &mut ChaCha8Rng) -> f64 {
    let mut sum = 0.0;
    for chunk in differences.chunks(64) {
        let bits = random.next_u64();
        for (i, difference) in chunk.iter().enumerate() {
            let sign = (bits >> i & 1) << 63;
            sum += f64::from_bits(difference.to_bits() ^ sign);
        }
    }
    sum
}

fn check(values: &[f64]) -> Result<(), StatisticsError> {
    if values.is_empty() { Err(StatisticsError::Empty) } else { check_finite(values) }
}

fn check_finite(values: &[f64]) -> Result<(), StatisticsError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(position) => Err(StatisticsError::NotFinite { position, value: values[position] }),
        None => Ok(()),
    }
}

/// Nearest-rank percentile of `sorted`, which is ascending and not empty; `percent` in `(0, 100]`.
fn nearest_rank(sorted: &[f64], percent: f64) -> f64 {
    // A product such as 0.95 * 20 may be slightly above the exact whole number.
    let rank = (percent * sorted.len() as f64 / 100.0 - 1e-9).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

fn stream(seed: u64, block: usize) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(block as u64);
    random
}

/// Draws a random number in `0..n`; `n` must be below 2^32. The probability of each number differs
/// from `1 / n` by a relative error below `n / 2^32`.
fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    ((u64::from(random.next_u32()) * n as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_matches_normal_theory_and_repeats_on_any_thread_count() {
        // 0 and 1 in equal parts: standard error 0.025, so 0.5 +- 0.049.
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 2)).collect();
        let interval = bootstrap_interval(&values, 7).unwrap();
        assert!((interval.low - 0.451).abs() < 0.004, "{interval:?}");
        assert!((interval.high - 0.549).abs() < 0.004, "{interval:?}");
        for n_threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            assert_eq!(pool.install(|| bootstrap_interval(&values, 7)), Ok(interval));
        }
        assert_ne!(bootstrap_interval(&values[1..], 8), Ok(interval));
        let rows: Vec<[f64; 2]> = values.iter().map(|&value| [1.0 - value, value]).collect();
        assert_eq!(bootstrap_intervals(&rows, 7).unwrap()[1], interval);
        assert_eq!(bootstrap_interval(&[0.25], 7), Ok(Interval { low: 0.25, high: 0.25 }));
    }

    #[test]
    fn exact_test_counts_all_sign_assignments() {
        // Of 8 assignments of 1, 2, 3 only +++ and --- reach 6; zeros change nothing.
        assert_eq!(randomization_p(&[1.0, 0.0, 2.0, 3.0], 0), Ok(0.25));
        // 0.2 comes out as three different floats; 14 of 16 sums reach it all the same.
        assert_eq!(randomization_p(&[0.1, 0.2, 0.3, -0.4], 0), Ok(0.875));
        assert_eq!(randomization_p(&[0.0, 0.0], 0), Ok(1.0));
        assert_eq!(randomization_p(&[1.0; 20], 0), Ok(2.0 / f64::from(1 << 20)));
    }

    #[test]
    fn drawn_test_agrees_with_theory_and_never_gives_zero() {
        assert_eq!(randomization_p(&[1.0; 70], 0), Ok(1.0 / 20_001.0));
        // 100 signs of equal size, 60 up: P(|S| >= 20) = 0.0569 for a fair coin.
        let differences: Vec<f64> = (0..100).map(|i| if i < 60 { 0.5 } else { -0.5 }).collect();
        let p = randomization_p(&differences, 3).unwrap();
        assert!((p - 0.0569).abs() < 0.006, "{p}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(pool.install(|| randomization_p(&differences, 3)), Ok(p));
    }

    #[test]
    fn holm_steps_down_and_stays_monotone() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.9]).unwrap();
        let expected = [0.04, 0.09, 0.09, 0.9];
        assert!(adjusted.iter().zip(expected).all(|(a, e)| (a - e).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(holm(&[0.6, 0.7]), Ok(vec![1.0, 1.0]));
    }

    #[test]
    fn percentiles_take_the_nearest_rank() {
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(percentiles(&values, [50.0, 95.0, 96.0, 100.0]), Ok([10.0, 19.0, 20.0, 20.0]));
        assert_eq!(percentiles(&[3.0], [50.0, 99.0]), Ok([3.0, 3.0]));
        assert_eq!(percentiles(&[1.0], [0.0]), Err(StatisticsError::Percentile { percent: 0.0 }));
    }

    #[test]
    fn empty_and_infinite_inputs_are_errors() {
        assert_eq!(bootstrap_interval(&[], 0), Err(StatisticsError::Empty));
        assert_eq!(percentiles(&[], [50.0]), Err(StatisticsError::Empty));
        let error = StatisticsError::NotFinite { position: 1, value: f64::INFINITY };
        assert_eq!(randomization_p(&[0.0, f64::INFINITY], 0), Err(error));
    }
}
