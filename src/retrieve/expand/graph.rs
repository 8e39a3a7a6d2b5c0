//! The neighbourhood of an entity (the nodes within two edges), and the neighbours that fit a
//! query.
//!
//! Source: document-based relation filtering of KAR (Xia et al. 2025). Documents are compared with
//! the query by the embedder of the index, as in its equation 4, or by words. Our choices:
//!
//! - Edges are followed in both directions, over all relations, to nodes of all types.
//! - A neighbour with more than 2,000 edges is reached but not expanded.
//! - A neighbour without an embedding is left out. To embed all nodes, index without
//!   `--candidates-only`.
//!
//! Uses no language model and no ranking.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
};

use agent_ground::words::{is_question_word, listed, name_words};
use agent_index::{IndexError, IndexedBase};
use agent_kb::{
    Hop, Kb, NodeId, Path, all_edges, answer::Explanation, best, distinct, hops, path_to,
};

/// Maximum number of edges of a neighbour whose own neighbours are included: hubs such as venues or
/// colours connect unrelated nodes.
const MAX_DEGREE: usize = 2_000;
/// Maximum number of edges visited around one entity.
const MAX_EDGES: usize = 500_000;
/// Maximum number of names in an explanation of hubs.
const MAX_HUBS: usize = 5;
/// Maximum number of nodes scored per call of `spend`.
const CHUNK_NODES: usize = 256;

/// How neighbours are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// By the similarity of their documents to the query: equation 4 of the paper.
    Documents,
    /// By the similarity of their names to the query: the paper's ablation "w/o DRF".
    Names,
    /// By the BM25 score of their documents, over stems.
    Words,
    /// By the summed idf of the query stems in their names (ablation of [`Filter::Words`]).
    NameWords,
    /// By distance, then id (ablation).
    None,
}

impl Filter {
    /// All filters, in the order in which tables list them.
    pub const ALL: [Filter; 5] =
        [Filter::Documents, Filter::Names, Filter::Words, Filter::NameWords, Filter::None];

    /// The filter by documents that suits an index: [`Filter::Documents`] with a sentence encoder,
    /// [`Filter::Words`] with the built-in embedder.
    pub fn of(base: &IndexedBase) -> Self {
        if base.has_encoder() { Self::Documents } else { Self::Words }
    }

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Names => "names",
            Self::Words => "words",
            Self::NameWords => "name-words",
            Self::None => "unfiltered",
        }
    }
}

/// The nodes within two edges of a node, without the node itself.
pub struct Neighborhood {
    from: NodeId,
    /// For each node: its predecessor on the path to it, and the edge from there.
    reached: HashMap<NodeId, (NodeId, Hop)>,
    /// Nodes one edge away, then nodes two edges away; each by ascending id.
    nodes: Vec<NodeId>,
    hubs: Vec<NodeId>,
}

impl Neighborhood {
    /// Finds the neighbourhood of a node. Of several paths to a neighbour, the shortest is kept.
    /// Ties: the smallest intermediate node, then an edge in its stored direction, then the first
    /// relation. Visits nodes by ascending id, and at most 500,000 edges in all. O(visited edges).
    pub fn new(kb: &Kb, from: NodeId) -> Self {
        let Ok(neighborhood) = Self::within_budget(kb, from, &mut |_| Ok::<(), Infallible>(()));
        neighborhood
    }

    /// Finds the neighbourhood as [`Neighborhood::new`] does. Before the neighbours of a node are
    /// visited, calls `spend` with the number of its edges.
    ///
    /// # Errors
    /// The error of `spend`.
    pub fn within_budget<E>(
        kb: &Kb,
        from: NodeId,
        spend: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut reached: HashMap<NodeId, (NodeId, Hop)> = HashMap::new();
        let (mut nodes, mut hubs) = (Vec::new(), Vec::new());
        let mut left = MAX_EDGES;
        let mut frontier = vec![from];
        for distance in 0..2 {
            let mut next = Vec::new();
            for &node in &frontier {
                let degree = all_edges(kb, node);
                if distance > 0 && degree > MAX_DEGREE {
                    hubs.push(node);
                    continue;
                }
                spend(degree.min(left))?;
                let found = hops(kb, node).take(left).filter(|hop| hop.node != from);
                for hop in found {
                    reached.entry(hop.node).or_insert_with(|| {
                        next.push(hop.node);
                        (node, hop)
                    });
                }
                left = left.saturating_sub(degree);
            }
            next.sort_unstable();
            nodes.extend(&next);
            frontier = next;
        }
        Ok(Self { from, reached, nodes, hubs })
    }

    /// Lists the neighbours with more than 2,000 edges, beyond which no nodes are found; `None` if
    /// there are no such neighbours.
    pub fn hubs(&self, kb: &Kb) -> Option<Explanation> {
        let names: Vec<&str> = self.hubs.iter().map(|&hub| kb.name(hub)).collect();
        let text = || listed(&names, MAX_HUBS);
        (!names.is_empty()).then(|| Explanation::new("hubs not passed", text()))
    }

    /// Returns the nodes one edge away, then the nodes two edges away; each group by ascending id.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Removes the nodes that are not candidates; paths over these nodes remain.
    pub fn candidates(mut self, kb: &Kb) -> Self {
        self.nodes.retain(|&node| kb.is_candidate(node));
        self
    }

    /// Returns the path from the entity to `node`; a path without edges if `node` is not in the
    /// neighbourhood.
    pub fn path(&self, node: NodeId) -> Path {
        Path { from: self.from, ..path_to(node, |node| self.reached.get(&node).copied()) }
    }

    /// Returns the best `k` nodes by the filter, best first, ties by ascending id. Nodes that score
    /// 0 are left out: they share no word with the query or have no embedding. [`Filter::None`]
    /// returns the first `k` of [`Neighborhood::nodes`], each with score 1.
    ///
    /// # Errors
    /// Errors of the embedder, with [`Filter::Documents`] and [`Filter::Names`].
    pub fn filtered(
        &self,
        base: &IndexedBase,
        query: &str,
        filter: Filter,
        k: usize,
    ) -> Result<Vec<(NodeId, f32)>, IndexError> {
        self.filtered_within_budget(base, query, filter, k, &mut |_| Ok(()))
    }

    /// Returns the best nodes as [`Neighborhood::filtered`] does. Before nodes are scored, calls
    /// `spend` with their number.
    ///
    /// # Errors
    /// The error of `spend`; errors as [`Neighborhood::filtered`].
    pub fn filtered_within_budget<E: From<IndexError>>(
        &self,
        base: &IndexedBase,
        query: &str,
        filter: Filter,
        k: usize,
        spend: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<(NodeId, f32)>, E> {
        if filter == Filter::None {
            return Ok(self.nodes.iter().take(k).map(|&node| (node, 1.0)).collect());
        }
        let words: &dyn Fn(NodeId) -> f32 = if filter == Filter::NameWords {
            &name_fit(base, query)
        } else {
            let terms = base.terms.query(&base.stems, query);
            &move |node| base.terms.bm25(&terms, node)
        };
        let mut scored = Vec::new();
        for chunk in self.nodes.chunks(CHUNK_NODES) {
            spend(chunk.len())?;
            let fits = match filter {
                Filter::Documents => base.similarities(query, chunk)?,
                Filter::Names => base.name_similarities(query, chunk)?,
                _ => chunk.iter().map(|&node| words(node)).collect(),
            };
            scored.extend(chunk.iter().copied().zip(fits).filter(|pair| pair.1 != 0.0));
        }
        Ok(best(scored, k))
    }
}

/// Returns a function that scores a node by the summed idf of the query's stems in its name.
fn name_fit<'a>(base: &'a IndexedBase, query: &str) -> impl Fn(NodeId) -> f32 + 'a {
    let words = name_words(query).filter(|(_, word)| !is_question_word(word));
    let stems: HashSet<u32> = words
        .flat_map(|(_, word)| base.stems.of(&word).collect::<Vec<_>>())
        .filter_map(|stem| base.terms.stem_id(&stem))
        .collect();
    move |node| {
        let in_name =
            base.stems.of(base.kb.name(node)).filter_map(|stem| base.terms.stem_id(&stem));
        let shared: Vec<u32> = distinct(in_name.filter(|stem| stems.contains(stem)).collect());
        shared.into_iter().map(|stem| base.terms.idf(stem)).sum()
    }
}

/// Formats the edges of a path and its intermediate nodes: `-has_brand->`, or
/// `<-has_brand-, then -has_color->, over NAME`.
pub fn relation_in_words(kb: &Kb, path: &Path) -> String {
    let arrows = path.hops.iter().map(|hop| hop.direction.arrow(kb.relation_name(hop.relation)));
    let between = path.hops.iter().rev().skip(1).rev().map(|hop| kb.name(hop.node));
    let mut text = arrows.collect::<Vec<_>>().join(", then ");
    for name in between {
        text += &format!(", over {name}");
    }
    text
}
