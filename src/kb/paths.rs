//! Shortest paths between nodes over edges of any relation and direction, and paths along a
//! metapath, by breadth-first search over [`KbGraph`].
//!
//! Ties, at each step from the end: the previous node with the smallest id, then an edge in its
//! stored direction, then the first relation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use petgraph::visit::{EdgeRef, IntoEdgesDirected, VisitMap, Visitable};
use serde::{Deserialize, Serialize};

use crate::{Direction, Kb, KbGraph, NodeId, RelationId, TypeId};

/// One edge of a path and its end node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The relation of the edge.
    pub relation: RelationId,
    /// [`Direction::Out`] if the edge is followed as stored, [`Direction::In`] if against it.
    pub direction: Direction,
    /// The node at its end.
    pub node: NodeId,
}

/// A path over edges.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// First node.
    pub from: NodeId,
    /// Edges in order; empty where both ends are the same node.
    pub hops: Vec<Hop>,
}

/// One step of a metapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetapathStep {
    /// The relation that is followed.
    pub relation: RelationId,
    /// Direction of the edges.
    pub direction: Direction,
    /// The type of the nodes at its end.
    #[serde(rename = "type")]
    pub to: TypeId,
}

/// A metapath in words, such as `brand <-has_brand- product`.
pub fn metapath_in_words(
    kb: &Kb,
    from: TypeId,
    steps: impl IntoIterator<Item = MetapathStep>,
) -> String {
    let mut text = kb.type_name(from).to_owned();
    for MetapathStep { relation, direction, to } in steps {
        let (arrow, to) = (direction.arrow(kb.relation_name(relation)), kb.type_name(to));
        text += &format!(" {arrow} {to}");
    }
    text
}

/// Limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathBounds {
    /// Maximum number of edges of a path.
    pub hops: usize,
    /// Maximum number of expanded nodes.
    pub nodes: usize,
    /// Maximum number of visited edges.
    pub edges: usize,
}

impl Path {
    /// The last node.
    pub fn end(&self) -> NodeId {
        self.hops.last().map_or(self.from, |hop| hop.node)
    }
}

/// Assumed minimum degree of the nodes of a large frontier.
const EDGES_PER_NODE: usize = 8;

/// Predecessor of each reached node, with the edge.
type Predecessors = HashMap<NodeId, (NodeId, Hop)>;

/// For each node of `to`, in order, the shortest path from any node of `from`; none if no path lies
/// within the bounds. Before a node is expanded, `follow` receives its number of edges plus 1.
/// O(visited edges), with one byte of memory for each node of the base.
///
/// # Errors
/// The error of `follow`.
pub fn shortest_paths<E>(
    kb: &Kb,
    from: &[NodeId],
    to: &[NodeId],
    bounds: PathBounds,
    follow: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<Vec<Option<Path>>, E> {
    let graph = KbGraph::new(kb, None);
    let mut seen = graph.visit_map();
    let mut frontier: Vec<NodeId> = distinct(kb, from);
    let mut missing: BTreeSet<NodeId> = distinct(kb, to).into_iter().collect();
    for &node in &frontier {
        seen.visit(node);
        missing.remove(&node);
    }
    let (mut reached, mut nodes, mut edges) = (Predecessors::new(), bounds.nodes, bounds.edges);
    'levels: for level in 1..=bounds.hops {
        // On the last level most edges of a large frontier miss the targets, so the edges are found
        // from the targets instead.
        let at_ends =
            level == bounds.hops && is_fewer(kb, &missing, EDGES_PER_NODE * frontier.len());
        let mut ends = at_ends.then(|| LastEdges::new(kb, &frontier, &missing));
        let mut next = Vec::new();
        for (at, &node) in frontier.iter().enumerate() {
            if missing.is_empty() {
                break 'levels;
            }
            let degree = all_edges(kb, node);
            let (Some(left), Some(fewer)) = (edges.checked_sub(degree), nodes.checked_sub(1))
            else {
                break 'levels;
            };
            (edges, nodes) = (left, fewer);
            follow(1 + degree)?;
            if let Some(ends) = &mut ends {
                for hop in ends.starting_at(at) {
                    reached.insert(hop.node, (node, hop));
                    missing.remove(&hop.node);
                }
                continue;
            }
            for hop in hops(kb, node) {
                if seen.visit(hop.node) {
                    reached.insert(hop.node, (node, hop));
                    missing.remove(&hop.node);
                    next.push(hop.node);
                }
            }
        }
        next.sort_unstable();
        frontier = next;
    }
    let begins: BTreeSet<NodeId> = distinct(kb, from).into_iter().collect();
    let path = |&node: &NodeId| {
        let known = begins.contains(&node) || reached.contains_key(&node);
        known.then(|| path_to(node, |node| reached.get(&node).copied()))
    };
    Ok(to.iter().map(path).collect())
}

/// Whether the nodes have at most `max_edges` edges in total.
fn is_fewer(kb: &Kb, nodes: &BTreeSet<NodeId>, max_edges: usize) -> bool {
    let mut left = Some(max_edges);
    for &node in nodes {
        left = left.and_then(|left| left.checked_sub(all_edges(kb, node)));
    }
    left.is_some()
}

/// The last edges from the frontier of a search to its targets: for each target the first edge in
/// search order.
struct LastEdges(BTreeMap<usize, Vec<Hop>>);

impl LastEdges {
    /// Built from an ascending frontier. O(edges of the wanted nodes).
    fn new(kb: &Kb, frontier: &[NodeId], wanted: &BTreeSet<NodeId>) -> Self {
        let mut by_place: BTreeMap<usize, Vec<Hop>> = BTreeMap::new();
        for &node in wanted {
            let back = hops(kb, node).filter_map(|Hop { relation, direction, node: near }| {
                let at = frontier.binary_search(&near).ok()?;
                Some((at, Hop { relation, direction: direction.reversed(), node }))
            });
            let first = back.min_by_key(|(at, hop)| (*at, hop.direction, hop.relation));
            if let Some((at, hop)) = first {
                by_place.entry(at).or_default().push(hop);
            }
        }
        Self(by_place)
    }

    /// Edges that start at the frontier node of this index.
    fn starting_at(&mut self, index: usize) -> Vec<Hop> {
        self.0.remove(&index).unwrap_or_default()
    }
}

/// For each node of `to`, in order, a path from any node of `from` along a metapath; none if there
/// is no such path, or if the search would visit more than `edges` edges.
pub fn paths_along(
    kb: &Kb,
    from: &[NodeId],
    to: &[NodeId],
    steps: &[MetapathStep],
    edges: usize,
) -> Vec<Option<Path>> {
    let mut levels: Vec<Predecessors> = Vec::with_capacity(steps.len());
    let mut frontier = distinct(kb, from);
    let mut left = edges;
    for step in steps {
        let mut reached = Predecessors::new();
        for &node in &frontier {
            let Some(fewer) = left.checked_sub(kb.degree(node, step.relation, step.direction))
            else {
                return vec![None; to.len()];
            };
            left = fewer;
            for hop in step_hops(kb, node, step) {
                reached.entry(hop.node).or_insert((node, hop));
            }
        }
        frontier = reached.keys().copied().collect();
        frontier.sort_unstable();
        levels.push(reached);
    }
    let path = |&node: &NodeId| {
        let mut at = levels.iter().rev();
        let known = levels.last().is_some_and(|last| last.contains_key(&node));
        known.then(|| path_to(node, |node| at.next()?.get(&node).copied()))
    };
    to.iter().map(path).collect()
}

/// The path to a node, built from its predecessors.
fn path_to(end: NodeId, mut before: impl FnMut(NodeId) -> Option<(NodeId, Hop)>) -> Path {
    let (mut from, mut hops) = (end, Vec::new());
    while let Some((node, hop)) = before(from) {
        hops.push(hop);
        from = node;
    }
    hops.reverse();
    Path { from, hops }
}

/// The existing nodes, ascending, each once.
fn distinct(kb: &Kb, nodes: &[NodeId]) -> Vec<NodeId> {
    let known: BTreeSet<NodeId> = nodes.iter().copied().filter(|&node| kb.contains(node)).collect();
    known.into_iter().collect()
}

/// The edges of a node: stored direction first, then by relation, then by node.
pub fn hops(kb: &Kb, node: NodeId) -> impl Iterator<Item = Hop> {
    let graph = KbGraph::new(kb, None);
    let out = graph.edges_directed(node, petgraph::Outgoing).map(|edge| Hop {
        relation: *edge.weight(),
        direction: Direction::Out,
        node: edge.target(),
    });
    let back = graph.edges_directed(node, petgraph::Incoming).map(|edge| Hop {
        relation: *edge.weight(),
        direction: Direction::In,
        node: edge.source(),
    });
    out.chain(back)
}

/// The edges of a node along a step of a metapath: stored direction first, then by node.
fn step_hops(kb: &Kb, node: NodeId, step: &MetapathStep) -> impl Iterator<Item = Hop> {
    let ways: &[Direction] = match step.direction {
        Direction::Any => &[Direction::Out, Direction::In],
        Direction::Out => &[Direction::Out],
        Direction::In => &[Direction::In],
    };
    let &MetapathStep { relation, to, .. } = step;
    ways.iter().flat_map(move |&direction| {
        let ends = kb.neighbors(node, relation, direction).into_iter();
        ends.filter(move |&end| kb.node_type(end) == to).map(move |node| Hop {
            relation,
            direction,
            node,
        })
    })
}

/// Degree of a node over all relations, in both directions. O(relations).
pub fn all_edges(kb: &Kb, node: NodeId) -> usize {
    let relations = (0..kb.relations().len()).map(|at| RelationId(at as u16));
    let of = |relation| {
        kb.degree(node, relation, Direction::Out) + kb.degree(node, relation, Direction::In)
    };
    relations.map(of).sum()
}
