//! Builds the working graph of a query: its linked entities, its candidates, the nodes and edges
//! between them, and a context node that stands for the query.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::Variant;
use agent_ground::words::is_question_word;
use agent_index::{IndexError, IndexedBase, TextPart};
use agent_kb::{Direction, NodeId, RelationId, all_edges, best};

/// Maximum number of linked entities of a query.
const MAX_ENTITIES: usize = 10;
/// Maximum number of candidates that `bm25+names` or, for [`Variant::Qagnn`], embeddings find.
const FOUND_CANDIDATES: usize = 100;
/// Maximum number of further candidates. They are the linked entities and their neighbours with the
/// highest BM25 scores or, for [`Variant::Qagnn`], with the names most similar to the query.
const NEIGHBOR_CANDIDATES: usize = 50;
/// Maximum number of nodes of a working graph, without the context node.
const MAX_NODES: usize = 220;
/// Maximum number of neighbours of a node over one relation and direction; if there are more, the
/// neighbours over this relation and direction are skipped.
const MAX_NEIGHBORS: usize = 2_000;
/// Maximum number of edges of a working graph, without edges of the context node.
const MAX_EDGES: usize = 4_000;
/// Length of the vector of a query's hashed stems.
pub(super) const PHI: usize = 256;
/// Number of features of a node ([`WorkingGraph::features`]).
pub(super) const FEATURES: usize = 9;
/// Index of the `bm25+names` score among the features.
pub(super) const LEXICAL: usize = 5;
/// Indexes of the relevance features (link strength, lexical scores, cosine) among the features.
pub(super) const RELEVANCE: std::ops::RangeInclusive<usize> = 0..=LEXICAL;
/// Number of edge kinds of the context node: to and from entities, to and from candidates.
pub(super) const CONTEXT_KINDS: usize = 4;

/// A directed edge of a working graph. `source` and `target` are indexes of nodes. `kind` numbers
/// the relations, then the reversed relations, then the [`CONTEXT_KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) source: u32,
    pub(super) target: u32,
    pub(super) kind: u32,
}

/// Working graph of a query. In `nodes`, candidates come first. The context node is not in `nodes`;
/// its index is the length of `nodes`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkingGraph {
    pub(super) nodes: Vec<NodeId>,
    pub(super) n_candidates: usize,
    /// Type number of each node, then the type number of the context node.
    pub(super) types: Vec<u32>,
    /// For each node: link strength, BM25 of its document, BM25 of its neighbours' names, cosine,
    /// coverage, `bm25+names`, 1 for a candidate, 1 for an entity, and `ln(1 + degree) / 10`. BM25
    /// and `bm25+names` scores are divided by the largest score of the same kind in the graph. For
    /// [`Variant::Qagnn`], the cosine is that of the name, and all features except the cosine and
    /// the two flags are 0.
    pub(super) features: Vec<[f32; FEATURES]>,
    pub(super) edges: Vec<Edge>,
    /// Vector of the query, of [`phi_dim`] numbers: its hashed stems, scaled to norm 1, or its
    /// embedding.
    pub(super) phi: Vec<f32>,
}

/// Returns the number of edge kinds in working graphs of a knowledge base.
pub(super) fn n_kinds(base: &IndexedBase) -> usize {
    2 * base.kb.relations().len() + CONTEXT_KINDS
}

/// Returns the length of a query's vector ([`WorkingGraph::phi`]).
pub(super) fn phi_dim(base: &IndexedBase, variant: Variant) -> usize {
    match variant {
        Variant::Graph => PHI,
        Variant::Qagnn => base.embedder().dim(),
    }
}

/// Returns the best `k` candidates of a base for a query, best first: by `bm25+names`, or by
/// embeddings.
///
/// # Errors
/// [`IndexError`] if the query cannot be embedded.
pub(super) fn found(
    base: &IndexedBase,
    query: &str,
    k: usize,
    variant: Variant,
) -> Result<Vec<(NodeId, f32)>, IndexError> {
    let types = base.kb.searched_types();
    match variant {
        Variant::Graph => Ok(base.text.search(query, TextPart::DocumentWithNames, types, k)),
        Variant::Qagnn => base.search_vectors(query, types, k),
    }
}

/// Hashes the stems of a query, except question words, into a vector of [`PHI`] numbers, norm 1.
fn hash_stems(base: &IndexedBase, query: &str) -> Vec<f32> {
    let mut phi = vec![0.0; PHI];
    for stem in base.stems.of(query).filter(|stem| !is_question_word(stem)) {
        let digest = blake3::hash(stem.as_bytes());
        let [bucket, sign, ..] = *digest.as_bytes();
        phi[bucket as usize % PHI] += if sign & 1 == 0 { 1.0 } else { -1.0 };
    }
    agent_embed::matrix::normalise(&mut phi);
    phi
}

impl WorkingGraph {
    /// Builds the working graph of a query.
    ///
    /// # Errors
    /// [`IndexError`] if the query cannot be embedded or the vectors of nodes cannot be read.
    pub(super) fn new(
        base: &IndexedBase,
        query: &str,
        variant: Variant,
    ) -> Result<Self, IndexError> {
        let kb = &base.kb;
        let linked = base.entities.link(kb, query, &[], MAX_ENTITIES);
        let linked = linked.top(MAX_ENTITIES);
        let entities: Vec<NodeId> = linked.as_slice().iter().map(|pair| pair.0).collect();
        let found = found(base, query, 10 * FOUND_CANDIDATES, variant)?;
        let scores: BTreeMap<NodeId, f32> = found.iter().copied().collect();
        let mut nodes: Vec<NodeId> =
            found.iter().take(FOUND_CANDIDATES).map(|pair| pair.0).collect();
        let mut known: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let around: BTreeSet<NodeId> =
            entities.iter().flat_map(|&entity| neighbors(base, entity)).collect();
        let terms = base.terms.query(&base.stems, query);
        let names = base.neighbor_names.query(&base.stems, query);
        let by_words =
            |&node: &NodeId| base.terms.bm25(&terms, node) + base.neighbor_names.bm25(&names, node);
        let reached = around.iter().chain(&entities).copied().collect::<BTreeSet<_>>();
        let reached = reached.into_iter().filter(|&node| kb.is_candidate(node));
        let reached: Vec<NodeId> = reached.filter(|node| !known.contains(node)).collect();
        let fits = match variant {
            Variant::Graph => reached.iter().map(by_words).collect(),
            Variant::Qagnn => base.name_similarities(query, &reached)?,
        };
        let reached = best(reached.into_iter().zip(fits).collect(), NEIGHBOR_CANDIDATES);
        nodes.extend(reached.iter().map(|pair| pair.0));
        known.extend(reached.iter().map(|pair| pair.0));
        let n_candidates = nodes.len();
        nodes.extend(entities.iter().copied().filter(|&entity| known.insert(entity)));
        // Nodes between entities and candidates, nodes with more connections first.
        let mut connections: BTreeMap<NodeId, u32> = BTreeMap::new();
        for &candidate in &nodes[..n_candidates] {
            for node in neighbors(base, candidate) {
                if around.contains(&node) && !known.contains(&node) {
                    *connections.entry(node).or_default() += 1;
                }
            }
        }
        let mut between: Vec<(NodeId, u32)> = connections.into_iter().collect();
        // Stable: ties by ascending node.
        between.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        between.truncate(MAX_NODES.saturating_sub(nodes.len()));
        nodes.extend(between.into_iter().map(|pair| pair.0));
        let edges = edges(base, &nodes, n_candidates, &entities);
        let (cosines, phi) = match variant {
            Variant::Graph => (base.similarities(query, &nodes)?, hash_stems(base, query)),
            Variant::Qagnn => {
                (base.name_similarities(query, &nodes)?, base.embed_query(query)?.to_vec())
            }
        };
        let mut features: Vec<[f32; FEATURES]> = Vec::with_capacity(nodes.len());
        let flag = |holds: bool| if holds { 1.0 } else { 0.0 };
        for (index, (&node, cosine)) in nodes.iter().zip(cosines).enumerate() {
            let flags = [flag(index < n_candidates), flag(entities.contains(&node))];
            if variant == Variant::Qagnn {
                features.push([0.0, 0.0, 0.0, cosine, 0.0, 0.0, flags[0], flags[1], 0.0]);
                continue;
            }
            features.push([
                linked.get(node).unwrap_or(0.0),
                base.terms.bm25(&terms, node),
                base.neighbor_names.bm25(&names, node),
                cosine,
                base.terms.coverage(&terms, node),
                scores.get(&node).copied().unwrap_or(0.0),
                flags[0],
                flags[1],
                (1.0 + all_edges(kb, node) as f32).ln() / 10.0,
            ]);
        }
        for feature in [1, 2, LEXICAL] {
            let largest = features.iter().map(|row| row[feature]).fold(0.0, f32::max);
            if largest > 0.0 {
                features.iter_mut().for_each(|row| row[feature] /= largest);
            }
        }
        let mut types: Vec<u32> =
            nodes.iter().map(|&node| u32::from(kb.node_type(node).0)).collect();
        types.push(kb.types().len() as u32);
        Ok(Self { nodes, n_candidates, types, features, edges, phi })
    }

    pub(super) fn candidates(&self) -> &[NodeId] {
        &self.nodes[..self.n_candidates]
    }
}

/// Returns the neighbours of a node by every relation and direction; a neighbour may occur several
/// times. Skips a relation and direction with more than [`MAX_NEIGHBORS`] neighbours.
fn neighbors(base: &IndexedBase, node: NodeId) -> Vec<NodeId> {
    let kb = &base.kb;
    let mut found = Vec::new();
    for relation in (0..kb.relations().len() as u16).map(RelationId) {
        for direction in [Direction::Out, Direction::In] {
            if kb.degree(node, relation, direction) <= MAX_NEIGHBORS {
                found.extend(kb.neighbors(node, relation, direction).iter().copied());
            }
        }
    }
    found
}

/// Returns, sorted, the edges between `nodes` and the edges that connect the context node with the
/// candidates and entities. Each edge occurs in both directions.
fn edges(
    base: &IndexedBase,
    nodes: &[NodeId],
    n_candidates: usize,
    entities: &[NodeId],
) -> Vec<Edge> {
    let kb = &base.kb;
    let n_relations = kb.relations().len() as u32;
    let mut edges: Vec<Edge> = Vec::new();
    let indexes: BTreeMap<NodeId, u32> = nodes.iter().copied().zip(0..).collect();
    'nodes: for (&node, &source) in &indexes {
        for relation in (0..kb.relations().len() as u16).map(RelationId) {
            let targets = kb.neighbors(node, relation, Direction::Out);
            let known: Vec<u32> = match targets.len() < indexes.len() {
                true => targets.iter().filter_map(|target| indexes.get(target).copied()).collect(),
                false => {
                    let found = |target: &NodeId| targets.binary_search(target).is_ok();
                    indexes.iter().filter(|pair| found(pair.0)).map(|pair| *pair.1).collect()
                }
            };
            for target in known {
                let kind = u32::from(relation.0);
                edges.push(Edge { source, target, kind });
                edges.push(Edge { source: target, target: source, kind: n_relations + kind });
                if edges.len() >= MAX_EDGES {
                    break 'nodes;
                }
            }
        }
    }
    // The context node stands for the query and has no id.
    let context = nodes.len() as u32;
    for (position, node) in nodes.iter().enumerate() {
        let index = indexes[node];
        let joined = [(position < n_candidates, 2), (entities.contains(node), 0)];
        for (_, first) in joined.into_iter().filter(|pair| pair.0) {
            let kind = 2 * n_relations + first;
            edges.push(Edge { source: context, target: index, kind });
            edges.push(Edge { source: index, target: context, kind: kind + 1 });
        }
    }
    edges.sort_unstable();
    edges
}
