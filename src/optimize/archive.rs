//! The archive: programs of a run with their reciprocal ranks on training queries, and which of
//! them answer the queries of a category best.
//!
//! A program that answers some query better than all others is worth changing even where another
//! is better in the mean, so parents come from an instance-level Pareto front (GEPA, Agrawal et al.
//! 2025): for every query those that answer it best, without those that others make superfluous.
//!
//! Must not know: how programs are run, who proposes them.

use std::collections::BTreeSet;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::optimize::category_programs::CategoryProgram;

/// Programs of an archive at most; beyond, the one that answers fewest queries best is dropped.
const MAX_PROGRAMS: usize = 256;

/// A program in the archive.
#[derive(Clone)]
pub(super) struct Archived {
    /// The program with its reciprocal ranks; 0 where it was not run.
    pub(super) category_program: CategoryProgram,
    /// How it was made, in words.
    pub(super) change: String,
    /// Whether it was run on every training query.
    pub(super) whole: bool,
}

/// A program of a front.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parent {
    /// Its position in the archive.
    pub(super) at: usize,
    /// Queries that it answers best, ascending.
    pub(super) best: BTreeSet<usize>,
    /// The sum over these queries of one divided by the programs of the front that answer the
    /// query as well.
    pub(super) weight: f64,
}

/// Programs in the order in which they came.
#[derive(Default)]
pub(super) struct Archive {
    programs: Vec<Archived>,
}

impl Archive {
    /// Adds a program, or what is known of it now, if it is there already.
    pub(super) fn add(&mut self, program: Archived) {
        let same =
            |other: &&mut Archived| other.category_program.answers_as(&program.category_program);
        match self.programs.iter_mut().find(same) {
            Some(known) if !known.whole => *known = program,
            Some(_) => {}
            None => self.programs.push(program),
        }
        if self.programs.len() > MAX_PROGRAMS {
            let dropped = self.least();
            self.programs.remove(dropped);
        }
    }

    /// The program at a position of a front of this archive as it is.
    pub(super) fn get(&self, at: usize) -> Option<&Archived> {
        self.programs.get(at)
    }

    /// All programs, in the order in which they came.
    pub(super) fn programs(&self) -> &[Archived] {
        &self.programs
    }

    /// The front on some training queries, in the order in which its programs came. Queries that
    /// no program answers say nothing. A program is left out when others of the front answer all
    /// queries as well that it answers best; of several that could be left out, the one with the
    /// least sum goes first, then the later one.
    pub(super) fn front(&self, queries: &[usize]) -> Vec<Parent> {
        let mut best: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); self.programs.len()];
        for &query in queries {
            let most = self.most_on(query);
            for (own, program) in best.iter_mut().zip(&self.programs) {
                if most > 0.0 && program.category_program.train[query] >= most {
                    own.insert(query);
                }
            }
        }
        let mut order: Vec<(f64, usize)> = (0..self.programs.len())
            .filter(|&at| !best[at].is_empty())
            .map(|at| (self.programs[at].category_program.sum_on(queries), at))
            .collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let mut held =
            vec![0_usize; self.programs.first().map_or(0, |one| one.category_program.train.len())];
        for own in &best {
            own.iter().for_each(|&query| held[query] += 1);
        }
        let mut kept: Vec<usize> = Vec::new();
        for (_, at) in order {
            if best[at].iter().all(|&query| held[query] > 1) {
                best[at].iter().for_each(|&query| held[query] -= 1);
            } else {
                kept.push(at);
            }
        }
        kept.sort_unstable();
        let weight = |at: usize| best[at].iter().map(|&query| 1.0 / held[query] as f64).sum();
        kept.into_iter()
            .map(|at| Parent { at, weight: weight(at), best: best[at].clone() })
            .collect()
    }

    /// Whether reciprocal ranks on some queries are better than those of every program, on one of
    /// the queries or in their sum.
    pub(super) fn lacks(&self, queries: &[usize], ranks: &[f32]) -> bool {
        let better = |(&query, &rank): (&usize, &f32)| rank > self.most_on(query);
        let sum: f64 = ranks.iter().map(|&rank| f64::from(rank)).sum();
        queries.iter().zip(ranks).any(better) || sum > self.most(queries)
    }

    /// The largest sum of reciprocal ranks of a program on some queries; 0 without programs.
    pub(super) fn most(&self, queries: &[usize]) -> f64 {
        self.programs.iter().map(|one| one.category_program.sum_on(queries)).fold(0.0, f64::max)
    }

    /// The largest reciprocal rank on a query; 0 without programs.
    fn most_on(&self, query: usize) -> f32 {
        self.programs
            .iter()
            .map(|program| program.category_program.train[query])
            .fold(0.0, f32::max)
    }

    /// The position of the program that can be spared best: outside of the front on all queries
    /// the one with the least sum, otherwise the one with the least weight. Ties go to the earlier.
    fn least(&self) -> usize {
        let n = self.programs.first().map_or(0, |one| one.category_program.train.len());
        let queries: Vec<usize> = (0..n).collect();
        let front = self.front(&queries);
        let worth = |at: usize| {
            let weight = front.iter().find(|parent| parent.at == at).map(|parent| parent.weight);
            (weight.unwrap_or(0.0), self.programs[at].category_program.sum_on(&queries))
        };
        let worths = (0..self.programs.len()).map(|at| (worth(at), at));
        let least = worths.min_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        least.map_or(0, |pair| pair.1)
    }
}

/// All positions in an order drawn by weights, which are not negative: a position comes next with
/// a chance in proportion to its weight among those left.
pub(super) fn drawn(weights: &[f64], rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut left: Vec<usize> = (0..weights.len()).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let mut rest = rng.random::<f64>() * left.iter().map(|&at| weights[at]).sum::<f64>();
        let next = left.iter().position(|&at| {
            rest -= weights[at];
            rest <= 0.0
        });
        order.push(left.remove(next.unwrap_or(left.len() - 1)));
    }
    order
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::{infer::ParamValues, program::Program};

    fn archived(source: &str, ranks: &[f32]) -> Archived {
        let category_program = CategoryProgram {
            plan: None,
            program: Program::new(source),
            params: ParamValues::new(),
            proposed_by: "a test".to_owned(),
            name: None,
            queries: None,
            train: ranks.to_vec(),
        };
        Archived { category_program, change: "written".to_owned(), whole: true }
    }

    fn archive(programs: &[&[f32]]) -> Archive {
        let mut archive = Archive::default();
        for (at, ranks) in programs.iter().enumerate() {
            archive.add(archived(&at.to_string(), ranks));
        }
        archive
    }

    fn at(front: &[Parent]) -> Vec<usize> {
        front.iter().map(|parent| parent.at).collect()
    }

    #[test]
    fn a_front_holds_what_answers_a_query_best_and_nothing_superfluous() {
        let archive = archive(&[&[1.0, 0.5, 0.0], &[0.5, 1.0, 0.0], &[1.0, 0.2, 0.0]]);
        let front = archive.front(&[0, 1, 2]);
        assert_eq!(at(&front), [0, 1], "the third answers nothing better than the first");
        assert_eq!(front.iter().map(|parent| parent.weight).collect::<Vec<_>>(), [1.0, 1.0]);
        assert_eq!(at(&archive.front(&[0])), [0], "of two that answer alike the earlier is kept");
        assert_eq!(at(&archive.front(&[2])), [0; 0], "nobody answers it");
    }

    #[test]
    fn queries_that_few_answer_best_weigh_more() {
        let archive = archive(&[&[1.0, 1.0, 0.0], &[0.0, 1.0, 0.5]]);
        let weights: Vec<f64> =
            archive.front(&[0, 1, 2]).iter().map(|parent| parent.weight).collect();
        assert_eq!(weights, [1.5, 1.5]);
        assert_eq!(archive.front(&[0, 1]).len(), 1);
    }

    #[test]
    fn a_program_is_lacking_that_is_best_on_a_query_or_in_the_sum() {
        let archive = archive(&[&[1.0, 0.2], &[0.2, 1.0]]);
        assert!(!archive.lacks(&[0, 1], &[1.0, 0.1]));
        assert!(archive.lacks(&[0, 1], &[1.0, 1.0]), "the best of both");
        assert!(!archive.lacks(&[0], &[1.0]));
        assert!(Archive::default().lacks(&[0], &[0.1]));
    }

    #[test]
    fn a_full_archive_drops_what_can_be_spared() {
        let mut archive = archive(&[&[1.0, 0.0], &[0.0, 1.0]]);
        for n in 0..MAX_PROGRAMS {
            archive.add(archived(&format!("more {n}"), &[0.25, 0.25]));
        }
        assert_eq!(archive.programs().len(), MAX_PROGRAMS);
        assert_eq!(at(&archive.front(&[0, 1])), [0, 1]);
    }

    #[test]
    fn all_positions_are_drawn_and_heavy_ones_come_first() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut first = [0; 3];
        for _ in 0..200 {
            let order = drawn(&[1.0, 0.0, 9.0], &mut rng);
            first[order[0]] += 1;
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
        }
        assert!(first[1] == 0 && first[2] > 150, "{first:?}");
    }
}
