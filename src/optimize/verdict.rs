//! Compares a bundle with every baseline on the same validation queries.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trial::{differences, largest, mean};
use agent_retrieve::eval::{
    Interval,
    statistics::{StatisticsError, bootstrap_interval, holm, randomization_p},
};

/// Significance level of the comparison of a bundle with the best baseline.
pub const LEVEL: f64 = 0.05;
/// A mean this many standard errors above 0 is significant, in a two-sided test at [`LEVEL`].
const STANDARD_ERRORS: f64 = 1.96;
/// Estimates of needed further queries at or above this number are not reported.
const MAX_NEEDED: f64 = 1e6;

/// Comparison of the bundle with the best baseline on validation queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether the bundle is better than the best baseline.
    pub standing: Standing,
    /// Number of validation queries.
    pub n: usize,
    /// Mean reciprocal rank of the bundle on these queries.
    pub mrr: f64,
    /// 95 % interval of this mean reciprocal rank.
    pub ci95: Interval,
    /// Name of the baseline with the highest mean reciprocal rank; ties go to the alphabetically
    /// first.
    pub baseline: String,
    /// Mean reciprocal rank of this baseline on the same queries.
    pub baseline_mrr: f64,
    /// Mean reciprocal rank of the bundle minus that of the baseline.
    pub difference: f64,
    /// 95 % interval of this difference, computed from the differences per query.
    pub difference_ci95: Interval,
    /// Two-sided p-value of the paired randomisation test of this difference, corrected for the
    /// number of baselines (Holm 1979).
    pub p: f64,
    /// Estimated number of further queries like these until the difference is significant; 0 if the
    /// difference is significant already. `None` if the bundle is not better than the baseline, or
    /// there is no useful estimate.
    pub needed: Option<usize>,
}

/// Conclusion of the comparison of a bundle with the best baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Significantly better than the best baseline.
    Better,
    /// Not significantly better than the best baseline, and not clearly worse either: less than one
    /// standard error below it.
    Unproven,
    /// At least one standard error below the best baseline, or equal to it on every query.
    NotBetter,
}

impl Verdict {
    /// Compares the reciprocal ranks of the bundle with those of every baseline, which are given by
    /// name. All lists have the same order of queries.
    ///
    /// # Errors
    /// If there are no queries or no baselines.
    pub(super) fn new(
        ranks: &[f32],
        baselines: &BTreeMap<&'static str, Vec<f32>>,
        seed: u64,
    ) -> Result<Verdict, StatisticsError> {
        let differences: Vec<Vec<f64>> =
            baselines.values().map(|other| differences(ranks, other)).collect();
        let p_values = differences.iter().map(|differences| randomization_p(differences, seed));
        let p_values = holm(&p_values.collect::<Result<Vec<f64>, _>>()?)?;
        let tested = baselines.iter().zip(differences.iter().zip(p_values));
        let best = largest(tested.map(|((name, ranks), test)| (mean(ranks), (*name, test))));
        let (baseline_mrr, (baseline, (differences, p))) = best.ok_or(StatisticsError::Empty)?;
        let values: Vec<f64> = ranks.iter().map(|&rank| f64::from(rank)).collect();
        let difference = mean(ranks) - baseline_mrr;
        let standing = match (difference > 0.0, p < LEVEL) {
            (true, true) => Standing::Better,
            _ if difference > -standard_error(differences) => Standing::Unproven,
            _ => Standing::NotBetter,
        };
        Ok(Verdict {
            standing,
            n: ranks.len(),
            mrr: mean(ranks),
            ci95: bootstrap_interval(&values, seed)?,
            baseline: baseline.to_owned(),
            baseline_mrr,
            difference,
            difference_ci95: bootstrap_interval(differences, seed)?,
            p,
            needed: match standing {
                Standing::Better => Some(0),
                Standing::Unproven => needed(differences),
                Standing::NotBetter => None,
            },
        })
    }
}

/// Estimates how many further values like these would put their mean [`STANDARD_ERRORS`] standard
/// errors above 0; `None` if the mean is not above 0, the values already suffice, or a million or
/// more would be needed.
fn needed(values: &[f64]) -> Option<usize> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if mean <= 0.0 {
        return None;
    }
    let more = n * (STANDARD_ERRORS * standard_error(values) / mean).powi(2) - n;
    (1.0..MAX_NEEDED).contains(&more.ceil()).then_some(more.ceil() as usize)
}

/// Returns the standard error of the mean of values; 0 for a single value.
fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (n - 1.0).max(1.0) / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(ranks: &[f32], baselines: [(&'static str, &[f32]); 2]) -> Verdict {
        let baselines = baselines.into_iter().map(|(name, ranks)| (name, ranks.to_vec()));
        Verdict::new(ranks, &baselines.collect(), 1).unwrap()
    }

    #[test]
    fn a_bundle_is_held_against_the_best_baseline_with_p_for_all_of_them() {
        let [good, bad] = [vec![1.0_f32; 12], vec![0.25_f32; 12]];
        let better = verdict(&good, [("bm25", &bad), ("dense", &[0.5; 12])]);
        assert_eq!((better.standing, better.baseline.as_str()), (Standing::Better, "dense"));
        assert_eq!((better.n, better.difference, better.needed), (12, 0.5, Some(0)));
        // The exact p of twelve equal differences is 2 in 4,096, and there are two baselines.
        assert!((better.p - 2.0 * 2.0 / 4096.0).abs() < 1e-12, "{}", better.p);
        let worse = verdict(&bad, [("bm25", &good), ("dense", &bad)]);
        assert_eq!((worse.standing, worse.needed), (Standing::NotBetter, None));
        let same = verdict(&bad, [("bm25", &bad), ("dense", &bad)]);
        assert_eq!((same.standing, same.p), (Standing::NotBetter, 1.0));
    }

    #[test]
    fn a_baseline_is_better_if_it_is_a_standard_error_ahead() {
        // The mean difference is first -0.17 with a standard error of 0.27, then -0.42 with 0.19.
        let ranks = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
        let standing = |other: &[f32]| {
            let verdict = verdict(&ranks, [("bm25", other), ("dense", &[0.0; 12])]);
            (verdict.difference < 0.0, verdict.standing)
        };
        let mut other = ranks.map(|rank| 1.0 - rank);
        (other[0], other[2]) = (1.0, 1.0);
        assert_eq!(standing(&other), (true, Standing::Unproven));
        (other[4], other[6], other[8]) = (1.0, 1.0, 1.0);
        assert_eq!(standing(&other), (true, Standing::NotBetter));
    }

    #[test]
    fn what_may_be_chance_says_how_many_queries_would_tell() {
        let unsure = verdict(&[1.0, 0.0, 1.0], [("bm25", &[0.5, 0.0, 1.0]), ("dense", &[0.0; 3])]);
        assert_eq!(unsure.standing, Standing::Unproven);
        // The mean is 1/6 and the variance 1/12, so that 11.5 queries in all are enough.
        assert_eq!(unsure.needed, Some(9));
        assert_eq!(needed(&[-1.0, 0.0]), None);
    }
}
