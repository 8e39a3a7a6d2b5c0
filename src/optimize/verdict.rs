//! Is the bundle better than what needs no program at all? Its answers against those of every
//! baseline, on the same validation queries. Must not know how either came about.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::trial::mean;
use agent_retrieve::eval::{
    Interval,
    statistics::{StatisticsError, bootstrap_interval, holm, randomization_p},
};

/// The p below which a difference is no chance.
pub const LEVEL: f64 = 0.05;
/// Standard errors that a mean must be above 0 by to be told from chance, two-sided at [`LEVEL`].
const ERRORS: f64 = 1.96;
/// More queries than this are not said to be needed.
const MOST_NEEDED: f64 = 1e6;

/// The bundle against the baseline that is best on the validation queries.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What follows from the numbers below.
    pub standing: Standing,
    /// Validation queries.
    pub n: usize,
    /// Mean reciprocal rank of the bundle.
    pub mrr: f64,
    /// 95 % interval of it.
    pub ci95: Interval,
    /// The best baseline, ties to the first by name.
    pub baseline: String,
    /// Its mean reciprocal rank.
    pub baseline_mrr: f64,
    /// Bundle less baseline.
    pub difference: f64,
    /// 95 % interval of the difference, paired.
    pub difference_ci95: Interval,
    /// Of the paired randomisation test, corrected for the number of baselines (Holm 1979).
    pub p: f64,
    /// About how many more such queries would tell the difference from chance; none when the
    /// bundle is not above the baseline, 0 when it is told already.
    pub needed: Option<usize>,
}

/// What the validation queries say of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Better than the best baseline, by more than chance.
    Better,
    /// Better on these queries, which may be chance.
    Unproven,
    /// Not better than the best baseline.
    NotBetter,
}

impl Verdict {
    /// Compares reciprocal ranks of the bundle with those of every baseline, by query in one order.
    ///
    /// # Errors
    /// That there are no queries or no baselines.
    pub(super) fn new(
        ranks: &[f32],
        baselines: &BTreeMap<&'static str, Vec<f32>>,
        seed: u64,
    ) -> Result<Verdict, StatisticsError> {
        let less = |other: &Vec<f32>| -> Vec<f64> {
            ranks.iter().zip(other).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect()
        };
        let differences: Vec<Vec<f64>> = baselines.values().map(less).collect();
        let p_values = differences.iter().map(|of| randomization_p(of, seed));
        let p_values = holm(&p_values.collect::<Result<Vec<f64>, _>>()?)?;
        let best = baselines
            .iter()
            .zip(differences.iter().zip(p_values))
            .map(|((&name, ranks), of)| (name, mean(ranks), of))
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        let (baseline, baseline_mrr, (differences, p)) = best.ok_or(StatisticsError::Empty)?;
        let values: Vec<f64> = ranks.iter().map(|&rank| f64::from(rank)).collect();
        let difference = mean(ranks) - baseline_mrr;
        let standing = match (difference > 0.0, p < LEVEL) {
            (false, _) => Standing::NotBetter,
            (true, true) => Standing::Better,
            (true, false) => Standing::Unproven,
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

/// How many more values like these would put their mean [`ERRORS`] standard errors above 0; none
/// when it is not above 0, or when so many are enough already.
fn needed(values: &[f64]) -> Option<usize> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    if mean <= 0.0 {
        return None;
    }
    let variance =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let more = (ERRORS * ERRORS * variance / (mean * mean) - n).ceil();
    (1.0..MOST_NEEDED).contains(&more).then_some(more as usize)
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
    fn what_may_be_chance_says_how_many_queries_would_tell() {
        let unsure = verdict(&[1.0, 0.0, 1.0], [("bm25", &[0.5, 0.0, 1.0]), ("dense", &[0.0; 3])]);
        assert_eq!(unsure.standing, Standing::Unproven);
        // The mean is 1/6 and the variance 1/12, so that 11.5 queries in all are enough.
        assert_eq!(unsure.needed, Some(9));
        assert_eq!(needed(&[-1.0, 0.0]), None);
    }
}
