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
    graph::DiGraph,
    visit::{
        Data, EdgeCount, EdgeRef, GraphBase, GraphRef, IntoEdgeReferences, IntoEdges,
        IntoEdgesDirected, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers,
        NodeCompactIndexable, NodeCount, NodeIndexable, Visitable,
    },
};

use crate::{Kb, NodeId, RelationId};

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

    /// Returns the edges of a node in one direction, in the order of the graph.
    pub(super) fn incident(
        self,
        node: NodeId,
        direction: petgraph::Direction,
    ) -> impl Iterator<Item = KbEdge> + 'a {
        let relations = match self.relation {
            Some(RelationId(id)) => id..id.saturating_add(1),
            // At most MAX_LABELS = u16::MAX.
            None => 0..self.kb.relations().len() as u16,
        };
        relations.map(RelationId).flat_map(move |relation| {
            let others = match direction {
                petgraph::Outgoing => self.kb.targets(node, relation),
                petgraph::Incoming => self.kb.sources(node, relation),
            };
            others.iter().map(move |&other| match direction {
                petgraph::Outgoing => KbEdge { source: node, relation, target: other },
                petgraph::Incoming => KbEdge { source: other, relation, target: node },
            })
        })
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

/// An iterator over edges or nodes.
type Boxed<'a, T> = Box<dyn Iterator<Item = T> + 'a>;

impl GraphBase for KbGraph<'_> {
    type EdgeId = KbEdge;
    type NodeId = NodeId;
}

impl GraphRef for KbGraph<'_> {}

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
    /// The set of visited nodes of petgraph's own graphs: one bit for each node.
    type Map = <DiGraph<(), ()> as Visitable>::Map;

    fn visit_map(&self) -> Self::Map {
        Self::Map::with_capacity(self.node_count())
    }

    fn reset_map(&self, map: &mut Self::Map) {
        map.clear();
        map.grow(self.node_count());
    }
}

impl IntoNodeIdentifiers for KbGraph<'_> {
    type NodeIdentifiers = std::ops::Range<NodeId>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        0..self.kb.n_nodes()
    }
}

impl<'a> IntoNeighbors for KbGraph<'a> {
    type Neighbors = Boxed<'a, NodeId>;

    fn neighbors(self, node: NodeId) -> Self::Neighbors {
        self.neighbors_directed(node, petgraph::Outgoing)
    }
}

impl<'a> IntoNeighborsDirected for KbGraph<'a> {
    type NeighborsDirected = Boxed<'a, NodeId>;

    fn neighbors_directed(
        self,
        node: NodeId,
        direction: petgraph::Direction,
    ) -> Self::NeighborsDirected {
        Box::new(self.incident(node, direction).map(move |edge| match direction {
            petgraph::Outgoing => edge.target,
            petgraph::Incoming => edge.source,
        }))
    }
}

impl<'a> IntoEdgeReferences for KbGraph<'a> {
    type EdgeRef = KbEdge;
    type EdgeReferences = Boxed<'a, KbEdge>;

    fn edge_references(self) -> Self::EdgeReferences {
        Box::new(self.node_identifiers().flat_map(move |node| self.edges(node)))
    }
}

impl<'a> IntoEdges for KbGraph<'a> {
    type Edges = Boxed<'a, KbEdge>;

    fn edges(self, node: NodeId) -> Self::Edges {
        self.edges_directed(node, petgraph::Outgoing)
    }
}

impl<'a> IntoEdgesDirected for KbGraph<'a> {
    type EdgesDirected = Boxed<'a, KbEdge>;

    fn edges_directed(self, node: NodeId, direction: petgraph::Direction) -> Self::EdgesDirected {
        Box::new(self.incident(node, direction))
    }
}
