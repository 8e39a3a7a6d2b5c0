//! Acceptance: which changes a run keeps while it goes on, and whether all of them together are
//! proven to help.
//!
//! ```text
//! a change   is kept when training queries of its category speak for it: a choice, no proof
//! the proof  at the end, programs with all kept changes are tested against those the run began
//!            with, on the validation queries of changed categories, in an order drawn from the seed
//! ```
//!
//! Nothing before the sequential test looks at answers of validation queries, so its error rate
//! holds for the whole run. One sequential test over all categories needs far fewer queries than
//! one for each change: with ten changes to prove and ten validation queries each, nothing could
//! ever be proven.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{
    bundle::Proof,
    eval::statistics::randomization_p,
    infer::ParamValues,
    optimize::{
        Event, OptimizeError, Run,
        category_programs::CategoryProgram,
        e_value::{ERROR_RATE, EValue, level},
        trial::Origin,
    },
};

/// Sum of reciprocal ranks that a change must gain on the training queries of its category: as much
/// as getting one query right.
pub(super) const MIN_GAIN: f64 = 1.0;
/// Queries of the first batch of a sequential test; each further batch doubles what was tested.
const FIRST_BATCH: usize = 4;
/// Stream of random numbers for the order of a sequential test.
const TEST_STREAM: u64 = 3 << 40;
/// Sequential tests that one run directory may hold.
const MAX_TESTS: usize = 1_000;

/// A test of a change, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The category.
    pub category: String,
    /// The program it had.
    pub from: String,
    /// The program that was tested; the same when only parameters changed.
    pub to: String,
    /// Parameters of the tested program that differ from the declared ones.
    pub params: ParamValues,
    /// What was changed.
    pub change: String,
    /// Training queries of the category.
    pub n: usize,
    /// Difference of the mean reciprocal ranks.
    pub difference: f64,
    /// Two-sided p of the paired randomisation test; the queries were seen when the change was
    /// made, so it is no proof.
    pub p: f64,
    /// E-value of an improvement, see [`EValue::e`].
    #[serde(default)]
    pub e: f64,
    /// How many more queries with such differences would be proof, by themselves.
    #[serde(default)]
    pub needed: Option<usize>,
    /// Whether the change was kept.
    pub accepted: bool,
}

/// Programs that were tested against those the run began with.
pub(super) struct Challenge {
    /// One per category the run began with, in their order.
    pub(super) category_programs: Vec<CategoryProgram>,
    /// How the sequential test ended.
    pub(super) proof: Proof,
    /// Validation queries with what the program of their category gained there, in the order of
    /// the sequential test; all of them when it was won, otherwise those that were tested.
    pub(super) gains: Vec<(usize, f64)>,
}

impl Challenge {
    /// Whether the sequential test would have been won without some queries, with an e-value as
    /// large for each query as it took to win with all: fewer queries are not to be a reason for
    /// another choice.
    pub(super) fn wins_without(&self, queries: &[usize]) -> bool {
        let mut e_value = EValue::default();
        let kept = self.gains.iter().filter(|(query, _)| !queries.contains(query)).count();
        let level = self.proof.level.powf(kept as f64 / self.gains.len().max(1) as f64);
        let others = self.gains.iter().filter(|(query, _)| !queries.contains(query));
        for &(_, gain) in others {
            e_value.add(gain);
            if e_value.proves(level) {
                return true;
            }
        }
        false
    }
}

impl Run<'_> {
    /// Replaces a category's program if its training queries speak for it; whether they did.
    pub(super) fn accept(
        &mut self,
        category_program: &mut CategoryProgram,
        mut changed: CategoryProgram,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<bool, OptimizeError> {
        let differences: Vec<f64> = queries
            .iter()
            .map(|&at| f64::from(changed.train[at]) - f64::from(category_program.train[at]))
            .collect();
        let e_value = EValue::of(&differences);
        let difference = e_value.difference();
        let p = match differences.is_empty() {
            true => 1.0,
            false => randomization_p(&differences, self.options.seed)?,
        };
        let accepted = difference * differences.len() as f64 >= MIN_GAIN;
        let (name, change) = (category_program.name(), &origin.change);
        (self.watch)(Event::Tested { name, change, difference, p, accepted });
        let decision = Decision {
            category: name.to_owned(),
            from: category_program.program.id().to_owned(),
            to: changed.program.id().to_owned(),
            params: changed.params.clone(),
            change: change.clone(),
            n: queries.len(),
            difference,
            p,
            e: e_value.e(),
            needed: e_value.needed(level(1)),
            accepted,
        };
        let key = serde_json::to_string(&decision).unwrap_or_default();
        let key = blake3::hash(key.as_bytes()).to_hex().to_string();
        self.trials.journal.commit("decision", &key, &decision, &[])?;
        if accepted {
            changed.queries = category_program.queries.take();
            changed.name = category_program.name.take();
            *category_program = changed;
        }
        Ok(accepted)
    }

    /// Tests improved programs against those the run began with, category by category, until an
    /// improvement is proven or cannot be any more; none when nothing changed. `routed` are the
    /// validation queries of each category. Improved programs must not depend on answers of
    /// validation queries.
    pub(super) fn challenge(
        &mut self,
        begun: &[CategoryProgram],
        category_programs: Vec<CategoryProgram>,
        routed: &[Vec<usize>],
    ) -> Result<Option<Challenge>, OptimizeError> {
        let changed: Vec<usize> =
            (0..begun.len()).filter(|&at| !begun[at].answers_as(&category_programs[at])).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let level = self.level(&category_programs)?;
        let mut order: Vec<(usize, usize)> = changed
            .iter()
            .flat_map(|&at| routed[at].iter().map(move |&query| (query, at)))
            .collect();
        order.sort_unstable();
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        rng.set_stream(TEST_STREAM);
        order.shuffle(&mut rng);
        let before = self.ranks_of(begun, &order)?;
        let mut e_value = EValue::default();
        let mut gains: Vec<(usize, f64)> = Vec::new();
        while gains.len() < order.len() && !e_value.proves(level) {
            let to_come: Vec<f64> =
                before[gains.len()..].iter().map(|&rank| 1.0 - f64::from(rank)).collect();
            if !e_value.could_prove(level, &to_come) {
                break;
            }
            let most = FIRST_BATCH.max(2 * gains.len()).min(order.len());
            let batch = &order[gains.len()..most];
            let after = self.ranks_of(&category_programs, batch)?;
            for (&(query, _), after) in batch.iter().zip(after) {
                let gain = f64::from(after) - f64::from(before[gains.len()]);
                gains.push((query, gain));
                if !e_value.proves(level) {
                    e_value.add(gain);
                }
            }
        }
        let proof = Proof {
            error_rate: ERROR_RATE,
            level,
            e: e_value.e(),
            n: e_value.n(),
            of: order.len(),
            difference: e_value.difference(),
            needed: e_value.needed(level),
            proven: e_value.proves(level),
        };
        if proof.proven {
            let rest = &order[gains.len()..];
            let after = self.ranks_of(&category_programs, rest)?;
            let pairs = rest.iter().zip(&before[gains.len()..]).zip(after);
            let more: Vec<(usize, f64)> = pairs
                .map(|((&(query, _), before), after)| (query, f64::from(after - before)))
                .collect();
            gains.extend(more);
        }
        (self.watch)(Event::SequentialTest(&proof));
        Ok(Some(Challenge { category_programs, proof, gains }))
    }

    /// The level of a sequential test: by how many other sequential tests the journal holds, so
    /// that runs that were continued after they had ended spend no error twice.
    fn level(&mut self, category_programs: &[CategoryProgram]) -> Result<f64, OptimizeError> {
        let mut hasher = blake3::Hasher::new();
        for category_program in category_programs {
            let line = format!("{} {:?}\n", category_program.program.id(), category_program.params);
            hasher.update(line.as_bytes());
        }
        let digest = hasher.finalize().to_hex().to_string();
        for test in 1..=MAX_TESTS {
            let key = test.to_string();
            match self.trials.journal.find::<String>("race", &key)? {
                Some(other) if other != digest => {}
                Some(_) => return Ok(level(test)),
                None => {
                    self.trials.journal.commit("race", &key, &digest, &[])?;
                    return Ok(level(test));
                }
            }
        }
        Err(OptimizeError::SequentialTests(MAX_TESTS))
    }

    /// Reciprocal ranks on validation queries, each by the program of its category.
    fn ranks_of(
        &mut self,
        category_programs: &[CategoryProgram],
        order: &[(usize, usize)],
    ) -> Result<Vec<f32>, OptimizeError> {
        let mut ranks = vec![0.0; order.len()];
        for (category, category_program) in category_programs.iter().enumerate() {
            let places: Vec<usize> =
                (0..order.len()).filter(|&place| order[place].1 == category).collect();
            if places.is_empty() {
                continue;
            }
            let queries: Vec<usize> = places.iter().map(|&place| order[place].0).collect();
            let origin = Origin {
                proposed_by: category_program.proposed_by.clone(),
                change: "tested on validation".to_owned(),
                parent: None,
            };
            let of = self.trial(
                &category_program.program,
                &category_program.params,
                true,
                &queries,
                &origin,
            )?;
            for (place, rank) in places.into_iter().zip(of) {
                ranks[place] = rank;
            }
        }
        Ok(ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn won(gains: &[f64]) -> Challenge {
        let e_value = EValue::of(gains);
        let proof = Proof {
            error_rate: ERROR_RATE,
            level: level(1),
            e: e_value.e(),
            n: gains.len(),
            of: gains.len(),
            difference: e_value.difference(),
            needed: e_value.needed(level(1)),
            proven: e_value.proves(level(1)),
        };
        let gains = gains.iter().copied().enumerate().collect();
        Challenge { category_programs: Vec::new(), proof, gains }
    }

    #[test]
    fn a_sequential_test_is_won_without_a_fifth_of_queries_alike_and_lost_without_those_that_won_it()
     {
        let even = won(&[0.4; 20]);
        assert!(even.proof.proven);
        assert!(even.wins_without(&[0, 5, 10, 15]));
        let mut gains = [0.0; 20];
        gains[..4].copy_from_slice(&[1.0; 4]);
        let few = won(&gains);
        assert!(few.proof.e > 6.0, "{}", few.proof.e);
        assert!(!few.wins_without(&[0, 1, 2, 3]));
    }
}
