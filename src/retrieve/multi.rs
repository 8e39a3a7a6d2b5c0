//! `multi`: ranks nodes by the similarity of their documents' chunks to the query, pooled over all
//! chunks of a node. Candidates are the nodes of the [`CHUNKS`] chunks most similar to the query,
//! or the first nodes of another system.
//!
//! Source: MultiVSS of STaRK (Wu et al. 2024), which pools the best three chunks of the first 50
//! nodes of `dense`. MultiVSS misses a document whose single vector is not similar to the query, so
//! our default finds candidates by chunks.

use std::sync::Arc;

use crate::{
    Answer, Detail, Ranking, RetrieveError, Retriever, check_query, excerpt, rank_explanation,
};
use agent_index::{
    IndexError, IndexedBase, Part,
    chunks::{ChunkIndex, chunks_of},
};
use agent_kb::{NodeId, answer::Explanation, best};

/// Minimum number of nearest chunks whose nodes are candidates.
const CHUNKS: usize = 1_000;
/// Minimum number of nearest chunks per requested node.
const CHUNKS_PER_NODE: usize = 4;
/// Maximum number of chunks in an explanation.
const EXPLAINED: usize = 3;

/// How the scores of a node's chunks are pooled to the score of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The maximum of all chunks.
    Max,
    /// The mean of all chunks.
    Mean,
    /// The mean of the best three chunks, or of all if there are fewer.
    Top3,
}

impl Pooling {
    /// Name of the retriever with this pooling.
    pub fn name(self) -> &'static str {
        match self {
            Self::Max => "multi",
            Self::Mean => "multi:mean",
            Self::Top3 => "multi:top3",
        }
    }

    /// Pools the scores of a node's chunks; `None` without chunks.
    fn pool(self, mut scores: Vec<f32>) -> Option<f32> {
        scores.sort_unstable_by(|a, b| b.total_cmp(a));
        let n = match self {
            Self::Max => 1,
            Self::Mean => scores.len(),
            Self::Top3 => 3,
        };
        scores.truncate(n);
        (!scores.is_empty()).then(|| scores.iter().sum::<f32>() / scores.len() as f32)
    }
}

/// Which nodes are ranked by their chunks.
pub enum Candidates {
    /// The nodes whose documents contain the chunks most similar to the query.
    Chunks,
    /// The best nodes of another system, at most this number.
    First(Box<dyn Retriever>, usize),
}

/// Pooled search over chunks of documents.
pub struct Multi {
    base: Arc<IndexedBase>,
    index: ChunkIndex,
    pooling: Pooling,
    candidates: Candidates,
}

impl Multi {
    /// Opens the chunks of a base.
    ///
    /// # Errors
    /// [`RetrieveError::Index`] if the chunks are missing or damaged.
    pub fn open(
        base: Arc<IndexedBase>,
        pooling: Pooling,
        candidates: Candidates,
    ) -> Result<Self, RetrieveError> {
        let index = ChunkIndex::open(&base.part(Part::Multi)?)?;
        Ok(Self { base, index, pooling, candidates })
    }

    /// Finds the nodes to rank by their chunks if `k` nodes are requested.
    fn candidates(
        &self,
        query: &str,
        vector: &[f32],
        k: usize,
    ) -> Result<Vec<NodeId>, RetrieveError> {
        match &self.candidates {
            Candidates::Chunks => {
                let chunks = CHUNKS.max(k.saturating_mul(CHUNKS_PER_NODE));
                Ok(self.index.nodes_near(vector, chunks)?)
            }
            Candidates::First(system, n) => {
                Ok(system.retrieve(query, *n)?.into_iter().map(|pair| pair.0).collect())
            }
        }
    }

    /// Returns explanations of a node's score: the number of its chunks, the pooling, and its best
    /// chunks.
    fn parts(&self, node: NodeId, scores: &[f32]) -> Vec<Explanation> {
        let pooling = match self.pooling {
            Pooling::Max => "maximum of all chunks",
            Pooling::Mean => "mean of all chunks",
            Pooling::Top3 => "mean of the best three chunks",
        };
        let n =
            Explanation::new("chunks", scores.len()).with([Explanation::new("pooling", pooling)]);
        let texts = chunks_of(self.base.kb.text(node));
        let mut scores: Vec<(usize, f32)> = scores.iter().copied().enumerate().collect();
        scores.sort_by(|a, b| b.1.total_cmp(&a.1));
        let chunk = |(position, score): (usize, f32)| {
            let text = excerpt(texts.get(position).copied().unwrap_or_default());
            Explanation::new("chunk", position + 1)
                .with([Explanation::new("score", score), Explanation::new("text", text)])
        };
        std::iter::once(n).chain(scores.into_iter().take(EXPLAINED).map(chunk)).collect()
    }
}

impl Retriever for Multi {
    fn name(&self) -> String {
        let name = self.pooling.name();
        match &self.candidates {
            Candidates::Chunks => name.to_owned(),
            Candidates::First(system, n) => format!("{name}:candidates={}:{n}", system.name()),
        }
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let vector = self.base.embed_query(query).map_err(IndexError::from)?;
        if vector.iter().all(|&number| number == 0.0) {
            return Ok(Answer::default());
        }
        let mut ranking = Ranking::new();
        for node in self.candidates(query, &vector, k)? {
            let score = self.pooling.pool(self.index.scores(&vector, node)?);
            ranking.extend(score.map(|score| (node, score)));
        }
        let ranking = best(ranking, k);
        let first = ranking.iter().take(detail.explained_count);
        let scores = first.map(|pair| Ok(self.index.scores(&vector, pair.0)?));
        let scores = scores.collect::<Result<Vec<Vec<f32>>, RetrieveError>>()?;
        let explained = |position: usize, node, score| {
            let scores = scores.get(position).map_or(&[][..], Vec::as_slice);
            rank_explanation(&self.name(), position, score).with(self.parts(node, scores))
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}
