//! Constructs questions with exact answers, as in STaRK: fills the slots of a template and follows
//! its metapaths to the candidates. Then picks a gold answer and takes one or two of its hidden
//! facts as textual properties. The candidates with these properties are the answers. Finally words
//! the question.
//!
//! Source: Wu et al. 2024 (STaRK), section 2.4. There, language models extract and check the
//! properties; here, the facts are known exactly.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::sample::facts::{Aspect, Facts, NO_FACT};
use crate::sample::graph::{Graph, Step, World};
use crate::sample::names::{self, Name};
use crate::sample::random::{Stream, hash64};

use crate::sample::wording::{self, TEMPLATES, Template};
use agent_kb::metapath::{self, Branch};

/// Maximum number of answers per question, as in STaRK's validation and test splits.
pub(super) const MAX_ANSWERS: usize = 20;
/// Minimum number of nodes of the answer type that share the properties of a question. Rarer
/// properties would identify the answers without any relation.
pub(super) const MIN_SHARING: usize = 5;
/// Maximum number of candidates of a filled template; with more, a question would hardly need the
/// relation.
const MAX_CANDIDATES: usize = 2_000;
/// Maximum number of attempts to fill a template, per wanted question.
const ATTEMPTS: usize = 300;
/// Maximum number of draws of properties per filled template.
const PROPERTY_DRAWS: usize = 6;
/// Number of questions of a sample at the default scale.
const BASE_QUESTIONS: f64 = 600.0;
/// Maximum number of questions of a sample.
const MAX_QUESTIONS: f64 = 2_000.0;

/// Facts that the answers must have, as pairs of aspect index and value.
pub(super) type Properties = Vec<(usize, u8)>;

/// A question with its template, slots and answers.
pub(super) struct Question {
    /// Index of the template in [`TEMPLATES`].
    pub(super) template: usize,
    /// The wording of the question.
    pub(super) text: String,
    /// Nodes that fill the template's slots, as indices within their types.
    #[cfg_attr(not(test), expect(dead_code, reason = "the naive executor in the tests reads it"))]
    pub(super) slots: Vec<u32>,
    /// Facts that the answers must have; empty for a question about relations only.
    #[cfg_attr(not(test), expect(dead_code, reason = "the naive executor in the tests reads it"))]
    pub(super) properties: Properties,
    /// Answers, as indices within the target type, ascending.
    pub(super) answers: Vec<u32>,
}

/// Data from which questions are constructed: sizes, edges and facts.
pub(super) struct Source<'a> {
    pub(super) world: &'a World,
    pub(super) graph: &'a Graph,
    /// Facts of the nodes of each type, in schema order.
    pub(super) facts: &'a [Facts],
}

impl Source<'_> {
    /// Returns the name of a node.
    pub(super) fn name(&self, node_type: usize, index: u32) -> Name {
        let type_name = self.world.kind.types()[node_type];
        names::name(self.world, type_name, index, self.facts[node_type].of(index))
    }

    /// Returns the number of neighbours of type `to` that a node has over one relation.
    pub(super) fn degree(&self, from: usize, node: u32, relation: &'static str, to: &str) -> usize {
        let step = Step { from, relation, to: self.world.type_of(to) };
        self.graph.neighbors(step, node).len()
    }

    /// Returns the steps of the branch with the index `branch`.
    fn steps(&self, template: &'static Template, branch: usize) -> Vec<Step> {
        let branch = &template.branches[branch];
        let start = if branch.negated { &template.target } else { &template.slots[branch.slot] };
        let mut from = self.world.type_of(start);
        let mut steps = Vec::with_capacity(branch.hops.len());
        for (relation, to) in &branch.hops {
            let to = self.world.type_of(to);
            steps.push(Step { from, relation, to });
            from = to;
        }
        steps
    }

    /// Returns the branches of a template as metapaths that the graph can follow.
    fn branches(&self, template: &'static Template) -> Vec<Branch<Step>> {
        let of = |(position, branch): (usize, &wording::Branch)| Branch {
            slot: (!branch.negated).then_some(branch.slot),
            steps: self.steps(template, position),
        };
        template.branches.iter().enumerate().map(of).collect()
    }

    /// Returns the candidates of a filled template, ascending: the nodes at the ends of all its
    /// plain metapaths, except nodes with a path along a negated metapath. If the template has
    /// `exclude_slots`, slot nodes are not candidates either.
    pub(super) fn execute(&self, template: &'static Template, slots: &[u32]) -> Vec<u32> {
        let branches = self.branches(template);
        let mut nodes =
            metapath::execute(self.graph, &branches, slots, usize::MAX).unwrap_or_default();
        if template.exclude_slots {
            let same_type: Vec<u32> = (template.slots.iter().zip(slots))
                .filter(|(name, _)| **name == template.target)
                .map(|(_, &slot)| slot)
                .collect();
            nodes.retain(|node| !same_type.contains(node));
        }
        nodes
    }

    /// Fills the slots of a template: draws the first slot from `starts`, and each further slot by
    /// following a metapath back from a random end; `None` if a slot cannot be filled.
    fn ground(
        &self,
        template: &'static Template,
        starts: &[u32],
        stream: &mut Stream,
    ) -> Option<Vec<u32>> {
        let first = stream.pick(starts);
        let taken = |slot: usize, node: u32, filled: &[u32]| {
            (template.slots.iter().zip(filled))
                .any(|(name, &other)| *name == template.slots[slot] && other == node)
        };
        let (branches, n_slots) = (self.branches(template), template.slots.len());
        let mut below = |n: usize| stream.below(n);
        metapath::ground(self.graph, &branches, n_slots, first, &mut below, taken)
    }

    /// Whether at least [`MIN_SHARING`] nodes of the type have the properties.
    fn is_shared(&self, node_type: usize, properties: &[(usize, u8)]) -> bool {
        let facts = &self.facts[node_type];
        let sharing = (0..self.world.counts[node_type]).filter(|&node| facts.has(node, properties));
        sharing.take(MIN_SHARING).count() == MIN_SHARING
    }

    /// Draws a gold answer and one or two of its facts, such that at most [`MAX_ANSWERS`]
    /// candidates have them; returns the facts and these candidates.
    fn narrow(
        &self,
        node_type: usize,
        candidates: &[u32],
        stream: &mut Stream,
    ) -> Option<(Properties, Vec<u32>)> {
        let facts = &self.facts[node_type];
        for _ in 0..PROPERTY_DRAWS {
            let gold = stream.pick(candidates);
            let of_gold = facts.of(gold).iter().copied().enumerate();
            let mut known: Properties = of_gold.filter(|fact| fact.1 != NO_FACT).collect();
            stream.shuffle(&mut known);
            let two = match candidates.len() {
                0..=6 => 20,
                7..=25 => 45,
                _ => 85,
            };
            known.truncate(if stream.percent(two) { 2 } else { 1 });
            known.sort_unstable();
            if known.is_empty() {
                continue;
            }
            let mut answers = candidates.to_vec();
            answers.retain(|&node| facts.has(node, &known));
            // Properties that all candidates share do not narrow the answers.
            let idle = candidates.len() > 1 && answers.len() == candidates.len();
            if answers.len() <= MAX_ANSWERS && !idle && self.is_shared(node_type, &known) {
                return Some((known, answers));
            }
        }
        None
    }
}

/// Returns the number of questions for a base of `n_nodes` nodes; `default_nodes` is the number of
/// nodes at the default scale.
fn n_questions(n_nodes: u64, default_nodes: u64) -> usize {
    // Each doubling of the base adds 150 questions.
    let doublings = f64::from((n_nodes / default_nodes.max(1)).max(1).ilog2());
    (BASE_QUESTIONS + 150.0 * doublings).min(MAX_QUESTIONS) as usize
}

/// Counts, for each text, the nodes of a type with that name, alias or short form, because
/// questions mention nodes by unambiguous texts only.
#[derive(Default)]
struct Mentions {
    per_type: BTreeMap<usize, HashMap<u64, u32>>,
}

impl Mentions {
    fn is_unique(&mut self, source: &Source<'_>, node_type: usize, text: &str) -> bool {
        let counts = self.per_type.entry(node_type).or_insert_with(|| {
            let mut counts = HashMap::new();
            for index in 0..source.world.counts[node_type] {
                let name = source.name(node_type, index);
                let forms = std::iter::once(&name.name).chain(&name.aliases).chain(&name.short);
                let mut hashes: Vec<u64> =
                    forms.map(|form| hash64(form.to_lowercase().as_bytes())).collect();
                hashes.sort_unstable();
                hashes.dedup();
                for hash in hashes {
                    *counts.entry(hash).or_insert(0u32) += 1;
                }
            }
            counts
        });
        counts.get(&hash64(text.to_lowercase().as_bytes())) == Some(&1)
    }
}

/// Returns a text by which a person would mention a slot node: usually the name, sometimes the name
/// in lower case, another name, or a typo of the name. `None` if the name is ambiguous.
fn mention(
    source: &Source<'_>,
    node_type: usize,
    index: u32,
    mentions: &mut Mentions,
    stream: &mut Stream,
) -> Option<String> {
    let name = source.name(node_type, index);
    if !mentions.is_unique(source, node_type, &name.name) {
        return None;
    }
    let symbol = name.name.len() < 8 && name.name.chars().any(|letter| letter.is_ascii_digit());
    Some(match stream.below(100) {
        0..=57 => name.name,
        58..=73 => name.name.to_lowercase(),
        74..=94 => {
            let mut others = name.aliases;
            others.extend(name.short);
            others.retain(|other| mentions.is_unique(source, node_type, other));
            others.get(stream.below(others.len())).cloned().unwrap_or(name.name)
        }
        _ if symbol => name.name,
        _ => stream.with_typo(&name.name),
    })
}

/// Words a question: fills a pattern of the template with the mentions of the slot nodes and with
/// phrases for the properties.
fn phrase(
    template: &'static Template,
    slots: &[String],
    properties: &[(usize, u8)],
    facts: &Facts,
    stream: &mut Stream,
) -> String {
    let said = |stream: &mut Stream, frames: fn(&Aspect) -> &[String]| -> Vec<String> {
        let stated = properties.iter().map(|&(aspect, value)| (&facts.aspects[aspect], value));
        stated.map(|(aspect, value)| aspect.say(frames(aspect), value, stream)).collect()
    };
    let clauses = said(stream, |aspect| &aspect.clauses);
    let keys = said(stream, |aspect| &aspect.keys);
    let pattern = stream.pick_text(&template.patterns);
    let (mut that, mut it, mut short) = (String::new(), String::new(), String::new());
    if !clauses.is_empty() {
        that = format!(" that {}", clauses.join(stream.pick(&[" and ", " and also ", " and "])));
        let lead = stream.pick(&[
            "It should be one that",
            "Ideally one that",
            "I mean one that",
            "One that",
            "Preferably one that",
        ]);
        it = format!(" {lead} {}.", clauses.join(" and "));
        short = format!("{}{}", stream.pick(&[", ", " - ", ": "]), keys.join(", "));
    }
    let mut text = pattern.replace("{that}", &that).replace("{it}", &it).replace("{keys}", &short);
    for (placeholder, slot) in ["{a}", "{b}"].iter().zip(slots) {
        text = text.replace(placeholder, slot);
    }
    let text = text.replace("  ", " ").trim().to_owned();
    match stream.below(10) {
        0 => text.to_lowercase(),
        1 => text.trim_end_matches(['?', '.']).to_owned(),
        _ => text,
    }
}

/// Constructs the questions of a base, in random order.
///
/// All wordings are distinct, and every question has 1 to [`MAX_ANSWERS`] answers. A template gets
/// fewer questions if the graph does not offer enough. `progress` receives the number of finished
/// templates and the number of all templates.
pub(super) fn construct(
    source: &Source<'_>,
    default_nodes: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<Question> {
    let world = source.world;
    let mine: Vec<usize> =
        (0..TEMPLATES.len()).filter(|&at| TEMPLATES[at].kind == world.kind).collect();
    let ids: HashSet<&str> = mine.iter().map(|&at| TEMPLATES[at].id.as_str()).collect();
    let per_id = n_questions(world.n_nodes(), default_nodes).div_ceil(ids.len().max(1));
    let mut mentions = Mentions::default();
    let mut texts = HashSet::new();
    let mut questions = Vec::new();
    for (done, &position) in mine.iter().enumerate() {
        progress(done as u64, mine.len() as u64);
        let template = &TEMPLATES[position];
        let entries = mine.iter().filter(|&&at| TEMPLATES[at].id == template.id).count();
        let wanted = per_id.div_ceil(entries);
        let mut stream = Stream::new(world.seed, "questions", position as u64);
        let target = world.type_of(&template.target);
        let first = source.steps(template, 0)[0];
        let starts: Vec<u32> = (0..world.counts[first.from])
            .filter(|&node| !source.graph.neighbors(first, node).is_empty())
            .collect();
        if starts.is_empty() {
            continue;
        }
        let mut n_made = 0;
        let mut seen = HashSet::new();
        for _ in 0..wanted * ATTEMPTS {
            if n_made == wanted {
                break;
            }
            let Some(slots) = source.ground(template, &starts, &mut stream) else { continue };
            let candidates = source.execute(template, &slots);
            if candidates.is_empty() || candidates.len() > MAX_CANDIDATES {
                continue;
            }
            // With a single candidate, properties are not needed; a few such questions are kept.
            if candidates.len() == 1 && !stream.percent(15) {
                continue;
            }
            let narrowed = if source.facts[target].aspects.is_empty() {
                (candidates.len() <= MAX_ANSWERS).then(|| (Vec::new(), candidates))
            } else {
                source.narrow(target, &candidates, &mut stream)
            };
            let Some((properties, answers)) = narrowed else { continue };
            if !seen.insert((slots.clone(), properties.clone())) {
                continue;
            }
            let mut spelled = Vec::new();
            for (name, &slot) in template.slots.iter().zip(&slots) {
                let node_type = world.type_of(name);
                spelled.extend(mention(source, node_type, slot, &mut mentions, &mut stream));
            }
            if spelled.len() != slots.len() {
                continue;
            }
            let text = phrase(template, &spelled, &properties, &source.facts[target], &mut stream);
            if !texts.insert(text.to_lowercase()) {
                continue;
            }
            questions.push(Question { template: position, text, slots, properties, answers });
            n_made += 1;
        }
    }
    progress(mine.len() as u64, mine.len() as u64);
    Stream::new(world.seed, "question order", 0).shuffle(&mut questions);
    questions
}

/// Returns the split of each question: 0 (train), 1 (val) or 2 (test), with shares of 50, 25 and 25
/// per cent of the questions of each template.
///
/// Once a template has three questions, every split has one of them.
pub(super) fn splits(questions: &[Question]) -> Vec<usize> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    questions
        .iter()
        .map(|question| {
            let count = seen.entry(TEMPLATES[question.template].id.as_str()).or_insert(0);
            *count += 1;
            [0, 1, 2, 0][(*count - 1) % 4]
        })
        .collect()
}
