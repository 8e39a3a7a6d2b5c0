//! The schema of a base as a graph, which lists the metapaths between two types.

use petgraph::{
    algo::all_simple_paths,
    graph::{DiGraph, NodeIndex},
};

use crate::{Direction, Kb, TypeId, metapath::Step};

/// Node of the schema graph: a type, or a step, at a distance from the start. A type has one node
/// for each distance, so that a metapath that returns to a type is a simple path in the graph.
/// Steps are nodes too, so that two relations between the same types are distinct.
#[derive(Clone, Copy)]
enum Place {
    Type,
    Step(Step),
}

/// The steps of a base between its types, repeated for each hop up to a maximum number of hops.
pub struct Schema {
    graph: DiGraph<Place, ()>,
    /// Graph nodes of the types, by distance from the start in hops, then by type id.
    types: Vec<Vec<NodeIndex>>,
}

/// Lists the steps of a base, each once. A relation between two types gives a step in each
/// direction; a relation within one type gives a single step, which follows edges in both
/// directions.
pub fn steps(kb: &Kb) -> Vec<Step> {
    let mut steps = Vec::new();
    for tuple in kb.tuples() {
        let (from, relation, to) = (tuple.source, tuple.relation, tuple.target);
        if from == to {
            steps.push(Step { from, relation, direction: Direction::Any, to });
        } else {
            steps.push(Step { from, relation, direction: Direction::Out, to });
            steps.push(Step { from: to, relation, direction: Direction::In, to: from });
        }
    }
    steps
}

impl Schema {
    /// Creates the schema of a base for metapaths that have at most `hops` of the given steps.
    /// There may be up to `steps.len()` to the power of `hops` such metapaths.
    pub fn new(kb: &Kb, steps: &[Step], hops: usize) -> Schema {
        let n_types = kb.types().len();
        let mut graph = DiGraph::new();
        let mut place_types =
            || -> Vec<NodeIndex> { (0..n_types).map(|_| graph.add_node(Place::Type)).collect() };
        let types: Vec<Vec<NodeIndex>> = (0..=hops).map(|_| place_types()).collect();
        let of = |places: &[NodeIndex], kind: TypeId| places.get(usize::from(kind.0)).copied();
        for pair in types.windows(2) {
            for &step in steps {
                let (Some(from), Some(to)) = (of(&pair[0], step.from), of(&pair[1], step.to))
                else {
                    continue;
                };
                let place = graph.add_node(Place::Step(step));
                graph.add_edge(from, place, ());
                graph.add_edge(place, to, ());
            }
        }
        Schema { graph, types }
    }

    /// Lists all metapaths from one type to another, each once, shorter ones first.
    pub fn metapaths(&self, from: TypeId, to: TypeId) -> Vec<Vec<Step>> {
        let place = |distance: usize, kind: TypeId| {
            self.types.get(distance)?.get(usize::from(kind.0)).copied()
        };
        let mut found = Vec::new();
        for distance in 1..self.types.len() {
            let (Some(start), Some(end)) = (place(0, from), place(distance, to)) else { continue };
            let paths = all_simple_paths::<Vec<NodeIndex>, _, std::hash::RandomState>(
                &self.graph,
                start,
                end,
                0,
                None,
            );
            found.extend(paths.map(|path| self.steps_of(&path)));
        }
        found.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        found
    }

    /// Returns the steps along a path in the graph.
    fn steps_of(&self, path: &[NodeIndex]) -> Vec<Step> {
        let places = path.iter().filter_map(|&at| self.graph.node_weight(at));
        let step = |place: &Place| match place {
            Place::Step(step) => Some(*step),
            Place::Type => None,
        };
        places.filter_map(step).collect()
    }
}
