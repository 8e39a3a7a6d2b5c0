//! Soft readings: the metapaths that a question probably means, if no reading explains every word.
//!
//! "which medicines do people take when they have insomnia" has words that no reading explains, so
//! it is not plain. The other words still distinguish its metapaths: an unexplained word is equally
//! unlikely under all of them.

use std::collections::BTreeSet;

use super::{
    MAX_BEHIND, Metapath, Reading, TRIED, metapath_in_words, metapaths_from,
    model::{LONGER, Model},
    reached,
};
use agent_kb::{Combine, NodeId, Scores, TypeId};

/// Maximum number of likely metapaths per name.
const KEPT: usize = 8;
/// Prior probability of two steps, divided among all metapaths of two steps; the metapaths of one
/// step share the rest.
const TWO_STEPS: f32 = 0.2;
/// Added to the log likelihood of metapaths of two steps if there is a lexicon, which has only
/// metapaths of one step.
const NOT_IN_LEXICON: f32 = -4.0;
/// Minimum probability of a metapath that answers a question although some words are unexplained.
const MIN_PROBABILITY: f32 = 0.6;
/// Maximum numbers of unexplained words of such a question: the first applies if the lexicon has
/// the metapath, the second if it does not.
const MAX_UNEXPLAINED_IN_LEXICON: u32 = 3;
const MAX_UNEXPLAINED: u32 = 1;

/// A metapath that a question may mean.
pub(super) struct LikelyMetapath {
    metapath: Metapath,
    /// Probability of the metapath; the probabilities of all likely metapaths of a name sum to 1.
    probability: f32,
    /// The nodes that the metapath reaches, ascending, without the nodes of the name; never empty.
    nodes: Vec<NodeId>,
}

impl Model<'_> {
    /// Returns, for each name, the likely metapaths from it, most likely first.
    pub(super) fn likely_metapaths(&self) -> Vec<Vec<LikelyMetapath>> {
        let types = self.question.linked_types(self.base);
        let pairs = self.question.names.iter().zip(types);
        pairs.map(|(names, types)| self.likely_from(names, &types)).collect()
    }

    /// Scores each node by the total probability of the metapaths that reach it, averaged over
    /// names. The probabilities of a name are multiplied by the share of the question's topical
    /// words that its most likely metapath explains.
    pub(super) fn reached_by(&self, likely: Vec<Vec<LikelyMetapath>>) -> Scores {
        let n_names = likely.len() as f32;
        let n_words = self.topical.count_ones();
        let share = |likely: &LikelyMetapath| match n_words {
            0 => 1.0,
            n => self.n_explained(&likely.metapath) as f32 / n as f32,
        };
        let of_name = |likely: Vec<LikelyMetapath>| {
            let factor = likely.first().map_or(0.0, share) / n_names;
            let scores = likely.into_iter().map(|LikelyMetapath { probability, nodes, .. }| {
                Scores::new(nodes.into_iter().map(|node| (node, factor * probability)).collect())
            });
            sum(scores)
        };
        sum(likely.into_iter().map(of_name))
    }

    /// Returns the likely metapaths that lead from a name to other nodes, most likely first. A
    /// metapath of two steps must explain a topical word of the question.
    fn likely_from(&self, names: &[NodeId], types: &[TypeId]) -> Vec<LikelyMetapath> {
        let is_said = |metapath: &Metapath| match self.lexicon.has_directions(self.base, metapath) {
            true => metapath.is_one_way_within_a_type(),
            false => {
                !metapath.is_one_way_within_a_type()
                    || self.question.says_direction(metapath) == Some(true)
            }
        };
        let metapaths = types.iter().flat_map(|&kind| metapaths_from(self.base, kind, true));
        let (one_step, two_steps): (Vec<Metapath>, Vec<Metapath>) =
            metapaths.filter(is_said).partition(|metapath| metapath.steps.len() == 1);
        let prior = |share: f32, n: usize| (share / n.max(1) as f32).ln();
        let (of_one, of_two) =
            (prior(1.0 - TWO_STEPS, one_step.len()), prior(TWO_STEPS, two_steps.len()) - LONGER);
        let stems = &self.question.other_stems;
        let (logs, log_of_all) = self.lexicon.log_likelihoods(self.base, stems, &one_step);
        let not_in_lexicon = if self.lexicon.is_empty() { 0.0 } else { NOT_IN_LEXICON };
        let of_two = of_two + log_of_all + not_in_lexicon;
        let two_steps = two_steps.into_iter().filter(|metapath| self.n_explained(metapath) > 0);
        let priors = one_step.into_iter().zip(logs).map(|(one, log)| (of_one + log, one));
        let priors = priors.chain(two_steps.map(|two| (of_two, two)));
        let mut likely: Vec<(f32, Metapath)> = priors
            .map(|(prior, metapath)| {
                let log = self.guess(&[&self.worded(metapath.clone())]).log;
                (prior + log, metapath)
            })
            .collect();
        likely.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut kept: Vec<(f32, LikelyMetapath)> = Vec::new();
        for (log, metapath) in likely.into_iter().take(TRIED) {
            let best = kept.first().map_or(log, |first| first.0);
            if kept.len() == KEPT || log < best - MAX_BEHIND {
                break;
            }
            let mut nodes = reached(self.base, names, &metapath).unwrap_or_default();
            nodes.retain(|node| !names.contains(node));
            if !nodes.is_empty() {
                let probability = (log - best).exp();
                kept.push((log, LikelyMetapath { metapath, probability, nodes }));
            }
        }
        let mut kept: Vec<LikelyMetapath> = kept.into_iter().map(|pair| pair.1).collect();
        let total: f32 = kept.iter().map(|one| one.probability).sum();
        kept.iter_mut().for_each(|one| one.probability /= total);
        kept
    }

    /// Reads a question with one name and few unexplained words. `None` unless the most likely
    /// metapath has one step and explains a word, and the metapaths of one step to the same type
    /// together have a probability of at least [`MIN_PROBABILITY`]. `None` also if the unexplained
    /// words describe another neighbour.
    pub(super) fn nearly_plain(&self, likely: &[Vec<LikelyMetapath>]) -> Option<Reading> {
        let ([names], [likely]) = (self.question.names.as_slice(), likely) else { return None };
        let LikelyMetapath { metapath, nodes, .. } = likely.first()?;
        let is_similar = |other: &&LikelyMetapath| {
            other.metapath.steps.len() == 1 && other.metapath.target == metapath.target
        };
        let similar = || likely.iter().filter(is_similar);
        let n_unexplained = self.unexplained(metapath).len() as u32;
        let max_unexplained = match self.lexicon.phrasing(self.base, metapath) {
            Some(_) => MAX_UNEXPLAINED_IN_LEXICON,
            None => MAX_UNEXPLAINED,
        };
        let is_meant = metapath.steps.len() == 1
            && similar().map(|one| one.probability).sum::<f32>() >= MIN_PROBABILITY
            && n_unexplained < self.topical.count_ones()
            && n_unexplained <= max_unexplained
            && !self.describes_another(names, metapath, nodes);
        is_meant.then(|| {
            let mut reading = Reading {
                metapaths: vec![metapath_in_words(self.base, metapath)],
                named: names.clone(),
                answers: nodes.clone(),
                by_synonym: true,
                ways: vec![vec![(names.clone(), metapath.clone())]],
                ..Reading::default()
            };
            let reversed = reading.reached_in_reverse(self.base, self.question);
            let others: BTreeSet<NodeId> =
                similar().flat_map(|one| &one.nodes).copied().chain(reversed).collect();
            let is_other = |node: &NodeId| nodes.binary_search(node).is_err();
            reading.alternatives = others.into_iter().filter(is_other).collect();
            reading
        })
    }

    /// Whether the words that `metapath` does not explain describe a neighbour of the named nodes
    /// better than `answers`: the text of a neighbour that may be an answer has at least two of
    /// these words, and more of them than the text of any of `answers`. For "loop at password reset
    /// reported by Ada Lind", read as her manager, this may be a ticket about a password.
    fn describes_another(&self, names: &[NodeId], metapath: &Metapath, answers: &[NodeId]) -> bool {
        let terms = &self.base.terms;
        let words = self.unexplained(metapath).into_iter();
        let words: Vec<u32> = words.filter_map(|stem| terms.stem_id(stem)).collect();
        let n_said = |&node: &NodeId| words.iter().filter(|&&word| terms.has(node, word)).count();
        let most_said = answers.iter().map(n_said).max().unwrap_or(0);
        let says_more =
            |node: &NodeId| answers.binary_search(node).is_err() && n_said(node) > most_said.max(1);
        let near = metapaths_from(self.base, metapath.start, false).into_iter();
        let mut near = near.filter(|metapath| metapath.steps.len() == 1);
        words.len() > 1
            && near.any(|metapath| {
                let nodes = reached(self.base, names, &metapath).unwrap_or_default();
                nodes.iter().any(says_more)
            })
    }
}

/// Sums scores node by node; empty if `scores` is.
fn sum(scores: impl Iterator<Item = Scores>) -> Scores {
    scores.reduce(|all, one| all.combine(&one, Combine::Sum)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::bundle::{conditions::Conditions, reading::*};
    use agent_testing::base_of;

    #[test]
    fn words_in_the_text_of_another_neighbour_are_left_to_programs() {
        let nodes = r#"{"id": 0, "type": "person", "name": "Ada Lind"}
{"id": 1, "type": "person", "name": "Bo Quist"}
{"id": 2, "type": "ticket", "name": "Login", "details": {"text": "the password mask loops"}}
"#;
        let base = base_of(nodes, "0\thas_manager\t1\n2\thas_person\t0\n", "person ticket");
        let metapath = "person -has_manager-> person".to_owned();
        let words = ["who", "report", "whose"].map(|stem| (stem.to_owned(), 4));
        let words = words.into_iter().collect();
        let written = Phrasing { metapaths: vec![metapath], n: 12, words, written: true };
        let answers = |query: &str| {
            let conditions = Conditions::read(&base, query);
            let read = read_or_guess(&base, &conditions, &Phrasings(vec![written.clone()])).0;
            read.map(|reading| reading.answers)
        };
        assert_eq!(answers("looping kettle reported by Ada Lind"), Some(vec![1]));
        assert_eq!(answers("looping password reported by Ada Lind"), None);
    }
}
