//! `dense:trained` and `hybrid:trained`: nodes near to the query by an encoder that was learnt from
//! labelled queries, alone or in one ranking with `bm25+names`.

use std::{path::Path, sync::Arc};

use crate::{
    Answer, Detail, Ranking, RetrieveError, Retriever, baseline::candidate_types, checked, place,
    place_of,
};
use agent_index::{IndexedBase, TextPart};
use agent_kb::{Scores, answer::Explanation};
use agent_train::{
    TrainError,
    dense::{Encoder, fused},
};

/// Nodes of each list that are fused, whatever is asked for: a score depends on the best alone, and a
/// node that a longer list has would change ranks.
const FUSED: usize = 1_000;

/// A trained encoder over its base.
pub struct Trained {
    base: Arc<IndexedBase>,
    encoder: Encoder,
    /// Its share in one ranking with `bm25+names`; none where it ranks alone.
    weight: Option<f32>,
}

impl Trained {
    /// Opens the model in a directory, to rank alone.
    ///
    /// # Errors
    /// That it cannot be read, or was trained over another base.
    pub fn open(base: &Arc<IndexedBase>, dir: &Path) -> Result<Self, TrainError> {
        let (encoder, _) = Encoder::open(base, dir)?;
        Ok(Self { base: base.clone(), encoder, weight: None })
    }

    /// The same in one ranking with `bm25+names`; its weight there, in `0..=1`, is the one that
    /// validation queries chose unless one is given.
    #[must_use]
    pub fn fused(mut self, weight: Option<f32>) -> Self {
        self.weight = Some(weight.unwrap_or_else(|| self.encoder.weight()));
        self
    }

    /// The first nodes of `bm25+names` and of the encoder.
    fn lists(&self, query: &str) -> Result<[Ranking; 2], RetrieveError> {
        let base = &*self.base;
        let (part, types) = (TextPart::DocumentWithNames, candidate_types(base));
        let lexical = base.text.search(query, part, types, FUSED);
        Ok([lexical, self.encoder.search(base, query, FUSED)?])
    }
}

impl Retriever for Trained {
    fn name(&self) -> String {
        match self.weight {
            None => "dense:trained".to_owned(),
            Some(weight) => format!("hybrid:trained={weight:.2}"),
        }
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        let Some(weight) = self.weight else {
            let ranking = self.encoder.search(&self.base, query, k)?;
            let explained = |at, _, score| place_of(&self.name(), at, score);
            return Ok(Answer::explained(ranking, detail, explained));
        };
        let lists = self.lists(query)?;
        let [lexical, dense] = lists.each_ref().map(|list| Scores::new(list.clone()));
        let mut ranking = fused(&lexical, &dense, weight).ranking();
        ranking.truncate(k);
        let explained = |at, node, score| {
            let weights = [1.0 - weight, weight];
            let names = ["bm25+names", "dense:trained"];
            let parts = names.iter().zip(&lists).zip(weights).map(|((name, list), weight)| {
                place(name, list, node).with([Explanation::new("weight", weight)])
            });
            place_of(&self.name(), at, score).with(parts)
        };
        Ok(Answer::explained(ranking, detail, explained))
    }
}
