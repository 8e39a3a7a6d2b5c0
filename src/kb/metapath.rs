//! Metapaths: typed paths from named nodes to nodes of one type, and the answers of question
//! templates that are built from them.
//!
//! A question template consists of a few [`Branch`]es. Its answers are the nodes that all plain
//! branches reach from their slots, without the nodes that have a path along a negated branch.
//! [`Links`] is the graph: a base, or a base under construction.

use std::borrow::Cow;

use crate::{Direction, Kb, MetapathStep, NodeId, RelationId, TypeId, distinct, metapath_in_words};

/// A graph in which metapaths are followed.
pub trait Links {
    /// One step of a metapath: from a type over a relation to a type.
    type Step;

    /// Returns the nodes to which a step leads from a node, ascending, each once.
    fn linked(&self, step: &Self::Step, node: u32) -> Cow<'_, [u32]>;

    /// Returns the step that leads back: from the end of `step` to its start.
    fn reversed(&self, step: &Self::Step) -> Self::Step;
}

/// A metapath from a slot to the type of the answers. A negated branch instead starts at an answer,
/// and an answer must have no path along it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Branch<S> {
    /// Index of the slot at which the branch starts; `None` for a negated branch.
    pub slot: Option<usize>,
    /// The steps in order; at least one.
    pub steps: Vec<S>,
}

/// Returns the nodes at the ends of a metapath from the node `start`, ascending, each once; `None`
/// if more than `max_edges` edges would be followed.
pub fn ends<L: Links>(
    links: &L,
    steps: &[L::Step],
    start: u32,
    max_edges: usize,
) -> Option<Vec<u32>> {
    let (mut nodes, mut left) = (vec![start], max_edges);
    for step in steps {
        let mut next = Vec::new();
        for &node in &nodes {
            let linked = links.linked(step, node);
            left = left.checked_sub(linked.len())?;
            next.extend_from_slice(&linked);
        }
        nodes = distinct(next);
    }
    Some(nodes)
}

/// Whether a path along a metapath starts at the node `start`.
pub fn has_end<L: Links>(links: &L, steps: &[L::Step], start: u32) -> bool {
    match steps.split_first() {
        None => true,
        Some((step, rest)) => {
            links.linked(step, start).iter().any(|&next| has_end(links, rest, next))
        }
    }
}

/// Returns the answers of a template whose slots are filled with the nodes `slots`, ascending: the
/// nodes that all plain branches reach, without those that have a path along a negated branch.
/// `None` if a branch would follow more than `max_edges` edges.
pub fn execute<L: Links>(
    links: &L,
    branches: &[Branch<L::Step>],
    slots: &[u32],
    max_edges: usize,
) -> Option<Vec<u32>> {
    let mut answers: Option<Vec<u32>> = None;
    for branch in branches {
        let Some(slot) = branch.slot else {
            if let Some(nodes) = &mut answers {
                nodes.retain(|&node| !has_end(links, &branch.steps, node));
            }
            continue;
        };
        let ends = ends(links, &branch.steps, *slots.get(slot)?, max_edges)?;
        match &mut answers {
            None => answers = Some(ends),
            Some(nodes) => nodes.retain(|node| ends.binary_search(node).is_ok()),
        }
    }
    Some(answers.unwrap_or_default())
}

/// Returns the node at the end of a random walk from `start` along `steps`; `below` draws a number
/// below its argument. `None` if a node on the way has no neighbours for the next step.
pub fn wander<L: Links>(
    links: &L,
    steps: &[L::Step],
    start: u32,
    below: &mut dyn FnMut(usize) -> usize,
) -> Option<u32> {
    let mut node = start;
    for step in steps {
        let linked = links.linked(step, node);
        if linked.is_empty() {
            return None;
        }
        node = *linked.get(below(linked.len()))?;
    }
    Some(node)
}

/// Fills the slots of a template at random, with the node `first` in the first slot: chooses a
/// random end of the first branch and goes back from there along the branch of each further slot.
/// `taken(slot, node, slots)` returns whether `node` must not fill the slot with that index, given
/// the nodes in the slots so far. `None` if a slot cannot be filled.
pub fn ground<L: Links>(
    links: &L,
    branches: &[Branch<L::Step>],
    n_slots: usize,
    first: u32,
    below: &mut dyn FnMut(usize) -> usize,
    taken: impl Fn(usize, u32, &[u32]) -> bool,
) -> Option<Vec<u32>> {
    let mut slots = vec![first];
    if n_slots > 1 {
        let end = wander(links, &branches.first()?.steps, first, below)?;
        for branch in branches {
            if branch.slot != Some(slots.len()) {
                continue;
            }
            let back: Vec<L::Step> =
                branch.steps.iter().rev().map(|step| links.reversed(step)).collect();
            let node = wander(links, &back, end, below)?;
            if taken(slots.len(), node, &slots) {
                return None;
            }
            slots.push(node);
        }
    }
    (slots.len() == n_slots).then_some(slots)
}

/// One step of a metapath in a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// Type of the nodes at the start of the step.
    pub from: TypeId,
    /// The relation that is followed.
    pub relation: RelationId,
    /// Direction in which edges are followed.
    pub direction: Direction,
    /// Type of the nodes at the end of the step.
    pub to: TypeId,
}

impl Links for Kb {
    type Step = Step;

    fn linked(&self, step: &Step, node: NodeId) -> Cow<'_, [NodeId]> {
        let neighbors = self.neighbors(node, step.relation, step.direction);
        let fits = |one: &NodeId| self.node_type(*one) == step.to;
        Cow::Owned(neighbors.iter().copied().filter(fits).collect())
    }

    fn reversed(&self, step: &Step) -> Step {
        let direction = step.direction.reversed();
        Step { from: step.to, relation: step.relation, direction, to: step.from }
    }
}

impl From<&Step> for MetapathStep {
    fn from(&Step { relation, direction, to, .. }: &Step) -> Self {
        Self { relation, direction, to }
    }
}

/// Writes a metapath as [`metapath_in_words`] does, such as `brand <-has_brand- product`; empty if
/// there are no steps.
pub fn in_words(kb: &Kb, steps: &[Step]) -> String {
    let first = steps.first().map(|step| step.from);
    first.map_or(String::new(), |from| metapath_in_words(kb, from, steps.iter().map(Into::into)))
}
