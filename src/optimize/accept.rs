//! Acceptance: which changes a run keeps while it goes on, and whether all of them together are
//! proven to help.
//!
//! ```text
//! a change   is kept when training queries of its category speak for it: a choice, no proof
//! the proof  at the end, programs with all kept changes race against those the run began with, on
//!            the validation queries of changed categories, in an order drawn from the seed
//! ```
//!
//! Nothing before the race looks at answers of validation queries, so its error rate holds for the
//! whole run. One race over all categories needs far fewer queries than one for each change: with
//! ten changes to prove and ten validation queries each, nothing could ever be proven.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::{
    bundle::Proof,
    eval::statistics::randomization_p,
    infer::ParamValues,
    optimize::{
        Event, OptimizeError, Run,
        members::Member,
        proof::{ERROR_RATE, Evidence, level},
        trial::Origin,
        wording::{self, Wording},
    },
};

/// Sum of reciprocal ranks that a change must gain on the training queries of its category, both
/// wordings alike ([`wording::gain`]): as much as getting one query right.
pub(super) const MIN_GAIN: f64 = 1.0;
/// Queries of the first batch of a race; each further batch doubles what was raced.
const FIRST_BATCH: usize = 4;
/// Stream of random numbers for the order of a race.
const RACE_STREAM: u64 = 3 << 40;
/// Races that one run directory may hold.
const MAX_RACES: usize = 1_000;

/// A test of a change, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The category.
    pub category: String,
    /// The program it had.
    pub from: String,
    /// The program that was tested; the same when only numbers changed.
    pub to: String,
    /// Numbers of the tested program that differ from the declared ones.
    pub params: ParamValues,
    /// What was changed.
    pub change: String,
    /// Training queries of the category.
    pub n: usize,
    /// Difference of the mean reciprocal ranks.
    pub difference: f64,
    /// The sum of the differences with both wordings weighed alike; what decides.
    #[serde(default)]
    pub gain: f64,
    /// Two-sided p of the paired randomisation test; the queries were seen when the change was
    /// made, so it is no proof.
    pub p: f64,
    /// Evidence for an improvement, see [`Evidence::e`].
    #[serde(default)]
    pub e: f64,
    /// How many more queries with such differences would be proof, by themselves.
    #[serde(default)]
    pub needed: Option<usize>,
    /// Whether the change was kept.
    pub accepted: bool,
}

/// Programs that were raced against those the run began with.
pub(super) struct Challenge {
    /// One per category the run began with, in their order.
    pub(super) members: Vec<Member>,
    /// How the race ended.
    pub(super) proof: Proof,
    /// Validation queries with what the program of their category gained there, in the order of
    /// the race; all of them when it was won, otherwise those that were raced.
    pub(super) gains: Vec<(usize, f64)>,
}

impl Challenge {
    /// Whether the race would have been won without some queries, with evidence as strong for
    /// each query as it took to win with all: fewer queries are not to be a reason for another
    /// choice.
    pub(super) fn wins_without(&self, queries: &[usize]) -> bool {
        let mut evidence = Evidence::default();
        let kept = self.gains.iter().filter(|(query, _)| !queries.contains(query)).count();
        let level = self.proof.level.powf(kept as f64 / self.gains.len().max(1) as f64);
        let others = self.gains.iter().filter(|(query, _)| !queries.contains(query));
        for &(_, gain) in others {
            evidence.add(gain);
            if evidence.proves(level) {
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
        member: &mut Member,
        mut changed: Member,
        queries: &[usize],
        origin: &Origin,
    ) -> Result<bool, OptimizeError> {
        let differences: Vec<f64> = queries
            .iter()
            .map(|&at| f64::from(changed.train[at]) - f64::from(member.train[at]))
            .collect();
        let evidence = Evidence::of(&differences);
        let difference = evidence.difference();
        let p = match differences.is_empty() {
            true => 1.0,
            false => randomization_p(&differences, self.options.seed)?,
        };
        let worded = |(&at, &by): (&usize, &f64)| (Wording::of(&self.train.queries[at].text), by);
        let by_wording: Vec<(Wording, f64)> = queries.iter().zip(&differences).map(worded).collect();
        let gain = wording::gain(&by_wording);
        let accepted = gain >= MIN_GAIN;
        let (name, change) = (member.name(), &origin.change);
        (self.watch)(Event::Tested { name, change, difference, p, accepted });
        let decision = Decision {
            category: name.to_owned(),
            from: member.program.id().to_owned(),
            to: changed.program.id().to_owned(),
            params: changed.params.clone(),
            change: change.clone(),
            n: queries.len(),
            difference,
            gain,
            p,
            e: evidence.e(),
            needed: evidence.needed(level(1)),
            accepted,
        };
        let key = serde_json::to_string(&decision).unwrap_or_default();
        let key = blake3::hash(key.as_bytes()).to_hex().to_string();
        self.trials.journal.commit("decision", &key, &decision, &[])?;
        if accepted {
            changed.queries = member.queries.take();
            changed.name = member.name.take();
            *member = changed;
        }
        Ok(accepted)
    }

    /// Races improved programs against those the run began with, category by category, until an
    /// improvement is proven or cannot be any more; none when nothing changed. `routed` are the
    /// validation queries of each category. Improved programs must not depend on answers of
    /// validation queries.
    pub(super) fn challenge(
        &mut self,
        begun: &[Member],
        members: Vec<Member>,
        routed: &[Vec<usize>],
    ) -> Result<Option<Challenge>, OptimizeError> {
        let changed: Vec<usize> =
            (0..begun.len()).filter(|&at| !begun[at].answers_as(&members[at])).collect();
        if changed.is_empty() {
            return Ok(None);
        }
        let level = self.level(&members)?;
        let mut order: Vec<(usize, usize)> = changed
            .iter()
            .flat_map(|&at| routed[at].iter().map(move |&query| (query, at)))
            .collect();
        order.sort_unstable();
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        rng.set_stream(RACE_STREAM);
        order.shuffle(&mut rng);
        let before = self.ranks_of(begun, &order)?;
        let mut evidence = Evidence::default();
        let mut gains: Vec<(usize, f64)> = Vec::new();
        while gains.len() < order.len() && !evidence.proves(level) {
            let to_come: Vec<f64> =
                before[gains.len()..].iter().map(|&rank| 1.0 - f64::from(rank)).collect();
            if !evidence.could_prove(level, &to_come) {
                break;
            }
            let most = FIRST_BATCH.max(2 * gains.len()).min(order.len());
            let batch = &order[gains.len()..most];
            let after = self.ranks_of(&members, batch)?;
            for (&(query, _), after) in batch.iter().zip(after) {
                let gain = f64::from(after) - f64::from(before[gains.len()]);
                gains.push((query, gain));
                if !evidence.proves(level) {
                    evidence.add(gain);
                }
            }
        }
        let proof = Proof {
            error_rate: ERROR_RATE,
            level,
            e: evidence.e(),
            n: evidence.n(),
            of: order.len(),
            difference: evidence.difference(),
            needed: evidence.needed(level),
            proven: evidence.proves(level),
        };
        if proof.proven {
            let rest = &order[gains.len()..];
            let after = self.ranks_of(&members, rest)?;
            let pairs = rest.iter().zip(&before[gains.len()..]).zip(after);
            let more: Vec<(usize, f64)> = pairs
                .map(|((&(query, _), before), after)| (query, f64::from(after - before)))
                .collect();
            gains.extend(more);
        }
        (self.watch)(Event::Raced(&proof));
        Ok(Some(Challenge { members, proof, gains }))
    }

    /// The level of a race: by how many other races the journal holds, so that runs that were
    /// continued after they had ended spend no error twice.
    fn level(&mut self, members: &[Member]) -> Result<f64, OptimizeError> {
        let mut hasher = blake3::Hasher::new();
        for member in members {
            let line = format!("{} {:?}\n", member.program.id(), member.params);
            hasher.update(line.as_bytes());
        }
        let digest = hasher.finalize().to_hex().to_string();
        for race in 1..=MAX_RACES {
            let key = race.to_string();
            match self.trials.journal.find::<String>("race", &key)? {
                Some(other) if other != digest => {}
                Some(_) => return Ok(level(race)),
                None => {
                    self.trials.journal.commit("race", &key, &digest, &[])?;
                    return Ok(level(race));
                }
            }
        }
        Err(OptimizeError::Races(MAX_RACES))
    }

    /// Reciprocal ranks on validation queries, each by the program of its category.
    fn ranks_of(
        &mut self,
        members: &[Member],
        order: &[(usize, usize)],
    ) -> Result<Vec<f32>, OptimizeError> {
        let mut ranks = vec![0.0; order.len()];
        for (category, member) in members.iter().enumerate() {
            let places: Vec<usize> =
                (0..order.len()).filter(|&place| order[place].1 == category).collect();
            if places.is_empty() {
                continue;
            }
            let queries: Vec<usize> = places.iter().map(|&place| order[place].0).collect();
            let origin = Origin {
                proposed_by: member.proposed_by.clone(),
                change: "raced on validation".to_owned(),
                parent: None,
            };
            let of = self.trial(&member.program, &member.params, true, &queries, &origin)?;
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
        let evidence = Evidence::of(gains);
        let proof = Proof {
            error_rate: ERROR_RATE,
            level: level(1),
            e: evidence.e(),
            n: gains.len(),
            of: gains.len(),
            difference: evidence.difference(),
            needed: evidence.needed(level(1)),
            proven: evidence.proves(level(1)),
        };
        let gains = gains.iter().copied().enumerate().collect();
        Challenge { members: Vec::new(), proof, gains }
    }

    #[test]
    fn a_race_is_won_without_a_fifth_of_queries_alike_and_lost_without_those_that_won_it() {
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
