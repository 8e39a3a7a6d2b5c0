//! The working graph of a query: the entities it names, candidates, and what joins them. Must not
//! know what is made of it.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graph::{DiGraph, NodeIndex};

use agent_ground::words::is_question_word;
use agent_index::{IndexError, IndexedBase, TextPart};
use agent_kb::{Direction, NodeId, RelationId, best};

/// Entities that a query names, at most.
const MAX_ENTITIES: usize = 10;
/// Candidates that words put forward.
const FOUND: usize = 100;
/// Candidates that are neighbours of entities, at most; the best by words.
const REACHED: usize = 50;
/// Nodes of a working graph, at most, without the context node.
const MAX_NODES: usize = 220;
/// A node with more neighbours by a relation is not looked behind.
const MAX_NEIGHBORS: usize = 2_000;
/// Edges of a working graph, at most, without those of the context node.
const MAX_EDGES: usize = 4_000;
/// Numbers of a hashed query.
pub(super) const PHI: usize = 256;
/// What is known of a node: see [`WorkingGraph::features`].
pub(super) const FEATURES: usize = 9;
/// The place of the lexical score among them.
pub(super) const LEXICAL: usize = 5;
/// Places of what says how relevant a node is.
pub(super) const RELEVANCE: std::ops::RangeInclusive<usize> = 0..=LEXICAL;
/// Kinds of edges that join the context node: to and from entities, to and from candidates.
pub(super) const CONTEXT_KINDS: usize = 4;

/// An edge by the places of its nodes, and its kind: relations by direction, then those of the context
/// node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) source: u32,
    pub(super) target: u32,
    pub(super) kind: u32,
}

/// The nodes around a query. Candidates come first; the context node is behind all nodes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkingGraph {
    pub(super) nodes: Vec<NodeId>,
    pub(super) n_candidates: usize,
    /// The type of each node; behind those of the base, that of the context node.
    pub(super) types: Vec<u32>,
    /// Of each node: strength of its link, BM25 of its document and of its neighbours' names, cosine,
    /// cover, `bm25+names`, each divided by the largest of the graph where that is above 0; whether it
    /// is a candidate, an entity; logarithm of its degree.
    pub(super) features: Vec<[f32; FEATURES]>,
    pub(super) edges: Vec<Edge>,
    /// The hashed stems of the query, length 1.
    pub(super) phi: Vec<f32>,
}

/// Kinds of edges over a base.
pub(super) fn n_kinds(base: &IndexedBase) -> usize {
    2 * base.kb.relations().len() + CONTEXT_KINDS
}

/// The hashed stems of a query.
fn hashed(base: &IndexedBase, query: &str) -> Vec<f32> {
    let mut phi = vec![0.0; PHI];
    for stem in base.stems.of(query).filter(|stem| !is_question_word(stem)) {
        let digest = blake3::hash(stem.as_bytes());
        let [at, sign, ..] = *digest.as_bytes();
        phi[at as usize % PHI] += if sign & 1 == 0 { 1.0 } else { -1.0 };
    }
    agent_embed::matrix::normalise(&mut phi);
    phi
}

impl WorkingGraph {
    /// What lies around a query.
    ///
    /// # Errors
    /// Those of the embedder and the vectors.
    pub(super) fn new(base: &IndexedBase, query: &str) -> Result<Self, IndexError> {
        let kb = &base.kb;
        let linked = base.entities.link(kb, query, &[], MAX_ENTITIES);
        let linked = linked.top(MAX_ENTITIES);
        let entities: Vec<NodeId> = linked.as_slice().iter().map(|pair| pair.0).collect();
        let types = kb.candidate_types();
        let types = if types.len() == kb.types().len() { &[] } else { types };
        let lexical = base.text.search(query, TextPart::DocumentWithNames, types, 10 * FOUND);
        let scores: BTreeMap<NodeId, f32> = lexical.iter().copied().collect();
        let mut nodes: Vec<NodeId> = lexical.iter().take(FOUND).map(|pair| pair.0).collect();
        let mut known: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let around: BTreeSet<NodeId> =
            entities.iter().flat_map(|&entity| neighbors(base, entity)).collect();
        let terms = base.terms.query(&base.stems, query);
        let names = base.neighbor_names.query(&base.stems, query);
        let by_words =
            |node| base.terms.bm25(&terms, node) + base.neighbor_names.bm25(&names, node);
        let reached = around.iter().chain(&entities).copied().collect::<BTreeSet<_>>();
        let reached = reached.into_iter().filter(|&node| kb.is_candidate(node));
        let reached = reached.filter(|node| !known.contains(node));
        let reached = best(reached.map(|node| (node, by_words(node))).collect(), REACHED);
        nodes.extend(reached.iter().map(|pair| pair.0));
        known.extend(reached.iter().map(|pair| pair.0));
        let n_candidates = nodes.len();
        nodes.extend(entities.iter().copied().filter(|&entity| known.insert(entity)));
        // Between entities and candidates, those that join most first.
        let mut joins: BTreeMap<NodeId, u32> = BTreeMap::new();
        for &candidate in &nodes[..n_candidates] {
            for node in neighbors(base, candidate) {
                if around.contains(&node) && !known.contains(&node) {
                    *joins.entry(node).or_default() += 1;
                }
            }
        }
        let mut between: Vec<(NodeId, u32)> = joins.into_iter().collect();
        // Stable, of nodes in order.
        between.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        between.truncate(MAX_NODES.saturating_sub(nodes.len()));
        nodes.extend(between.into_iter().map(|pair| pair.0));
        let edges = edges(base, &nodes, n_candidates, &entities);
        let vector = base.embed_query(query)?;
        let cosines = base.vectors.score(&vector, &nodes)?;
        let mut features: Vec<[f32; FEATURES]> = Vec::with_capacity(nodes.len());
        for (at, (&node, cosine)) in nodes.iter().zip(cosines).enumerate() {
            let relations = (0..kb.relations().len() as u16).map(RelationId);
            let degree: usize = relations
                .map(|by| kb.degree(node, by, Direction::Out) + kb.degree(node, by, Direction::In))
                .sum();
            let is = |holds: bool| if holds { 1.0 } else { 0.0 };
            features.push([
                linked.get(node).unwrap_or(0.0),
                base.terms.bm25(&terms, node),
                base.neighbor_names.bm25(&names, node),
                cosine,
                base.terms.coverage(&terms, node),
                scores.get(&node).copied().unwrap_or(0.0),
                is(at < n_candidates),
                is(entities.contains(&node)),
                (1.0 + degree as f32).ln() / 10.0,
            ]);
        }
        for at in [1, 2, LEXICAL] {
            let largest = features.iter().map(|of| of[at]).fold(0.0, f32::max);
            if largest > 0.0 {
                features.iter_mut().for_each(|of| of[at] /= largest);
            }
        }
        let mut types: Vec<u32> =
            nodes.iter().map(|&node| u32::from(kb.node_type(node).0)).collect();
        types.push(kb.types().len() as u32);
        Ok(Self { nodes, n_candidates, types, features, edges, phi: hashed(base, query) })
    }

    /// The candidates.
    pub(super) fn candidates(&self) -> &[NodeId] {
        &self.nodes[..self.n_candidates]
    }
}

/// The neighbours of a node by any relation that has not too many.
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

/// The edges between nodes, both ways, and those of the context node.
fn edges(
    base: &IndexedBase,
    nodes: &[NodeId],
    n_candidates: usize,
    entities: &[NodeId],
) -> Vec<Edge> {
    let kb = &base.kb;
    let n_relations = kb.relations().len() as u32;
    let mut graph: DiGraph<NodeId, u32> = DiGraph::with_capacity(nodes.len() + 1, 0);
    let places: BTreeMap<NodeId, NodeIndex> =
        nodes.iter().map(|&node| (node, graph.add_node(node))).collect();
    'nodes: for (&node, &at) in &places {
        for relation in (0..kb.relations().len() as u16).map(RelationId) {
            let targets = kb.neighbors(node, relation, Direction::Out);
            let targets = targets.as_slice();
            let known: Vec<NodeIndex> = match targets.len() < places.len() {
                true => targets.iter().filter_map(|target| places.get(target).copied()).collect(),
                false => {
                    let found = |target: &NodeId| targets.binary_search(target).is_ok();
                    places.iter().filter(|pair| found(pair.0)).map(|pair| *pair.1).collect()
                }
            };
            for to in known {
                let kind = u32::from(relation.0);
                graph.add_edge(at, to, kind);
                graph.add_edge(to, at, n_relations + kind);
                if graph.edge_count() >= MAX_EDGES {
                    break 'nodes;
                }
            }
        }
    }
    // It stands for the query and has no id.
    let context = graph.add_node(NodeId::MAX);
    for (at, node) in nodes.iter().enumerate() {
        let place = places[node];
        let joined = [(at < n_candidates, 2), (entities.contains(node), 0)];
        for (_, first) in joined.into_iter().filter(|pair| pair.0) {
            graph.add_edge(context, place, 2 * n_relations + first);
            graph.add_edge(place, context, 2 * n_relations + first + 1);
        }
    }
    let mut edges: Vec<Edge> = graph
        .raw_edges()
        .iter()
        .map(|edge| Edge {
            source: edge.source().index() as u32,
            target: edge.target().index() as u32,
            kind: edge.weight,
        })
        .collect();
    edges.sort_unstable();
    edges
}
