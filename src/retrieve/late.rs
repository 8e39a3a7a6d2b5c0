//! `late`: late interaction (ColBERT). The best [`CANDIDATES`] of `hybrid` are ranked by how well each
//! token of the query is matched by the best token of the document; nodes outside are not found.

use std::sync::Arc;

use crate::{Answer, Detail, RetrieveError, Retriever, checked, place_of, shortlist};
use agent_embed::Matrix;
use agent_index::{
    IndexError, IndexedBase, Part,
    late::{LateIndex, Pair},
};
use agent_kb::{NodeId, answer::Explanation};

/// What it is called.
const NAME: &str = "late";
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
        NAME.to_owned()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = checked(query)?;
        let Some(tokens) = self.tokens(query)? else { return Ok(Answer::default()) };
        let candidates = shortlist(&self.base, query, CANDIDATES)?;
        let ranking = self.index.rank(&tokens, &candidates, k);
        let first = ranking.iter().take(detail.explained);
        let pairs = first.map(|pair| self.pairs(query, &tokens, pair.0));
        let mut pairs = pairs.collect::<Result<Vec<Vec<Explanation>>, RetrieveError>>()?;
        let explained = |at: usize, node, score| {
            let candidate = candidates.iter().position(|&id| id == node).map_or(0, |at| at + 1);
            let candidate = Explanation::new("candidate of hybrid", candidate);
            let pairs = pairs.get_mut(at).map(std::mem::take).unwrap_or_default();
            place_of(NAME, at, score).with([candidate]).with(pairs)
        };
        Ok(Answer::explained(ranking, detail, explained))
    }
}

impl Late {
    /// The tokens of the query and those of a document that match them best, best first.
    fn pairs(
        &self,
        query: &str,
        tokens: &Matrix,
        node: NodeId,
    ) -> Result<Vec<Explanation>, RetrieveError> {
        let mut pairs = self.index.pairs(tokens, node);
        pairs.sort_by(|a, b| b.score.total_cmp(&a.score));
        let embedder = self.base.embedder();
        let of_query = embedder.token_names(query).map_err(IndexError::from)?;
        let of_node = embedder.token_names(self.base.kb.text(node)).map_err(IndexError::from)?;
        let name = |names: &[String], at: usize| names.get(at).cloned().unwrap_or_default();
        let pair = |Pair { query, document, score }| {
            let (left, right) = (name(&of_query, query), name(&of_node, document));
            Explanation::new(format!("{left} ~ {right}"), score)
                .with([Explanation::new("token", document + 1)])
        };
        Ok(pairs.into_iter().take(EXPLAINED).map(pair).collect())
    }
}
