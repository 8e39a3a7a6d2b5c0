//! Checks rankings that other processes (workers) computed. Each ranking must satisfy the limits of
//! the sandbox, and this process recomputes some rankings of each worker, drawn at random.
//!
//! A worker with an invalid or different ranking is dropped for the rest of the run. This module
//! does not depend on how rankings are sent between processes.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
    ops::Range,
    sync::Mutex,
};

use crate::{Result, trial::LocalRun};
use agent_ground::locks::locked;
use agent_retrieve::Ranking;
use agent_sandbox::{Limits, check_ranking};

/// One in `UNITS_A_CHECK` of each worker's units in a trial, rounded up, is checked: the ranking of
/// one of the unit's queries is recomputed.
const UNITS_A_CHECK: usize = 4;

/// Rankings that another process computed for adjacent queries of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignUnit {
    /// Name that the other process reports for itself.
    pub worker: String,
    /// Positions of the queries in the trial.
    pub places: Range<usize>,
    /// The ranking of each query in `places`; `None` if the other process computed none for the
    /// query.
    pub rankings: Vec<Option<Ranking>>,
}

/// Checks the rankings of other processes during a run, and remembers which workers were dropped.
pub struct ForeignCheck {
    n_nodes: usize,
    limits: Limits,
    dropped: Mutex<BTreeSet<String>>,
}

impl ForeignCheck {
    /// Creates the check of rankings for a base with `n_nodes` nodes.
    pub fn new(n_nodes: usize) -> Self {
        Self { n_nodes, limits: Limits::default(), dropped: Mutex::default() }
    }

    /// Returns the maximum encoded size in bytes of a unit with `queries` queries. A query takes 4
    /// bytes for the length of its ranking, and 8 bytes (node and score) for each ranked node.
    pub fn max_bytes(&self, queries: usize) -> u64 {
        (queries * (4 + 8 * self.limits.max_answers)) as u64
    }

    /// Checks `units` and removes unusable units, that is, units of dropped workers, and units with
    /// a ranking that could not be recomputed. Returns the names of newly dropped workers,
    /// ascending. `here` recomputes rankings in this process, at least one per worker.
    ///
    /// # Errors
    /// Any error that `here` returns.
    pub fn keep(&self, units: &mut Vec<ForeignUnit>, here: &LocalRun<'_>) -> Result<Vec<String>> {
        let mut dropped = locked(&self.dropped);
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
                // The program may have failed only in this process, for example at a time limit.
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

    /// Whether the unit has one entry per query and its rankings satisfy the limits of the sandbox.
    fn fits(&self, unit: &ForeignUnit) -> bool {
        let fits = |ranking: &Ranking| check_ranking(ranking, self.n_nodes, &self.limits).is_ok();
        unit.rankings.len() == unit.places.len() && unit.rankings.iter().flatten().all(fits)
    }
}

/// Draws one in [`UNITS_A_CHECK`] units of each worker, rounded up, and one ranked query of each
/// drawn unit. Returns pairs of the unit's position in `units` and the query's position in the
/// trial.
fn drawn(units: &[ForeignUnit]) -> Vec<(usize, usize)> {
    let random = RandomState::new();
    let mut of: BTreeMap<&str, Vec<(u64, usize, usize)>> = BTreeMap::new();
    for (at, unit) in units.iter().enumerate() {
        let ranked = unit.places.clone().zip(&unit.rankings).filter(|(_, one)| one.is_some());
        // The query with the smallest random hash is a random query.
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

    /// Returns the rankings that this process computes.
    fn here(places: &[usize]) -> Result<Vec<TrialRanking>> {
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
        let fails = |places: &[usize]| -> Result<Vec<TrialRanking>> {
            Ok(places.iter().map(|_| (Ranking::new(), Some("deadline".to_owned()))).collect())
        };
        assert!(check.keep(&mut units, &fails).unwrap().is_empty() && units.is_empty());
        let mut units = vec![unit("a", 0, honest)];
        assert!(check.keep(&mut units, &here).unwrap().is_empty() && units.len() == 1);
    }
}
