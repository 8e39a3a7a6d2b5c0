//! `late:candle:DIR`: late interaction by a ColBERT checkpoint. Finds documents by the centroids of
//! their tokens, or ranks the first nodes of another system.

use std::{path::Path, sync::Arc};

use crate::{
    Answer, Detail, RetrieveError, Retriever, check_query, late::explain_pairs, rank_explanation,
};
use agent_embed::{ColbertEncoder, Matrix};
use agent_index::{IndexError, IndexedBase, Part, late::LateIndex};
use agent_kb::{NodeId, answer::Explanation};

/// Default number of centroids that a token of a query probes.
const DEFAULT_PROBES: usize = 4;

/// Which documents a ColBERT checkpoint ranks.
pub enum ColbertCandidates {
    /// Documents with a token whose centroid is one of the nearest to some query token. Holds the
    /// number of nearest centroids per query token (`None`: 4).
    Probed(Option<usize>),
    /// The best nodes of another system, at most this number.
    First(Box<dyn Retriever>, usize),
}

/// Late interaction by a ColBERT checkpoint.
pub struct Colbert {
    base: Arc<IndexedBase>,
    index: LateIndex,
    encoder: ColbertEncoder,
    candidates: ColbertCandidates,
}

impl Colbert {
    /// Opens the checkpoint in `dir` and the part of the index that was built with it. Loads the
    /// weights.
    ///
    /// # Errors
    /// [`RetrieveError::Index`] if the part is not built, is damaged or was built with another
    /// checkpoint, or if `dir` is not a ColBERT checkpoint.
    pub fn open(
        base: Arc<IndexedBase>,
        dir: &Path,
        candidates: ColbertCandidates,
    ) -> Result<Self, RetrieveError> {
        let index = LateIndex::open(&base.part(Part::Colbert)?)?;
        let encoder = ColbertEncoder::open(dir).map_err(IndexError::from)?;
        if !index.is_of(&encoder) {
            let (base, dir) = (base.name().to_owned(), dir.display().to_string());
            return Err(IndexError::OtherCheckpoint { base, dir }.into());
        }
        Ok(Self { base, index, encoder, candidates })
    }

    /// Returns explanations of the best pairs of a query token and its most similar document token,
    /// best first.
    fn pairs(
        &self,
        query: &str,
        tokens: &Matrix,
        node: NodeId,
    ) -> Result<Vec<Explanation>, RetrieveError> {
        let of_query = self.encoder.query_tokens(query).map_err(IndexError::from)?;
        let of_node =
            self.encoder.document_tokens(self.base.kb.text(node)).map_err(IndexError::from)?;
        Ok(explain_pairs(self.index.pairs(tokens, node), &of_query, &of_node))
    }
}

impl Retriever for Colbert {
    fn name(&self) -> String {
        let name = format!("late:candle:{}", self.encoder.dir().display());
        match &self.candidates {
            ColbertCandidates::Probed(None) => name,
            ColbertCandidates::Probed(Some(n)) => format!("{name}:nprobe={n}"),
            ColbertCandidates::First(system, n) => {
                format!("{name}:candidates={}:{n}", system.name())
            }
        }
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let tokens = self.encoder.embed_query(query).map_err(IndexError::from)?;
        let ranking = match &self.candidates {
            ColbertCandidates::Probed(probes) => {
                self.index.search(&tokens, probes.unwrap_or(DEFAULT_PROBES), k)
            }
            ColbertCandidates::First(system, n) => {
                let nodes: Vec<NodeId> =
                    system.retrieve(query, *n)?.into_iter().map(|pair| pair.0).collect();
                self.index.rank(&tokens, &nodes, k)
            }
        };
        let first = ranking.iter().take(detail.explained_count);
        let pairs = first.map(|pair| self.pairs(query, &tokens, pair.0));
        let mut pairs = pairs.collect::<Result<Vec<Vec<Explanation>>, RetrieveError>>()?;
        let explained = |position: usize, _, score| {
            let pairs = pairs.get_mut(position).map(std::mem::take).unwrap_or_default();
            rank_explanation(&self.name(), position, score).with(pairs)
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
