//! `mfar`: the fields of a node, each weighed as the query asks, by weights that were learnt.

use std::{path::Path, sync::Arc};

use crate::{Answer, Detail, RetrieveError, Retriever, checked, place_of};
use agent_index::IndexedBase;
use agent_kb::{
    NodeId,
    answer::{Cell, Explanation},
};
use agent_train::{
    TrainError,
    mfar::{self, Found, Mask, Scorers},
};

/// What it is called.
const NAME: &str = "mfar";
/// Weights of a query, and scores of a node, that an explanation shows, largest first.
const EXPLAINED: usize = 20;

/// A trained model over its base.
pub struct Mfar {
    model: mfar::Mfar,
    scorers: Scorers,
    mask: Mask,
}

impl Mfar {
    /// Opens the model in a directory; `mask` names fields that get no weight, as [`Mask::read`] has
    /// it.
    ///
    /// # Errors
    /// That it cannot be read, or was trained over another base, that the base has no index of
    /// fields, or that the mask names none of them.
    pub fn open(base: &Arc<IndexedBase>, dir: &Path, mask: &str) -> Result<Self, TrainError> {
        let (model, record) = mfar::Mfar::read(dir)?;
        let scorers = model.scorers(&record, base, dir)?;
        let mask = Mask::read(mask, &scorers)?;
        Ok(Self { model, scorers, mask })
    }

    /// The largest weights of the query.
    fn weights(&self, found: &Found) -> Explanation {
        let mut weights: Vec<(usize, f32)> = found.weights.iter().copied().enumerate().collect();
        weights.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown = weights.into_iter().filter(|pair| pair.1 > 0.0).take(EXPLAINED);
        let shown = shown.map(|(at, weight)| Explanation::new(self.scorers.name(at), weight));
        Explanation::new("weights of the query", Cell::Empty).with(shown)
    }

    /// What scorers add to the score of a node, the largest first.
    fn parts(&self, found: &Found, node: NodeId) -> Vec<Explanation> {
        let mut parts = found.parts.get(&node).cloned().unwrap_or_default();
        parts.sort_by(|a, b| b.adds.abs().total_cmp(&a.adds.abs()));
        let shown = parts.into_iter().take(EXPLAINED).map(|part| {
            let weight = found.weights.get(part.scorer).copied().unwrap_or_default();
            Explanation::new(self.scorers.name(part.scorer), Cell::Empty).with([
                Explanation::new("adds", part.adds),
                Explanation::new("score", part.score),
                Explanation::new("weight", weight),
            ])
        });
        shown.collect()
    }
}

impl Retriever for Mfar {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        let found = self.model.search(&self.scorers, &self.mask, query, k, detail.explained);
        let explained = |at, node, score| {
            place_of(NAME, at, score).with(self.parts(&found, node)).with([self.weights(&found)])
        };
        Ok(Answer::explained(found.ranking.clone(), detail, explained))
    }
}
