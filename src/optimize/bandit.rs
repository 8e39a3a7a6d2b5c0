//! A bandit algorithm that chooses the operators of the search actor by gain per cost.
//!
//! Each operator is an arm. The index of an arm is the upper confidence bound of its reward (UCB1,
//! Auer et al. 2002) divided by its mean cost. Costs are counted in program runs, so that no choice
//! depends on a clock. A resumed run recomputes the bandit's state from the recorded trials. The
//! language model is not an arm: it has its own steps in every category.

use crate::mutate::Operator;

/// Maximum reward of one turn of an operator, in summed reciprocal rank: one more correct first
/// answer, which suffices for acceptance.
const MAX_REWARD: f64 = 1.0;
/// Factor of the exploration term, which is added to an operator's mean reward.
const EXPLORATION: f64 = 0.5;

/// Number of turns of an operator, with the sums of rewards (reciprocal rank) and of costs (program
/// runs).
#[derive(Debug, Default)]
struct Tally {
    turns: usize,
    reward: f64,
    cost: f64,
}

/// The statistics of a run's operators, from which the next operator is chosen.
#[derive(Debug, Default)]
pub(super) struct Bandit {
    /// Tallies of the operators, in the order of [`Operator::ALL`].
    tallies: [Tally; Operator::ALL.len()],
}

impl Bandit {
    /// Returns all operators in the order in which the next turn tries them: untried operators
    /// first, then by descending index (see the module documentation). Operators with equal indices
    /// stay in the order of [`Operator::ALL`].
    pub(super) fn order(&self) -> Vec<Operator> {
        let turns: usize = self.tallies.iter().map(|tally| tally.turns).sum();
        let index = |tally: &Tally| {
            let n = tally.turns as f64;
            let bound = EXPLORATION * ((turns as f64 + 1.0).ln() / n).sqrt();
            match tally.turns {
                0 => f64::INFINITY,
                _ => (tally.reward / n + bound) / (tally.cost / n),
            }
        };
        let mut order = Operator::ALL.to_vec();
        let index_of = |operator: &Operator| index(&self.tallies[*operator as usize]);
        order.sort_by(|a, b| index_of(b).total_cmp(&index_of(a)));
        order
    }

    /// Records a turn of an operator: its gain in summed reciprocal rank, and the number of program
    /// runs that it took (`calls`).
    pub(super) fn note(&mut self, operator: Operator, gain: f64, calls: usize) {
        let tally = &mut self.tallies[operator as usize];
        tally.turns += 1;
        tally.reward += gain.clamp(0.0, MAX_REWARD);
        tally.cost += calls.max(1) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_has_a_turn_before_one_has_two() {
        let mut bandit = Bandit::default();
        let mut played = Vec::new();
        for _ in 0..Operator::ALL.len() {
            let operator = bandit.order()[0];
            played.push(operator);
            bandit.note(operator, 0.0, 20);
        }
        assert_eq!(played, Operator::ALL);
    }

    #[test]
    fn arms_that_gain_more_for_less_get_more_turns_and_none_is_forgotten() {
        let mut bandit = Bandit::default();
        let mut turns = [0; 6];
        for _ in 0..120 {
            let operator = bandit.order()[0];
            let at = Operator::ALL.iter().position(|&one| one == operator).unwrap();
            turns[at] += 1;
            let gain = if at < 2 { 0.8 } else { 0.0 };
            bandit.note(operator, gain, if at == 1 { 80 } else { 20 });
        }
        assert!(turns[0] > 2 * turns[1] && turns[0] > 3 * turns[2], "{turns:?}");
        assert!(turns.iter().all(|&turns| turns > 0), "{turns:?}");
    }
}
