//! The base as a petgraph graph, so that petgraph's algorithms run over the mapped adjacency.
//!
//! ```no_run
//! # fn main() -> Result<(), agent::kb::KbError> {
//! let kb = agent::kb::Kb::open(std::path::Path::new("base"))?;
//! let graph = agent::kb::KbGraph::new(&kb, None);
//! let hops = petgraph::algo::dijkstra(graph, 0, None, |_| 1u32);
//! # drop(hops); Ok(()) }
//! ```

use petgraph::{
    Directed,
    visit::{
        Data, EdgeCount, EdgeRef, GraphBase, GraphProp, GraphRef, IntoEdgeReferences, IntoEdges,
        IntoEdgesDirected, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers,
        IntoNodeReferences, NodeCompactIndexable, NodeCount, NodeIndexable, VisitMap, Visitable,
    },
};

use crate::{Direction, Kb, NodeId, RelationId, csr::NeighborsIter};

/// A directed graph over one relation of a base, or over all relations.
///
/// Two nodes that several relations connect are neighbors once for each relation. Edges of a node
/// are ordered by ascending relation, then by ascending neighbor. Node weights are `()`, edge
/// weights are relations.
#[derive(Clone, Copy, Debug)]
pub struct KbGraph<'a> {
    kb: &'a Kb,
    relation: Option<RelationId>,
}

impl<'a> KbGraph<'a> {
    /// Creates the graph of `relation`, or of all relations if `None`.
    pub fn new(kb: &'a Kb, relation: Option<RelationId>) -> KbGraph<'a> {
        KbGraph { kb, relation }
    }

    fn relations(self) -> std::ops::Range<u16> {
        match self.relation {
            Some(RelationId(id)) => id..id.saturating_add(1),
            // At most MAX_LABELS = u16::MAX.
            None => 0..self.kb.relations().len() as u16,
        }
    }

    fn incident(self, node: NodeId, direction: petgraph::Direction) -> IncidentEdges<'a> {
        IncidentEdges { graph: self, node, direction, relations: self.relations(), current: None }
    }
}

/// An edge of a [`KbGraph`]; the id of an edge is the edge itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KbEdge {
    /// The node at which the edge starts.
    pub source: NodeId,
    /// The relation of the edge.
    pub relation: RelationId,
    /// The node at which the edge ends.
    pub target: NodeId,
}

impl EdgeRef for KbEdge {
    type NodeId = NodeId;
    type EdgeId = KbEdge;
    type Weight = RelationId;

    fn source(&self) -> NodeId {
        self.source
    }

    fn target(&self) -> NodeId {
        self.target
    }

    fn weight(&self) -> &RelationId {
        &self.relation
    }

    fn id(&self) -> KbEdge {
        *self
    }
}

/// Iterator over the edges of one node in one direction.
pub struct IncidentEdges<'a> {
    graph: KbGraph<'a>,
    node: NodeId,
    direction: petgraph::Direction,
    relations: std::ops::Range<u16>,
    current: Option<(RelationId, NeighborsIter<'a>)>,
}

impl Iterator for IncidentEdges<'_> {
    type Item = KbEdge;

    fn next(&mut self) -> Option<KbEdge> {
        let kb = self.graph.kb;
        loop {
            if let Some((relation, neighbors)) = &mut self.current {
                // Ids of a damaged file must not reach algorithms that index by them.
                if let Some(other) = neighbors.find(|node| kb.contains(*node)) {
                    let (source, target) = match self.direction {
                        petgraph::Outgoing => (self.node, other),
                        petgraph::Incoming => (other, self.node),
                    };
                    return Some(KbEdge { source, relation: *relation, target });
                }
            }
            let relation = RelationId(self.relations.next()?);
            let direction = match self.direction {
                petgraph::Outgoing => Direction::Out,
                petgraph::Incoming => Direction::In,
            };
            self.current =
                Some((relation, kb.neighbors(self.node, relation, direction).into_iter()));
        }
    }
}

/// Iterator over the nodes at the other ends of [`IncidentEdges`].
pub struct IncidentNodes<'a>(IncidentEdges<'a>);

impl Iterator for IncidentNodes<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        let edge = self.0.next()?;
        Some(match self.0.direction {
            petgraph::Outgoing => edge.target,
            petgraph::Incoming => edge.source,
        })
    }
}

/// Iterator over all edges of a graph, ordered by source, then relation, then target.
pub struct AllEdges<'a> {
    graph: KbGraph<'a>,
    next_node: NodeId,
    current: Option<IncidentEdges<'a>>,
}

impl Iterator for AllEdges<'_> {
    type Item = KbEdge;

    fn next(&mut self) -> Option<KbEdge> {
        loop {
            if let Some(edge) = self.current.as_mut().and_then(Iterator::next) {
                return Some(edge);
            }
            if !self.graph.kb.contains(self.next_node) {
                return None;
            }
            self.current = Some(self.graph.incident(self.next_node, petgraph::Outgoing));
            self.next_node += 1;
        }
    }
}

/// The nodes that a traversal has visited. Memory: one byte for each node of the base.
#[derive(Clone, Debug)]
pub struct VisitedNodes(Vec<bool>);

impl VisitMap<NodeId> for VisitedNodes {
    fn visit(&mut self, node: NodeId) -> bool {
        self.0.get_mut(node as usize).is_some_and(|seen| !std::mem::replace(seen, true))
    }

    fn is_visited(&self, node: &NodeId) -> bool {
        self.0.get(*node as usize).copied().unwrap_or(true)
    }

    fn unvisit(&mut self, node: NodeId) -> bool {
        self.0.get_mut(node as usize).is_some_and(|seen| std::mem::replace(seen, false))
    }
}

impl GraphBase for KbGraph<'_> {
    type EdgeId = KbEdge;
    type NodeId = NodeId;
}

impl GraphRef for KbGraph<'_> {}

impl GraphProp for KbGraph<'_> {
    type EdgeType = Directed;
}

impl Data for KbGraph<'_> {
    type NodeWeight = ();
    type EdgeWeight = RelationId;
}

impl NodeCount for KbGraph<'_> {
    fn node_count(&self) -> usize {
        self.kb.n_nodes() as usize
    }
}

impl EdgeCount for KbGraph<'_> {
    fn edge_count(&self) -> usize {
        let tuples = self.kb.tuples().iter();
        tuples
            .filter(|tuple| self.relation.is_none_or(|relation| relation == tuple.relation))
            .map(|tuple| tuple.edges as usize)
            .sum()
    }
}

impl NodeIndexable for KbGraph<'_> {
    fn node_bound(&self) -> usize {
        self.node_count()
    }

    fn to_index(&self, node: NodeId) -> usize {
        node as usize
    }

    fn from_index(&self, index: usize) -> NodeId {
        // Indexes are below `node_bound`, which is a u32.
        index as NodeId
    }
}

impl NodeCompactIndexable for KbGraph<'_> {}

impl Visitable for KbGraph<'_> {
    type Map = VisitedNodes;

    fn visit_map(&self) -> VisitedNodes {
        VisitedNodes(vec![false; self.node_count()])
    }

    fn reset_map(&self, map: &mut VisitedNodes) {
        map.0.clear();
        map.0.resize(self.node_count(), false);
    }
}

impl IntoNodeIdentifiers for KbGraph<'_> {
    type NodeIdentifiers = std::ops::Range<NodeId>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        0..self.kb.n_nodes()
    }
}

impl<'a> IntoNodeReferences for KbGraph<'a> {
    type NodeRef = (NodeId, ());
    type NodeReferences = std::iter::Map<std::ops::Range<NodeId>, fn(NodeId) -> (NodeId, ())>;

    fn node_references(self) -> Self::NodeReferences {
        self.node_identifiers().map(|node| (node, ()))
    }
}

impl<'a> IntoNeighbors for KbGraph<'a> {
    type Neighbors = IncidentNodes<'a>;

    fn neighbors(self, node: NodeId) -> IncidentNodes<'a> {
        IncidentNodes(self.incident(node, petgraph::Outgoing))
    }
}

impl<'a> IntoNeighborsDirected for KbGraph<'a> {
    type NeighborsDirected = IncidentNodes<'a>;

    fn neighbors_directed(self, node: NodeId, direction: petgraph::Direction) -> IncidentNodes<'a> {
        IncidentNodes(self.incident(node, direction))
    }
}

impl<'a> IntoEdgeReferences for KbGraph<'a> {
    type EdgeRef = KbEdge;
    type EdgeReferences = AllEdges<'a>;

    fn edge_references(self) -> AllEdges<'a> {
        AllEdges { graph: self, next_node: 0, current: None }
    }
}

impl<'a> IntoEdges for KbGraph<'a> {
    type Edges = IncidentEdges<'a>;

    fn edges(self, node: NodeId) -> IncidentEdges<'a> {
        self.incident(node, petgraph::Outgoing)
    }
}

impl<'a> IntoEdgesDirected for KbGraph<'a> {
    type EdgesDirected = IncidentEdges<'a>;

    fn edges_directed(self, node: NodeId, direction: petgraph::Direction) -> IncidentEdges<'a> {
        self.incident(node, direction)
    }
}
