//! Pattern mining: given queries with training answers, the typed walks that lead from what a
//! query names or describes to its answers.
//!
//! For every anchor of a query and every answer, all walks of one and two steps between them are
//! found by joining the neighbours of both. A pattern is such a walk without its nodes: how the
//! anchor is found, its type, relations with directions, the type at the end. It is worth what it
//! tells about the answers: the share of answers reached, times the information gained over
//! guessing among all nodes of that type, summed over queries.
//!
//! Must not know: answers of validation or test, programs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use rayon::prelude::*;

use crate::{
    dataset::LabelledQuery,
    index::{IndexError, IndexedBase, TextPart},
    kb::{Direction, NodeId, RelationId, TypeId},
};

/// Nodes linked of each type, strongest first, that are tried as anchors.
const LINKED_ANCHORS: usize = 4;
/// Weakest link that counts as an anchor.
const MIN_LINK: f32 = 0.12;
/// Nodes found by search of each type that are tried as anchors.
const SEARCHED_ANCHORS: usize = 5;
/// Answers of one query that are looked at.
const MAX_ANSWERS: usize = 20;
/// Neighbours of one node that are joined; a hub beyond that tells little.
const MAX_JOINED: usize = 20_000;
/// Queries for which the size of a pattern's reach is measured.
const REACH_SAMPLE: usize = 24;

/// How anchors are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnchorSource {
    /// The query names them.
    Named,
    /// The query describes them: their documents match it best.
    Described,
}

/// One step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The relation followed.
    pub relation: RelationId,
    /// Which way; [`Direction::Any`] only for relations between nodes of one type.
    pub direction: Direction,
}

/// A typed walk from anchors to answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// How anchors are found.
    pub source: AnchorSource,
    /// Type of the anchors.
    pub anchor: TypeId,
    /// One or two steps.
    pub steps: Vec<Step>,
    /// Type of the answers.
    pub target: TypeId,
}

/// A pattern with what it is worth on the queries it was mined from.
#[derive(Clone, Debug)]
pub struct Mined {
    /// The pattern.
    pub pattern: Pattern,
    /// Share of answers reached by query (position in the input), ascending, for queries where
    /// it reaches any; weighted by the strength of the anchor.
    pub coverage: Vec<(usize, f32)>,
    /// Information in being reached at all: log2 of nodes of the target type over nodes reached,
    /// mean over queries.
    pub bits: f64,
    /// Information gained about the answers, bits summed over queries.
    pub gain: f64,
}

/// A node a query may be about, with how surely.
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// How it was found.
    pub source: AnchorSource,
    /// The node.
    pub node: NodeId,
    /// Strength in `0..=1`.
    pub strength: f32,
}

/// What the query names or describes, strongest first within each source and type.
pub fn anchors(base: &IndexedBase, query: &str) -> Vec<Anchor> {
    let linked = base.names.link(&base.kb, query, &[], LINKED_ANCHORS);
    let named = linked
        .as_slice()
        .iter()
        .filter(|(_, strength)| *strength >= MIN_LINK)
        .map(|&(node, strength)| Anchor { source: AnchorSource::Named, node, strength });
    let mut anchors: Vec<Anchor> = named.collect();
    for kind in 0..base.kb.types().len() {
        let types = [TypeId(kind as u16)];
        let found = base.text.search(query, TextPart::Document, &types, SEARCHED_ANCHORS);
        let best = found.first().map_or(1.0, |pair| pair.1);
        anchors.extend(found.into_iter().map(|(node, score)| Anchor {
            source: AnchorSource::Described,
            node,
            strength: score / best,
        }));
    }
    anchors
}

/// The steps that can be taken: every relation in both directions, and without regard to direction
/// where it joins nodes of one type.
fn all_steps(base: &IndexedBase) -> Vec<Step> {
    (0..base.kb.relations().len() as u16)
        .map(RelationId)
        .flat_map(|relation| {
            let within_type = base
                .kb
                .tuples()
                .iter()
                .any(|tuple| tuple.relation == relation && tuple.source == tuple.target);
            [Direction::Out, Direction::In, Direction::Any]
                .into_iter()
                .filter(move |&direction| within_type || direction != Direction::Any)
                .map(move |direction| Step { relation, direction })
        })
        .collect()
}

/// Every neighbour of a node with the step that leads to it, at most [`MAX_JOINED`].
fn steps_from(base: &IndexedBase, steps: &[Step], node: NodeId) -> Vec<(Step, NodeId)> {
    let mut found = Vec::new();
    for &step in steps {
        let neighbors = base.kb.neighbors(node, step.relation, step.direction);
        found.extend(
            neighbors.iter().take(MAX_JOINED - found.len()).map(|&neighbor| (step, neighbor)),
        );
    }
    found
}

fn reversed(step: Step) -> Step {
    let direction = match step.direction {
        Direction::Out => Direction::In,
        Direction::In => Direction::Out,
        Direction::Any => Direction::Any,
    };
    Step { direction, ..step }
}

/// Patterns that reach answers of one query, with the weighted share of answers reached.
fn mine_query(base: &IndexedBase, steps: &[Step], query: &LabelledQuery) -> BTreeMap<Pattern, f32> {
    let anchors = anchors(base, &query.text);
    let answers = &query.answers[..query.answers.len().min(MAX_ANSWERS)];
    let outward: Vec<Vec<(Step, NodeId)>> =
        anchors.iter().map(|anchor| steps_from(base, steps, anchor.node)).collect();
    let mut shares: BTreeMap<Pattern, f32> = BTreeMap::new();
    for &answer in answers {
        let mut inward: HashMap<NodeId, Vec<Step>> = HashMap::new();
        for (step, neighbor) in steps_from(base, steps, answer) {
            inward.entry(neighbor).or_default().push(reversed(step));
        }
        let mut reached: HashMap<Pattern, f32> = HashMap::new();
        for (anchor, outward) in anchors.iter().zip(&outward) {
            if anchor.node == answer {
                continue;
            }
            let mut note = |steps: Vec<Step>| {
                let pattern = Pattern {
                    source: anchor.source,
                    anchor: base.kb.node_type(anchor.node),
                    steps,
                    target: base.kb.node_type(answer),
                };
                let best = reached.entry(pattern).or_default();
                *best = best.max(anchor.strength);
            };
            for &(first, middle) in outward {
                if middle == answer {
                    note(vec![first]);
                }
                if middle != answer && middle != anchor.node {
                    for &second in inward.get(&middle).into_iter().flatten() {
                        note(vec![first, second]);
                    }
                }
            }
        }
        for (pattern, strength) in reached {
            *shares.entry(pattern).or_default() += strength / answers.len() as f32;
        }
    }
    shares
}

/// How many nodes of the target type a pattern reaches from the query's anchors.
fn reach(base: &IndexedBase, pattern: &Pattern, anchors: &[Anchor]) -> usize {
    let is_anchor = |anchor: &&Anchor| {
        anchor.source == pattern.source && base.kb.node_type(anchor.node) == pattern.anchor
    };
    let mut nodes: Vec<NodeId> =
        anchors.iter().filter(is_anchor).map(|anchor| anchor.node).collect();
    for step in &pattern.steps {
        nodes = nodes
            .iter()
            .flat_map(|&node| base.kb.neighbors(node, step.relation, step.direction).into_vec())
            .collect();
        nodes.sort_unstable();
        nodes.dedup();
    }
    nodes.iter().filter(|&&node| base.kb.node_type(node) == pattern.target).count()
}

/// All patterns that reach answers of at least `min_support` queries, most informative first; ties
/// by pattern. Independent of the number of threads.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set.
pub fn mine(
    base: &IndexedBase,
    queries: &[LabelledQuery],
    min_support: usize,
    stop: &AtomicBool,
) -> Result<Vec<Mined>, IndexError> {
    let steps = all_steps(base);
    let per_query: Result<Vec<_>, _> = queries
        .par_iter()
        .map(|query| match stop.load(Ordering::Relaxed) {
            true => Err(IndexError::Stopped),
            false => Ok(mine_query(base, &steps, query)),
        })
        .collect();
    let mut coverage: BTreeMap<Pattern, Vec<(usize, f32)>> = BTreeMap::new();
    for (at, shares) in per_query?.into_iter().enumerate() {
        for (pattern, share) in shares {
            coverage.entry(pattern).or_default().push((at, share));
        }
    }
    coverage.retain(|_, queries| queries.len() >= min_support);
    let all_anchors: Vec<_> = queries.par_iter().map(|query| anchors(base, &query.text)).collect();
    let mut mined: Vec<Mined> = coverage
        .into_par_iter()
        .map(|(pattern, coverage)| {
            let all = base.kb.nodes_of_type(pattern.target).len() as f64;
            let sampled = coverage.iter().step_by(coverage.len().div_ceil(REACH_SAMPLE));
            let bits: Vec<f64> = sampled
                .map(|&(at, _)| {
                    (all / reach(base, &pattern, &all_anchors[at]).max(1) as f64).log2()
                })
                .collect();
            let bits = (bits.iter().sum::<f64>() / bits.len().max(1) as f64).max(0.0);
            let covered: f64 = coverage.iter().map(|&(_, share)| f64::from(share)).sum();
            Mined { pattern, coverage, bits, gain: covered * bits }
        })
        .collect();
    mined.sort_by(|a, b| b.gain.total_cmp(&a.gain).then_with(|| a.pattern.cmp(&b.pattern)));
    Ok(mined)
}
