//! Trains the cut-off, which chooses the rank at which a query's ranking ends.
//!
//! For one query, the expected F1 is the mean F1 over cut points, weighted by their probabilities.
//! The objective is the mean over queries of the logarithm of the expected F1, minus an L2 penalty.
//! This is the reward of Choppy (Bahri et al., SIGIR 2020) with F1 for every cut point. The weights
//! start at zero.
//!
//! Expected precision and recall come from cross-validation: each query's ranking is cut by weights
//! that were trained without this query. The router and the re-ranker that made this ranking must
//! also be trained without the query; otherwise its scores drop more sharply after the answers than
//! the scores of new queries do.

use rayon::prelude::*;

use crate::softmax::{add, dot, fit, powers};
use agent_infer::bundle::cutoff::{CutPoint, Cutoff, Expected, FEATURES, MAX_RANK, cut_points};
use agent_kb::NodeId;
use agent_retrieve::{
    Ranking,
    eval::{SetMetrics, sets::f1_by_end},
};

/// Minimum number of training queries with an answer in their ranking; with fewer, no cut-off is
/// trained.
const MIN_QUERIES: usize = 20;
/// Number of folds of the cross-validation that estimates precision and recall.
pub(super) const FOLDS: usize = 5;
/// Number of groups into which queries are divided by the probability of their chosen rank.
/// Expected precision and recall are means over a group.
const GROUPS: usize = 5;
/// Minimum number of queries of a group; means over fewer queries are too noisy.
const MIN_GROUP: usize = 20;
/// Factor of the L2 penalty on every weight.
const RIDGE: f64 = 1e-3;
/// Constant that is added to every F1, so that queries without a good cut point do not dominate.
const FLOOR: f64 = 0.02;

/// One value per feature of a cut point, in the order of [`FEATURES`].
type Row = [f64; FEATURES.len()];

/// Training data of one query: the cut points of its ranking with the F1 of each.
struct Lesson {
    cut_points: Vec<CutPoint>,
    /// F1 of the ranking, cut at each cut point.
    worth: Vec<f64>,
}

impl Lesson {
    fn new(ranking: &Ranking, answers: &[NodeId]) -> Self {
        let (cut_points, f1) = (cut_points(ranking), f1_by_end(ranking, answers, MAX_RANK));
        let worth = cut_points.iter().map(|place| f1.get(place.rank - 1).copied().unwrap_or(0.0));
        let worth = worth.collect();
        Self { cut_points, worth }
    }

    /// Whether any cut point has a positive F1; other queries are not used for training.
    fn teaches(&self) -> bool {
        self.worth.iter().any(|&worth| worth > 0.0)
    }

    /// Returns the gradient, with respect to the weights, of the logarithm of the query's expected
    /// F1.
    fn gradient(&self, weights: &Row) -> Row {
        let logs = self.cut_points.iter().map(|place| dot(&place.features, weights));
        let powers = powers(&logs.collect::<Vec<_>>());
        let all: f64 = powers.iter().sum();
        let worths = self.worth.iter().map(|worth| worth + FLOOR);
        let expected = powers.iter().zip(worths).map(|(p, worth)| p * worth).sum::<f64>() / all;
        let mut gradient = [0.0; FEATURES.len()];
        for ((place, power), worth) in self.cut_points.iter().zip(&powers).zip(&self.worth) {
            let share = power / all * (worth + FLOOR - expected) / expected;
            add(&mut gradient, &place.features, share);
        }
        gradient
    }
}

/// Trains a cut-off on pairs of a training query's ranking and its answers; `None` if fewer than
/// `MIN_QUERIES` queries have an answer within the first [`MAX_RANK`] ranks.
pub fn train(queries: &[(Ranking, &[NodeId])]) -> Option<Cutoff> {
    let lessons: Vec<Lesson> =
        queries.par_iter().map(|(ranking, answers)| Lesson::new(ranking, answers)).collect();
    if lessons.iter().filter(|lesson| lesson.teaches()).count() < MIN_QUERIES {
        return None;
    }
    let without = |fold: usize| weights(&lessons, |query| query % FOLDS != fold);
    let folds: Vec<Cutoff> = (0..FOLDS).into_par_iter().map(without).collect();
    let cut = queries.iter().zip(&lessons).enumerate().filter_map(|(query, (known, lesson))| {
        let (ranking, answers) = known;
        let (rank, probability) = folds.get(query % FOLDS)?.chosen(&lesson.cut_points)?;
        Some((probability, SetMetrics::new(ranking, rank, answers)))
    });
    let expected = expected(cut.collect(), MIN_GROUP);
    Some(Cutoff { expected, ..weights(&lessons, |_| true) })
}

/// Trains the weights on the queries for whose positions `taken` returns true; the returned cut-off
/// has no expected precision and recall yet.
fn weights(lessons: &[Lesson], taken: impl Fn(usize) -> bool) -> Cutoff {
    let is_taught = |&(query, lesson): &(usize, &Lesson)| taken(query) && lesson.teaches();
    let taught: Vec<&Lesson> =
        lessons.iter().enumerate().filter(is_taught).map(|pair| pair.1).collect();
    let gradient = |lesson: &&Lesson, weights: &Row| Some(lesson.gradient(weights));
    let any = [f64::NEG_INFINITY; FEATURES.len()];
    let weights = fit(&FEATURES, [0.0; FEATURES.len()], any, RIDGE, &taught, gradient);
    Cutoff { weights, expected: Vec::new() }
}

/// Divides queries into groups of about equal size by ascending probability of the chosen rank, and
/// returns the mean precision and recall of each group. `cut` has this probability and the metrics
/// of each query. Queries with equal probabilities stay in one group. Groups are merged until
/// precision rises with probability (pool adjacent violators: Ayer et al. 1955).
fn expected(mut cut: Vec<(f32, SetMetrics)>, min_group: usize) -> Vec<Expected> {
    cut.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = cut.len().div_ceil(GROUPS).max(min_group);
    let mut groups: Vec<&[(f32, SetMetrics)]> = Vec::new();
    let mut rest = cut.as_slice();
    while !rest.is_empty() {
        let end = if rest.len() < 2 * least { rest.len() } else { least };
        let last = rest.get(end - 1).map_or(0.0, |pair| pair.0);
        let (group, others) = rest.split_at(rest.partition_point(|pair| pair.0 <= last));
        groups.push(group);
        rest = others;
    }
    let mut pooled: Vec<Expected> = Vec::new();
    for group in groups {
        let mean = |of: fn(&SetMetrics) -> f64| {
            (group.iter().map(|pair| of(&pair.1)).sum::<f64>() / group.len() as f64) as f32
        };
        let mut next = Expected {
            from: group.first().map_or(0.0, |pair| pair.0),
            n: group.len(),
            precision: mean(|metrics| metrics.precision),
            recall: mean(|metrics| metrics.recall),
        };
        while let Some(before) = pooled.pop_if(|before| before.precision >= next.precision) {
            next = joined(before, next);
        }
        pooled.push(next);
    }
    if let Some(first) = pooled.first_mut() {
        first.from = 0.0;
    }
    pooled
}

/// Merges two adjacent groups of queries; precision and recall are weighted by the groups' sizes.
fn joined(before: Expected, next: Expected) -> Expected {
    let n = before.n + next.n;
    let mean = |a: f32, b: f32| (a * before.n as f32 + b * next.n as f32) / n as f32;
    Expected {
        from: before.from,
        n,
        precision: mean(before.precision, next.precision),
        recall: mean(before.recall, next.recall),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a ranking of 30 nodes whose first `n` nodes are answers, with scores that drop after
    /// them.
    fn clear(query: usize, n: usize) -> Ranking {
        let score = |at: usize| {
            let drop = if at < n { 1.0 } else { 0.2 };
            drop * (1.0 - (at as f32 + query as f32 * 0.1) * 0.01)
        };
        (0..30).map(|at| (at as NodeId, score(at))).collect()
    }

    const ALL: [NodeId; 9] = [0, 1, 2, 3, 4, 5, 6, 7, 8];

    /// Returns 21 queries with 1 to 7 answers each.
    fn queries() -> Vec<(Ranking, &'static [NodeId])> {
        (0..21).map(|query| (clear(query, 1 + query % 7), &ALL[..1 + query % 7])).collect()
    }

    #[test]
    fn clean_sets_are_cut_exactly_and_known_to_be() {
        let cutoff = train(&queries()).unwrap();
        for n in [1, 2, 5, 9] {
            let end = cutoff.end(&clear(40, n)).unwrap();
            assert_eq!((end.rank, end.precision, end.recall), (n, 1.0, 1.0));
        }
        assert_eq!(cutoff.expected.iter().map(|group| group.n).sum::<usize>(), 21);
        assert_eq!(Some(&cutoff), train(&queries()).as_ref());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(Some(cutoff), pool.install(|| train(&queries())));
    }

    #[test]
    fn too_few_queries_and_rankings_without_answers_teach_nothing() {
        let all = queries();
        assert_eq!(train(&all[..MIN_QUERIES - 1]), None);
        assert!(train(&all[..MIN_QUERIES]).is_some());
        let none: &[NodeId] = &[77];
        let wrong: Vec<(Ranking, &[NodeId])> =
            all.iter().map(|(ranking, _)| (ranking.clone(), none)).collect();
        assert_eq!(train(&wrong), None);
        assert_eq!(train(&vec![(Ranking::new(), none); 20]), None);
    }

    #[test]
    fn more_probable_ends_are_never_less_precise() {
        let of = |precision| SetMetrics { precision, recall: 0.5, f1: 0.0, exact: 0.0 };
        let cut = [(0.9, 0.9), (0.5, 0.2), (0.6, 0.8), (0.7, 0.4), (0.7, 0.6), (0.8, 0.7)];
        let groups =
            expected(cut.map(|(probability, precision)| (probability, of(precision))).into(), 1);
        let starts: Vec<(f32, usize)> = groups.iter().map(|group| (group.from, group.n)).collect();
        // Pairs are 0.5 and 0.6; the two of 0.7; 0.8 and 0.9. The first two tie and are joined.
        assert_eq!(starts, [(0.0, 4), (0.8, 2)]);
        assert!((groups[0].precision - 0.5).abs() < 1e-6 && groups[0].recall == 0.5);
        assert_eq!(expected(Vec::new(), 1), []);
    }
}
