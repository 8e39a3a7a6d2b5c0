//! `late`: late interaction (ColBERT). The best [`CANDIDATES`] of `hybrid` are ranked by how well each
//! token of the query is matched by the best token of the document; nodes outside are not found.

use std::{fmt::Write, sync::Arc};

use crate::{
    embed::Matrix,
    index::{
        IndexError, IndexedBase, Part,
        late::{LateIndex, Pair},
    },
    kb::NodeId,
    retrieve::{Ranking, RetrieveError, Retriever, checked, shortlist},
};

/// Nodes that are ranked.
const CANDIDATES: usize = 1_000;
/// Pairs that an explanation shows.
const EXPLAINED: usize = 10;

/// Late interaction over tokens.
pub struct Late {
    base: Arc<IndexedBase>,
    index: LateIndex,
}

impl Late {
    /// Opens the tokens of a base.
    ///
    /// # Errors
    /// That there are none, or that they are damaged.
    pub fn open(base: Arc<IndexedBase>) -> Result<Self, RetrieveError> {
        let index = LateIndex::open(&base.part(Part::Late)?)?;
        Ok(Self { base, index })
    }

    /// The tokens of a query; none for a query without known ones.
    fn tokens(&self, query: &str) -> Result<Option<Matrix>, RetrieveError> {
        let rows = self
            .base
            .embedder()
            .embed_tokens(&[query])
            .map_err(IndexError::from)?
            .into_iter()
            .next();
        Ok(rows.filter(|rows| rows.rows() > 0))
    }
}

impl Retriever for Late {
    fn name(&self) -> String {
        "late".to_owned()
    }

    fn retrieve(&self, query: &str, k: usize) -> Result<Ranking, RetrieveError> {
        let query = checked(query)?;
        let Some(tokens) = self.tokens(query)? else { return Ok(Vec::new()) };
        let candidates = shortlist(&self.base, query, CANDIDATES)?;
        Ok(self.index.rank(&tokens, &candidates, k))
    }

    fn explain(&self, query: &str, node: NodeId) -> Result<String, RetrieveError> {
        let query = checked(query)?;
        let mut pairs = match self.tokens(query)? {
            Some(tokens) => self.index.pairs(&tokens, node),
            None => Vec::new(),
        };
        pairs.sort_by(|a, b| b.score.total_cmp(&a.score));
        let embedder = self.base.embedder();
        let of_query = embedder.token_names(query).map_err(IndexError::from)?;
        let of_node = embedder.token_names(self.base.kb.text(node)).map_err(IndexError::from)?;
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        let mut lines = String::new();
        let at = shortlist(&self.base, query, CANDIDATES)?.iter().position(|&id| id == node);
        let _ = match at {
            Some(at) => writeln!(lines, "candidate {} of hybrid", at + 1),
            None => writeln!(lines, "not among the first {CANDIDATES} of hybrid"),
        };
        for Pair { query, document, score } in pairs.into_iter().take(EXPLAINED) {
            let (left, right) = (name(&of_query, query), name(&of_node, document));
            let _ = writeln!(lines, "{left} ~ {right} (token {}): {score:.4}", document + 1);
        }
        Ok(lines)
    }
}
