//! Who proposes next: the operators of the search actor and the language model are arms of one
//! bandit, chosen by what they gained for what they cost.
//!
//! An arm's index is its upper confidence bound (UCB1, Auer et al. 2002) divided by its mean cost.
//! Costs are counted in program calls, to which tokens are converted at a fixed rate, so that no
//! choice depends on a clock; all is computed again from trials and replies when a run goes on.
//!
//! Must not know: programs, queries, how proposals are made.

use crate::optimize::mutate::Operator;

/// What one token of a request or reply costs, program calls.
const CALLS_PER_TOKEN: f64 = 0.02;
/// Least share of the turns that the language model gets beside operators: its first proposals
/// cost much, and would not be followed by others.
const LLM_SHARE: f64 = 0.25;
/// Most that one turn can earn: a right answer, as much as keeps a change.
const MAX_REWARD: f64 = 1.0;
/// Weight of the confidence bound against the mean.
const EXPLORATION: f64 = 0.5;

/// A proposer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// An operator of the search actor.
    Operator(Operator),
    /// A program rewritten by the language model.
    Rewrite,
}

/// What a turn cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    /// Queries on which a program was run.
    pub(super) calls: usize,
    /// Tokens asked and answered.
    pub(super) tokens: u64,
}

impl Cost {
    /// In program calls, at least one.
    fn in_calls(self) -> f64 {
        (self.calls as f64 + self.tokens as f64 * CALLS_PER_TOKEN).max(1.0)
    }
}

/// What an arm did so far.
#[derive(Clone, Copy, Debug)]
struct Tally {
    arm: Arm,
    turns: usize,
    reward: f64,
    cost: f64,
}

/// The arms of a run.
#[derive(Debug)]
pub(super) struct Bandit {
    tallies: Vec<Tally>,
}

impl Bandit {
    /// The arms of a run with or without operators, with or without a language model.
    pub(super) fn new(operators: bool, llm: bool) -> Self {
        let operators = Operator::ALL.iter().filter(|_| operators).map(|&one| Arm::Operator(one));
        let llm = llm.then_some(Arm::Rewrite);
        let tally = |arm| Tally { arm, turns: 0, reward: 0.0, cost: 0.0 };
        Self { tallies: operators.chain(llm).map(tally).collect() }
    }

    /// All arms in the order in which they are to be tried for the next turn: the language model
    /// first while it has less than its share, then by index, ties and arms without a turn in
    /// their own order.
    pub(super) fn order(&self) -> Vec<Arm> {
        let turns: usize = self.tallies.iter().map(|tally| tally.turns).sum();
        let index = |tally: &Tally| {
            let n = tally.turns as f64;
            let bound = EXPLORATION * ((turns as f64 + 1.0).ln() / n).sqrt();
            match tally.turns {
                0 => f64::INFINITY,
                _ => (tally.reward / n + bound) / (tally.cost / n),
            }
        };
        let owed = |tally: &Tally| {
            tally.arm == Arm::Rewrite && (tally.turns as f64) < LLM_SHARE * (turns as f64 + 1.0)
        };
        let mut order: Vec<(bool, f64, Arm)> =
            self.tallies.iter().map(|tally| (owed(tally), index(tally), tally.arm)).collect();
        order.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        order.into_iter().map(|one| one.2).collect()
    }

    /// Notes a turn: what it gained in the summed reciprocal rank of its category, and what it
    /// cost.
    pub(super) fn note(&mut self, arm: Arm, gain: f64, cost: Cost) {
        if let Some(tally) = self.tallies.iter_mut().find(|tally| tally.arm == arm) {
            tally.turns += 1;
            tally.reward += gain.clamp(0.0, MAX_REWARD);
            tally.cost += cost.in_calls();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHEAP: Cost = Cost { calls: 20, tokens: 0 };

    #[test]
    fn every_arm_has_a_turn_before_one_has_two() {
        let mut bandit = Bandit::new(true, false);
        let mut played = Vec::new();
        for _ in 0..Operator::ALL.len() {
            let arm = bandit.order()[0];
            played.push(arm);
            bandit.note(arm, 0.0, CHEAP);
        }
        assert_eq!(played, Operator::ALL.map(Arm::Operator));
    }

    #[test]
    fn arms_that_gain_more_for_less_get_more_turns_and_none_is_forgotten() {
        let mut bandit = Bandit::new(true, false);
        let mut turns = [0; 6];
        for _ in 0..120 {
            let Arm::Operator(operator) = bandit.order()[0] else { unreachable!() };
            let at = Operator::ALL.iter().position(|&one| one == operator).unwrap();
            turns[at] += 1;
            let gain = if at < 2 { 0.8 } else { 0.0 };
            let cost = if at == 1 { Cost { calls: 80, tokens: 0 } } else { CHEAP };
            bandit.note(Arm::Operator(operator), gain, cost);
        }
        assert!(turns[0] > 2 * turns[1] && turns[0] > 3 * turns[2], "{turns:?}");
        assert!(turns.iter().all(|&turns| turns > 0), "{turns:?}");
    }

    #[test]
    fn a_model_has_its_share_however_little_it_gains() {
        let mut bandit = Bandit::new(true, true);
        assert_eq!(bandit.order()[0], Arm::Rewrite);
        let mut asked = 0;
        for _ in 0..40 {
            let arm = bandit.order()[0];
            let llm = arm == Arm::Rewrite;
            asked += usize::from(llm);
            let tokens = if llm { 20_000 } else { 0 };
            bandit.note(arm, if llm { 0.0 } else { 0.5 }, Cost { calls: 20, tokens });
        }
        assert_eq!(asked, 10);
        assert_eq!(Bandit::new(false, true).order(), [Arm::Rewrite]);
    }
}
