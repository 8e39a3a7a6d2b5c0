//! `bm25:stark`: the lexical baseline of the STaRK benchmark. It ranks by BM25 over documents with
//! the defaults of bm25s, as the benchmark's code does. Document frequencies and the average length
//! come from the candidates. The system `bm25`, by contrast, gives repeated words less weight
//! ([`Bm25::MFAR`]) and takes both statistics from all nodes.

use std::sync::Arc;

use crate::{
    Answer, Detail, RetrieveError, Retriever, baseline::shared_stems, check_query,
    rank_explanation, snippet::snippet,
};
use agent_index::{Collection, IndexedBase, TextPart, bm25::Bm25};
use agent_kb::answer::Explanation;

/// Name of the system.
const NAME: &str = "bm25:stark";

/// The baseline over one base.
pub struct Stark {
    base: Arc<IndexedBase>,
    /// Document frequencies and average length over the candidates; `None` for a base without
    /// candidates.
    candidates: Option<Collection>,
}

impl Stark {
    /// Collects the statistics of the candidates. O(nodes).
    pub fn open(base: Arc<IndexedBase>) -> Self {
        let candidates = base.text.collection(TextPart::Document, base.kb.candidate_types());
        Self { base, candidates }
    }
}

impl Retriever for Stark {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let Some(candidates) = &self.candidates else { return Ok(Answer::default()) };
        let ranking =
            self.base.text.search_in(query, TextPart::Document, Bm25::STARK, candidates, k);
        let explained = |position, node, score| {
            let collection = Explanation::new("candidates", candidates.n_texts)
                .with([Explanation::new("words on average", candidates.mean_length)]);
            rank_explanation(NAME, position, score)
                .with([
                    collection,
                    shared_stems(&self.base, &self.base.terms, "shared stems", query, node),
                ])
                .with(snippet(&self.base, query, node))
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
