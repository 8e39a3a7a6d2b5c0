//! E-values of program changes: bets against the null hypothesis that a change does not help.
//!
//! The null hypothesis is that the mean difference of reciprocal ranks, new minus old, is at most
//! 0. A gambler starts with a capital of 1 and stakes the same share of it on each difference `d`
//! in `[-1, 1]`: the capital is multiplied by `1 + share * d`. Under the null hypothesis the
//! expected capital does not grow, for any distribution and stopping time, so the probability that
//! it ever reaches `1 / level` is at most `level` (Ville 1939). The e-value is the mean capital of
//! gamblers with shares from near 0 to near 1, which needs no assumption about the size or
//! frequency of differences: the diversified bet of Waudby-Smith & Ramdas, *Estimating means of
//! bounded random variables by betting*, JRSS B 2024. The e-value does not depend on the order of
//! the differences.
//!
//! A sequential test tests all changes together, then each change alone. Each kind of hypothesis
//! gets a part of the test's error rate. Single changes are tested by the closed procedure with
//! means: a change is proven if, for every subset of the other changes, the mean of its capital and
//! the capitals of the subset is large enough. The probability of proving a change that does not
//! help stays below the part for single changes, however the capitals depend on each other (Vovk &
//! Wang, *E-values: calibration, combination and applications*, Annals of Statistics 2021).

/// Maximum probability that a whole run proves a change that does not help.
pub const ERROR_RATE: f64 = 0.2;
/// Share of the remaining error rate that each sequential test of a run uses. Nearly every run has
/// only one test.
const TEST_SHARE: f64 = 0.9;
/// Share of a sequential test's level that is used to test all changes together; the rest is for
/// single changes.
const TOGETHER_SHARE: f64 = 2.0 / 3.0;
/// Number of gamblers. The shares of their capital that they stake are the midpoints of equal parts
/// of `[0, 1]`.
const GAMBLERS: usize = 20;
/// Upper limit of a gambler's capital, so that the capital stays finite.
const MAX_CAPITAL: f64 = 1e300;
/// Estimates of needed further queries at or above this number are not reported.
const MAX_NEEDED: f64 = 1e6;

/// Significance levels of a sequential test: a change is proven at a level if its e-value is at
/// least `1 / level`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Significance level for all changes together.
    pub together: f64,
    /// Significance level for single changes, whose e-values [`each_alone`] returns.
    pub each: f64,
}

impl Levels {
    /// Returns the significance levels of the `test`-th sequential test of a run, counted from 1.
    /// The levels of any number of tests of a run add up to at most [`ERROR_RATE`].
    pub fn for_test(test: usize) -> Self {
        let left = (1..test).fold(ERROR_RATE, |left, _| left * (1.0 - TEST_SHARE));
        let level = left * TEST_SHARE;
        Self { together: level * TOGETHER_SHARE, each: level * (1.0 - TOGETHER_SHARE) }
    }
}

/// Returns the e-value of each single change by the closed procedure: the smallest mean, over all
/// subsets of the other changes, of the change's own capital and the capitals of the subset.
/// `capitals` has one capital per change, and the result the same order. Takes O(n² log n) time for
/// n changes.
pub fn each_alone(capitals: &[f64]) -> Vec<f64> {
    let alone = |at: usize| {
        let mut others: Vec<f64> = capitals.to_vec();
        let own = others.swap_remove(at);
        others.sort_by(f64::total_cmp);
        let (mut sum, mut least) = (own, own);
        for (n, other) in others.into_iter().enumerate() {
            sum += other;
            least = least.min(sum / (n + 2) as f64);
        }
        least
    };
    (0..capitals.len()).map(alone).collect()
}

/// E-value of a change against the null hypothesis that the mean difference of reciprocal ranks,
/// new minus old, is at most 0.
#[derive(Clone, Debug, PartialEq)]
pub struct EValue {
    capitals: [f64; GAMBLERS],
    differences: Vec<f64>,
}

impl Default for EValue {
    fn default() -> Self {
        Self { capitals: [1.0; GAMBLERS], differences: Vec::new() }
    }
}

fn share(gambler: usize) -> f64 {
    (gambler as f64 + 0.5) / GAMBLERS as f64
}

impl EValue {
    /// Computes the e-value of differences of reciprocal ranks, new minus old, one per query.
    pub fn from_differences(differences: &[f64]) -> Self {
        let mut e_value = Self::default();
        differences.iter().for_each(|&difference| e_value.add(difference));
        e_value
    }

    /// Bets on one further difference of reciprocal ranks, clamped to `[-1, 1]`.
    pub fn add(&mut self, difference: f64) {
        let difference = difference.clamp(-1.0, 1.0);
        for (gambler, capital) in self.capitals.iter_mut().enumerate() {
            *capital = (*capital * (1.0 + share(gambler) * difference)).min(MAX_CAPITAL);
        }
        self.differences.push(difference);
    }

    /// Returns the e-value, the mean capital of the gamblers: 1 without differences, above 1 if the
    /// differences indicate an improvement.
    pub fn e(&self) -> f64 {
        self.capitals.iter().sum::<f64>() / GAMBLERS as f64
    }

    /// Returns the number of differences that were bet on.
    pub fn n(&self) -> usize {
        self.differences.len()
    }

    /// Returns the mean difference of reciprocal ranks, new minus old; 0 without differences.
    pub fn difference(&self) -> f64 {
        // An empty sum is -0.
        (self.differences.iter().sum::<f64>() + 0.0) / self.n().max(1) as f64
    }

    /// Whether an improvement is proven at a significance level: the e-value is at least `1 /
    /// level`.
    pub fn proves(&self, level: f64) -> bool {
        self.e() * level >= 1.0
    }

    /// Whether an improvement is proven at a significance level now, or would be after the first
    /// few, or all, of the differences in `to_come`.
    pub fn could_prove(&self, level: f64, to_come: &[f64]) -> bool {
        let mut best = self.clone();
        for &difference in to_come {
            if best.proves(level) {
                return true;
            }
            best.add(difference);
        }
        best.proves(level)
    }

    /// Estimates how many further queries with differences like these would prove an improvement at
    /// a significance level: 0 if the improvement is proven already. `None` if no gambler's capital
    /// grows on these differences, or if the estimate is a million or more.
    pub fn needed(&self, level: f64) -> Option<usize> {
        if self.proves(level) {
            return Some(0);
        }
        if self.difference() <= 0.0 {
            return None;
        }
        let growth = |gambler: usize| {
            let logs = self.differences.iter().map(|d| (share(gambler) * d).ln_1p());
            logs.sum::<f64>() / self.n() as f64
        };
        let needed = (0..GAMBLERS)
            .filter_map(|gambler| {
                let growth = growth(gambler);
                let target = (GAMBLERS as f64 / level).ln() - self.capitals.get(gambler)?.ln();
                (growth > 0.0).then(|| (target / growth).ceil())
            })
            .fold(f64::INFINITY, f64::min);
        (needed < MAX_NEEDED).then(|| needed.max(1.0) as usize)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Returns the share of simulated runs in which a change is proven. A run has `n_tests` tests
    /// of `n` differences from `draw`, with a check after every difference.
    fn proven(
        n_runs: usize,
        n_tests: usize,
        n: usize,
        draw: impl Fn(&mut ChaCha8Rng) -> f64,
    ) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut any = 0;
        for _ in 0..n_runs {
            let mut proven = false;
            for test in 1..=n_tests {
                let mut e_value = EValue::default();
                for _ in 0..n {
                    e_value.add(draw(&mut rng));
                    proven |= e_value.proves(Levels::for_test(test).together);
                }
            }
            any += usize::from(proven);
        }
        any as f64 / n_runs as f64
    }

    #[test]
    fn false_proofs_stay_below_the_error_rate() {
        // Few large differences, many small ones, and rare losses that make up for frequent gains.
        let signs = |rng: &mut ChaCha8Rng| if rng.random::<bool>() { 1.0 } else { -1.0 };
        let sparse = |rng: &mut ChaCha8Rng| match rng.random_range(0..10) {
            0 => 0.5,
            1 => -0.5,
            _ => 0.0,
        };
        let skewed = |rng: &mut ChaCha8Rng| if rng.random_range(0..10) > 0 { 0.1 } else { -0.9 };
        for share in [
            proven(10_000, 2, 60, signs),
            proven(10_000, 2, 60, sparse),
            proven(10_000, 2, 60, skewed),
        ] {
            assert!(share <= ERROR_RATE, "{share}");
        }
    }

    #[test]
    fn improvements_are_proven() {
        let helps = |rng: &mut ChaCha8Rng| match rng.random_range(0..10) {
            0..3 => 0.5,
            3 => -0.5,
            _ => 0.0,
        };
        let share = proven(1_000, 1, 200, helps);
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn an_e_value_does_not_depend_on_the_order_and_is_known_in_small_cases() {
        assert_eq!(EValue::default().e(), 1.0);
        // The mean of 1 + share is 1.5, of (1 + share)(1 - share) just above 2 / 3.
        assert!((EValue::from_differences(&[1.0]).e() - 1.5).abs() < 1e-12);
        assert!((EValue::from_differences(&[1.0, -1.0]).e() - 2.0 / 3.0).abs() < 1e-3);
        let there = EValue::from_differences(&[0.5, -0.25, 0.0, 1.0]).e();
        let back = EValue::from_differences(&[1.0, 0.0, -0.25, 0.5]).e();
        assert!((there - back).abs() < 1e-12);
        assert_eq!(EValue::from_differences(&[7.0]), EValue::from_differences(&[1.0]));
    }

    #[test]
    fn levels_add_up_to_the_error_rate() {
        let levels = |test| {
            let Levels { together, each } = Levels::for_test(test);
            together + each
        };
        let sum: f64 = (1..50).map(levels).sum();
        assert!(sum <= ERROR_RATE + 1e-12 && sum > 0.99 * ERROR_RATE, "{sum}");
    }

    #[test]
    fn the_closed_test_includes_failed_changes() {
        let near = |found: Vec<f64>, expected: &[f64]| {
            assert_eq!(found.len(), expected.len());
            let pairs = found.iter().zip(expected);
            assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        };
        near(each_alone(&[30.0]), &[30.0]);
        near(each_alone(&[30.0, 0.0]), &[15.0, 0.0]);
        near(each_alone(&[30.0, 60.0, 0.0]), &[15.0, 30.0, 0.0]);
        near(each_alone(&[2.0, 8.0, 5.0]), &[2.0, 5.0, 3.5]);
        near(each_alone(&[]), &[]);
    }

    #[test]
    fn false_proofs_of_single_changes_stay_below_their_level() {
        let mut rng = ChaCha8Rng::seed_from_u64(6);
        let (level, runs) = (Levels::for_test(1).each, 10_000);
        let mut any = 0;
        for _ in 0..runs {
            // The first helps, the others do not; a false claim is about one of these.
            let mut capital = |up: f64| {
                let mut e_value = EValue::default();
                (0..20).for_each(|_| {
                    e_value.add(if rng.random::<f64>() < up { 1.0 } else { -1.0 });
                });
                e_value.e()
            };
            let capitals = [capital(0.9), capital(0.5), capital(0.5), capital(0.5)];
            let proven = each_alone(&capitals).into_iter().skip(1).any(|e| e * level >= 1.0);
            any += usize::from(proven);
        }
        assert!(f64::from(any as u32) / f64::from(runs) <= level, "{any} of {runs}");
    }

    #[test]
    fn needed_differences_prove_an_improvement() {
        let differences = [0.5, 0.0, -0.1, 0.4];
        let mut e_value = EValue::from_differences(&differences);
        let needed = e_value.needed(0.05).unwrap();
        assert!((8..60).contains(&needed), "{needed}");
        for at in 0..needed + differences.len() {
            e_value.add(differences[at % differences.len()]);
        }
        assert_eq!(e_value.needed(0.05), Some(0));
        assert_eq!(EValue::from_differences(&[0.5, -0.5]).needed(0.05), None);
        assert_eq!(EValue::default().needed(0.05), None);
        assert!(!EValue::default().could_prove(0.05, &[1.0; 4]));
        assert!(EValue::default().could_prove(0.05, &[1.0; 8]));
    }
}
