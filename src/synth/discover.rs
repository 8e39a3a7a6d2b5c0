//! Templates for any base, from its schema: which metapaths, alone, in pairs and with one negation,
//! make questions that have a few answers?
//!
//! ```text
//! all metapaths of 1 and 2 steps from any type to a type of answers   kb::schema
//!   -> those of the most frequent relations, measured on a sample of groundings
//!   -> alone (1 to 20 answers in the median), or as parts of pairs and negations
//! ```
//!
//! A template stays if about 30 groundings or more have answers, of a small base fewer, and 1 to 20 of them in the median.
//! Its weight follows the number of edges of its relations, flattened, so that rare relations are
//! asked for too. The same base and seed give the same templates.
//!
//! Must not know: how questions are worded.

use std::{cmp::Reverse, collections::BTreeMap};

use rayon::prelude::*;

use crate::template::{MAX_EDGES, Template};
use agent_dataset::sample::random::Stream;
use agent_kb::{
    Direction, Kb, NodeId, RelationId, Tuple, TypeId,
    metapath::{Branch, Links, Step, ends, has_end, wander},
    schema::{self, Schema},
};

/// Groundings with answers that a template must have, about: a tenth of the nodes within these.
const MIN_GROUNDINGS: [f64; 2] = [5.0, 30.0];
/// Answers of the median grounding at most.
pub(super) const MAX_MEDIAN: usize = 20;
/// Ends of the median grounding at most where words of texts narrow them to as few answers.
const MAX_NARROWED: usize = 200;
/// Ends of the median grounding of a part of a pair at most.
const MAX_PART: usize = 2_000;
/// Steps of a metapath at most.
const HOPS: usize = 2;
/// Groundings that are looked at for each template.
const SAMPLED: usize = 32;
/// Steps of which metapaths are made, those with most edges: of two steps there are as many as the
/// square.
const MAX_STEPS: usize = 400;
/// Metapaths to one type of answers that are measured, the most frequent ones.
const MEASURED: usize = 48;
/// Metapaths of one step among them at least, where there are so many.
const MEASURED_SHORT: usize = 24;
/// Pairs of metapaths to one type of answers that are measured.
const PAIRS: usize = 48;
/// Negations for one type of answers at most.
const NEGATIONS: usize = 2;
/// Nodes of which the words are counted, to see whether a type has texts.
const READ: usize = 64;
/// Words of a document from which a type has texts.
const TEXT_WORDS: usize = 12;
/// How much less often a type without texts is asked for.
const TEXTLESS: f64 = 0.25;
/// How much less often two steps are asked for than one.
const LONGER: f64 = 0.5;
/// How much less a template is worth for each time that a relation of it was taken before.
const REPEATED: f64 = 0.8;
/// Power of the number of edges that a step is worth.
const FLATTENED: f64 = 0.25;
/// What shares templates of each form get of the weight of a type of answers.
const SHARES: [(Form, f64); 4] =
    [(Form::OneStep, 0.25), (Form::TwoSteps, 0.2), (Form::Pair, 0.5), (Form::Negation, 0.05)];

/// The form of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    OneStep,
    TwoSteps,
    Pair,
    Negation,
}

/// A metapath with what was measured of it.
#[derive(Clone, Debug)]
struct Path {
    steps: Vec<Step>,
    weight: f64,
    /// Ends of the median grounding.
    median: usize,
}

/// Templates for a base, at most `most`, the most frequent ones of each type of answers.
pub(super) fn templates(kb: &Kb, most: usize, seed: u64) -> Vec<Template> {
    let mut steps = schema::steps(kb);
    steps.sort_by_cached_key(|step| (Reverse(edges(kb, step) as u64), *step));
    steps.truncate(MAX_STEPS);
    let schema = Schema::new(kb, &steps, HOPS);
    let targets: Vec<(TypeId, f64)> =
        kb.candidate_types().iter().map(|&kind| (kind, worth(kb, kind))).collect();
    let total: f64 = targets.iter().map(|target| target.1).sum();
    let of_target = |&(target, worth): &(TypeId, f64)| {
        let share = worth / total.max(f64::MIN_POSITIVE);
        let room = ((most as f64 * share).ceil() as usize).max(2);
        let paths = measured(kb, &schema, target, seed);
        chosen(kb, target, &paths, room, seed).into_iter().map(move |mut template| {
            template.weight *= share;
            template
        })
    };
    let mut found: Vec<Template> = targets.iter().flat_map(of_target).collect();
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.id.cmp(&b.id)));
    found.truncate(most);
    found
}

/// See [`MIN_GROUNDINGS`].
fn min_groundings(kb: &Kb) -> f64 {
    let [least, most] = MIN_GROUNDINGS;
    (f64::from(kb.n_nodes()) / 10.0).clamp(least, most)
}

/// Nodes of a type that texts can be asked of count more.
fn worth(kb: &Kb, kind: TypeId) -> f64 {
    let nodes = kb.nodes_of_type(kind);
    let relations = kb.tuples().iter().filter(|t| t.source == kind || t.target == kind).count();
    let text = if has_texts(kb, kind) { 1.0 } else { TEXTLESS };
    (nodes.len() as f64).sqrt() * (relations as f64).powf(FLATTENED) * text
}

/// Whether half of the nodes of a type or more have a document of some words.
fn has_texts(kb: &Kb, kind: TypeId) -> bool {
    let nodes = kb.nodes_of_type(kind);
    let read = || nodes.iter().step_by(nodes.len().div_ceil(READ).max(1));
    let words = |&node: &NodeId| kb.text(node).split_whitespace().count();
    2 * read().filter(|node| words(node) >= TEXT_WORDS).count() >= read().count()
}

/// How many edges a step has.
fn edges(kb: &Kb, step: &Step) -> f64 {
    let is_own = |source, target| match step.direction {
        Direction::Out => (source, target) == (step.from, step.to),
        Direction::In => (target, source) == (step.from, step.to),
        Direction::Any => [(source, target), (target, source)].contains(&(step.from, step.to)),
    };
    let own =
        |tuple: &&Tuple| tuple.relation == step.relation && is_own(tuple.source, tuple.target);
    kb.tuples().iter().filter(own).map(|tuple| tuple.edges as f64).sum()
}

/// How often a metapath is asked for: the mean of its steps, less if it is longer.
fn frequency(kb: &Kb, steps: &[Step]) -> f64 {
    let each = steps.iter().map(|step| edges(kb, step).powf(FLATTENED));
    let mean = each.product::<f64>().powf(1.0 / steps.len().max(1) as f64);
    mean * LONGER.powi(steps.len() as i32 - 1)
}

/// The metapaths to a type of answers that ground enough questions, heaviest first.
fn measured(kb: &Kb, schema: &Schema, target: TypeId, seed: u64) -> Vec<Path> {
    let slots = (0..kb.types().len()).map(|kind| TypeId(kind as u16));
    let mut paths: Vec<(f64, Vec<Step>)> = slots
        .flat_map(|slot| schema.metapaths(slot, target))
        .map(|steps| (frequency(kb, &steps), steps))
        .collect();
    paths.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let (short, long): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.1.len() == 1);
    let n_short = short.len().min(MEASURED.saturating_sub(long.len()).max(MEASURED_SHORT));
    let n_long = MEASURED - n_short.min(MEASURED);
    let kept: Vec<(f64, Vec<Step>)> =
        short.into_iter().take(n_short).chain(long.into_iter().take(n_long)).collect();
    let measure = |(weight, steps): (f64, Vec<Step>)| {
        let median = median_of_path(kb, &steps, seed)?;
        Some(Path { steps, weight, median })
    };
    let mut paths: Vec<Path> = kept.into_par_iter().filter_map(measure).collect();
    paths.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.steps.cmp(&b.steps)));
    paths
}

/// The ends of the median grounding of a metapath; none where too few groundings have ends.
fn median_of_path(kb: &Kb, steps: &[Step], seed: u64) -> Option<usize> {
    let starts = starts(kb, steps.first()?);
    let mut stream = Stream::new(seed, &agent_kb::metapath::in_words(kb, steps), 0);
    let is_return = steps.first()?.from == steps.last()?.to;
    let mut sizes = Vec::new();
    for _ in 0..SAMPLED {
        let start = stream.pick(&starts);
        // What reaches too far is as good as all.
        let Some(mut ends) = ends(kb, steps, start, MAX_EDGES) else {
            sizes.push(usize::MAX);
            continue;
        };
        if is_return {
            ends.retain(|&node| node != start);
        }
        sizes.push(ends.len());
    }
    sizes.retain(|&size| size > 0);
    let groundings = starts.len() as f64 * sizes.len() as f64 / SAMPLED as f64;
    median(sizes).filter(|_| groundings >= min_groundings(kb))
}

/// The nodes from which a step leads anywhere, ascending.
pub(super) fn starts(kb: &Kb, step: &Step) -> Vec<NodeId> {
    let nodes = kb.nodes_of_type(step.from).iter().copied();
    nodes.filter(|&node| kb.degree(node, step.relation, step.direction) > 0).collect()
}

fn median(mut sizes: Vec<usize>) -> Option<usize> {
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}

/// Templates of all forms for a type of answers, at most about `room`, each form within its share.
fn chosen(kb: &Kb, target: TypeId, paths: &[Path], room: usize, seed: u64) -> Vec<Template> {
    let most = if has_texts(kb, target) { MAX_NARROWED } else { MAX_MEDIAN };
    let alone = |hops: usize| {
        paths.iter().filter(move |path| path.steps.len() == hops && path.median <= most)
    };
    let single = |path: &Path| {
        let slot = path.steps.first().map_or(target, |step| step.from);
        template(kb, target, vec![slot], vec![(Some(0), &path.steps)], path.weight)
    };
    let mut found = Vec::new();
    for (form, share) in SHARES {
        let wanted = ((room as f64 * share).round() as usize).max(1);
        let own: Vec<Template> = match form {
            Form::OneStep => alone(1).map(single).collect(),
            Form::TwoSteps => alone(2).map(single).collect(),
            Form::Pair => pairs(kb, target, paths, most, seed),
            Form::Negation => negations(kb, target, paths, most, seed),
        };
        let mut own = varied(own, wanted);
        let total: f64 = own.iter().map(|one| one.weight).sum();
        own.iter_mut().for_each(|one| one.weight *= share / total.max(f64::MIN_POSITIVE));
        found.extend(own);
    }
    found
}

/// The heaviest templates, each relation counting less the more often it was taken: a base with one
/// large relation is asked for the others too.
fn varied(mut templates: Vec<Template>, most: usize) -> Vec<Template> {
    let mut taken: BTreeMap<RelationId, i32> = BTreeMap::new();
    let mut chosen = Vec::new();
    while chosen.len() < most && !templates.is_empty() {
        let worth = |template: &Template| {
            let steps = template.branches.iter().flat_map(|branch| &branch.steps);
            let often = steps.map(|step| taken.get(&step.relation).copied().unwrap_or(0)).sum();
            template.weight * REPEATED.powi(often)
        };
        let best = |a: &usize, b: &usize| match (templates.get(*a), templates.get(*b)) {
            (Some(one), Some(other)) => {
                worth(one).total_cmp(&worth(other)).then_with(|| other.id.cmp(&one.id))
            }
            _ => std::cmp::Ordering::Equal,
        };
        let Some(at) = (0..templates.len()).max_by(best) else { break };
        let template = templates.swap_remove(at);
        for step in template.branches.iter().flat_map(|branch| &branch.steps) {
            *taken.entry(step.relation).or_default() += 1;
        }
        chosen.push(template);
    }
    chosen
}

fn template(
    kb: &Kb,
    target: TypeId,
    slots: Vec<TypeId>,
    branches: Vec<(Option<usize>, &Vec<Step>)>,
    weight: f64,
) -> Template {
    let branch = |(slot, steps): (Option<usize>, &Vec<Step>)| Branch { slot, steps: steps.clone() };
    let branches = branches.into_iter().map(branch).collect();
    let exclude_slots = slots.contains(&target);
    let mut made =
        Template { id: String::new(), target, slots, branches, exclude_slots, text: None, weight };
    made.id = made.in_words(kb);
    made
}

/// Pairs of metapaths whose answers are fewer than those of either.
fn pairs(kb: &Kb, target: TypeId, paths: &[Path], most: usize, seed: u64) -> Vec<Template> {
    let parts: Vec<&Path> = paths.iter().filter(|path| path.median <= MAX_PART).collect();
    let mut pairs: Vec<(f64, &Path, &Path)> = Vec::new();
    for (at, first) in parts.iter().enumerate() {
        for second in parts.iter().skip(at) {
            // Two long metapaths are said by nobody.
            if first.steps.len() + second.steps.len() <= HOPS + 1 {
                pairs.push(((first.weight * second.weight).sqrt(), first, second));
            }
        }
    }
    pairs.sort_by(|a, b| {
        let steps = |pair: &(f64, &Path, &Path)| (pair.1.steps.clone(), pair.2.steps.clone());
        b.0.total_cmp(&a.0).then_with(|| steps(a).cmp(&steps(b)))
    });
    pairs.truncate(PAIRS);
    let measure = |(weight, first, second): (f64, &Path, &Path)| {
        let slots: Option<Vec<TypeId>> =
            [first, second].iter().map(|path| Some(path.steps.first()?.from)).collect();
        let branches = vec![(Some(0), &first.steps), (Some(1), &second.steps)];
        let made = template(kb, target, slots?, branches, weight);
        let [both, part] = medians_of_pair(kb, &made, seed)?;
        (both <= most && both < part).then_some(made)
    };
    pairs.into_par_iter().filter_map(measure).collect()
}

/// The answers of the median grounding of a pair, and of the narrower of its parts; each slot is
/// followed back to from a random answer.
fn medians_of_pair(kb: &Kb, template: &Template, seed: u64) -> Option<[usize; 2]> {
    let nodes = kb.nodes_of_type(template.target);
    let mut stream = Stream::new(seed, &template.id, 0);
    let (mut both, mut part) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLED {
        let answer = stream.pick(nodes);
        let Some(slots) = slots_of(kb, template, answer, &mut stream) else { continue };
        let of_slot = |(branch, &slot): (&Branch<Step>, &NodeId)| {
            Some(ends(kb, &branch.steps, slot, MAX_EDGES)?.len())
        };
        let parts = template.branches.iter().zip(&slots).map(of_slot);
        if let (Some(answers), Some(parts)) =
            (template.answers(kb, &slots), parts.collect::<Option<Vec<usize>>>())
        {
            both.push(answers.len());
            part.extend(parts.into_iter().min());
        }
    }
    both.retain(|&size| size > 0);
    let groundings = nodes.len() as f64 * both.len() as f64 / SAMPLED as f64;
    let medians = [median(both)?, median(part)?];
    (groundings >= min_groundings(kb)).then_some(medians)
}

/// Slots from which a node is reached, each followed back to at random; none where one cannot be, or
/// two are one node.
pub(super) fn slots_of(
    kb: &Kb,
    template: &Template,
    answer: NodeId,
    stream: &mut Stream,
) -> Option<Vec<NodeId>> {
    let mut slots: Vec<NodeId> = Vec::new();
    for branch in &template.branches {
        if branch.slot != Some(slots.len()) {
            continue;
        }
        let back: Vec<Step> = branch.steps.iter().rev().map(|step| kb.reversed(step)).collect();
        let slot = wander(kb, &back, answer, &mut |n| stream.below(n))?;
        let is_answer = template.exclude_slots && slot == answer;
        if is_answer || slots.contains(&slot) {
            return None;
        }
        slots.push(slot);
    }
    (slots.len() == template.slots.len()).then_some(slots)
}

/// The heaviest metapaths of one step, less the answers that a further step leads on from; a step
/// that a third to nine tenths of the nodes have.
fn negations(kb: &Kb, target: TypeId, paths: &[Path], most: usize, seed: u64) -> Vec<Template> {
    let nodes = kb.nodes_of_type(target);
    let mut stream = Stream::new(seed, "negations", u64::from(target.0));
    let sampled: Vec<NodeId> = (0..4 * SAMPLED).map(|_| stream.pick(nodes)).collect();
    let lacks = |step: &Step| {
        let without = sampled.iter().filter(|&&node| !has_end(kb, &[*step], node)).count();
        (0.1..0.67).contains(&(without as f64 / sampled.len() as f64))
    };
    let mut found = Vec::new();
    for absent in paths.iter().filter(|path| path.steps.len() == 1) {
        let Some(step) = absent.steps.first().map(|step| kb.reversed(step)) else { continue };
        if step.to == target || !lacks(&step) {
            continue;
        }
        let plain = paths.iter().find(|path| {
            let other = path.steps.first().is_some_and(|own| own.from != step.to);
            path.steps.len() == 1 && path.median <= most && other
        });
        let Some(plain) = plain else { continue };
        let slot = plain.steps.first().map_or(target, |step| step.from);
        let (negated, weight) = (vec![step], plain.weight.min(absent.weight));
        let branches = vec![(Some(0), &plain.steps), (None, &negated)];
        found.push(template(kb, target, vec![slot], branches, weight));
        if found.len() == NEGATIONS {
            break;
        }
    }
    found
}
