//! `bag:dpr`, `bag:ance` and `hybrid:trained`: search by a bag-of-words encoder trained on labelled
//! queries, alone or fused with `bm25+names`.

use std::{path::Path, sync::Arc};

use crate::{
    Answer, Detail, Ranking, RetrieveError, Retriever, check_query, rank_explanation, rank_in_list,
};
use agent_index::{IndexedBase, TextPart};
use agent_kb::{Scores, answer::Explanation};
use agent_train::{
    TrainError,
    dense::{Encoder, Negatives, fuse},
};

/// Maximum number of nodes that are fused from each list. Does not depend on `k`, because the
/// length of the lists affects the fused ranks.
const FUSED: usize = 1_000;

/// A trained encoder with the base over which it was trained.
pub struct Trained {
    base: Arc<IndexedBase>,
    encoder: Encoder,
    /// Kind of negative examples with which the encoder was trained.
    negatives: Negatives,
    /// Weight of the encoder in the fusion, in `0..=1`; `bm25+names` has the rest. `None` if the
    /// encoder ranks alone.
    weight: Option<f32>,
}

impl Trained {
    /// Opens the trained encoder in the directory `dir`; it ranks alone.
    ///
    /// # Errors
    /// [`TrainError`] if the model cannot be read or was trained over another base.
    pub fn open(base: &Arc<IndexedBase>, dir: &Path) -> Result<Self, TrainError> {
        let (encoder, record) = Encoder::open(base, dir)?;
        let negatives = record.model.settings.negatives;
        Ok(Self { base: base.clone(), encoder, negatives, weight: None })
    }

    /// Returns the kind of negative examples with which the encoder was trained.
    pub fn negatives(&self) -> Negatives {
        self.negatives
    }

    /// Name of the encoder alone.
    fn encoder_name(&self) -> &'static str {
        match self.negatives {
            Negatives::Bm25 => "bag:dpr",
            Negatives::Own => "bag:ance",
        }
    }

    /// Fuses the encoder with `bm25+names`. `weight` is the weight of the encoder in `0..=1`; if
    /// `None`, the weight chosen on validation queries.
    #[must_use]
    pub fn fused(mut self, weight: Option<f32>) -> Self {
        self.weight = Some(weight.unwrap_or_else(|| self.encoder.weight()));
        self
    }

    /// Returns the best [`FUSED`] nodes of `bm25+names` and the best [`FUSED`] nodes of the
    /// encoder.
    fn lists(&self, query: &str) -> Result<[Ranking; 2], RetrieveError> {
        let base = &*self.base;
        let (part, types) = (TextPart::DocumentWithNames, base.kb.searched_types());
        let lexical = base.text.search(query, part, types, FUSED);
        Ok([lexical, self.encoder.search(base, query, FUSED)?])
    }
}

impl Retriever for Trained {
    fn name(&self) -> String {
        match self.weight {
            None => self.encoder_name().to_owned(),
            Some(weight) => format!("hybrid:trained={weight:.2}"),
        }
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let Some(weight) = self.weight else {
            let ranking = self.encoder.search(&self.base, query, k)?;
            let explained = |position, _, score| rank_explanation(&self.name(), position, score);
            return Ok(Answer::with_explanations(ranking, detail, explained));
        };
        let lists = self.lists(query)?;
        let [lexical, dense] = lists.each_ref().map(|list| Scores::new(list.clone()));
        let mut ranking = fuse(&lexical, &dense, weight).ranking();
        ranking.truncate(k);
        let explained = |position, node, score| {
            let weights = [1.0 - weight, weight];
            let names = ["bm25+names", self.encoder_name()];
            let parts = names.iter().zip(&lists).zip(weights).map(|((name, list), weight)| {
                rank_in_list(name, list, node).with([Explanation::new("weight", weight)])
            });
            rank_explanation(&self.name(), position, score).with(parts)
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
