//! `bm25:stark`: the lexical baseline of the STaRK benchmark. BM25 over documents with the defaults
//! of bm25s, which its code takes, and the candidates as the whole collection: how rare a word is
//! and how long a text is on average are told by candidates alone. `bm25` weighs repeated words
//! less ([`Bm25::MFAR`]) and takes both from all nodes.

use std::{fmt::Write, sync::Arc};

use crate::{
    index::{Collection, IndexedBase, TextPart, bm25::Bm25},
    kb::NodeId,
    retrieve::{Ranking, RetrieveError, Retriever, baseline::shared_stems, checked, place},
};

/// What it is called.
const NAME: &str = "bm25:stark";
/// Nodes that an explanation searches.
const EXPLAINED: usize = 200;

/// The baseline over one base.
pub struct Stark {
    base: Arc<IndexedBase>,
    /// None for a base without a candidate.
    candidates: Option<Collection>,
}

impl Stark {
    /// Counts the candidates and their words. O(nodes).
    pub fn open(base: Arc<IndexedBase>) -> Self {
        let candidates = base.text.collection(TextPart::Document, base.kb.candidate_types());
        Self { base, candidates }
    }
}

impl Retriever for Stark {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        let query = checked(query)?;
        let Some(candidates) = &self.candidates else { return Ok(Vec::new()) };
        Ok(self.base.text.search_in(query, TextPart::Document, Bm25::STARK, candidates, k))
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let found = place(&self.retrieve(query, EXPLAINED)?, node);
        let mut lines = format!("{NAME}: {found}\n");
        if let Some(candidates) = &self.candidates {
            let (n, mean) = (candidates.n_texts(), candidates.mean_length());
            let _ = writeln!(lines, "counted: {n} candidates of {mean:.1} words on average");
        }
        lines.push_str(&shared_stems(&self.base, query, node));
        Ok(lines)
    }
}
