//! The archive: the programs that a run has measured, with their reciprocal ranks on training
//! queries. Merging takes plans from archived programs, and categories may adopt archived programs
//! at the end of the run.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::{category_programs::CategoryProgram, trial::sum};

/// Maximum number of programs in the archive. When one more is added, the program with the smallest
/// summed reciprocal rank is dropped.
const MAX_PROGRAMS: usize = 256;

/// A program in the archive, with its reciprocal ranks.
#[derive(Clone)]
pub(super) struct ArchivedProgram {
    /// The program with its reciprocal rank on each training query; 0 on queries that it did not
    /// run on.
    pub(super) category: CategoryProgram,
    /// Description of the change that produced the program.
    pub(super) change: String,
    /// Whether the program ran on all of its training queries.
    pub(super) is_complete: bool,
}

/// Measured programs of a run, in order of insertion.
#[derive(Default)]
pub(super) struct Archive {
    pub(super) programs: Vec<ArchivedProgram>,
}

impl Archive {
    /// Adds a program. If the archive has a program with the same source and parameters, replaces
    /// that program only if it has not yet run on all its training queries.
    pub(super) fn add(&mut self, program: ArchivedProgram) {
        let same = |other: &&mut ArchivedProgram| other.category.answers_as(&program.category);
        match self.programs.iter_mut().find(same) {
            Some(known) if !known.is_complete => *known = program,
            Some(_) => {}
            None => self.programs.push(program),
        }
        if self.programs.len() > MAX_PROGRAMS {
            let sums: Vec<f64> =
                self.programs.iter().map(|program| sum(&program.category.train)).collect();
            let least = (0..sums.len()).reduce(|a, b| if sums[b] < sums[a] { b } else { a });
            least.into_iter().for_each(|at| drop(self.programs.remove(at)));
        }
    }

    /// Returns the programs with a higher reciprocal rank than `other` on at least one of `queries`
    /// (positions of training queries). Programs that are better on more queries come first; ties
    /// stay in order of insertion.
    pub(super) fn better_on(
        &self,
        other: &CategoryProgram,
        queries: &[usize],
    ) -> Vec<&ArchivedProgram> {
        let better = |one: &ArchivedProgram| {
            queries.iter().filter(|&&at| one.category.train[at] > other.train[at]).count()
        };
        let mut found: Vec<(usize, &ArchivedProgram)> =
            self.programs.iter().map(|one| (better(one), one)).filter(|one| one.0 > 0).collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.0));
        found.into_iter().map(|one| one.1).collect()
    }
}

/// Draws a random order of the positions in `weights`. Each next position is drawn from the
/// remaining positions with probability proportional to its weight. Weights must not be negative.
pub(super) fn draw_order(weights: &[f64], rng: &mut ChaCha8Rng) -> Vec<usize> {
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
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    fn archived(source: &str, ranks: &[f32]) -> ArchivedProgram {
        let category = CategoryProgram::for_test(source, ranks);
        ArchivedProgram { category, change: "written".to_owned(), is_complete: true }
    }

    fn archive(programs: &[&[f32]]) -> Archive {
        let mut archive = Archive::default();
        for (at, ranks) in programs.iter().enumerate() {
            archive.add(archived(&at.to_string(), ranks));
        }
        archive
    }

    #[test]
    fn programs_that_answer_more_queries_better_come_first() {
        let archive = archive(&[&[1.0, 0.5, 0.0], &[0.5, 1.0, 0.0], &[0.6, 1.0, 0.2]]);
        let better_on = |own: &[f32], queries: &[usize]| -> Vec<String> {
            let found = archive.better_on(&archived("own", own).category, queries).into_iter();
            found.map(|one| one.category.program.source().to_owned()).collect()
        };
        assert_eq!(better_on(&[0.5, 0.9, 0.1], &[0, 1, 2]), ["2", "0", "1"]);
        assert_eq!(better_on(&[0.5, 0.9, 0.1], &[1]), ["1", "2"]);
        assert_eq!(better_on(&[1.0, 1.0, 1.0], &[0, 1, 2]), [""; 0]);
    }

    #[test]
    fn a_full_archive_drops_what_has_the_least_sum() {
        let mut archive = archive(&[&[1.0, 0.0], &[0.0, 1.0]]);
        for n in 0..MAX_PROGRAMS {
            archive.add(archived(&format!("more {n}"), &[0.25, 0.25]));
        }
        let programs = archive.programs;
        assert_eq!(programs.len(), MAX_PROGRAMS);
        assert_eq!(
            (programs[0].category.program.source(), programs[2].category.program.source()),
            ("0", "more 2")
        );
    }

    #[test]
    fn all_positions_are_drawn_and_heavy_ones_come_first() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut first = [0; 3];
        for _ in 0..200 {
            let order = draw_order(&[1.0, 0.0, 9.0], &mut rng);
            first[order[0]] += 1;
            assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
        }
        assert!(first[1] == 0 && first[2] > 150, "{first:?}");
    }
}
