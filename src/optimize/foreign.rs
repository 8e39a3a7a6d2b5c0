//! Decides which rankings of other processes a run counts: those that a sandbox could have given, of
//! workers whose rankings of some queries, drawn at random, this process computes too.
//!
//! A worker that differs is dropped for the rest of the run. Must not know how rankings travel.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
    ops::Range,
    sync::{Mutex, PoisonError},
};

use crate::{OptimizeError, trial::LocalRun};
use agent_retrieve::Ranking;
use agent_sandbox::{Limits, check_ranking};

/// Units of a worker in one trial of which one query is computed here too.
const UNITS_A_CHECK: usize = 4;

/// Rankings that another process computed.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignUnit {
    /// Name of the process, as it states it.
    pub worker: String,
    /// The queries, by position.
    pub places: Range<usize>,
    /// The ranking of each; `None` where it has none.
    pub rankings: Vec<Option<Ranking>>,
}

/// Checks the rankings of other processes during a run.
pub struct ForeignCheck {
    n_nodes: usize,
    limits: Limits,
    dropped: Mutex<BTreeSet<String>>,
}

impl ForeignCheck {
    /// A check for a base with that many nodes.
    pub fn new(n_nodes: usize) -> Self {
        Self { n_nodes, limits: Limits::default(), dropped: Mutex::default() }
    }

    /// Longest encoding of a unit with that many queries, bytes: a length, and a node and a score for
    /// each answer, 4 bytes each.
    pub fn max_bytes(&self, queries: usize) -> u64 {
        (queries * (4 + 8 * self.limits.max_answers)) as u64
    }

    /// Keeps the units that count; returns the workers that are dropped now, by name. `here` computes
    /// at least one query of each worker.
    ///
    /// # Errors
    /// Those of `here`.
    pub fn keep(
        &self,
        units: &mut Vec<ForeignUnit>,
        here: &LocalRun<'_>,
    ) -> Result<Vec<String>, OptimizeError> {
        let mut dropped = self.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let before = dropped.clone();
        dropped.extend(units.iter().filter(|unit| !self.fits(unit)).map(|one| one.worker.clone()));
        units.retain(|unit| !dropped.contains(&unit.worker));
        let drawn = drawn(units);
        let places: Vec<usize> = drawn.iter().map(|&(_, place)| place).collect();
        let computed = if places.is_empty() { Vec::new() } else { here(&places)? };
        let mut undecided = BTreeSet::new();
        for (&(at, place), (ranking, failure)) in drawn.iter().zip(&computed) {
            let unit = &units[at];
            if failure.is_some() {
                // It may have failed here alone, such as by a time limit.
                undecided.insert(unit.places.start);
            } else if unit.rankings[place - unit.places.start].as_ref() != Some(ranking) {
                dropped.insert(unit.worker.clone());
            }
        }
        units.retain(|unit| {
            !dropped.contains(&unit.worker) && !undecided.contains(&unit.places.start)
        });
        Ok(dropped.difference(&before).cloned().collect())
    }

    /// Whether programs could have ranked so.
    fn fits(&self, unit: &ForeignUnit) -> bool {
        let fits = |ranking: &Ranking| check_ranking(ranking, self.n_nodes, &self.limits).is_ok();
        unit.rankings.len() == unit.places.len() && unit.rankings.iter().flatten().all(fits)
    }
}

/// For each worker, one unit in [`UNITS_A_CHECK`] with one of its queries that has a ranking, drawn at random.
fn drawn(units: &[ForeignUnit]) -> Vec<(usize, usize)> {
    let random = RandomState::new();
    let mut of: BTreeMap<&str, Vec<(u64, usize, usize)>> = BTreeMap::new();
    for (at, unit) in units.iter().enumerate() {
        let ranked = unit.places.clone().zip(&unit.rankings).filter(|(_, one)| one.is_some());
        // The least of random numbers is one of them at random.
        let least = ranked.map(|(place, _)| (random.hash_one(place), at, place)).min();
        of.entry(&unit.worker).or_default().extend(least);
    }
    let few = of.into_values().flat_map(|mut drawn| {
        drawn.sort_unstable();
        drawn.truncate(drawn.len().div_ceil(UNITS_A_CHECK));
        drawn
    });
    few.map(|(_, at, place)| (at, place)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::TrialRanking;

    const N_NODES: usize = 100;

    fn honest(place: usize) -> Ranking {
        vec![(place as u32, 0.5)]
    }

    /// As this process ranks.
    fn here(places: &[usize]) -> Result<Vec<TrialRanking>, OptimizeError> {
        Ok(places.iter().map(|&place| (honest(place), None)).collect())
    }

    fn unit(worker: &str, number: usize, rank: impl Fn(usize) -> Ranking) -> ForeignUnit {
        let places = number * 8..number * 8 + 8;
        let rankings = places.clone().map(|place| Some(rank(place))).collect();
        ForeignUnit { worker: worker.to_owned(), places, rankings }
    }

    #[test]
    fn what_no_program_may_give_drops_its_worker_with_all_its_units() {
        let wrong: [Ranking; 5] = [
            vec![(N_NODES as u32, 1.0)],
            vec![(1, f32::NAN)],
            vec![(1, f32::INFINITY)],
            vec![(7, 1.0); 2],
            vec![(1, 0.5), (2, 1.0)],
        ];
        for ranking in wrong {
            let check = ForeignCheck::new(N_NODES);
            let of_one = |place| if place == 9 { ranking.clone() } else { honest(place) };
            let mut units = vec![unit("a", 0, of_one), unit("a", 1, of_one), unit("b", 2, honest)];
            assert_eq!(check.keep(&mut units, &here).unwrap(), ["a"], "{ranking:?}");
            assert_eq!(units, [unit("b", 2, honest)]);
            // For the rest of the run.
            let mut units = vec![unit("a", 0, honest)];
            assert!(check.keep(&mut units, &here).unwrap().is_empty() && units.is_empty());
        }
        let many = (0..=Limits::default().max_answers as u32).map(|node| (node, 1.0)).collect();
        let check = ForeignCheck::new(10_000);
        let mut units = vec![unit("a", 0, |_| Ranking::clone(&many))];
        assert_eq!(check.keep(&mut units, &here).unwrap(), ["a"]);
    }

    #[test]
    fn a_worker_that_ranks_otherwise_is_dropped() {
        let check = ForeignCheck::new(N_NODES);
        let constant = |_| vec![(3, 1.0)];
        let mut units: Vec<ForeignUnit> = (4..8).map(|n| unit("b", n, constant)).collect();
        units.push(unit("a", 0, honest));
        assert_eq!(check.keep(&mut units, &here).unwrap(), ["b"]);
        assert_eq!(units, [unit("a", 0, honest)]);
        // A query that fails here proves nothing.
        let fails = |places: &[usize]| -> Result<Vec<TrialRanking>, OptimizeError> {
            Ok(places.iter().map(|_| (Ranking::new(), Some("deadline".to_owned()))).collect())
        };
        assert!(check.keep(&mut units, &fails).unwrap().is_empty() && units.is_empty());
        let mut units = vec![unit("a", 0, honest)];
        assert!(check.keep(&mut units, &here).unwrap().is_empty() && units.len() == 1);
    }
}
