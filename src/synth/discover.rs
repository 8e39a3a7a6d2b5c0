//! Discovers templates from the schema of a base: single metapaths and pairs of metapaths. The
//! questions of a template have only a few answers each.
//!
//! ```text
//! all metapaths of 1 and 2 steps from any type to a type of answers   kb::schema
//!   -> those of the most frequent relations, measured on a sample of groundings
//!   -> alone (1 to 20 answers in the median), or as parts of pairs
//! ```
//!
//! A template is kept if about 30 or more of its groundings (ways to fill the slots) have answers;
//! fewer suffice in a small base. The median grounding must have 1 to 20 answers, or up to 200 for
//! a type with texts, because words then narrow the answers. The weight of a template grows with
//! the number of edges of its relations, but more slowly, so that rare relations occur too. The
//! same base and seed give the same templates.

use std::{cmp::Reverse, collections::BTreeMap};

use rayon::prelude::*;

use crate::{
    template::{MAX_EDGES, Template},
    wording::parts,
};
use agent_dataset::sample::random::Stream;
use agent_kb::{
    Direction, Kb, NodeId, RelationId, Tuple, TypeId,
    metapath::{Branch, Links, Step, ends, wander},
    schema::{self, Schema},
};

/// Lower and upper bound of the minimum number of groundings with answers that a template needs.
/// Between these bounds, the minimum is a tenth of the number of nodes.
const MIN_GROUNDINGS: [f64; 2] = [5.0, 30.0];
/// Maximum number of answers of a template's median grounding.
pub(super) const MAX_MEDIAN: usize = 20;
/// Maximum number of end nodes of a template's median grounding, if words of documents then narrow
/// them to the answers.
const MAX_NARROWED: usize = 200;
/// Maximum number of end nodes of the median grounding of a metapath that becomes a part of a pair.
const MAX_PART: usize = 2_000;
/// Maximum number of steps of a metapath.
const HOPS: usize = 2;
/// Number of groundings of a template that are sampled.
const SAMPLED: usize = 32;
/// Maximum number of steps (relation, direction and types) from which metapaths are composed; the
/// steps with the most edges are used. Bounds the number of metapaths, which is quadratic.
const MAX_STEPS: usize = 400;
/// Maximum number of metapaths to one type of answers whose groundings are sampled; the most
/// frequent metapaths are used.
const MEASURED: usize = 48;
/// Minimum number of one-step metapaths among the sampled metapaths, if there are that many.
const MEASURED_SHORT: usize = 24;
/// Maximum number of pairs of metapaths to one type of answers whose groundings are sampled.
const PAIRS: usize = 48;
/// Number of nodes of a type that are sampled to decide whether the type has texts.
const READ: usize = 64;
/// Minimum number of words of a document, for it to count as a text.
const TEXT_WORDS: usize = 12;
/// Factor that multiplies the weight of a type of answers without texts.
const TEXTLESS: f64 = 0.25;
/// Factor that multiplies the weight of a metapath for each step beyond the first.
const LONGER: f64 = 0.5;
/// Factor that multiplies the weight of a template for each earlier choice of one of its relations.
const REPEATED: f64 = 0.8;
/// Exponent to which the number of edges of a step is raised for its weight; below 1, so that large
/// relations do not dominate.
const FLATTENED: f64 = 0.25;
/// Share of each template form in the total weight of the templates of a type of answers.
const SHARES: [(Form, f64); 3] = [(Form::OneStep, 0.25), (Form::TwoSteps, 0.2), (Form::Pair, 0.55)];
/// Words in the names of relations that hold in both directions, whichever direction is stored;
/// separated by spaces.
const MUTUAL_WORDS: &str =
    "adjacent also associated between continuous interacts related resembles similar same with";
/// Number of edges that are sampled to decide whether a relation within a type has a direction.
const EDGES: usize = 1_000;
/// A relation within a type has a direction if at most this share of its edges is stored in both
/// directions.
const MAX_MUTUAL: f64 = 0.1;

/// The form of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    OneStep,
    TwoSteps,
    Pair,
}

/// A metapath whose groundings have been sampled.
#[derive(Clone, Debug)]
struct Path {
    steps: Vec<Step>,
    weight: f64,
    /// Number of end nodes of the median grounding.
    median: usize,
}

/// Returns at most `max_templates` templates for a base, the heaviest first, ties by id. Each type
/// of answers gets a share of the templates.
pub(super) fn templates(kb: &Kb, max_templates: usize, seed: u64) -> Vec<Template> {
    let mut steps: Vec<Step> =
        schema::steps(kb).into_iter().flat_map(|step| directed(kb, step)).collect();
    steps.sort_by_cached_key(|step| (Reverse(edges(kb, step) as u64), *step));
    steps.truncate(MAX_STEPS);
    let schema = Schema::new(kb, &steps, HOPS);
    let targets: Vec<(TypeId, f64)> =
        kb.candidate_types().iter().map(|&kind| (kind, worth(kb, kind))).collect();
    let total: f64 = targets.iter().map(|target| target.1).sum();
    let of_target = |&(target, worth): &(TypeId, f64)| {
        let share = worth / total.max(f64::MIN_POSITIVE);
        let room = ((max_templates as f64 * share).ceil() as usize).max(2);
        let paths = measure_paths(kb, &schema, target, seed);
        choose(kb, target, &paths, room, seed).into_iter().map(move |mut template| {
            template.weight *= share;
            template
        })
    };
    let mut found: Vec<Template> = targets.iter().flat_map(of_target).collect();
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.id.cmp(&b.id)));
    found.truncate(max_templates);
    found
}

/// Returns the step itself or, for a directed relation within a type, one step in each direction.
/// For example, people ask which papers cite a paper or which papers it cites, but not both at
/// once.
fn directed(kb: &Kb, step: Step) -> Vec<Step> {
    let is_mutual = |word: &String| MUTUAL_WORDS.split(' ').any(|known| known == word);
    if step.direction != Direction::Any
        || parts(kb.relation_name(step.relation)).iter().any(is_mutual)
    {
        return vec![step];
    }
    let targets = |node: NodeId| kb.neighbors(node, step.relation, Direction::Out).to_vec();
    let sources = kb.nodes_of_type(step.from).iter();
    let edges: Vec<(NodeId, NodeId)> = sources
        .flat_map(|&from| targets(from).into_iter().map(move |to| (from, to)))
        .take(EDGES)
        .collect();
    let mutual = edges.iter().filter(|(from, to)| targets(*to).contains(from)).count();
    match mutual as f64 <= MAX_MUTUAL * edges.len() as f64 {
        true => [Direction::Out, Direction::In].map(|direction| Step { direction, ..step }).into(),
        false => vec![step],
    }
}

/// Returns the weight of a type of answers: it grows with the numbers of nodes and of relations,
/// and is higher for a type with texts.
fn worth(kb: &Kb, kind: TypeId) -> f64 {
    let nodes = kb.nodes_of_type(kind);
    let relations = kb.tuples().iter().filter(|t| t.source == kind || t.target == kind).count();
    let text = if has_texts(kb, kind) { 1.0 } else { TEXTLESS };
    (nodes.len() as f64).sqrt() * (relations as f64).powf(FLATTENED) * text
}

/// Whether at least half of a type's sampled nodes have a document of [`TEXT_WORDS`] words or more.
fn has_texts(kb: &Kb, kind: TypeId) -> bool {
    let nodes = kb.nodes_of_type(kind);
    let read = || nodes.iter().step_by(nodes.len().div_ceil(READ).max(1));
    let words = |&node: &NodeId| kb.text(node).split_whitespace().count();
    2 * read().filter(|node| words(node) >= TEXT_WORDS).count() >= read().count()
}

/// Returns the number of edges that a step can follow.
fn edges(kb: &Kb, step: &Step) -> f64 {
    let matches_types = |source, target| match step.direction {
        Direction::Out => (source, target) == (step.from, step.to),
        Direction::In => (target, source) == (step.from, step.to),
        Direction::Any => [(source, target), (target, source)].contains(&(step.from, step.to)),
    };
    let matches = |tuple: &&Tuple| {
        tuple.relation == step.relation && matches_types(tuple.source, tuple.target)
    };
    kb.tuples().iter().filter(matches).map(|tuple| tuple.edges as f64).sum()
}

/// Returns the weight of a metapath: the geometric mean of the weights of its steps, lowered by
/// [`LONGER`] for each step beyond the first.
fn frequency(kb: &Kb, steps: &[Step]) -> f64 {
    let each = steps.iter().map(|step| edges(kb, step).powf(FLATTENED));
    let mean = each.product::<f64>().powf(1.0 / steps.len().max(1) as f64);
    mean * LONGER.powi(steps.len() as i32 - 1)
}

/// Returns the metapaths to a type of answers for which enough groundings have ends, the heaviest
/// first, ties in the order of their steps.
fn measure_paths(kb: &Kb, schema: &Schema, target: TypeId, seed: u64) -> Vec<Path> {
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
        let median = path_median(kb, &steps, seed)?;
        Some(Path { steps, weight, median })
    };
    let mut paths: Vec<Path> = kept.into_par_iter().filter_map(measure).collect();
    paths.sort_by(|a, b| b.weight.total_cmp(&a.weight).then_with(|| a.steps.cmp(&b.steps)));
    paths
}

/// Returns the number of end nodes of the median grounding of a metapath; `None` if too few
/// groundings have ends.
fn path_median(kb: &Kb, steps: &[Step], seed: u64) -> Option<usize> {
    let starts = starts(kb, steps.first()?);
    let mut stream = Stream::new(seed, &agent_kb::metapath::in_words(kb, steps), 0);
    let is_return = steps.first()?.from == steps.last()?.to;
    let mut sizes = Vec::new();
    for _ in 0..SAMPLED {
        let start = stream.pick(&starts);
        // A grounding with too many edges counts as the largest.
        let Some(mut ends) = ends(kb, steps, start, MAX_EDGES) else {
            sizes.push(usize::MAX);
            continue;
        };
        if is_return {
            ends.retain(|&node| node != start);
        }
        sizes.push(ends.len());
    }
    filled_median(kb, starts.len(), sizes)
}

/// Returns the median of the sizes that are not 0; `None` if too few groundings have such a size.
/// `n_starts` is the number of groundings, of which [`SAMPLED`] have been measured.
fn filled_median(kb: &Kb, n_starts: usize, mut sizes: Vec<usize>) -> Option<usize> {
    sizes.retain(|&size| size > 0);
    let groundings = n_starts as f64 * sizes.len() as f64 / SAMPLED as f64;
    let [min, max] = MIN_GROUNDINGS;
    let enough = (f64::from(kb.n_nodes()) / 10.0).clamp(min, max);
    median(sizes).filter(|_| groundings >= enough)
}

/// Returns the nodes from which at least one edge leads along a step, ascending.
pub(super) fn starts(kb: &Kb, step: &Step) -> Vec<NodeId> {
    let nodes = kb.nodes_of_type(step.from).iter().copied();
    nodes.filter(|&node| kb.degree(node, step.relation, step.direction) > 0).collect()
}

fn median(mut sizes: Vec<usize>) -> Option<usize> {
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}

/// Chooses about `room` templates for a type of answers; each template form gets its share of
/// [`SHARES`].
fn choose(kb: &Kb, target: TypeId, paths: &[Path], room: usize, seed: u64) -> Vec<Template> {
    let max_median = if has_texts(kb, target) { MAX_NARROWED } else { MAX_MEDIAN };
    let alone = |hops: usize| {
        paths.iter().filter(move |path| path.steps.len() == hops && path.median <= max_median)
    };
    let single = |path: &Path| template(kb, target, &[path], path.weight);
    let mut found = Vec::new();
    for (form, share) in SHARES {
        let wanted = ((room as f64 * share).round() as usize).max(1);
        let templates: Vec<Template> = match form {
            Form::OneStep => alone(1).map(single).collect(),
            Form::TwoSteps => alone(2).map(single).collect(),
            Form::Pair => pairs(kb, target, paths, max_median, seed),
        };
        let mut templates = diversify(templates, wanted);
        let total: f64 = templates.iter().map(|template| template.weight).sum();
        let factor = share / total.max(f64::MIN_POSITIVE);
        templates.iter_mut().for_each(|template| template.weight *= factor);
        found.extend(templates);
    }
    found
}

/// Chooses at most `max_templates` templates, the heaviest first. Each choice lowers the weight of
/// the other templates with the same relations, so that one large relation does not displace the
/// other relations.
fn diversify(mut templates: Vec<Template>, max_templates: usize) -> Vec<Template> {
    let mut taken: BTreeMap<RelationId, i32> = BTreeMap::new();
    let mut chosen = Vec::new();
    while chosen.len() < max_templates && !templates.is_empty() {
        let worth = |template: &Template| {
            let steps = template.branches.iter().flat_map(|branch| &branch.steps);
            let uses = steps.map(|step| taken.get(&step.relation).copied().unwrap_or(0)).sum();
            template.weight * REPEATED.powi(uses)
        };
        let best = |a: &usize, b: &usize| match (templates.get(*a), templates.get(*b)) {
            (Some(a), Some(b)) => worth(a).total_cmp(&worth(b)).then_with(|| b.id.cmp(&a.id)),
            _ => std::cmp::Ordering::Equal,
        };
        let Some(index) = (0..templates.len()).max_by(best) else { break };
        let template = templates.swap_remove(index);
        for step in template.branches.iter().flat_map(|branch| &branch.steps) {
            *taken.entry(step.relation).or_default() += 1;
        }
        chosen.push(template);
    }
    chosen
}

/// Returns the template whose branches are the given metapaths, each from a slot of its own.
fn template(kb: &Kb, target: TypeId, paths: &[&Path], weight: f64) -> Template {
    let slots: Vec<TypeId> =
        paths.iter().filter_map(|path| path.steps.first()).map(|step| step.from).collect();
    let branches = paths.iter().enumerate();
    let branches = branches
        .map(|(slot, path)| Branch { slot: Some(slot), steps: path.steps.clone() })
        .collect();
    let exclude_slots = slots.contains(&target);
    let mut template =
        Template { id: String::new(), target, slots, branches, exclude_slots, text: None, weight };
    template.id = template.in_words(kb);
    template
}

/// Returns templates that combine two metapaths, if their median grounding has fewer answers than
/// the narrower metapath alone has ends.
fn pairs(kb: &Kb, target: TypeId, paths: &[Path], max_median: usize, seed: u64) -> Vec<Template> {
    let parts: Vec<&Path> = paths.iter().filter(|path| path.median <= MAX_PART).collect();
    let mut pairs: Vec<(f64, &Path, &Path)> = Vec::new();
    for (index, first) in parts.iter().enumerate() {
        for second in parts.iter().skip(index) {
            // A question with two long metapaths is unnatural.
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
        let pair = template(kb, target, &[first, second], weight);
        let [both, part] = pair_medians(kb, &pair, seed)?;
        (both <= max_median && both < part).then_some(pair)
    };
    pairs.into_par_iter().filter_map(measure).collect()
}

/// Returns the number of answers of the median grounding of a pair, and the median number of ends
/// of the narrower of its metapaths; `None` if too few groundings have answers. Slots are found by
/// following the branches back from random answers.
fn pair_medians(kb: &Kb, template: &Template, seed: u64) -> Option<[usize; 2]> {
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
    Some([filled_median(kb, nodes.len(), both)?, median(part)?])
}

/// Draws slot nodes from which the template's branches lead to `answer`. `None` if a slot cannot be
/// found, if two slots are the same node, or if a slot is the answer although slots are excluded
/// from the answers.
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
