//! `late`: late interaction (MaxSim). Reorders the best [`CANDIDATES`] nodes of `hybrid`. The score
//! of a node is the sum, over the tokens of the query, of the similarity to the most similar token
//! of the node's document.

use std::sync::Arc;

use crate::{Answer, Detail, RetrieveError, Retriever, check_query, rank_explanation, shortlist};
use agent_embed::Matrix;
use agent_index::{
    IndexError, IndexedBase, Part,
    late::{LateIndex, Pair},
};
use agent_kb::{NodeId, answer::Explanation};

/// Name of the system.
const NAME: &str = "late";
/// Maximum number of nodes of `hybrid` that are ranked.
const CANDIDATES: usize = 1_000;
/// Maximum number of token pairs in an explanation.
const EXPLAINED: usize = 10;

/// Late interaction over the token vectors of a base.
pub struct Late {
    base: Arc<IndexedBase>,
    index: LateIndex,
}

impl Late {
    /// Opens the token vectors of a base.
    ///
    /// # Errors
    /// [`RetrieveError::Index`] if the token vectors are missing or damaged.
    pub fn open(base: Arc<IndexedBase>) -> Result<Self, RetrieveError> {
        let index = LateIndex::open(&base.part(Part::Late)?)?;
        Ok(Self { base, index })
    }

    /// Embeds the tokens of a query; `None` if all tokens are unknown.
    fn tokens(&self, query: &str) -> Result<Option<Matrix>, RetrieveError> {
        let mut rows = self.base.embedder().embed_tokens(&[query]).map_err(IndexError::from)?;
        Ok(rows.pop().filter(|rows| rows.rows() > 0))
    }

    /// Returns explanations of the best pairs of a query token and its most similar document token,
    /// best first.
    fn pairs(
        &self,
        query: &str,
        tokens: &Matrix,
        node: NodeId,
    ) -> Result<Vec<Explanation>, RetrieveError> {
        let embedder = self.base.embedder();
        let of_query = embedder.token_names(query).map_err(IndexError::from)?;
        let of_node = embedder.token_names(self.base.kb.text(node)).map_err(IndexError::from)?;
        Ok(explain_pairs(self.index.pairs(tokens, node), &of_query, &of_node))
    }
}

impl Retriever for Late {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let Some(tokens) = self.tokens(query)? else { return Ok(Answer::default()) };
        let candidates = shortlist(&self.base, query, CANDIDATES)?;
        let ranking = self.index.rank(&tokens, &candidates, k);
        let first = ranking.iter().take(detail.explained_count);
        let pairs = first.map(|pair| self.pairs(query, &tokens, pair.0));
        let mut pairs = pairs.collect::<Result<Vec<Vec<Explanation>>, RetrieveError>>()?;
        let explained = |position: usize, node, score| {
            let candidate =
                candidates.iter().position(|&id| id == node).map_or(0, |position| position + 1);
            let candidate = Explanation::new("candidate of hybrid", candidate);
            let pairs = pairs.get_mut(position).map(std::mem::take).unwrap_or_default();
            rank_explanation(NAME, position, score).with([candidate]).with(pairs)
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}

/// Returns explanations of the `EXPLAINED` best pairs of tokens, best first. `of_query` and
/// `of_node` are the tokens of the query and of the node's document.
pub(crate) fn explain_pairs(
    mut pairs: Vec<Pair>,
    of_query: &[String],
    of_node: &[String],
) -> Vec<Explanation> {
    pairs.sort_by(|a, b| b.score.total_cmp(&a.score));
    let name = |names: &[String], position: usize| names.get(position).cloned().unwrap_or_default();
    let pair = |Pair { query, document, score }| {
        let (left, right) = (name(of_query, query), name(of_node, document));
        Explanation::new(format!("{left} ~ {right}"), score)
            .with([Explanation::new("token", document + 1)])
    };
    pairs.into_iter().take(EXPLAINED).map(pair).collect()
}
