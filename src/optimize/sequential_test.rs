//! The sequential test: tests on validation queries whether the accepted changes help.
//!
//! ```text
//! together  all changed programs against the initial programs, on the validation queries of the
//!           changed categories, in an order drawn from the seed
//! each      if the changes do not pass together: each category with enough queries, by the closed
//!           test
//! ```
//!
//! Before the sequential test, answers to validation queries are used only to reject programs that
//! contain them. Therefore the error rate holds for the whole run. Proving all changes together
//! takes far fewer queries than proving each alone: with ten changes and ten validation queries for
//! each, only large gains can be proven alone.

use rand::seq::SliceRandom;

use crate::{
    Event, OptimizeError, Result, Run,
    category_programs::CategoryProgram,
    e_value::{ERROR_RATE, EValue, Levels, each_alone},
    journal::JournalError,
    trial::{digest, generator},
};
use agent_infer::bundle::{CategoryProof, Proof};
use agent_kb::distinct;

/// Number of queries in the first batch of a sequential test; each further batch doubles the number
/// of tested queries.
const FIRST_BATCH: usize = 4;
/// Number of the random generator's stream from which the order of the queries of a sequential test
/// is drawn.
const TEST_STREAM: u64 = 3 << 40;
/// Maximum number of sequential tests in one run directory.
const MAX_TESTS: usize = 1_000;

/// A validation query of a changed category: its position in the validation pool and the index of
/// the category.
#[derive(Clone, Copy, Debug)]
struct Entry {
    query: usize,
    category: usize,
    /// Reciprocal rank of the changed program minus that of the initial program; `None` until both
    /// ran on the query.
    gain: Option<f64>,
}

/// A completed sequential test of changed programs against the initial programs.
pub(super) struct SequentialTest {
    /// The program of each category after the changes.
    categories: Vec<CategoryProgram>,
    /// Result of the test, as the bundle stores it.
    pub(super) proof: Proof,
    levels: Levels,
    /// Indices of the categories that were tested alone, if the changes did not pass together.
    alone: Vec<usize>,
    /// The validation queries of the changed categories, in the order of the test.
    entries: Vec<Entry>,
}

impl SequentialTest {
    /// Returns whether the change of each category is proven, by all changes together or alone.
    pub(super) fn kept(&self) -> Vec<bool> {
        self.kept_without(&[])
    }

    /// Returns, for each category, whether its change would be proven without these validation
    /// queries (given as positions). The significance levels are scaled so that the required growth
    /// of the e-value per query stays the same. A change that is not proven with all queries is not
    /// proven without some of them either.
    pub(super) fn kept_without(&self, queries: &[usize]) -> Vec<bool> {
        let gains_and_share = |category: Option<usize>| {
            let included = |entry: &&Entry| category.is_none_or(|at| entry.category == at);
            let known: Vec<&Entry> =
                self.entries.iter().filter(included).filter(|entry| entry.gain.is_some()).collect();
            let left = known.iter().filter(|entry| !queries.contains(&entry.query));
            let gains: Vec<f64> = left.filter_map(|entry| entry.gain).collect();
            let share = gains.len() as f64 / known.len().max(1) as f64;
            (gains, share)
        };
        let changed: Vec<usize> =
            distinct(self.entries.iter().map(|entry| entry.category).collect());
        if self.proof.proven {
            let (gains, share) = gains_and_share(None);
            let level = self.levels.together.powf(share);
            let mut e_value = EValue::default();
            let wins = gains.into_iter().any(|gain| {
                e_value.add(gain);
                e_value.proves(level)
            });
            if wins {
                return (0..self.categories.len()).map(|at| changed.contains(&at)).collect();
            }
        }
        let tested = if self.proof.proven { &changed } else { &self.alone };
        let capital_and_share = |&at: &usize| {
            let (gains, share) = gains_and_share(Some(at));
            (EValue::from_differences(&gains).e(), share)
        };
        let found: Vec<(f64, f64)> = tested.iter().map(capital_and_share).collect();
        let capitals: Vec<f64> = found.iter().map(|pair| pair.0).collect();
        let mut kept = vec![false; self.categories.len()];
        for ((&at, (_, share)), e) in tested.iter().zip(&found).zip(each_alone(&capitals)) {
            kept[at] = e * self.levels.each.powf(*share) >= 1.0;
        }
        if !queries.is_empty() {
            kept.iter_mut().zip(self.kept()).for_each(|(kept, won)| *kept &= won);
        }
        kept
    }

    /// Returns the program of each category: the changed program where `kept` is true, otherwise
    /// the program in `initial`.
    pub(super) fn categories(
        &self,
        initial: &[CategoryProgram],
        kept: &[bool],
    ) -> Vec<CategoryProgram> {
        let pairs = initial.iter().zip(&self.categories).zip(kept);
        pairs.map(|((old, new), &kept)| if kept { new } else { old }.clone()).collect()
    }
}

impl Run<'_> {
    /// Tests the changed programs against the initial programs; `None` if no program changed.
    /// `routed` has the validation queries of each category, as positions. Changed programs must
    /// not depend on answers to validation queries.
    pub(super) fn run_sequential_test(
        &mut self,
        initial: &[CategoryProgram],
        categories: Vec<CategoryProgram>,
        routed: &[Vec<usize>],
    ) -> Result<Option<SequentialTest>> {
        let changed: Vec<usize> =
            (0..initial.len()).filter(|&at| !initial[at].answers_as(&categories[at])).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let levels = self.levels(&categories)?;
        let mut entries = Vec::new();
        for &category in &changed {
            let entry = |&query: &usize| Entry { query, category, gain: None };
            entries.extend(routed[category].iter().map(entry));
        }
        entries.sort_unstable_by_key(|entry| (entry.query, entry.category));
        entries.shuffle(&mut generator(self.options.seed, TEST_STREAM));
        let all: Vec<usize> = (0..entries.len()).collect();
        let before = self.ranks_of(initial, &entries, &all)?;
        let e_value = self.test_together(&categories, &mut entries, &before, levels.together)?;
        let proven = e_value.proves(levels.together);
        let mut proof = Proof {
            error_rate: ERROR_RATE,
            level: levels.together,
            e: e_value.e(),
            n: e_value.n(),
            total: entries.len(),
            difference: e_value.difference(),
            needed: e_value.needed(levels.together),
            proven,
            categories: Vec::new(),
        };
        let mut alone = Vec::new();
        if proven {
            self.gain(&categories, &mut entries, &before, &all)?;
        } else {
            for &category in &changed {
                let own: Vec<usize> =
                    all.iter().copied().filter(|&at| entries[at].category == category).collect();
                if are_enough(own.len(), levels.each) {
                    self.gain(&categories, &mut entries, &before, &own)?;
                    alone.push(category);
                }
            }
            proof.categories = proofs(&alone, &categories, &entries, levels.each);
        }
        (self.watch)(Event::SequentialTest(&proof));
        Ok(Some(SequentialTest { categories, proof, levels, alone, entries }))
    }

    /// Tests all changes together, on batches of queries, until the changes are proven or can no
    /// longer be proven. Returns the e-value at the end.
    fn test_together(
        &mut self,
        categories: &[CategoryProgram],
        entries: &mut [Entry],
        before: &[f32],
        level: f64,
    ) -> Result<EValue> {
        let mut e_value = EValue::default();
        let mut tested = 0;
        while tested < entries.len() && !e_value.proves(level) {
            let to_come: Vec<f64> =
                before[tested..].iter().map(|&rank| 1.0 - f64::from(rank)).collect();
            if !e_value.could_prove(level, &to_come) {
                break;
            }
            let end = FIRST_BATCH.max(2 * tested).min(entries.len());
            let batch: Vec<usize> = (tested..end).collect();
            self.gain(categories, entries, before, &batch)?;
            for entry in &entries[tested..end] {
                if !e_value.proves(level) {
                    e_value.add(entry.gain.unwrap_or_default());
                }
            }
            tested = end;
        }
        Ok(e_value)
    }

    /// Runs the changed programs on the queries in `entries[places]` whose gain is missing, and
    /// stores the gains. `before` has the initial program's reciprocal rank for each entry.
    fn gain(
        &mut self,
        categories: &[CategoryProgram],
        entries: &mut [Entry],
        before: &[f32],
        places: &[usize],
    ) -> Result<()> {
        let open: Vec<usize> =
            places.iter().copied().filter(|&at| entries[at].gain.is_none()).collect();
        let after = self.ranks_of(categories, entries, &open)?;
        for (&at, after) in open.iter().zip(after) {
            entries[at].gain = Some(f64::from(after) - f64::from(before[at]));
        }
        Ok(())
    }

    /// Returns the significance levels of this test, which depend on its number among the run's
    /// tests in the journal. Thus a run that is continued after its end does not use the same part
    /// of the error rate twice.
    fn levels(&mut self, categories: &[CategoryProgram]) -> Result<Levels> {
        let line = |category: &CategoryProgram| {
            format!("{} {:?}\n", category.program.id(), category.params)
        };
        let digest = digest(&categories.iter().map(line).collect::<String>());
        for test in 1..=MAX_TESTS {
            let own = || Ok::<_, JournalError>((digest.clone(), Vec::new()));
            if self.trials.journal.step("race", &test.to_string(), own)? == digest {
                return Ok(Levels::for_test(test));
            }
        }
        Err(OptimizeError::SequentialTests(MAX_TESTS))
    }

    /// Returns, for each entry in `entries[places]`, the reciprocal rank of its category's program
    /// on its query.
    fn ranks_of(
        &mut self,
        categories: &[CategoryProgram],
        entries: &[Entry],
        places: &[usize],
    ) -> Result<Vec<f32>> {
        let mut ranks = vec![0.0; places.len()];
        for (at, category) in categories.iter().enumerate() {
            let tested = places.iter().map(|&place| entries[place]).enumerate();
            let (own, queries): (Vec<usize>, Vec<usize>) = tested
                .filter(|(_, entry)| entry.category == at)
                .map(|(own, entry)| (own, entry.query))
                .unzip();
            if own.is_empty() {
                continue;
            }
            let origin = category.origin("tested on validation");
            let CategoryProgram { program, params, .. } = category;
            let trial = self.trials.run(program, params, &self.validation, &queries, &origin)?;
            for (place, rank) in own.into_iter().zip(trial.reciprocal_ranks) {
                ranks[place] = rank;
            }
        }
        Ok(ranks)
    }
}

/// Whether this number of queries can suffice to prove the change of a single category at a
/// significance level. Does not depend on the answers to the queries, because the closed test
/// requires that categories are not chosen by results.
fn are_enough(queries: usize, level: f64) -> bool {
    EValue::default().could_prove(level, &vec![1.0; queries])
}

/// Returns the results of the categories that were tested alone, in the order of `alone`.
fn proofs(
    alone: &[usize],
    categories: &[CategoryProgram],
    entries: &[Entry],
    level: f64,
) -> Vec<CategoryProof> {
    let e_value = |&at: &usize| {
        let own = entries.iter().filter(|entry| entry.category == at);
        EValue::from_differences(&own.filter_map(|entry| entry.gain).collect::<Vec<_>>())
    };
    let e_values: Vec<EValue> = alone.iter().map(e_value).collect();
    let capitals: Vec<f64> = e_values.iter().map(EValue::e).collect();
    let proof = |((&at, e_value), e): ((&usize, &EValue), f64)| CategoryProof {
        name: categories[at].name().to_owned(),
        level,
        e,
        n: e_value.n(),
        difference: e_value.difference(),
        proven: e * level >= 1.0,
    };
    alone.iter().zip(&e_values).zip(each_alone(&capitals)).map(proof).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn category_program(source: &str) -> CategoryProgram {
        CategoryProgram::for_test(source, &[])
    }

    /// Creates a sequential test from the gains of each category; all changes together pass or fail
    /// the test according to these gains.
    fn tested(gains: &[&[f64]]) -> SequentialTest {
        let levels = Levels::for_test(1);
        let (mut entries, mut query) = (Vec::new(), 0);
        for (category, gains) in gains.iter().enumerate() {
            for &gain in *gains {
                entries.push(Entry { query, category, gain: Some(gain) });
                query += 1;
            }
        }
        let all: Vec<f64> = entries.iter().filter_map(|entry| entry.gain).collect();
        let e_value = EValue::from_differences(&all);
        let categories: Vec<CategoryProgram> = gains.iter().map(|_| category_program("")).collect();
        let alone: Vec<usize> = (0..gains.len()).collect();
        let proof = Proof {
            error_rate: ERROR_RATE,
            level: levels.together,
            e: e_value.e(),
            n: all.len(),
            total: all.len(),
            difference: e_value.difference(),
            needed: e_value.needed(levels.together),
            proven: e_value.proves(levels.together),
            categories: proofs(&alone, &categories, &entries, levels.each),
        };
        SequentialTest { categories, proof, levels, alone, entries }
    }

    #[test]
    fn a_proof_survives_without_a_fifth_of_equal_queries_but_not_without_the_decisive_ones() {
        let even = tested(&[&[0.4; 20]]);
        assert!(even.proof.proven);
        assert_eq!(even.kept_without(&[0, 5, 10, 15]), [true]);
        let mut gains = [0.0; 20];
        gains[..5].copy_from_slice(&[1.0; 5]);
        let few = tested(&[&gains]);
        assert!(few.proof.proven && few.kept() == [true], "{}", few.proof.e);
        assert_eq!(few.kept_without(&[0, 1, 2, 3, 4]), [false]);
    }

    #[test]
    fn only_the_number_of_queries_decides_whether_a_category_is_tested_alone() {
        let level = Levels::for_test(1).each;
        assert!(!are_enough(5, level) && are_enough(6, level));
        // Six that the program answers already can gain nothing, and stay in the closed test.
        assert!(!EValue::default().could_prove(level, &[0.0; 6]));
    }

    #[test]
    fn a_category_that_gains_much_is_kept_where_another_loses_as_much() {
        let test = tested(&[&[1.0; 8], &[-1.0; 8], &[0.0; 8]]);
        assert!(!test.proof.proven);
        assert_eq!(test.kept(), [true, false, false]);
        let proven: Vec<bool> =
            test.proof.categories.iter().map(|category| category.proven).collect();
        assert_eq!(proven, [true, false, false]);
        let initial = [category_program("a"), category_program("b"), category_program("c")];
        let frozen = test.categories(&initial, &test.kept());
        let sources: Vec<&str> = frozen.iter().map(|category| category.program.source()).collect();
        assert_eq!(sources, ["", "b", "c"]);
        // A test that failed with all queries also fails without some.
        assert_eq!(test.kept_without(&(8..16).collect::<Vec<_>>()), [true, false, false]);
    }
}
