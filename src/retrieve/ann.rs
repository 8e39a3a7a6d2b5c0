//! `dense:ann`: approximate search over embeddings by the proximity graph of the index.

use std::sync::Arc;

use crate::{
    Answer, Detail, Ranking, RetrieveError, Retriever, check_query, rank_explanation, rank_in_list,
};
use agent_embed::Embedder;
use agent_index::{IndexError, IndexedBase, Part, ann::AnnIndex};
use agent_kb::answer::Explanation;

/// Name of the system.
const NAME: &str = "dense:ann";
/// Length of the exact ranking in which an explanation looks up a node's rank.
const EXPLAINED: usize = 200;

/// Approximate search over embeddings.
pub struct Ann {
    base: Arc<IndexedBase>,
    index: AnnIndex,
}

impl Ann {
    /// Opens the proximity graph of a base.
    ///
    /// # Errors
    /// [`RetrieveError::Index`] if the index has no proximity graph or the graph is damaged.
    pub fn open(base: Arc<IndexedBase>) -> Result<Self, RetrieveError> {
        let index = AnnIndex::open(&base.part(Part::Ann)?)?;
        Ok(Self { base, index })
    }
}

impl Retriever for Ann {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn encoder(&self) -> Option<&dyn Embedder> {
        Some(self.base.embedder())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let vector = self.base.embed_query(query).map_err(IndexError::from)?;
        if vector.iter().all(|&number| number == 0.0) {
            return Ok(Answer::default());
        }
        let ranking =
            self.index.search(&self.base.vectors, &vector, k).map_err(IndexError::from)?;
        let exact = match detail.explained_count {
            0 => Ranking::new(),
            _ => self.base.search_vectors(query, self.base.kb.searched_types(), EXPLAINED)?,
        };
        let explained = |position, node, score| {
            rank_explanation(NAME, position, score).with([
                rank_in_list("exact", &exact, node),
                Explanation::new("graph", self.index.describe()),
            ])
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
