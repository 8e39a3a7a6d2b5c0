//! Where an answer ends: behind which rank of a ranking the nodes answer the query no more.
//!
//! A ranking may end at any of its first ranks, but never between nodes of equal score: those are
//! answers together or not at all. Each such place is described by the scores before and behind it
//! and by its rank; a linear model over these signs gives every place a probability by a softmax
//! over all of them, and the most probable one is the end (ranked list truncation as a choice among
//! places: Bahri et al., *Choppy: Cut Transformer for Ranked List Truncation*, SIGIR 2020, with six
//! weights for a transformer). The signs look at scores alone, so they hold for any category.
//!
//! How good the nodes up to an end are is not computed but remembered: what precision and recall
//! were on training queries whose end was about as probable.
//!
//! Must not know: how weights are found, what programs do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use agent_kb::NodeId;
use agent_retrieve::End;

/// Ranks at which an answer may end; one that goes on behind them has no known end.
pub const MOST: usize = 200;
/// Logarithm below which a share is not told apart from zero.
const LEAST_LOG: f32 = -8.0;
/// Drop of the score, in logarithms, from which a larger one says no more.
const MOST_DROP: f32 = 4.0;

/// The signs of one place, in this order: logarithm of the score over the first one; of the score
/// over the next one; of the rank; its square; whether it is the first rank; logarithm of the share
/// that the scores up to it have of all.
pub const SIGNS: [&str; 6] = ["score", "drop", "rank", "rank squared", "first", "share"];

/// Weights of [`SIGNS`], and how good answers were that ended by them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cutoff {
    /// Weight by name of the sign; what has none counts 0.
    pub weights: BTreeMap<String, f32>,
    /// By ascending probability of the end; the first holds from 0 on.
    pub expected: Vec<Expected>,
}

/// How good the answers to training queries were whose end was so probable, cut by weights that
/// were learnt without them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Probability of the end from which this holds.
    pub from: f32,
    /// Training queries.
    pub n: usize,
    /// Their mean precision up to the end.
    pub precision: f32,
    /// Their mean recall up to the end.
    pub recall: f32,
}

/// A place at which an answer may end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The last rank that would be an answer, from 1.
    pub rank: usize,
    /// One number for each of [`SIGNS`].
    pub signs: [f32; SIGNS.len()],
}

/// The places at which a ranking may end, by ascending rank, at most [`MOST`]. `O(n)`.
pub fn places(ranking: &[(NodeId, f32)]) -> Vec<Place> {
    let scores: Vec<f32> = ranking.iter().map(|pair| pair.1.max(f32::MIN_POSITIVE)).collect();
    let largest = scores.first().copied().unwrap_or(1.0);
    let total: f32 = scores.iter().map(|score| score / largest).sum();
    let (mut sum, mut places) = (0.0, Vec::new());
    for (at, &score) in scores.iter().take(MOST).enumerate() {
        sum += score / largest;
        let drop = match scores.get(at + 1) {
            Some(&next) if next >= score => continue,
            Some(&next) => (score / next).ln().min(MOST_DROP),
            None => MOST_DROP,
        };
        let rank = ((at + 1) as f32).ln();
        let strength = (score / largest).ln().max(LEAST_LOG);
        let share = (sum / total).ln().max(LEAST_LOG);
        let first = if at == 0 { 1.0 } else { 0.0 };
        places
            .push(Place { rank: at + 1, signs: [strength, drop, rank, rank * rank, first, share] });
    }
    places
}

impl Cutoff {
    /// The most probable of some places, the first of equals, with its probability; none without
    /// places.
    pub fn chosen(&self, places: &[Place]) -> Option<(usize, f32)> {
        let weights = SIGNS.map(|name| self.weights.get(name).copied().unwrap_or(0.0));
        let log = |place: &Place| -> f32 {
            place.signs.iter().zip(weights).map(|(sign, weight)| sign * weight).sum()
        };
        let logs: Vec<f32> = places.iter().map(log).collect();
        let best = places
            .iter()
            .zip(&logs)
            .reduce(|best, next| if next.1 > best.1 { next } else { best })?;
        let all: f32 = logs.iter().map(|log| (log - best.1).exp()).sum();
        Some((best.0.rank, 1.0 / all))
    }

    /// The same without weights: scores tell no end, plain questions do.
    pub fn for_plain_questions(self) -> Cutoff {
        Cutoff { weights: BTreeMap::new(), ..self }
    }

    /// Where a whole ranking ends; none if it is empty or goes on behind the first [`MOST`] ranks,
    /// or without weights.
    pub fn end(&self, ranking: &[(NodeId, f32)]) -> Option<End> {
        if self.weights.is_empty() {
            return None;
        }
        let (rank, probability) = self.chosen(&places(ranking))?;
        if rank == MOST && ranking.len() > MOST {
            return None;
        }
        let reached = self.expected.partition_point(|expected| expected.from <= probability);
        let expected = self.expected.get(reached.saturating_sub(1))?;
        Some(End { rank, precision: expected.precision, recall: expected.recall })
    }

    /// An end that scores need not tell, as good as those that they tell most surely; none if
    /// nothing is known of these.
    pub fn surest_at(&self, rank: usize) -> Option<End> {
        let expected = self.expected.last()?;
        Some(End { rank, precision: expected.precision, recall: expected.recall })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Ends where the score drops most, and knows two degrees of sureness.
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
        let places = places(&clear);
        assert_eq!(places.last().map(|place| place.rank), Some(7));
        assert_eq!(places[6].signs[1], MOST_DROP, "behind the last node nothing is left");
        let steep = Cutoff { weights: BTreeMap::from([("drop".to_owned(), 40.0)]), ..at_drops() };
        let without_last = &places[..6];
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
        let told = at_drops().surest_at(7).unwrap();
        assert_eq!((told.rank, told.precision, told.recall), (7, 1.0, 0.5));
        assert_eq!(Cutoff::default().surest_at(7), None);
    }

    #[test]
    fn nothing_has_no_end_and_equal_scores_are_not_parted() {
        assert_eq!(at_drops().end(&[]), None);
        let ends: Vec<usize> =
            places(&ranking(&[2.0, 2.0, 1.0, 0.0, 0.0])).iter().map(|place| place.rank).collect();
        assert_eq!(ends, [2, 3, 5]);
        assert_eq!(at_drops().end(&ranking(&[1.0; MOST + 1])), None, "they go on behind the last");
        assert_eq!(at_drops().end(&ranking(&[1.0; MOST])).map(|end| end.rank), Some(MOST));
    }

    proptest! {
        #[test]
        fn an_end_is_a_rank_of_the_ranking(
            mut scores in prop::collection::vec(prop_oneof![0.0f32..1.0, Just(0.0), Just(1e-38)], 1..300),
            weights in prop::collection::vec(-5.0f32..5.0, SIGNS.len()),
        ) {
            scores.sort_by(|a, b| b.total_cmp(a));
            let named = SIGNS.iter().zip(weights).map(|(name, weight)| ((*name).to_owned(), weight));
            let cutoff = Cutoff { weights: named.collect(), ..at_drops() };
            let ranking = ranking(&scores);
            for place in places(&ranking) {
                prop_assert!(place.signs.iter().all(|sign| sign.is_finite()), "{place:?}");
            }
            let end = cutoff.end(&ranking);
            prop_assert!(end.is_none_or(|end| (1..=scores.len().min(MOST)).contains(&end.rank)));
            prop_assert_eq!(end, cutoff.end(&ranking));
        }
    }
}
