//! The cut-off: the last rank of a ranking at which a node still answers the query.
//!
//! A ranking can be cut after any of its first [`MAX_RANK`] ranks, but not between nodes of equal
//! score. Each cut point has features of its rank and of the scores around it. A linear model with
//! a softmax over all points gives their probabilities, and the most probable point is chosen.
//! Source: Bahri et al., *Choppy: Cut Transformer for Ranked List Truncation*, SIGIR 2020, here
//! with six weights instead of a transformer. Features depend only on ranks and scores, so the
//! weights hold for any category.
//!
//! Expected precision and recall are means over training queries with a similar probability.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use agent_kb::NodeId;
use agent_retrieve::End;

/// Maximum rank of a cut; a cut-off at a later rank is unknown.
pub const MAX_RANK: usize = 200;
/// Lower limit of the features `score` and `share`.
const MIN_LOG: f32 = -8.0;
/// Upper limit of the feature `drop`.
const MAX_DROP: f32 = 4.0;

/// Features of a cut point, in this order; logarithms are natural:
///
/// - `score`: logarithm of the ratio of the cut point's score to the first score,
/// - `drop`: logarithm of the ratio of the cut point's score to the next score,
/// - `rank`: logarithm of the cut point's rank,
/// - `rank squared`: square of that logarithm,
/// - `first`: 1 at the first rank, else 0,
/// - `share`: logarithm of the ratio of the sum of the scores up to the cut point to the sum of all
///   scores.
pub const FEATURES: [&str; 6] = ["score", "drop", "rank", "rank squared", "first", "share"];

/// A trained cut-off: weights of [`FEATURES`], and the expected quality of answers that are cut
/// with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cutoff {
    /// Weight by feature name; missing weights are 0.
    pub weights: BTreeMap<String, f32>,
    /// Expected quality for ranges of the cut's probability, ascending; the first range starts at
    /// 0.
    pub expected: Vec<Expected>,
}

/// Expected quality: means over training queries with a similar probability of the cut. Each query
/// was cut with weights that were trained without it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Minimum probability of the cut in this range.
    pub from: f32,
    /// Number of training queries in this range.
    pub n: usize,
    /// Mean precision up to the cut.
    pub precision: f32,
    /// Mean recall up to the cut.
    pub recall: f32,
}

/// A rank after which a ranking can be cut, because the next score is lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutPoint {
    /// The last included rank, from 1.
    pub rank: usize,
    /// Values of the [`FEATURES`], in their order.
    pub features: [f32; FEATURES.len()],
}

/// Returns the cut points of a ranking, by ascending rank up to [`MAX_RANK`]. `O(n)`.
pub fn cut_points(ranking: &[(NodeId, f32)]) -> Vec<CutPoint> {
    let scores: Vec<f32> = ranking.iter().map(|pair| pair.1.max(f32::MIN_POSITIVE)).collect();
    let largest = scores.first().copied().unwrap_or(1.0);
    let total: f32 = scores.iter().map(|score| score / largest).sum();
    let (mut sum, mut cut_points) = (0.0, Vec::new());
    for (at, &score) in scores.iter().take(MAX_RANK).enumerate() {
        sum += score / largest;
        let drop = match scores.get(at + 1) {
            Some(&next) if next >= score => continue,
            Some(&next) => (score / next).ln().min(MAX_DROP),
            None => MAX_DROP,
        };
        let rank = ((at + 1) as f32).ln();
        let strength = (score / largest).ln().max(MIN_LOG);
        let share = (sum / total).ln().max(MIN_LOG);
        let first = if at == 0 { 1.0 } else { 0.0 };
        cut_points.push(CutPoint {
            rank: at + 1,
            features: [strength, drop, rank, rank * rank, first, share],
        });
    }
    cut_points
}

impl Cutoff {
    /// Returns the rank and probability of the most probable cut point, ties by smaller rank;
    /// `None` without cut points.
    pub fn chosen(&self, cut_points: &[CutPoint]) -> Option<(usize, f32)> {
        let weights = FEATURES.map(|name| self.weights.get(name).copied().unwrap_or(0.0));
        let log = |place: &CutPoint| -> f32 {
            place.features.iter().zip(weights).map(|(feature, weight)| feature * weight).sum()
        };
        let logs: Vec<f32> = cut_points.iter().map(log).collect();
        let best = cut_points
            .iter()
            .zip(&logs)
            .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        let all: f32 = logs.iter().map(|log| (log - best.1).exp()).sum();
        Some((best.0.rank, 1.0 / all))
    }

    /// Drops the weights, so that only plain questions have a cut-off.
    pub fn for_plain_questions(self) -> Cutoff {
        Cutoff { weights: BTreeMap::new(), ..self }
    }

    /// Returns the cut-off of a whole ranking. `None` without weights or expected quality, for an
    /// empty ranking, or if the chosen rank is [`MAX_RANK`] and the ranking is longer.
    pub fn end(&self, ranking: &[(NodeId, f32)]) -> Option<End> {
        if self.weights.is_empty() {
            return None;
        }
        let (rank, probability) = self.chosen(&cut_points(ranking))?;
        if rank == MAX_RANK && ranking.len() > MAX_RANK {
            return None;
        }
        let reached = self.expected.partition_point(|expected| expected.from <= probability);
        let expected = self.expected.get(reached.saturating_sub(1))?;
        Some(End { rank, precision: expected.precision, recall: expected.recall })
    }

    /// Returns a cut-off at a known rank, with the expected quality of the most probable cuts;
    /// `None` if this quality is unknown.
    pub fn surest_at(&self, rank: usize) -> Option<End> {
        let expected = self.expected.last()?;
        Some(End { rank, precision: expected.precision, recall: expected.recall })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ends at the largest drop of the score; has two levels of expected quality.
    fn at_drops() -> Cutoff {
        let of = |from, precision| Expected { from, n: 10, precision, recall: 0.5 };
        Cutoff {
            weights: BTreeMap::from([("drop".to_owned(), 4.0)]),
            expected: vec![of(0.0, 0.25), of(0.75, 1.0)],
        }
    }

    fn ranking(scores: &[f32]) -> Vec<(NodeId, f32)> {
        (0..).zip(scores.iter().copied()).collect()
    }

    #[test]
    fn a_clear_drop_ends_the_answer_and_says_how_sure_it_is() {
        let clear = ranking(&[1.0, 0.99, 0.98, 0.1, 0.099, 0.098, 0.0979]);
        let cut_points = cut_points(&clear);
        assert_eq!(cut_points.last().map(|place| place.rank), Some(7));
        assert_eq!(cut_points[6].features[1], MAX_DROP, "behind the last node nothing is left");
        let steep = Cutoff { weights: BTreeMap::from([("drop".to_owned(), 40.0)]), ..at_drops() };
        let without_last = &cut_points[..6];
        assert_eq!(steep.chosen(without_last).map(|chosen| chosen.0), Some(3));
        let longer = (0..300).map(|n| 0.5f32.powi(n / 150) * (1.0 - n as f32 * 1e-4));
        let end = at_drops().end(&ranking(&longer.collect::<Vec<_>>())).unwrap();
        assert_eq!(
            (end.rank, end.precision),
            (150, 0.25),
            "one of 200 places is not that probable"
        );
        let end = at_drops().end(&ranking(&[0.5])).unwrap();
        assert_eq!((end.rank, end.precision, end.recall), (1, 1.0, 0.5));
        let end = at_drops().surest_at(7).unwrap();
        assert_eq!((end.rank, end.precision, end.recall), (7, 1.0, 0.5));
        assert_eq!(Cutoff::default().surest_at(7), None);
    }

    #[test]
    fn nothing_has_no_end_and_equal_scores_are_not_parted() {
        assert_eq!(at_drops().end(&[]), None);
        let ends: Vec<usize> = cut_points(&ranking(&[2.0, 2.0, 1.0, 0.0, 0.0]))
            .iter()
            .map(|place| place.rank)
            .collect();
        assert_eq!(ends, [2, 3, 5]);
        assert_eq!(
            at_drops().end(&ranking(&[1.0; MAX_RANK + 1])),
            None,
            "they go on behind the last"
        );
        assert_eq!(at_drops().end(&ranking(&[1.0; MAX_RANK])).map(|end| end.rank), Some(MAX_RANK));
    }

    proptest! {
        #[test]
        fn an_end_is_a_rank_of_the_ranking(
            mut scores in prop::collection::vec(prop_oneof![0.0f32..1.0, Just(0.0), Just(1e-38)], 1..300),
            weights in prop::collection::vec(-5.0f32..5.0, FEATURES.len()),
        ) {
            scores.sort_by(|a, b| b.total_cmp(a));
            let named = FEATURES.iter().zip(weights).map(|(name, weight)| ((*name).to_owned(), weight));
            let cutoff = Cutoff { weights: named.collect(), ..at_drops() };
            let ranking = ranking(&scores);
            for place in cut_points(&ranking) {
                prop_assert!(place.features.iter().all(|feature| feature.is_finite()), "{place:?}");
            }
            let end = cutoff.end(&ranking);
            prop_assert!(end.is_none_or(|end| (1..=scores.len().min(MAX_RANK)).contains(&end.rank)));
            prop_assert_eq!(end, cutoff.end(&ranking));
        }
    }
}
