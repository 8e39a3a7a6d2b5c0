//! `mfar`: scores every field of a node separately, and ranks by the weighted sum of these scores.
//! The weights are trained and depend on the query.

use std::{path::Path, sync::Arc};

use crate::{Answer, Detail, RetrieveError, Retriever, check_query, rank_explanation};
use agent_index::IndexedBase;
use agent_kb::{
    NodeId,
    answer::{Cell, Explanation},
};
use agent_train::{
    TrainError,
    mfar::{self, Mask, Scorers, SearchResult},
};

/// Name of the system.
const NAME: &str = "mfar";
/// Maximum number of weights, and maximum number of field contributions, in an explanation.
const EXPLAINED: usize = 20;

/// A trained model with the base over which it was trained.
pub struct Mfar {
    model: mfar::Mfar,
    scorers: Scorers,
    mask: Mask,
}

impl Mfar {
    /// Opens the model in a directory. `mask` names the scorers to ignore, in the syntax of
    /// [`Mask::read`].
    ///
    /// # Errors
    /// [`TrainError`] if the model cannot be read or was trained over another base, the base has no
    /// index of fields, or the mask names an unknown field.
    pub fn open(base: &Arc<IndexedBase>, dir: &Path, mask: &str) -> Result<Self, TrainError> {
        let (model, record) = mfar::Mfar::read(dir)?;
        let scorers = model.scorers(&record, base, dir)?;
        let mask = Mask::read(mask, &scorers)?;
        Ok(Self { model, scorers, mask })
    }

    /// Returns an explanation that lists the largest positive weights of the query, largest first.
    fn weights(&self, found: &SearchResult) -> Explanation {
        let mut weights: Vec<(usize, f32)> = found.weights.iter().copied().enumerate().collect();
        weights.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown = weights.into_iter().filter(|pair| pair.1 > 0.0).take(EXPLAINED);
        let shown =
            shown.map(|(scorer, weight)| Explanation::new(self.scorers.name(scorer), weight));
        Explanation::new("weights of the query", Cell::Empty).with(shown)
    }

    /// Returns explanations of each scorer's contribution to a node's score, largest absolute
    /// contribution first.
    fn parts(&self, found: &SearchResult, node: NodeId) -> Vec<Explanation> {
        let mut parts = found.parts.get(&node).cloned().unwrap_or_default();
        parts.sort_by(|a, b| b.contribution.abs().total_cmp(&a.contribution.abs()));
        let shown = parts.into_iter().take(EXPLAINED).map(|part| {
            let weight = found.weights.get(part.scorer).copied().unwrap_or_default();
            Explanation::new(self.scorers.name(part.scorer), Cell::Empty).with([
                Explanation::new("adds", part.contribution),
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
        let query = check_query(query)?;
        let found =
            self.model.search(&self.scorers, &self.mask, query, k, detail.explained_count)?;
        let explained = |position, node, score| {
            rank_explanation(NAME, position, score)
                .with(self.parts(&found, node))
                .with([self.weights(&found)])
        };
        Ok(Answer::with_explanations(found.ranking.clone(), detail, explained))
    }
}
