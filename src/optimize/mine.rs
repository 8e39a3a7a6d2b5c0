//! Pattern mining: given queries with training answers, the typed metapaths that lead from what a
//! query names or describes to its answers.
//!
//! For every linked entity of a query and every answer, all metapaths of one and two steps between
//! them are found by joining the neighbours of both; if asked for, also metapaths of three steps
//! from nodes that the query surely names, past nodes that are no hubs. A pattern is such a
//! metapath without its nodes: how the linked entity is found, its type, relations with directions,
//! the type at the end. It is worth what it tells about the answers: the share of answers reached,
//! times the information gained over guessing among all nodes of that type, summed over queries.
//!
//! Must not know: answers of validation or test, programs.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use rayon::prelude::*;

use agent_dataset::LabelledQuery;
use agent_index::{IndexError, IndexedBase, TextPart};
use agent_kb::{Direction, NodeId, RelationId, TypeId};

/// Nodes linked of each type, strongest first, that are tried as linked entities.
const LINKED_ENTITIES: usize = 4;
/// Weakest link that counts as a linked entity.
const MIN_LINK: f32 = 0.12;
/// Nodes found by search of each type that are tried as linked entities.
const SEARCHED_ENTITIES: usize = 5;
/// Answers of one query that are looked at.
const MAX_ANSWERS: usize = 20;
/// Neighbours of one node that are joined; a hub beyond that tells little.
const MAX_JOINED: usize = 20_000;
/// Queries for which the size of a pattern's reach is measured.
const REACH_SAMPLE: usize = 24;
/// Steps of the longest metapath that is mined if nothing else is asked for: a third step brings
/// nothing on the bases measured in `docs/optimizer.md`.
pub const DEFAULT_HOPS: usize = 2;
/// Steps of the longest metapath that can be mined.
pub const MAX_HOPS: usize = 3;
/// Weakest link from which metapaths of three steps are mined.
const MIN_LONG_LINK: f32 = 0.5;
/// Neighbours by one step of a node that metapaths of three steps pass; those with more are hubs.
const MAX_HUB: usize = 500;
/// Edges followed from one linked entity for the first two of three steps.
const MAX_LONG_EDGES: usize = 20_000;
/// Patterns of three steps of one query.
const MAX_LONG_PATTERNS: usize = 4_000;
/// Patterns of three steps whose reach is measured, those that may be worth most.
const MAX_LONG_MEASURED: usize = 400;

/// How linked entities are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkSource {
    /// The query names them.
    Named,
    /// The query describes them: their documents match it best.
    Described,
}

/// One step of a metapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The relation followed.
    pub relation: RelationId,
    /// Which way; [`Direction::Any`] only for relations between nodes of one type.
    pub direction: Direction,
}

/// A typed metapath from linked entities to answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// How linked entities are found.
    pub source: LinkSource,
    /// Type of the linked entities.
    pub start: TypeId,
    /// One to three steps.
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
    /// it reaches any; weighted by the strength of the linked entity.
    pub coverage: Vec<(usize, f32)>,
    /// Which answers are reached by query, as [`Reached`], ascending.
    pub reached: Vec<(usize, Reached)>,
    /// Information in being reached at all: log2 of nodes of the target type over nodes reached,
    /// mean over queries.
    pub bits: f64,
    /// Information gained about the answers, bits summed over queries.
    pub gain: f64,
}

/// The answers of a query that are reached, a bit for each of the first 20.
pub type Reached = u32;

/// Answers of a query that mining looks at: the first 20.
pub fn n_looked_at(query: &LabelledQuery) -> usize {
    query.answers.len().min(MAX_ANSWERS)
}

/// A node a query may be about, with how surely.
#[derive(Clone, Copy, Debug)]
pub struct LinkedEntity {
    /// How it was found.
    pub source: LinkSource,
    /// The node.
    pub node: NodeId,
    /// Strength in `0..=1`.
    pub strength: f32,
}

/// What the query names or describes, strongest first within each source and type.
pub fn linked_entities(base: &IndexedBase, query: &str) -> Vec<LinkedEntity> {
    let linked = base.entities.link(&base.kb, query, &[], LINKED_ENTITIES);
    let named = linked
        .as_slice()
        .iter()
        .filter(|(_, strength)| *strength >= MIN_LINK)
        .map(|&(node, strength)| LinkedEntity { source: LinkSource::Named, node, strength });
    let mut linked: Vec<LinkedEntity> = named.collect();
    for kind in 0..base.kb.types().len() {
        let types = [TypeId(kind as u16)];
        let found = base.text.search(query, TextPart::Document, &types, SEARCHED_ENTITIES);
        let best = found.first().map_or(1.0, |pair| pair.1);
        linked.extend(found.into_iter().map(|(node, score)| LinkedEntity {
            source: LinkSource::Described,
            node,
            strength: score / best,
        }));
    }
    linked
}

/// The steps that can be taken from nodes of each type: every relation in both directions, and
/// without regard to direction where it joins nodes of one type.
struct Steps(Vec<Vec<Step>>);

impl Steps {
    fn new(base: &IndexedBase) -> Self {
        let tuples = base.kb.tuples();
        let of_type = |kind: usize| {
            let kind = TypeId(kind as u16);
            let mut steps = Vec::new();
            for relation in (0..base.kb.relations().len() as u16).map(RelationId) {
                let own = || tuples.iter().filter(move |tuple| tuple.relation == relation);
                let (goes, comes) =
                    (own().any(|t| t.source == kind), own().any(|t| t.target == kind));
                let within_type = own().any(|tuple| tuple.source == tuple.target);
                let directions = [
                    (Direction::Out, goes),
                    (Direction::In, comes),
                    (Direction::Any, within_type && (goes || comes)),
                ];
                let possible = directions.into_iter().filter(|pair| pair.1);
                steps.extend(possible.map(|(direction, _)| Step { relation, direction }));
            }
            steps
        };
        Self((0..base.kb.types().len()).map(of_type).collect())
    }

    /// Those from a node.
    fn of(&self, base: &IndexedBase, node: NodeId) -> &[Step] {
        self.0.get(usize::from(base.kb.node_type(node).0)).map_or(&[], Vec::as_slice)
    }
}

/// Every neighbour of a node with the step that leads to it, at most [`MAX_JOINED`].
fn steps_from(base: &IndexedBase, steps: &Steps, node: NodeId) -> Vec<(Step, NodeId)> {
    let mut found = Vec::new();
    for &step in steps.of(base, node) {
        let neighbors = base.kb.neighbors(node, step.relation, step.direction);
        found.extend(
            neighbors.iter().take(MAX_JOINED - found.len()).map(|&neighbor| (step, neighbor)),
        );
    }
    found
}

/// The nodes at two steps from a linked entity with those steps, past no hub; each ascending, each
/// once. At most [`MAX_LONG_EDGES`] edges are followed, the first in order.
fn two_steps_from(
    base: &IndexedBase,
    steps: &Steps,
    entity: NodeId,
) -> HashMap<NodeId, BTreeSet<[Step; 2]>> {
    let mut found: HashMap<NodeId, BTreeSet<[Step; 2]>> = HashMap::new();
    let mut left = MAX_LONG_EDGES;
    for &first in steps.of(base, entity) {
        let middles = base.kb.neighbors(entity, first.relation, first.direction);
        if middles.len() > MAX_HUB {
            continue;
        }
        for &middle in middles.iter() {
            for &second in steps.of(base, middle) {
                let ends = base.kb.neighbors(middle, second.relation, second.direction);
                if ends.len() > MAX_HUB.min(left) {
                    continue;
                }
                left -= ends.len();
                for &end in ends.iter().filter(|&&end| end != entity) {
                    found.entry(end).or_default().insert([first, second]);
                }
            }
        }
    }
    found
}

fn reversed(step: Step) -> Step {
    Step { direction: step.direction.reversed(), ..step }
}

/// What a pattern reaches of one query's answers: the weighted share, and which.
type Share = (f32, Reached);

/// Patterns that reach answers of one query.
fn mine_query(
    base: &IndexedBase,
    steps: &Steps,
    query: &LabelledQuery,
    hops: usize,
) -> BTreeMap<Pattern, Share> {
    let linked = linked_entities(base, &query.text);
    let answers = &query.answers[..n_looked_at(query)];
    let outward: Vec<Vec<(Step, NodeId)>> =
        linked.iter().map(|entity| steps_from(base, steps, entity.node)).collect();
    let is_sure = |entity: &LinkedEntity| {
        hops > 2 && entity.source == LinkSource::Named && entity.strength >= MIN_LONG_LINK
    };
    let further: Vec<HashMap<NodeId, BTreeSet<[Step; 2]>>> = linked
        .iter()
        .map(|entity| match is_sure(entity) {
            true => two_steps_from(base, steps, entity.node),
            false => HashMap::new(),
        })
        .collect();
    let mut shares: BTreeMap<Pattern, Share> = BTreeMap::new();
    let mut n_long = 0;
    for (at, &answer) in answers.iter().enumerate() {
        let mut inward: BTreeMap<NodeId, Vec<Step>> = BTreeMap::new();
        for (step, neighbor) in steps_from(base, steps, answer) {
            inward.entry(neighbor).or_default().push(reversed(step));
        }
        let mut reached: BTreeMap<Pattern, f32> = BTreeMap::new();
        for ((entity, outward), further) in linked.iter().zip(&outward).zip(&further) {
            if entity.node == answer {
                continue;
            }
            let pattern = |steps: Vec<Step>| Pattern {
                source: entity.source,
                start: base.kb.node_type(entity.node),
                steps,
                target: base.kb.node_type(answer),
            };
            let mut note = |steps: Vec<Step>| {
                let best = reached.entry(pattern(steps)).or_default();
                *best = best.max(entity.strength);
            };
            for &(first, middle) in outward {
                if middle == answer {
                    note(vec![first]);
                }
                if middle != answer && middle != entity.node {
                    for &second in inward.get(&middle).into_iter().flatten() {
                        note(vec![first, second]);
                    }
                }
            }
            if further.is_empty() {
                continue;
            }
            for (end, thirds) in inward.iter().filter(|pair| *pair.0 != answer) {
                for &[first, second] in further.get(end).into_iter().flatten() {
                    thirds.iter().for_each(|&third| note(vec![first, second, third]));
                }
            }
        }
        for (pattern, strength) in reached {
            let is_long = pattern.steps.len() > 2;
            if is_long && n_long >= MAX_LONG_PATTERNS && !shares.contains_key(&pattern) {
                continue;
            }
            let share = shares.entry(pattern).or_insert_with(|| {
                n_long += usize::from(is_long);
                (0.0, 0)
            });
            share.0 += strength / answers.len() as f32;
            share.1 |= 1 << at;
        }
    }
    shares
}

/// How many nodes of the target type a pattern reaches from the query's linked entities.
fn reach(base: &IndexedBase, pattern: &Pattern, linked: &[LinkedEntity]) -> usize {
    let is_linked = |entity: &&LinkedEntity| {
        entity.source == pattern.source && base.kb.node_type(entity.node) == pattern.start
    };
    let mut nodes: Vec<NodeId> =
        linked.iter().filter(is_linked).map(|entity| entity.node).collect();
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

/// All patterns of at most `hops` steps, 2 or [`MAX_HOPS`], that reach answers of at least `min_support` queries,
/// most informative first; ties by pattern. Independent of the number of threads.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set.
pub fn mine(
    base: &IndexedBase,
    queries: &[LabelledQuery],
    min_support: usize,
    hops: usize,
    stop: &AtomicBool,
) -> Result<Vec<Mined>, IndexError> {
    let steps = Steps::new(base);
    let per_query: Result<Vec<_>, _> = queries
        .par_iter()
        .map(|query| match stop.load(Ordering::Relaxed) {
            true => Err(IndexError::Stopped),
            false => Ok(mine_query(base, &steps, query, hops)),
        })
        .collect();
    let mut found: BTreeMap<Pattern, Vec<(usize, Share)>> = BTreeMap::new();
    for (at, shares) in per_query?.into_iter().enumerate() {
        for (pattern, share) in shares {
            found.entry(pattern).or_default().push((at, share));
        }
    }
    found.retain(|_, queries| queries.len() >= min_support);
    keep_best_long(base, &mut found);
    let all_linked: Vec<_> =
        queries.par_iter().map(|query| linked_entities(base, &query.text)).collect();
    let mut mined: Vec<Mined> = found
        .into_par_iter()
        .map(|(pattern, shares)| {
            let all = base.kb.nodes_of_type(pattern.target).len() as f64;
            let sampled = shares.iter().step_by(shares.len().div_ceil(REACH_SAMPLE));
            let bits: Vec<f64> = sampled
                .map(|&(at, _)| (all / reach(base, &pattern, &all_linked[at]).max(1) as f64).log2())
                .collect();
            let bits = (bits.iter().sum::<f64>() / bits.len().max(1) as f64).max(0.0);
            let gain = covered(&shares) * bits;
            let coverage = shares.iter().map(|&(at, (share, _))| (at, share)).collect();
            let reached = shares.iter().map(|&(at, (_, reached))| (at, reached)).collect();
            Mined { pattern, coverage, reached, bits, gain }
        })
        .collect();
    mined.sort_by(|a, b| b.gain.total_cmp(&a.gain).then_with(|| a.pattern.cmp(&b.pattern)));
    Ok(mined)
}

/// Shares of answers reached, summed over queries.
fn covered(shares: &[(usize, Share)]) -> f64 {
    shares.iter().map(|&(_, (share, _))| f64::from(share)).sum()
}

/// Drops all patterns of three steps but those that could be worth most if they reached answers
/// alone; ties go to the smaller pattern.
fn keep_best_long(base: &IndexedBase, found: &mut BTreeMap<Pattern, Vec<(usize, Share)>>) {
    let most = |(pattern, shares): (&Pattern, &Vec<(usize, Share)>)| {
        covered(shares) * (base.kb.nodes_of_type(pattern.target).len().max(1) as f64).log2()
    };
    let mut long: Vec<(f64, Pattern)> = found
        .iter()
        .filter(|(pattern, _)| pattern.steps.len() > 2)
        .map(|pair| (most(pair), pair.0.clone()))
        .collect();
    long.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (_, pattern) in long.into_iter().skip(MAX_LONG_MEASURED) {
        found.remove(&pattern);
    }
}
