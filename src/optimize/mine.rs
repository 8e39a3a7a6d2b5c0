//! Pattern mining: finds typed metapaths that lead from the entities that a training query names or
//! describes to the query's answers.
//!
//! Joining the neighbours of a linked entity and of an answer to the query gives all metapaths of
//! one and two steps between both nodes. Optionally, metapaths of three steps are found from
//! strongly linked entities through nodes that are not hubs. A pattern is a metapath without nodes:
//! the source and type of the linked entity, relations with directions, and the target type. The
//! gain of a pattern, in bits, is a product: the weighted share of answers that it reaches, summed
//! over queries, times the information gained over guessing among all nodes of the target type.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use rayon::prelude::*;

use agent_dataset::LabelledQuery;
use agent_index::{IndexError, IndexedBase, TextPart};
use agent_kb::{Direction, NodeId, RelationId, TypeId, distinct};

/// Maximum number of named entities of each type per query; the strongest are kept.
const LINKED_ENTITIES: usize = 4;
/// Minimum strength of the link to a named entity, in `0..=1`.
const MIN_LINK: f32 = 0.12;
/// Maximum number of described entities of each type per query; the best matches are kept.
const SEARCHED_ENTITIES: usize = 5;
/// Maximum number of answers to a query that are mined; the first answers are used.
const MAX_ANSWERS: usize = 20;
/// Maximum number of neighbours per node that are joined; further neighbours of hubs are not
/// informative.
const MAX_JOINED: usize = 20_000;
/// Maximum number of queries on which the nodes that a pattern reaches are counted.
const REACH_SAMPLE: usize = 24;
/// Default maximum number of steps of mined metapaths: a third step gains nothing on the bases
/// measured in `docs/optimizer.md`.
pub const DEFAULT_HOPS: usize = 2;
/// Maximum number of steps of mined metapaths that can be chosen.
pub const MAX_HOPS: usize = 3;
/// Minimum strength of the link to an entity from which metapaths of three steps are mined, in
/// `0..=1`.
const MIN_LONG_LINK: f32 = 0.5;
/// When metapaths of three steps are mined, a step from a node is not followed if it leads to more
/// neighbours than this: the node is then a hub.
const MAX_HUB: usize = 500;
/// Maximum number of second edges that are followed from an entity when metapaths of three steps
/// are mined.
const MAX_LONG_EDGES: usize = 20_000;
/// Maximum number of patterns of three steps that are mined per query.
const MAX_LONG_PATTERNS: usize = 4_000;
/// Maximum number of patterns of three steps that are kept and measured; those with the largest
/// possible gain are kept.
const MAX_LONG_MEASURED: usize = 400;

/// How linked entities are found in a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkSource {
    /// The query names the entities.
    Named,
    /// The query describes the entities: their documents match it best.
    Described,
}

/// One step of a metapath: a relation and the direction in which its edges are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// The relation whose edges the step follows.
    pub relation: RelationId,
    /// The direction in which edges are followed; [`Direction::Any`] only for relations between
    /// nodes of one type.
    pub direction: Direction,
}

/// A metapath from linked entities to answers, given by types and relations, without nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    /// How the linked entities are found in the query.
    pub source: LinkSource,
    /// Type of the linked entities at which the metapath starts.
    pub start: TypeId,
    /// The one to three steps from a linked entity to an answer.
    pub steps: Vec<Step>,
    /// Type of the answers at which the metapath ends.
    pub target: TypeId,
}

impl Pattern {
    /// Whether the metapath may start at a linked entity.
    pub(crate) fn starts_at(&self, base: &IndexedBase, entity: &LinkedEntity) -> bool {
        entity.source == self.source && base.kb.node_type(entity.node) == self.start
    }
}

/// A pattern with its coverage, information and gain on the queries that it was mined from.
#[derive(Clone, Debug)]
pub struct MinedPattern {
    /// The pattern that was measured.
    pub pattern: Pattern,
    /// Pairs of a query's position, ascending, and the share of the query's answers that the
    /// pattern reaches, for shares above 0. Each answer is weighted by the strength of the linked
    /// entity from which it is reached.
    pub coverage: Vec<(usize, f32)>,
    /// Pairs of a query's position, ascending, and the set of answers that the pattern reaches.
    pub reached: Vec<(usize, AnswerBits)>,
    /// Information, in bits, gained about a node by knowing that the pattern reaches it: log2 of
    /// the number of all nodes of the target type divided by the number of nodes that the pattern
    /// reaches; the mean over a sample of queries.
    pub bits: f64,
    /// Information gained about the answers to all queries, in bits: `bits` times the sum of the
    /// shares in `coverage`.
    pub gain: f64,
}

/// A set of answers to a query: bit `i` stands for answer `i`, for the first 20 answers.
pub type AnswerBits = u32;

/// Returns the number of answers to a query that are mined, which is at most 20.
pub fn mined_answer_count(query: &LabelledQuery) -> usize {
    query.answers.len().min(MAX_ANSWERS)
}

/// A node that a query may refer to, with the strength of the link.
#[derive(Clone, Copy, Debug)]
pub struct LinkedEntity {
    /// How the node was found: named or described by the query.
    pub source: LinkSource,
    /// The node that the query may refer to.
    pub node: NodeId,
    /// Strength of the link, in `0..=1`.
    pub strength: f32,
}

/// Returns the entities that a query names, then those that it describes; the strongest first
/// within each source and type.
pub fn linked_entities(base: &IndexedBase, query: &str) -> Vec<LinkedEntity> {
    let linked = base.entities.link(&base.kb, query, &[], LINKED_ENTITIES);
    let named = linked.as_slice().iter().filter(|(_, strength)| *strength >= MIN_LINK);
    let source = LinkSource::Named;
    let mut linked: Vec<LinkedEntity> =
        named.map(|&(node, strength)| LinkedEntity { source, node, strength }).collect();
    for kind in 0..base.kb.types().len() {
        let types = [TypeId(kind as u16)];
        let found = base.text.search(query, TextPart::Document, &types, SEARCHED_ENTITIES);
        let best = found.first().map_or(1.0, |pair| pair.1);
        let source = LinkSource::Described;
        let described = |(node, score)| LinkedEntity { source, node, strength: score / best };
        linked.extend(found.into_iter().map(described));
    }
    linked
}

/// Possible steps from nodes of each type, by type id: every relation in each direction in which
/// these nodes have edges, and in [`Direction::Any`] if the relation connects nodes of one type.
struct Steps(Vec<Vec<Step>>);

impl Steps {
    fn new(base: &IndexedBase) -> Self {
        let tuples = base.kb.tuples();
        let of_type = |kind: u16| {
            let (kind, mut steps) = (TypeId(kind), Vec::new());
            for relation in (0..base.kb.relations().len() as u16).map(RelationId) {
                let own = || tuples.iter().filter(move |tuple| tuple.relation == relation);
                let goes = own().any(|tuple| tuple.source == kind);
                let comes = own().any(|tuple| tuple.target == kind);
                let within_type = own().any(|tuple| tuple.source == tuple.target);
                let any = within_type && (goes || comes);
                for (direction, is_possible) in
                    [(Direction::Out, goes), (Direction::In, comes), (Direction::Any, any)]
                {
                    steps.extend(is_possible.then_some(Step { relation, direction }));
                }
            }
            steps
        };
        Self((0..base.kb.types().len() as u16).map(of_type).collect())
    }

    /// Returns the possible steps from a node of this node's type.
    fn at_node(&self, base: &IndexedBase, node: NodeId) -> &[Step] {
        self.0.get(usize::from(base.kb.node_type(node).0)).map_or(&[], Vec::as_slice)
    }
}

/// Returns the neighbours of a node, at most [`MAX_JOINED`], each with the step that leads to it.
fn steps_from(base: &IndexedBase, steps: &Steps, node: NodeId) -> Vec<(Step, NodeId)> {
    let mut found = Vec::new();
    for &step in steps.at_node(base, node) {
        let neighbors = base.kb.neighbors(node, step.relation, step.direction);
        let room = MAX_JOINED - found.len();
        found.extend(neighbors.iter().take(room).map(|&neighbor| (step, neighbor)));
    }
    found
}

/// Returns the nodes two steps away from an entity, each with all pairs of steps that lead to it.
/// Does not follow steps from hubs, and follows at most [`MAX_LONG_EDGES`] second edges.
fn two_steps_from(
    base: &IndexedBase,
    steps: &Steps,
    entity: NodeId,
) -> HashMap<NodeId, BTreeSet<[Step; 2]>> {
    let mut found: HashMap<NodeId, BTreeSet<[Step; 2]>> = HashMap::new();
    let mut left = MAX_LONG_EDGES;
    for &first in steps.at_node(base, entity) {
        let middles = base.kb.neighbors(entity, first.relation, first.direction);
        if middles.len() > MAX_HUB {
            continue;
        }
        for &middle in middles.iter() {
            for &second in steps.at_node(base, middle) {
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

/// The answers to a query that a pattern reaches: their weighted share of all mined answers, and
/// their set.
type Share = (f32, AnswerBits);

/// Returns the patterns of at most `hops` steps that reach answers to a query, each with the
/// weighted share and the set of answers that it reaches.
fn mine_query(
    base: &IndexedBase,
    steps: &Steps,
    query: &LabelledQuery,
    hops: usize,
) -> BTreeMap<Pattern, Share> {
    let linked = linked_entities(base, &query.text);
    let answers = &query.answers[..mined_answer_count(query)];
    let outward: Vec<Vec<(Step, NodeId)>> =
        linked.iter().map(|entity| steps_from(base, steps, entity.node)).collect();
    let is_sure = |entity: &LinkedEntity| {
        hops > 2 && entity.source == LinkSource::Named && entity.strength >= MIN_LONG_LINK
    };
    let further = |entity: &LinkedEntity| match is_sure(entity) {
        true => two_steps_from(base, steps, entity.node),
        false => HashMap::new(),
    };
    let further: Vec<HashMap<NodeId, BTreeSet<[Step; 2]>>> = linked.iter().map(further).collect();
    let mut shares: BTreeMap<Pattern, Share> = BTreeMap::new();
    let mut n_long = 0;
    for (at, &answer) in answers.iter().enumerate() {
        let mut inward: BTreeMap<NodeId, Vec<Step>> = BTreeMap::new();
        for (step, neighbor) in steps_from(base, steps, answer) {
            let back = Step { direction: step.direction.reversed(), ..step };
            inward.entry(neighbor).or_default().push(back);
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

/// Returns the number of nodes of the pattern's target type that the pattern reaches from the
/// linked entities of a query.
fn reach(base: &IndexedBase, pattern: &Pattern, linked: &[LinkedEntity]) -> usize {
    let starts = linked.iter().filter(|entity| pattern.starts_at(base, entity));
    let mut nodes: Vec<NodeId> = starts.map(|entity| entity.node).collect();
    for step in &pattern.steps {
        let next = |&node| base.kb.neighbors(node, step.relation, step.direction).into_owned();
        nodes = distinct(nodes.iter().flat_map(next).collect());
    }
    nodes.iter().filter(|&&node| base.kb.node_type(node) == pattern.target).count()
}

/// Mines the patterns of at most `hops` steps (2 or [`MAX_HOPS`]) that reach answers of at least
/// `min_support` queries, sorted by descending gain; patterns with equal gain are in ascending
/// order. The result does not depend on the number of threads.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set.
pub fn mine(
    base: &IndexedBase,
    queries: &[LabelledQuery],
    min_support: usize,
    hops: usize,
    stop: &AtomicBool,
) -> Result<Vec<MinedPattern>, IndexError> {
    let steps = Steps::new(base);
    let mined = |query| match stop.load(Ordering::Relaxed) {
        true => Err(IndexError::Stopped),
        false => Ok(mine_query(base, &steps, query, hops)),
    };
    let per_query: Vec<_> = queries.par_iter().map(mined).collect::<Result<_, _>>()?;
    let mut found: BTreeMap<Pattern, Vec<(usize, Share)>> = BTreeMap::new();
    for (at, shares) in per_query.into_iter().enumerate() {
        for (pattern, share) in shares {
            found.entry(pattern).or_default().push((at, share));
        }
    }
    found.retain(|_, queries| queries.len() >= min_support);
    keep_best_long(base, &mut found);
    let all_linked: Vec<_> =
        queries.par_iter().map(|query| linked_entities(base, &query.text)).collect();
    let mut mined: Vec<MinedPattern> = found
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
            MinedPattern { pattern, coverage, reached, bits, gain }
        })
        .collect();
    mined.sort_by(|a, b| b.gain.total_cmp(&a.gain).then_with(|| a.pattern.cmp(&b.pattern)));
    Ok(mined)
}

/// Returns the weighted shares of answers that a pattern reaches, summed over queries; `shares` has
/// one entry per query, with its position.
fn covered(shares: &[(usize, Share)]) -> f64 {
    shares.iter().map(|&(_, (share, _))| f64::from(share)).sum()
}

/// Keeps the [`MAX_LONG_MEASURED`] patterns of three steps with the largest possible gain and drops
/// the others. The possible gain is the gain if the pattern reached only one node per query. Of
/// patterns with equal possible gain, those that come first in ascending order are kept.
fn keep_best_long(base: &IndexedBase, found: &mut BTreeMap<Pattern, Vec<(usize, Share)>>) {
    let max_gain = |(pattern, shares): (&Pattern, &Vec<(usize, Share)>)| {
        covered(shares) * (base.kb.nodes_of_type(pattern.target).len().max(1) as f64).log2()
    };
    let mut long: Vec<(f64, Pattern)> = found
        .iter()
        .filter(|(pattern, _)| pattern.steps.len() > 2)
        .map(|pair| (max_gain(pair), pair.0.clone()))
        .collect();
    long.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    for (_, pattern) in long.into_iter().skip(MAX_LONG_MEASURED) {
        found.remove(&pattern);
    }
}
