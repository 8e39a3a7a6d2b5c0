//! Shortest paths between nodes over edges of any relation in any direction, and paths along a
//! metapath, by breadth-first search over [`KbGraph`].
//!
//! Of several paths, one is chosen step by step from its end: by the smallest id of the previous
//! node, then an edge in its stored direction, then the first relation.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use crate::{Bits, Direction, Kb, KbGraph, NodeId, RelationId, TypeId, distinct};

/// One edge of a path, with the node at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The relation of the edge.
    pub relation: RelationId,
    /// [`Direction::Out`] if the edge is followed as stored, [`Direction::In`] if against it.
    pub direction: Direction,
    /// The node at which the edge ends on the path.
    pub node: NodeId,
}

/// A path over edges of a base.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The node at which the path starts.
    pub from: NodeId,
    /// The edges in order; empty if the path starts and ends at the same node.
    pub hops: Vec<Hop>,
}

/// One step of a metapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetapathStep {
    /// The relation that is followed.
    pub relation: RelationId,
    /// Direction in which edges are followed.
    pub direction: Direction,
    /// The type of the nodes at the end of the step.
    #[serde(rename = "type")]
    pub to: TypeId,
}

/// Writes a metapath as text, such as `brand <-has_brand- product`; `from` is the type at its
/// start.
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

/// Limits of a search for paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathBounds {
    /// Maximum number of edges of a path.
    pub hops: usize,
    /// Maximum number of nodes whose edges are followed.
    pub nodes: usize,
    /// Maximum number of edges that are followed.
    pub edges: usize,
}

impl Path {
    /// Returns the node at which the path ends.
    pub fn end(&self) -> NodeId {
        self.hops.last().map_or(self.from, |hop| hop.node)
    }
}

/// Assumed number of edges per node of a frontier, to decide whether the last level is searched
/// from the targets.
const EDGES_PER_NODE: usize = 8;

/// For each node reached by a search, the node before it and the edge between them.
type Predecessors = HashMap<NodeId, (NodeId, Hop)>;

/// Returns for each node of `to`, in order, the shortest path from any node of `from`; `None` if
/// there is no path within the bounds. Before the edges of a node are followed, `follow` receives
/// their number plus 1. O(followed edges), with one bit of memory for each node of the base.
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
    let mut seen = Bits::new(kb.n_nodes() as usize);
    let mut frontier: Vec<NodeId> = known(kb, from);
    let mut missing: BTreeSet<NodeId> = known(kb, to).into_iter().collect();
    for &node in &frontier {
        seen.insert(node);
        missing.remove(&node);
    }
    let (mut reached, mut nodes, mut edges) = (Predecessors::new(), bounds.nodes, bounds.edges);
    'levels: for level in 1..=bounds.hops {
        // On the last level most edges of a large frontier miss the targets, so the edges are found
        // from the targets instead.
        let at_ends =
            level == bounds.hops && is_fewer(kb, &missing, EDGES_PER_NODE * frontier.len());
        let mut ends = at_ends.then(|| last_edges(kb, &frontier, &missing));
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
                for hop in ends.remove(&at).unwrap_or_default() {
                    reached.insert(hop.node, (node, hop));
                    missing.remove(&hop.node);
                }
                continue;
            }
            for hop in hops(kb, node) {
                if seen.insert(hop.node) {
                    reached.insert(hop.node, (node, hop));
                    missing.remove(&hop.node);
                    next.push(hop.node);
                }
            }
        }
        next.sort_unstable();
        frontier = next;
    }
    let begins = known(kb, from);
    let path = |&node: &NodeId| {
        let known = begins.binary_search(&node).is_ok() || reached.contains_key(&node);
        known.then(|| path_to(node, |node| reached.get(&node).copied()))
    };
    Ok(to.iter().map(path).collect())
}

/// Whether `nodes` have at most `max_edges` edges in total.
fn is_fewer(kb: &Kb, nodes: &BTreeSet<NodeId>, max_edges: usize) -> bool {
    let mut nodes = nodes.iter();
    nodes.try_fold(max_edges, |left, &node| left.checked_sub(all_edges(kb, node))).is_some()
}

/// Finds, for each of the nodes `wanted`, the first edge in search order that leads to it from the
/// ascending frontier of a search. Returns these edges by the position of their start in the
/// frontier. O(edges of the wanted nodes).
fn last_edges(
    kb: &Kb,
    frontier: &[NodeId],
    wanted: &BTreeSet<NodeId>,
) -> BTreeMap<usize, Vec<Hop>> {
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
    by_place
}

/// Returns for each node of `to`, in order, a path along the metapath `steps` from any node of
/// `from`; `None` if there is no such path, or if the search would follow more than `edges` edges.
pub fn paths_along(
    kb: &Kb,
    from: &[NodeId],
    to: &[NodeId],
    steps: &[MetapathStep],
    edges: usize,
) -> Vec<Option<Path>> {
    let mut levels: Vec<Predecessors> = Vec::with_capacity(steps.len());
    let mut frontier = known(kb, from);
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

/// Builds the path to the node `end`; `before` returns the node before a node, with the edge
/// between them.
pub fn path_to(end: NodeId, mut before: impl FnMut(NodeId) -> Option<(NodeId, Hop)>) -> Path {
    let (mut from, mut hops) = (end, Vec::new());
    while let Some((node, hop)) = before(from) {
        hops.push(hop);
        from = node;
    }
    hops.reverse();
    Path { from, hops }
}

/// Returns the nodes in `nodes` that exist, ascending, each once.
fn known(kb: &Kb, nodes: &[NodeId]) -> Vec<NodeId> {
    distinct(nodes.iter().copied().filter(|&node| kb.contains(node)).collect())
}

/// Returns the edges of a node in both directions: first those that start at the node, then those
/// that end there, each ordered by relation, then by neighbor.
pub fn hops(kb: &Kb, node: NodeId) -> impl Iterator<Item = Hop> {
    let graph = KbGraph::new(kb, None);
    let out = graph.incident(node, petgraph::Outgoing).map(|edge| Hop {
        relation: edge.relation,
        direction: Direction::Out,
        node: edge.target,
    });
    let back = graph.incident(node, petgraph::Incoming).map(|edge| Hop {
        relation: edge.relation,
        direction: Direction::In,
        node: edge.source,
    });
    out.chain(back)
}

/// Returns the edges of a node along a step of a metapath: edges in their stored direction first,
/// each direction ordered by neighbor.
fn step_hops(kb: &Kb, node: NodeId, step: &MetapathStep) -> impl Iterator<Item = Hop> {
    let ways: &[Direction] = match step.direction {
        Direction::Any => &[Direction::Out, Direction::In],
        Direction::Out => &[Direction::Out],
        Direction::In => &[Direction::In],
    };
    let &MetapathStep { relation, to, .. } = step;
    ways.iter().flat_map(move |&direction| {
        let ends = kb.neighbors(node, relation, direction).into_owned().into_iter();
        let ends = ends.filter(move |&end| kb.node_type(end) == to);
        ends.map(move |node| Hop { relation, direction, node })
    })
}

/// Returns the number of edges of a node over all relations and both directions. O(relations).
pub fn all_edges(kb: &Kb, node: NodeId) -> usize {
    let relations = (0..kb.relations().len()).map(|at| RelationId(at as u16));
    let of = |relation| {
        kb.degree(node, relation, Direction::Out) + kb.degree(node, relation, Direction::In)
    };
    relations.map(of).sum()
}
