//! Soft readings: the metapaths that a question probably means, where no reading explains every word.
//!
//! "which medicines do people take when they have insomnia" has words that nothing explains, so it is not
//! plain. The others still tell its metapaths apart: a word that nothing explains is equally unlikely
//! under all of them.

use super::{
    Metapath, Phrasings, Question, Reading, metapath_in_words,
    model::{LONGER, Model, WordedMetapath},
    reached,
};
use agent_index::IndexedBase;
use agent_kb::{Combine, NodeId, Scores, TypeId};

/// Maximum number of metapaths of a name that are followed, most likely first.
const FOLLOWED: usize = 24;
/// Maximum number of these that reach nodes.
const KEPT: usize = 8;
/// Maximum log distance to the most likely metapath that reaches nodes.
const MAX_BEHIND: f32 = 4.0;
/// Prior probability of one step, and of two; each is spread over all metapaths of that length.
const PRIOR_BY_STEPS: [f32; 2] = [0.8, 0.2];
/// Minimum probability of a metapath that answers a question with one word that it does not explain.
const MIN_PROBABILITY: f32 = 0.6;

/// A metapath that a question may mean.
struct LikelyMetapath {
    metapath: Metapath,
    /// Probability among the metapaths that reach nodes.
    probability: f32,
    /// The nodes that it reaches, ascending, without those of the name; at least one.
    nodes: Vec<NodeId>,
}

/// The nodes that the metapaths of a question's names reach: for each node, the mean over the names of the
/// probability that a metapath that reaches it is meant, times the share of the question's words that the
/// most likely metapath explains. In `0..=1`; empty for a question without names, or with more than a
/// plain question may have.
pub fn likely_answers(base: &IndexedBase, text: &str, phrasings: &Phrasings) -> Scores {
    let question = Question::new(base, text);
    if !question.may_be_plain() {
        return Scores::default();
    }
    let model = Model::new(base, &question, phrasings);
    let of_name = |(names, types): (&Vec<NodeId>, Vec<TypeId>)| {
        let likely = model.likely_metapaths(names, &types);
        let explained = likely.first().map_or(0.0, |first| model.share_explained(&first.metapath));
        let factor = explained / question.names.len() as f32;
        let scores = likely.into_iter().map(|LikelyMetapath { probability, nodes, .. }| {
            Scores::new(nodes.into_iter().map(|node| (node, factor * probability)).collect())
        });
        scores.reduce(|all, one| all.combine(&one, Combine::Sum)).unwrap_or_default()
    };
    let of_names = question.names.iter().zip(question.linked_types(base)).map(of_name);
    of_names.reduce(|all, one| all.combine(&one, Combine::Sum)).unwrap_or_default()
}

impl Model<'_> {
    /// The metapaths from a name that reach nodes, most likely first.
    fn likely_metapaths(&self, names: &[NodeId], types: &[TypeId]) -> Vec<LikelyMetapath> {
        let metapaths: Vec<WordedMetapath<'_>> =
            types.iter().flat_map(|&kind| self.metapaths(kind)).collect();
        let n_steps = |one: &WordedMetapath<'_>| one.metapath.steps.len();
        let priors = [1, 2].map(|n| {
            let n_alike = metapaths.iter().filter(|one| n_steps(one) == n).count().max(1);
            (PRIOR_BY_STEPS[n - 1] / n_alike as f32).ln() - LONGER * (n - 1) as f32
        });
        let log = |one: &WordedMetapath<'_>| self.guess(&[one]).log + priors[n_steps(one) - 1];
        let mut likely: Vec<(f32, Metapath)> =
            metapaths.iter().map(|one| (log(one), one.metapath.clone())).collect();
        likely.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let mut kept: Vec<(f32, LikelyMetapath)> = Vec::new();
        for (log, metapath) in likely.into_iter().take(FOLLOWED) {
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

    /// The reading of a question with one name and one word that no reading explains, if a metapath of
    /// one step is likely and explains another word.
    pub(super) fn nearly_plain(&self) -> Option<Reading> {
        let [names] = self.question.names.as_slice() else { return None };
        let types = self.question.linked_types(self.base).pop()?;
        let n = self.topical.count_ones();
        let likely = self.likely_metapaths(names, &types).into_iter().next()?;
        let n_explained = (self.share_explained(&likely.metapath) * n as f32).round() as u32;
        let is_meant = likely.probability >= MIN_PROBABILITY
            && likely.metapath.steps.len() == 1
            && n_explained > 0
            && n - n_explained <= 1;
        is_meant.then(|| {
            let reading = Reading {
                metapaths: vec![metapath_in_words(self.base, &likely.metapath)],
                named: names.clone(),
                answers: likely.nodes,
                by_synonym: true,
                ways: vec![vec![(names.clone(), likely.metapath)]],
                ..Reading::default()
            };
            Reading { reverse: reading.reached_in_reverse(self.base, self.question), ..reading }
        })
    }
}
