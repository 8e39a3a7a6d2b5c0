//! Statistics and statistical tests of columns.
//!
//! The definitions follow SciPy; the unit tests compare the results with those of SciPy. The tests
//! are `shapiro` (Royston 1995, algorithm AS R94), `jarque_bera`, `pearsonr`, `spearmanr`, `levene`
//! with `center="median"` (Brown and Forsythe 1974), `chi2_contingency` without correction,
//! `kruskal` (with correction for ties), and the two-sided F test of two variances.

use statrs::function::{
    beta::checked_beta_reg,
    erf::{erfc, erfc_inv},
    gamma::checked_gamma_ur,
};

/// Maximum sample size of the Shapiro-Wilk test. Larger samples are tested by the Jarque-Bera test,
/// whose p-value is valid only for large samples.
pub const MAX_SHAPIRO: usize = 5_000;
/// Share of cells with an expected count below 5, in `0..=1`, from which the chi-square test is
/// unreliable.
pub const MAX_SPARSE: f64 = 0.2;

/// A statistical test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// Tests whether at most [`MAX_SHAPIRO`] numbers are normally distributed.
    ShapiroWilk,
    /// Tests whether the numbers of a larger sample are normally distributed.
    JarqueBera,
    /// Tests whether two columns of numbers are linearly correlated.
    Pearson,
    /// Tests whether the ranks of two columns of numbers are correlated.
    Spearman,
    /// Tests whether two samples have equal variances.
    F,
    /// Tests whether two or more samples have equal spread around their medians.
    BrownForsythe,
    /// Tests whether two categories are independent.
    ChiSquare,
    /// Tests whether two or more samples have the same distribution.
    KruskalWallis,
}

impl Test {
    /// Returns the name of the test for people, such as "Shapiro-Wilk".
    pub fn name(self) -> &'static str {
        match self {
            Self::ShapiroWilk => "Shapiro-Wilk",
            Self::JarqueBera => "Jarque-Bera",
            Self::Pearson => "Pearson",
            Self::Spearman => "Spearman",
            Self::F => "F",
            Self::BrownForsythe => "Brown-Forsythe",
            Self::ChiSquare => "chi-square",
            Self::KruskalWallis => "Kruskal-Wallis",
        }
    }
}

/// Result of a statistical test.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct TestResult {
    /// The test that was performed.
    pub test: Test,
    /// Sample size: number of numbers, pairs or rows.
    pub n: usize,
    /// The statistic of the test, such as W or the correlation coefficient.
    pub statistic: f64,
    /// The p-value, in `0..=1`; two-sided for correlations and the F test.
    pub p: f64,
}

/// Why a test cannot be performed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsError {
    /// There are too few values.
    #[error("the {test} test needs at least {least} values, but there are {n}")]
    TooFew {
        /// Name of the test.
        test: &'static str,
        /// Minimum number of values.
        least: usize,
        /// Number of values found.
        n: usize,
    },
    /// All values are the same; holds the name of the test.
    #[error("the {0} test needs values that differ, but all are the same")]
    Constant(&'static str),
}

/// Number, mean and variance of a sample that grows, by a numerically stable recurrence (Welford
/// 1962).
#[derive(Clone, Copy, Debug, Default)]
pub struct Moments {
    n: usize,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Computes the moments of a sample.
    pub fn of(numbers: &[f64]) -> Self {
        let mut moments = Self::default();
        numbers.iter().for_each(|&number| moments.add(number));
        moments
    }

    /// Adds a number to the sample.
    pub fn add(&mut self, number: f64) {
        self.n += 1;
        let off = number - self.mean;
        self.mean += off / self.n as f64;
        self.squares += off * (number - self.mean);
    }

    /// Returns the mean; `None` if there are no numbers.
    pub fn mean(&self) -> Option<f64> {
        (self.n > 0).then_some(self.mean)
    }

    /// Returns the sample variance, with divisor `n - 1`; `None` for fewer than two numbers.
    pub fn variance(&self) -> Option<f64> {
        (self.n > 1).then(|| self.squares / (self.n - 1) as f64)
    }

    /// Returns the population variance, with divisor `n`; `None` if there are no numbers.
    pub fn variance_of_all(&self) -> Option<f64> {
        (self.n > 0).then(|| self.squares / self.n as f64)
    }
}

/// Returns the quantile at `share`, in `0..=1`, interpolated between the two nearest numbers.
/// Reorders `numbers`. `None` if there are no numbers, or for a share outside of `0..=1`.
pub fn quantile(numbers: &mut [f64], share: f64) -> Option<f64> {
    if !(0.0..=1.0).contains(&share) {
        return None;
    }
    let at = share * numbers.len().checked_sub(1)? as f64;
    let (_, low, above) = numbers.select_nth_unstable_by(at.floor() as usize, f64::total_cmp);
    let next = above.iter().copied().min_by(f64::total_cmp);
    let high = next.filter(|_| at.fract() > 0.0).unwrap_or(*low);
    Some(*low + (high - *low) * at.fract())
}

/// Tests whether numbers may come from a normal distribution: by the Shapiro-Wilk test for at most
/// [`MAX_SHAPIRO`] numbers, otherwise by the Jarque-Bera test.
///
/// # Errors
/// [`StatisticsError`] for fewer than 3 numbers, or if all are equal.
pub fn normality(numbers: &[f64]) -> Result<TestResult, StatisticsError> {
    if numbers.len() <= MAX_SHAPIRO { shapiro_wilk(numbers) } else { jarque_bera(numbers) }
}

/// Coefficients of the polynomials in Royston 1995, lowest power first.
const C1: [f64; 6] = [0.0, 0.221157, -0.147981, -2.07119, 4.434685, -2.706056];
const C2: [f64; 6] = [0.0, 0.042981, -0.293762, -1.752461, 5.682633, -3.582633];
const C3: [f64; 4] = [0.544, -0.39978, 0.025054, -6.714e-4];
const C4: [f64; 4] = [1.3822, -0.77857, 0.062767, -0.0020322];
const C5: [f64; 4] = [-1.5861, -0.31082, -0.083751, 0.0038915];
const C6: [f64; 3] = [-0.4803, -0.082676, 0.0030302];
const G: [f64; 2] = [-2.273, 0.459];
/// Maximum sample size for which W is transformed to a normal variable by the formula for small
/// samples.
const SMALL: usize = 11;

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Tests by Shapiro and Wilk's W whether 3 to [`MAX_SHAPIRO`] numbers may come from a normal
/// distribution.
///
/// # Errors
/// [`StatisticsError`] for fewer than 3 numbers, or if all are equal.
pub fn shapiro_wilk(numbers: &[f64]) -> Result<TestResult, StatisticsError> {
    let (test, n) = (Test::ShapiroWilk, numbers.len());
    at_least(test, 3, n)?;
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let spread = sorted[n - 1] - sorted[0];
    if spread <= 0.0 {
        return Err(StatisticsError::Constant(test.name()));
    }
    let weights = royston_weights(n);
    let mean = sorted.iter().sum::<f64>() / n as f64;
    // The squared correlation of the numbers with the antisymmetric weights.
    let (mut along, mut squares, mut weighted) = (0.0, 0.0, 0.0);
    for (at, number) in sorted.iter().enumerate() {
        let mirrored = n - 1 - at;
        let weight = match at.cmp(&mirrored) {
            std::cmp::Ordering::Less => -weights[at],
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Greater => weights[mirrored],
        };
        let off = (number - mean) / spread;
        along += weight * off;
        squares += off * off;
        weighted += weight * weight;
    }
    let root = (squares * weighted).sqrt();
    // 1 - W, computed directly to keep precision where W is near 1.
    let rest = (root - along) * (root + along) / (squares * weighted);
    let statistic = 1.0 - rest;
    let p = if n == 3 {
        let third = std::f64::consts::FRAC_PI_3;
        ((6.0 / std::f64::consts::PI) * (statistic.sqrt().asin() - third)).max(0.0)
    } else {
        royston_p(rest, n)
    };
    Ok(TestResult { test, n, statistic, p })
}

/// Returns the weights of the larger half of `n` numbers, from the largest number to the middle.
/// The weights of the smaller half, from the smallest number to the middle, are the same with
/// opposite sign. For odd `n`, the middle number has weight zero.
fn royston_weights(n: usize) -> Vec<f64> {
    let half = n / 2;
    if n == 3 {
        return vec![std::f64::consts::FRAC_1_SQRT_2];
    }
    let expected: Vec<f64> =
        (1..=half).map(|i| normal_quantile((i as f64 - 0.375) / (n as f64 + 0.25))).collect();
    let squares = 2.0 * expected.iter().map(|m| m * m).sum::<f64>();
    let (root, rsn) = (squares.sqrt(), 1.0 / (n as f64).sqrt());
    let first = polynomial(&C1, rsn) - expected[0] / root;
    let mut weights = vec![first];
    let (e0, e1) = (expected[0], expected.get(1).copied().unwrap_or(0.0));
    let scale = if n > 5 {
        let second = polynomial(&C2, rsn) - e1 / root;
        weights.push(second);
        let top = squares - 2.0 * e0 * e0 - 2.0 * e1 * e1;
        (top / (1.0 - 2.0 * first * first - 2.0 * second * second)).sqrt()
    } else {
        ((squares - 2.0 * e0 * e0) / (1.0 - 2.0 * first * first)).sqrt()
    };
    let known = weights.len();
    weights.extend(expected.iter().skip(known).map(|m| -m / scale));
    weights
}

/// Returns the p-value for `rest`, which is `1 - W`, of a sample of `n` numbers, at least 4.
fn royston_p(rest: f64, n: usize) -> f64 {
    let y = rest.ln();
    let (count, log) = (n as f64, (n as f64).ln());
    let (y, mean, deviation) = if n <= SMALL {
        let gamma = polynomial(&G, count);
        if y >= gamma {
            return 1e-99;
        }
        (-(gamma - y).ln(), polynomial(&C3, count), polynomial(&C4, count).exp())
    } else {
        (y, polynomial(&C5, log), polynomial(&C6, log).exp())
    };
    normal_above((y - mean) / deviation)
}

/// Tests by skewness and kurtosis (Jarque and Bera) whether numbers may come from a normal
/// distribution.
///
/// # Errors
/// [`StatisticsError`] for fewer than 3 numbers, or if all are equal.
pub fn jarque_bera(numbers: &[f64]) -> Result<TestResult, StatisticsError> {
    let (test, n) = (Test::JarqueBera, numbers.len());
    at_least(test, 3, n)?;
    let count = n as f64;
    let mean = numbers.iter().sum::<f64>() / count;
    let power = |k: i32| numbers.iter().map(|x| (x - mean).powi(k)).sum::<f64>() / count;
    let variance = power(2);
    if variance <= 0.0 {
        return Err(StatisticsError::Constant(test.name()));
    }
    let skew = power(3) / variance.powf(1.5);
    let kurtosis = power(4) / (variance * variance) - 3.0;
    let statistic = count / 6.0 * (skew * skew + kurtosis * kurtosis / 4.0);
    Ok(TestResult { test, n, statistic, p: chi_square_above(statistic, 2.0) })
}

/// Returns Pearson's correlation coefficient of the pairs `(xs[i], ys[i])`, in `-1..=1`; `None` for
/// fewer than two pairs, or if all `xs` or all `ys` are equal.
pub fn pearson_r(xs: &[f64], ys: &[f64]) -> Option<f64> {
    let n = xs.len().min(ys.len());
    if n < 2 {
        return None;
    }
    let mean = |numbers: &[f64]| numbers.iter().take(n).sum::<f64>() / n as f64;
    let (one_mean, other_mean) = (mean(xs), mean(ys));
    let (mut both, mut one_squares, mut other_squares) = (0.0, 0.0, 0.0);
    for (one, other) in xs.iter().zip(ys) {
        let (one, other) = (one - one_mean, other - other_mean);
        both += one * other;
        one_squares += one * one;
        other_squares += other * other;
    }
    let root = (one_squares * other_squares).sqrt();
    (root > 0.0).then(|| (both / root).clamp(-1.0, 1.0))
}

/// Tests whether `xs` and `ys`, which form pairs, are linearly correlated; the statistic is
/// Pearson's coefficient.
///
/// # Errors
/// [`StatisticsError`] for fewer than 3 pairs, or if all `xs` or all `ys` are equal.
pub fn pearson(xs: &[f64], ys: &[f64]) -> Result<TestResult, StatisticsError> {
    correlation(Test::Pearson, xs, ys)
}

/// Tests whether the ranks of `xs` and `ys`, which form pairs, are correlated; the statistic is
/// Spearman's coefficient. Equal numbers get their mean rank.
///
/// # Errors
/// [`StatisticsError`] for fewer than 3 pairs, or if all `xs` or all `ys` are equal.
pub fn spearman(xs: &[f64], ys: &[f64]) -> Result<TestResult, StatisticsError> {
    correlation(Test::Spearman, &ranks(xs), &ranks(ys))
}

fn correlation(test: Test, xs: &[f64], ys: &[f64]) -> Result<TestResult, StatisticsError> {
    let n = xs.len().min(ys.len());
    at_least(test, 3, n)?;
    let r = pearson_r(xs, ys).ok_or(StatisticsError::Constant(test.name()))?;
    let free = (n - 2) as f64;
    // P(|T| > t) = I_x(free / 2, 1 / 2) with x = free / (free + t^2), which equals 1 - r^2.
    let p = regularised_beta(free / 2.0, 0.5, (1.0 - r) * (1.0 + r));
    Ok(TestResult { test, n, statistic: r, p })
}

/// Returns the rank of each number, in the order of `numbers`; the smallest number has rank 1, and
/// equal numbers get their mean rank.
pub fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&one, &other| numbers[one].total_cmp(&numbers[other]));
    let (mut ranks, mut before) = (vec![0.0; numbers.len()], 0.0);
    for same in order.chunk_by(|&one, &other| numbers[one] == numbers[other]) {
        let rank = before + (same.len() as f64 + 1.0) / 2.0;
        same.iter().for_each(|&at| ranks[at] = rank);
        before += same.len() as f64;
    }
    ranks
}

/// Tests whether two samples have the same variance; the statistic is the variance of `xs` divided
/// by that of `ys`.
///
/// # Errors
/// [`StatisticsError`] for a sample of fewer than 2 numbers, or one whose numbers are all equal.
pub fn f_test(xs: &[f64], ys: &[f64]) -> Result<TestResult, StatisticsError> {
    let test = Test::F;
    let n = xs.len() + ys.len();
    at_least(test, 2, xs.len().min(ys.len()))?;
    let variance = |numbers| Moments::of(numbers).variance().filter(|variance| *variance > 0.0);
    let constant = || StatisticsError::Constant(test.name());
    let statistic = variance(xs).ok_or_else(constant)? / variance(ys).ok_or_else(constant)?;
    let (a, b) = ((xs.len() - 1) as f64, (ys.len() - 1) as f64);
    let above = f_above(statistic, a, b);
    let below = regularised_beta(a / 2.0, b / 2.0, a * statistic / (a * statistic + b));
    Ok(TestResult { test, n, statistic, p: (2.0 * above.min(below)).min(1.0) })
}

/// Tests whether samples have the same spread around their medians; empty samples are ignored.
///
/// # Errors
/// [`StatisticsError`] for fewer than two non-empty samples, if no sample has two numbers, or if
/// there is no spread.
pub fn brown_forsythe(samples: &[Vec<f64>]) -> Result<TestResult, StatisticsError> {
    let test = Test::BrownForsythe;
    let off = |sample: &Vec<f64>| {
        let mut sorted = sample.clone();
        let median = quantile(&mut sorted, 0.5).unwrap_or(0.0);
        sample.iter().map(|number| (number - median).abs()).collect::<Vec<f64>>()
    };
    let distances: Vec<Vec<f64>> =
        samples.iter().filter(|sample| !sample.is_empty()).map(off).collect();
    let n: usize = distances.iter().map(Vec::len).sum();
    at_least(test, 2, distances.len())?;
    at_least(test, distances.len() + 1, n)?;
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let all = distances.iter().flatten().sum::<f64>() / n as f64;
    let (mut between, mut within) = (0.0, 0.0);
    for sample in &distances {
        let own = mean(sample);
        between += sample.len() as f64 * (own - all).powi(2);
        within += sample.iter().map(|number| (number - own).powi(2)).sum::<f64>();
    }
    if within <= 0.0 {
        return Err(StatisticsError::Constant(test.name()));
    }
    let (a, b) = ((distances.len() - 1) as f64, (n - distances.len()) as f64);
    let statistic = b / a * between / within;
    Ok(TestResult { test, n, statistic, p: f_above(statistic, a, b) })
}

/// Tests whether two categories are independent. `counts` has a row for each value of the first
/// category and a column for each value of the second. Each entry is the number of cases with both
/// values.
///
/// # Errors
/// [`StatisticsError`] for fewer than two rows or columns with a non-zero count.
pub fn chi_square(counts: &[Vec<u64>]) -> Result<TestResult, StatisticsError> {
    let test = Test::ChiSquare;
    let width = counts.iter().map(Vec::len).max().unwrap_or(0);
    let at = |row: &Vec<u64>, column: usize| row.get(column).copied().unwrap_or(0) as f64;
    let columns: Vec<f64> =
        (0..width).map(|column| counts.iter().map(|row| at(row, column)).sum()).collect();
    let rows: Vec<f64> = counts.iter().map(|row| row.iter().sum::<u64>() as f64).collect();
    let filled = |sums: &[f64]| sums.iter().filter(|sum| **sum > 0.0).count();
    at_least(test, 2, filled(&rows).min(filled(&columns)))?;
    let n: f64 = rows.iter().sum();
    let mut statistic = 0.0;
    for (row, sum) in counts.iter().zip(&rows) {
        for (column, other) in columns.iter().enumerate() {
            let expected = sum * other / n;
            if expected > 0.0 {
                statistic += (at(row, column) - expected).powi(2) / expected;
            }
        }
    }
    let free = ((filled(&rows) - 1) * (filled(&columns) - 1)) as f64;
    Ok(TestResult { test, n: n as usize, statistic, p: chi_square_above(statistic, free) })
}

/// Tests, by ranks, whether samples have the same distribution; empty samples are ignored.
///
/// # Errors
/// [`StatisticsError`] for fewer than two non-empty samples, or if all numbers are equal.
pub fn kruskal_wallis(samples: &[Vec<f64>]) -> Result<TestResult, StatisticsError> {
    let test = Test::KruskalWallis;
    let filled: Vec<&Vec<f64>> = samples.iter().filter(|sample| !sample.is_empty()).collect();
    at_least(test, 2, filled.len())?;
    let all: Vec<f64> = filled.iter().flat_map(|sample| sample.iter().copied()).collect();
    let (n, ranks) = (all.len() as f64, ranks(&all));
    let mut sorted = all.clone();
    sorted.sort_by(f64::total_cmp);
    let cube = |same: &[f64]| (same.len() as f64).powi(3) - same.len() as f64;
    let ties: f64 = sorted.chunk_by(|one, other| one == other).map(cube).sum();
    let correction = 1.0 - ties / (n.powi(3) - n);
    if correction <= 0.0 || !correction.is_finite() {
        return Err(StatisticsError::Constant(test.name()));
    }
    let (mut sum, mut at) = (0.0, 0);
    for sample in &filled {
        let own: f64 = ranks[at..at + sample.len()].iter().sum();
        at += sample.len();
        sum += own * own / sample.len() as f64;
    }
    let statistic = (12.0 / (n * (n + 1.0)) * sum - 3.0 * (n + 1.0)) / correction;
    let p = chi_square_above(statistic, (filled.len() - 1) as f64);
    Ok(TestResult { test, n: all.len(), statistic, p })
}

fn at_least(test: Test, least: usize, n: usize) -> Result<(), StatisticsError> {
    if n < least {
        return Err(StatisticsError::TooFew { test: test.name(), least, n });
    }
    Ok(())
}

/// Returns the regularised incomplete beta function `I_x(a, b)`; `x` is limited to `0..=1`. NaN
/// where it is undefined.
fn regularised_beta(a: f64, b: f64, x: f64) -> f64 {
    checked_beta_reg(a, b, x.clamp(0.0, 1.0)).unwrap_or(f64::NAN)
}

/// Returns the probability of more than `value` in the F distribution with `a` and `b` degrees of
/// freedom.
fn f_above(value: f64, a: f64, b: f64) -> f64 {
    if value <= 0.0 { 1.0 } else { regularised_beta(b / 2.0, a / 2.0, b / (b + a * value)) }
}

/// Returns the probability of more than `value` in the chi-square distribution with `free` degrees
/// of freedom.
fn chi_square_above(value: f64, free: f64) -> f64 {
    if value <= 0.0 { 1.0 } else { checked_gamma_ur(free / 2.0, value / 2.0).unwrap_or(f64::NAN) }
}

/// Returns the probability of more than `value` in the standard normal distribution.
fn normal_above(value: f64) -> f64 {
    0.5 * erfc(value / std::f64::consts::SQRT_2)
}

/// Returns the value below which a share `p` of the standard normal distribution lies.
fn normal_quantile(p: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * p)
}
