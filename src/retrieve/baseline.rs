//! Baselines that programs are compared with: lexical, dense and hybrid search.

use std::sync::Arc;

use crate::{
    Answer, Detail, Ranking, RetrieveError, Retriever, check_query, rank_explanation, rank_in_list,
    snippet::snippet,
};
use agent_embed::Embedder;
use agent_index::{IndexedBase, TextPart, terms::TermIndex};
use agent_kb::{
    Combine, NodeId, Scores,
    answer::{Cell, Explanation},
};

/// Rank constant of reciprocal rank fusion (Cormack, Clarke & Büttcher 2009).
const FUSION_K: f32 = 60.0;
/// Minimum number of nodes that are fused from each list, in reciprocal rank fusion.
const FUSED: usize = 200;
/// Number of nodes that are fused from each list in score fusion, for any `k`: the scaled scores
/// depend on the lowest score in the list, so the length of the list must not vary.
const FUSED_BY_SCORE: usize = 1_000;
/// Scaled score of every node of a list whose scores are all equal.
const ALL_EQUAL: f32 = 0.5;
/// Maximum number of query stems in an explanation.
const MAX_EXPLAINED: usize = 20;
/// The systems whose lists are fused. On freely worded training and validation queries of three
/// bases, rank fusion with `bm25f` has 2 to 20 points more recall@100 than with `bm25+names`:
/// docs/lab/2026-11-24-bm25f.md.
const LISTS: [System; 2] = [System::Bm25F, System::Dense];

/// A retriever that needs no training and no optional part of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// BM25 over documents.
    Bm25,
    /// BM25 over documents to which the names of the neighbours are appended.
    Bm25Names,
    /// BM25F over two fields, the document and the names of the node's neighbours; both are
    /// stemmed.
    Bm25F,
    /// Exact search for the nodes whose embeddings are most similar to the query's embedding.
    Dense,
    /// Reciprocal rank fusion of `bm25f` and `dense`.
    Hybrid,
    /// Weighted sum of the scores of `bm25f` and `dense`, each list scaled to `0..=1`. The number
    /// is the weight of `dense` in hundredths, at most 100. A node missing from a list scores 0
    /// there.
    Weighted(u8),
}

impl System {
    /// All systems without parameters, in the order in which tables list them.
    pub const ALL: [Self; 5] =
        [Self::Bm25, Self::Bm25Names, Self::Bm25F, Self::Dense, Self::Hybrid];

    /// Name on the command line, without a weight.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Bm25Names => "bm25+names",
            Self::Bm25F => "bm25f",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
            Self::Weighted(_) => "hybrid:weighted",
        }
    }
}

/// A baseline over one base; ranks only nodes of candidate types.
pub struct Baseline {
    base: Arc<IndexedBase>,
    system: System,
}

impl Baseline {
    /// Creates a baseline over a base.
    pub fn new(base: Arc<IndexedBase>, system: System) -> Self {
        Self { base, system }
    }

    /// Returns, for each of the two fused lists, an explanation of the node's rank in the list and
    /// of the list's contribution to the node's score.
    fn parts(&self, lists: &[Ranking; 2], node: NodeId) -> Vec<Explanation> {
        let part = |(index, (system, list)): (usize, (&System, &Ranking))| {
            let found = rank_in_list(system.name(), list, node);
            let adds = match self.system {
                System::Weighted(weight) => scaled(list).get(node).map(|score| {
                    let weight = f32::from([100 - weight.min(100), weight][index]) / 100.0;
                    Explanation::new("adds", weight * score)
                        .with([Explanation::new("weight", weight), Explanation::new("of", score)])
                }),
                _ => list.iter().position(|pair| pair.0 == node).map(|position| {
                    Explanation::new("adds", 1.0 / (FUSION_K + (position + 1) as f32))
                        .with([Explanation::new("k", FUSION_K)])
                }),
            };
            found.with(adds)
        };
        LISTS.iter().zip(lists).enumerate().map(part).collect()
    }
}

/// Returns the best `k` nodes of candidate types by a system, best first.
///
/// # Errors
/// [`RetrieveError::Index`] if the embedder or an index fails.
pub fn rank(
    base: &IndexedBase,
    system: System,
    query: &str,
    k: usize,
) -> Result<Ranking, RetrieveError> {
    let types = base.kb.searched_types();
    Ok(match system {
        System::Bm25 => base.text.search(query, TextPart::Document, types, k),
        System::Bm25Names => base.text.search(query, TextPart::DocumentWithNames, types, k),
        System::Bm25F => base.search_fields(query, types, k),
        System::Dense => base.search_vectors(query, types, k)?,
        System::Hybrid | System::Weighted(_) => fused(system, &fusible(base, system, query, k)?, k),
    })
}

/// Fuses two lists; returns the best `k` nodes.
fn fused(system: System, [lexical, dense]: &[Ranking; 2], k: usize) -> Ranking {
    let (lexical, dense) = match system {
        System::Weighted(weight) => {
            let weight = f32::from(weight) / 100.0;
            (scaled(lexical).scale(1.0 - weight), scaled(dense).scale(weight))
        }
        _ => {
            let ranks = |list: &Ranking| Scores::new(list.clone()).reciprocal_ranks(FUSION_K);
            (ranks(lexical), ranks(dense))
        }
    };
    let mut fused = lexical.combine(&dense, Combine::Sum).ranking();
    fused.truncate(k);
    fused
}

/// Returns the lexical and the dense list that `system` fuses, long enough for its best `k` nodes.
fn fusible(
    base: &IndexedBase,
    system: System,
    query: &str,
    k: usize,
) -> Result<[Ranking; 2], RetrieveError> {
    let depth = match system {
        System::Weighted(_) => FUSED_BY_SCORE,
        _ => k.max(FUSED),
    };
    let [lexical, dense] = LISTS.map(|list| rank(base, list, query, depth));
    Ok([lexical?, dense?])
}

/// Scales the scores of a list linearly to `0..=1`.
fn scaled(ranking: &Ranking) -> Scores {
    let (Some(first), Some(last)) = (ranking.first(), ranking.last()) else {
        return Scores::default();
    };
    let (least, range) = (last.1, first.1 - last.1);
    Scores::new(ranking.clone())
        .map(|_, score| if range > 0.0 { (score - least) / range } else { ALL_EQUAL })
}

/// Returns the default candidates of a program: the best `k` nodes of `hybrid`, best first.
///
/// # Errors
/// [`RetrieveError::Index`] if the embedder or an index fails.
pub fn shortlist(base: &IndexedBase, query: &str, k: usize) -> Result<Vec<NodeId>, RetrieveError> {
    Ok(rank(base, System::Hybrid, query, k)?.into_iter().map(|pair| pair.0).collect())
}

impl Retriever for Baseline {
    fn name(&self) -> String {
        match self.system {
            System::Weighted(weight) => {
                format!("{}={:.2}", self.system.name(), f32::from(weight) / 100.0)
            }
            system => system.name().to_owned(),
        }
    }

    fn encoder(&self) -> Option<&dyn Embedder> {
        (self.system == System::Dense).then(|| self.base.embedder())
    }

    fn answer(&self, query: &str, k: usize, detail: Detail) -> Result<Answer, RetrieveError> {
        let query = check_query(query)?;
        let (base, system) = (&*self.base, self.system);
        let (ranking, lists) = match system {
            System::Hybrid | System::Weighted(_) => {
                let lists = fusible(base, system, query, k)?;
                (fused(system, &lists, k), Some(lists))
            }
            _ => (rank(base, system, query, k)?, None),
        };
        let explained = |position, node, score| {
            let whole = rank_explanation(&self.name(), position, score);
            let parts = lists.iter().flat_map(|lists| self.parts(lists, node));
            let knows_names = !matches!(system, System::Bm25 | System::Dense);
            let in_names = knows_names.then(|| {
                let names = &base.neighbor_names;
                shared_stems(base, names, "shared stems in names of neighbours", query, node)
            });
            whole
                .with(parts)
                .with([shared_stems(base, &base.terms, "shared stems", query, node)])
                .with(in_names)
                .with(snippet(base, query, node))
        };
        Ok(Answer::with_explanations(ranking, detail, explained))
    }
}

/// Returns an explanation that lists the stems of the query in a node's text, each with its count
/// and idf.
pub(super) fn shared_stems(
    base: &IndexedBase,
    texts: &TermIndex,
    label: &str,
    query: &str,
    node: NodeId,
) -> Explanation {
    let stems = base.stems.of(query).filter_map(|stem| {
        let id = texts.stem_id(&stem)?;
        let count = texts.stems_of(node).find(|&(other, _)| other == id)?.1;
        Some((stem, id, count as usize))
    });
    let found: Vec<(String, u32, usize)> = stems.collect();
    // A letter n-gram is redundant if a longer matching stem contains it.
    let is_part = |stem: &str| {
        let longer = |other: &str| other.len() > stem.len() && other.contains(stem);
        base.stems.languages().have_grams() && found.iter().any(|(other, ..)| longer(other))
    };
    let whole = found.iter().filter(|(stem, ..)| !is_part(stem)).take(MAX_EXPLAINED);
    let explained = |(stem, id, count): &(String, u32, usize)| {
        Explanation::new(stem.clone(), *count).with([Explanation::new("idf", texts.idf(*id))])
    };
    let shared: Vec<Explanation> = whole.map(explained).collect();
    let none = if shared.is_empty() { Cell::from("none") } else { Cell::Empty };
    Explanation::new(label, none).with(shared)
}
