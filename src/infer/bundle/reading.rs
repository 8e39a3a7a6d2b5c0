//! Reads plain questions: questions of names and relations only, which the graph alone can answer.
//!
//! "Other films by the director of The Silent Harbor" contains a name and its relation to the
//! answers. Such a question is read as one metapath from each name to one type of answers; the
//! answers are the nodes that all metapaths reach. A question is plain if a reading explains every
//! word that is neither part of a name nor a question word. A few words may stay unexplained if a
//! metapath of one step is likely. All other questions are left to programs. A bare name asks for
//! the node with that name, if that node may be an answer; several bare names ask for a node with
//! one of them that is a neighbour of the others.
//!
//! | file | content |
//! | --- | --- |
//! | `reading.rs` | names and words of a question, metapaths, the reading and its answers |
//! | `model` | the likelihood of the words under a reading |
//! | `direction` | the direction along a relation within a type, by the order of words |
//! | `soft` | likely metapaths if no reading explains every word |
//! | `lexicon` | metapaths of one step by the words of questions written about them |

mod direction;
mod lexicon;
mod model;
mod soft;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::bundle::{
    conditions::Conditions, lexicon::saying_nothing, reading::model::Model, schema::Schema,
};
use agent_ground::words::{has_word, is_question_word, name_words};
use agent_index::{IndexedBase, entities::ExactMention};
use agent_kb::{
    self as kb, Direction, Kb, MetapathStep, NodeId, Path, RelationId, Scores, TypeId,
    answer::Explanation, distinct, paths_along,
};

/// Maximum number of names of a plain question.
const MAX_NAMES: usize = 3;
/// Maximum number of nodes with one name that are followed; the smallest ids are kept.
const MAX_SAME: usize = 64;
/// Maximum number of words of a plain question outside its names.
const MAX_WORDS: usize = 48;
/// Maximum number of steps of a metapath.
const MAX_STEPS: usize = 2;
/// Maximum number of readings whose answers are computed, most likely first.
const TRIED: usize = 24;
/// Maximum number of edges that a metapath follows. If a tried reading needs more, no reading that
/// explains every word is returned.
const MAX_EDGES: usize = 100_000;
/// Maximum number of answers of a plain question; programs rank larger sets better by words.
const MAX_ANSWERS: usize = 1_000;

/// A reading is tried only if its log likelihood is at most this far below that of the most likely
/// reading. Of these, a less likely one is tried only if no more likely one has answers.
const MAX_BEHIND: f32 = 4.0;
/// Maximum difference between the log likelihoods of readings that count as equally likely; their
/// answers are united.
const SAME_LOG: f32 = 1e-3;
/// Words that compare the answers with the names, in any base.
const COMPARING: [&str; 8] =
    ["same", "other", "both", "share", "sharing", "shared", "common", "together"];
/// Words for a common property of the answers and a name, as in "same brand": the metapath follows
/// a relation and returns along it.
const IN_COMMON: [&str; 5] = ["same", "share", "sharing", "shared", "common"];

/// Stems of words that contrast or compare names, or join alternatives.
const CONTRASTING: &str = "same other both share common togeth or not like anoth no but than els";

/// One step of a metapath: the relation that is followed, and in which direction.
pub type Step = (RelationId, Direction);

/// A metapath from a named node to the answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metapath {
    /// Type of the named node.
    pub start: TypeId,
    /// One or two steps.
    pub steps: Vec<Step>,
    /// Type of the answers.
    pub target: TypeId,
    /// Type of the nodes between the two steps; `None` for one step.
    pub middle: Option<TypeId>,
}

impl Metapath {
    /// Returns the steps, each with the type of the nodes that it reaches.
    fn typed_steps(&self) -> Vec<MetapathStep> {
        let ends = self.middle.into_iter().chain([self.target]);
        let step = |(&(relation, direction), to)| MetapathStep { relation, direction, to };
        self.steps.iter().zip(ends).map(step).collect()
    }

    /// Whether a step follows a relation within one type in one direction. Training questions or
    /// the order of words must determine this direction.
    fn is_one_way_within_a_type(&self) -> bool {
        let ends = self.middle.into_iter().chain([self.target]);
        let begins = [self.start].into_iter().chain(self.middle);
        let mut pairs = self.steps.iter().zip(begins.zip(ends));
        pairs.any(|(step, (from, to))| from == to && step.1 != Direction::Any)
    }

    /// Whether the second step reverses the first, as in "same brand".
    fn goes_there_and_back(&self) -> bool {
        match self.steps.as_slice() {
            &[(there, out), (back, home)] => {
                there == back && home == out.reversed() && self.target == self.start
            }
            _ => false,
        }
    }
}

/// Word counts of the questions that share one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrasing {
    /// The metapaths of the reading, one per name in the question, formatted by
    /// [`metapath_in_words`], ascending.
    #[serde(rename = "walks")]
    pub metapaths: Vec<String>,
    /// Number of questions with this reading.
    pub n: u32,
    /// Stems outside the names, with the number of these questions that contain each stem.
    pub words: BTreeMap<String, u32>,
    /// Whether the questions come from the lexicon: a language model wrote them for the base, or
    /// they are taken from a table of general English questions. Otherwise they are training
    /// questions. A phrasing of the lexicon has one metapath of one step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub written: bool,
}

/// All phrasings of plain questions. If there are none, questions are read by the names and
/// synonyms of types and relations only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phrasings(pub Vec<Phrasing>);

/// The reading of a plain question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The distinct metapaths from the names, as text.
    pub metapaths: Vec<String>,
    /// The named nodes, ascending; they are not answers. Empty for bare names.
    pub named: Vec<NodeId>,
    /// The answers, ascending; at least one.
    pub answers: Vec<NodeId>,
    /// Whether a word of the question is explained only as a synonym, or not at all, or the
    /// question is only a name. The answer quality measured on training questions does not apply to
    /// such a reading.
    pub by_synonym: bool,
    /// Nodes that other readings reach, ascending; they rank after the answers. If only the order
    /// of words determines a direction, the other readings follow the metapaths in reverse.
    /// Otherwise they are less likely metapaths of one step to the same type.
    alternatives: Vec<NodeId>,
    /// If the question asks for the newest or oldest nodes: the answers in this order, undated ones
    /// last.
    by_date: Option<Vec<NodeId>>,
    /// Equally likely readings; each has one entry per name: the nodes with that name and the
    /// metapath from them.
    ways: Vec<Vec<(Vec<NodeId>, Metapath)>>,
}

/// A question, split into names and other words.
pub struct Question {
    /// For each name, in the order of the question: the nodes with that name.
    pub names: Vec<Vec<NodeId>>,
    /// Distinct stems of the other words, in order.
    pub other_stems: Vec<String>,
    /// For each of `other_stems`: whether the word does not describe the answers, such as "which",
    /// "other" or a single letter.
    pub(super) asks: Vec<bool>,
    /// Whether the question has a word of [`IN_COMMON`].
    in_common: bool,
    /// Whether the only name is written with a digit, as identifiers are.
    is_identifier: bool,
    /// For each name: the stems between the previous name, or the start of the question, and this
    /// name.
    before: Vec<Vec<String>>,
    /// Stems after the last name.
    after: Vec<String>,
    /// The words of the base's schema.
    pub(super) schema: Arc<Schema>,
}

/// Formats a metapath, such as `brand <-has_brand- product`.
pub fn metapath_in_words(base: &IndexedBase, metapath: &Metapath) -> String {
    kb::metapath_in_words(&base.kb, metapath.start, metapath.typed_steps())
}

impl Question {
    /// Splits a text into names and other words. Unquoted lower-case names that consist of words of
    /// the schema do not count as names.
    pub fn new(base: &IndexedBase, text: &str) -> Self {
        let schema = Schema::of(base);
        let words: Vec<_> = name_words(text).collect();
        let stem = |at: usize| words.get(at).map(|pair| base.stems.stem(&pair.1).into_owned());
        let is_name = |one: &ExactMention| {
            let mut written = words.get(one.words.clone()).unwrap_or_default().iter();
            let small = written.all(|(range, _)| !text[range.clone()].contains(char::is_uppercase));
            let mut stems = one.words.clone().filter_map(stem);
            one.marked && !(small && !one.quoted && stems.all(|stem| schema.says(&stem)))
        };
        let spelled = base.entities.exact_mentions(text);
        let mut names: Vec<ExactMention> =
            spelled.iter().filter(|one| is_name(one)).cloned().collect();
        let means_nothing_else = |one: &&ExactMention| {
            let stem = stem(one.words.start).unwrap_or_default();
            let word = words.get(one.words.start);
            !schema.says(&stem)
                && !schema.is_synonym(&stem)
                && !word.is_some_and(|(_, word)| is_question_word(word))
        };
        // Without marked names, the first mention without another meaning counts. Beside marked
        // names, only unmarked mentions that cannot be answers count, such as "urgent".
        let is_value = |one: &&ExactMention| {
            !one.marked && one.nodes.iter().all(|&node| !base.kb.is_candidate(node))
        };
        if names.is_empty() {
            names.extend(spelled.iter().filter(means_nothing_else).take(1).cloned());
        } else {
            let values: Vec<&ExactMention> =
                spelled.iter().filter(is_value).filter(means_nothing_else).collect();
            if names.len() + values.len() <= MAX_NAMES {
                names.extend(values.into_iter().cloned());
                names.sort_by_key(|name| name.words.start);
            }
        }
        let nothing = saying_nothing(&base.stems);
        let is_beside = |at: &usize| !names.iter().any(|name| name.words.contains(at));
        let (mut other_stems, mut asks): (Vec<String>, Vec<bool>) = Default::default();
        for (at, (_, word)) in words.iter().enumerate() {
            let Some(stem) = stem(at) else { continue };
            if is_beside(&at) && !other_stems.contains(&stem) {
                let shapes = is_question_word(word)
                    || COMPARING.contains(&word.as_ref())
                    || nothing.contains(&stem);
                other_stems.push(stem);
                asks.push(shapes || word.chars().nth(1).is_none());
            }
        }
        let mut beside = words.iter().enumerate().filter(|(at, _)| is_beside(at));
        let in_common = beside.any(|(_, (_, word))| IN_COMMON.contains(&word.as_ref()));
        let is_identifier = matches!(names.as_slice(), [only] if words
            .get(only.words.clone())
            .unwrap_or_default()
            .iter()
            .any(|pair| pair.1.contains(|c: char| c.is_ascii_digit())));
        let mut end = 0;
        let stems_before = |name: &ExactMention| {
            let from = std::mem::replace(&mut end, name.words.end);
            (from..name.words.start).filter_map(stem).collect()
        };
        let before = names.iter().map(stems_before).collect();
        let after = (end..words.len()).filter_map(stem).collect();
        // Nodes with this name replace nodes that only have it as an alias.
        let nodes = |name: ExactMention| -> Vec<NodeId> {
            let said = words.get(name.words).unwrap_or_default().iter().map(|pair| &pair.1);
            let is_own = |node: &NodeId| {
                name_words(base.kb.name(*node)).map(|pair| pair.1).eq(said.clone().cloned())
            };
            let own: Vec<NodeId> = name.nodes.iter().copied().filter(is_own).collect();
            let nodes = if own.is_empty() { name.nodes } else { own };
            nodes.into_iter().take(MAX_SAME).collect()
        };
        let names = names.into_iter().map(nodes).collect();
        Self { names, other_stems, asks, in_common, is_identifier, before, after, schema }
    }

    /// Whether the number of names and the number of other words are within the limits of a plain
    /// question.
    pub fn may_be_plain(&self) -> bool {
        (1..=MAX_NAMES).contains(&self.names.len()) && self.other_stems.len() <= MAX_WORDS
    }

    /// Returns, for each name, the types of the nodes with that name, ascending.
    pub fn linked_types(&self, base: &IndexedBase) -> Vec<Vec<TypeId>> {
        let types = |nodes: &Vec<NodeId>| -> BTreeSet<TypeId> {
            nodes.iter().map(|&node| base.kb.node_type(node)).collect()
        };
        self.names.iter().map(|nodes| types(nodes).into_iter().collect()).collect()
    }
}

/// Returns all metapaths of one and two steps from the type `start` to candidate types, ascending.
/// A relation within one type is followed in both directions at once and, if `directed`, also in
/// each single direction.
pub fn metapaths_from(base: &IndexedBase, start: TypeId, directed: bool) -> Vec<Metapath> {
    let mut metapaths = Vec::new();
    for (step, end) in steps_from(base, start, directed) {
        let steps = vec![step];
        metapaths.push(Metapath { start, steps, target: end, middle: None });
        for (second, target) in steps_from(base, end, directed) {
            let steps = vec![step, second];
            metapaths.push(Metapath { start, steps, target, middle: Some(end) });
        }
    }
    debug_assert!(metapaths.iter().all(|metapath| metapath.steps.len() <= MAX_STEPS));
    metapaths.retain(|metapath| base.kb.candidate_types().contains(&metapath.target));
    distinct(metapaths)
}

/// Returns the steps from a type, each with the type that it reaches.
fn steps_from(base: &IndexedBase, from: TypeId, directed: bool) -> Vec<(Step, TypeId)> {
    let mut steps = Vec::new();
    for tuple in base.kb.tuples() {
        let (out, back) = (tuple.source == from, tuple.target == from);
        let within = out && back;
        if within {
            steps.push(((tuple.relation, Direction::Any), from));
        }
        if out && (directed || !within) {
            steps.push(((tuple.relation, Direction::Out), tuple.target));
        }
        if back && (directed || !within) {
            steps.push(((tuple.relation, Direction::In), tuple.source));
        }
    }
    steps
}

/// Returns the nodes of the target type that a metapath reaches from the nodes of one name,
/// ascending; `None` if the metapath would follow more than 100,000 edges.
pub fn reached(base: &IndexedBase, names: &[NodeId], metapath: &Metapath) -> Option<Vec<NodeId>> {
    let own = |&node: &NodeId| base.kb.node_type(node) == metapath.start;
    let mut nodes: Vec<NodeId> = names.iter().copied().filter(own).collect();
    let mut left = MAX_EDGES;
    let ends = metapath.middle.into_iter().chain([metapath.target]);
    for (&(relation, direction), end) in metapath.steps.iter().zip(ends) {
        let mut next = Vec::new();
        for node in nodes {
            left = left.checked_sub(base.kb.degree(node, relation, direction))?;
            let neighbors = base.kb.neighbors(node, relation, direction);
            next.extend(neighbors.iter().filter(|&&node| base.kb.node_type(node) == end));
        }
        nodes = distinct(next);
    }
    Some(nodes)
}

/// Returns the nodes that are in all sets and not in `named`, ascending; all inputs are ascending.
pub fn answers(sets: &[Vec<NodeId>], named: &[NodeId]) -> Vec<NodeId> {
    let Some((first, others)) = sets.split_first() else { return Vec::new() };
    let in_all = |node: &&NodeId| others.iter().all(|set| set.binary_search(node).is_ok());
    let not_named = |node: &&NodeId| named.binary_search(node).is_err();
    first.iter().filter(in_all).filter(not_named).copied().collect()
}

/// Sets the conditions of a question aside and reads the rest as a plain question. The reading is
/// `None` if the question is not plain, or if no reading has 1 to 1,000 answers. Answers that do not
/// fulfil the conditions are dropped, unless none does. For a question that is not plain, also
/// returns the nodes that its likely metapaths reach, with probabilities in `0..=1`.
pub fn read_or_guess(
    base: &IndexedBase,
    conditions: &Conditions,
    phrasings: &Phrasings,
) -> (Option<Reading>, Scores) {
    let question = Question::new(base, &conditions.rest);
    if !question.may_be_plain() {
        return (None, Scores::default());
    }
    let finished = |mut reading: Reading| {
        reading.answers = conditions.fulfilled(base, reading.answers);
        reading.by_date = conditions.by_date(base, &reading.answers);
        (reading.answers.len() <= MAX_ANSWERS).then_some(reading)
    };
    if let Some(reading) = bare_names(base, &question) {
        return (finished(reading), Scores::default());
    }
    let model = Model::new(base, &question, phrasings);
    let plain = plain(base, &question, &model).and_then(finished);
    // A synonym says little about a metapath of two steps.
    if plain.as_ref().is_some_and(|reading| !(reading.by_synonym && reading.has_two_steps())) {
        return (plain, Scores::default());
    }
    let likely = model.likely_metapaths();
    match model.nearly_plain(&likely).and_then(finished).or(plain) {
        Some(reading) => (Some(reading), Scores::default()),
        None => (None, model.reached_by(likely)),
    }
}

/// Returns the most likely reading that explains every word and has answers, united with equally
/// likely ones.
fn plain(base: &IndexedBase, question: &Question, model: &Model<'_>) -> Option<Reading> {
    if !model.may_explain() {
        return None;
    }
    let named: BTreeSet<NodeId> = question.names.iter().flatten().copied().collect();
    let named: Vec<NodeId> = named.into_iter().collect();
    let guesses = model.guesses();
    let least = guesses.first()?.log - MAX_BEHIND;
    let mut found: Option<(f32, Reading)> = None;
    for guess in guesses.iter().take(TRIED).take_while(|guess| guess.log >= least) {
        if found.as_ref().is_some_and(|(log, _)| guess.log < log - SAME_LOG) {
            break;
        }
        let sets: Option<Vec<Vec<NodeId>>> = question
            .names
            .iter()
            .zip(&guess.metapaths)
            .map(|(nodes, metapath)| reached(base, nodes, metapath))
            .collect();
        let own = answers(&sets?, &named);
        if own.is_empty() {
            continue;
        }
        let metapaths = guess.metapaths.iter().map(|metapath| metapath_in_words(base, metapath));
        let way = question.names.iter().cloned().zip(guess.metapaths.iter().cloned());
        let (_, reading) = found.get_or_insert_with(|| {
            let by_synonym = guess.by_synonym || question.other_stems.is_empty();
            (guess.log, Reading { named: named.clone(), by_synonym, ..Reading::default() })
        });
        reading.ways.push(way.collect());
        let both: BTreeSet<NodeId> = reading.answers.iter().copied().chain(own).collect();
        reading.answers = both.into_iter().collect();
        for metapath in metapaths {
            if !reading.metapaths.contains(&metapath) {
                reading.metapaths.push(metapath);
            }
        }
    }
    found.map(|(_, mut reading)| {
        reading.alternatives = reading.reached_in_reverse(base, question);
        reading
    })
}

/// Reads a question that consists of names, with words such as "in" between them, of one name
/// beside its type, such as "ticket 4711", or of an identifier beside one word at most that no type
/// or relation has, such as "asset WX3". The answers are candidates that have one of the names, and a neighbour with each of the other names: for "Broken
/// lamp Unterweiler", the repairs called "Broken lamp" in Unterweiler. If several names have such
/// nodes, the first of these names counts.
fn bare_names(base: &IndexedBase, question: &Question) -> Option<Reading> {
    let is_joining = |(stem, asks): (&String, &bool)| *asks && !has_word(CONTRASTING, stem);
    let kb = &base.kb;
    let is_of_type = |node: NodeId| {
        let kind = kb.node_type(node);
        question.other_stems.iter().all(|stem| question.schema.meanings(stem).0.contains(&kind))
    };
    let languages = base.stems.languages();
    let mut topical = question
        .other_stems
        .iter()
        .zip(&question.asks)
        .filter(|(stem, asks)| !**asks && !languages.is_stop_word(stem));
    let says_nothing =
        |stem: &String| !question.schema.says(stem) && !question.schema.is_synonym(stem);
    let is_identified = question.is_identifier
        && topical.next().is_none_or(|(stem, _)| says_nothing(stem))
        && topical.next().is_none();
    let is_bare = match question.names.as_slice() {
        [] => question.other_stems.is_empty(),
        [nodes] => is_identified || nodes.iter().any(|&node| is_of_type(node)),
        _ => question.other_stems.iter().zip(&question.asks).all(is_joining),
    };
    if !is_bare {
        return None;
    }
    let is_single = question.names.len() == 1;
    let is_beside = |node: NodeId, others: &[NodeId]| {
        kb.relations_of(kb.node_type(node)).iter().any(|&relation| {
            let neighbors = kb.neighbors(node, relation, Direction::Any);
            others.iter().any(|other| neighbors.binary_search(other).is_ok())
        })
    };
    let of_name = |(at, nodes): (usize, &Vec<NodeId>)| {
        let others = || question.names.iter().enumerate().filter(|(other, _)| *other != at);
        let nodes = nodes.iter().copied().filter(|&node| kb.is_candidate(node));
        let nodes = nodes.filter(|&node| !is_single || is_identified || is_of_type(node));
        let nodes = nodes.filter(|&node| others().all(|(_, names)| is_beside(node, names)));
        nodes.collect::<BTreeSet<NodeId>>()
    };
    let mut found = question.names.iter().enumerate().map(of_name);
    let answers = found.find(|answers| !answers.is_empty())?.into_iter().collect();
    Some(Reading { answers, by_synonym: true, ..Reading::default() })
}

impl Reading {
    /// Whether a metapath of the reading has two steps.
    fn has_two_steps(&self) -> bool {
        self.ways.iter().flatten().any(|(_, metapath)| metapath.steps.len() > 1)
    }

    /// Explains the reading and the role of a node in it.
    pub fn explanation(&self, node: NodeId) -> Explanation {
        let place = match (self.answers.binary_search(&node), self.named.binary_search(&node)) {
            (Ok(_), _) => "one of its answers",
            (_, Ok(_)) => "named by it",
            _ => "none of its answers",
        };
        let metapaths =
            self.metapaths.iter().map(|metapath| Explanation::new("metapath", metapath.as_str()));
        let n = Explanation::new("answers", self.answers.len());
        Explanation::new("plain question", place).with(metapaths).with([n])
    }

    /// Returns, for each of `nodes`, the paths that lead to the node along the metapaths, one from
    /// each name; empty for a node that is not an answer.
    pub fn paths(&self, kb: &Kb, nodes: &[NodeId]) -> Vec<Vec<Path>> {
        let mut paths = vec![Vec::new(); nodes.len()];
        for way in &self.ways {
            let along = |(names, metapath): &(Vec<NodeId>, Metapath)| {
                paths_along(kb, names, nodes, &metapath.typed_steps(), MAX_EDGES)
            };
            let by_name: Vec<Vec<Option<Path>>> = way.iter().map(along).collect();
            for (at, (own, node)) in paths.iter_mut().zip(nodes).enumerate() {
                let from_all: Option<Vec<Path>> =
                    by_name.iter().map(|paths| paths.get(at).cloned().flatten()).collect();
                if own.is_empty() && self.answers.binary_search(node).is_ok() {
                    *own = from_all.unwrap_or_default();
                }
            }
        }
        paths
    }

    /// Returns the nodes that the metapaths reach in the reverse direction, only for metapaths
    /// whose direction the order of words determines; ascending, without answers and named nodes.
    fn reached_in_reverse(&self, base: &IndexedBase, question: &Question) -> Vec<NodeId> {
        let said = self.ways.iter().flatten().filter(|(_, metapath)| {
            metapath.is_one_way_within_a_type() && question.says_direction(metapath) == Some(true)
        });
        let reversed = said.flat_map(|(names, metapath)| {
            let steps = metapath.steps.iter().map(|step| (step.0, step.1.reversed())).collect();
            reached(base, names, &Metapath { steps, ..metapath.clone() }).unwrap_or_default()
        });
        let is_other = |node: &NodeId| {
            self.answers.binary_search(node).is_err() && self.named.binary_search(node).is_err()
        };
        reversed.filter(is_other).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Ranks the answers of the reading first: by date if the question asks for this, otherwise as
    /// in `ranking`, followed by the answers that `ranking` lacks. Drops the named nodes. Answers
    /// score above 0.5, alternatives above 0.25, and all other nodes below 0.05, so that the
    /// cut-off lies between these groups. Best first, ties by smaller id.
    pub fn apply(&self, ranking: &[(NodeId, f32)]) -> Vec<(NodeId, f32)> {
        let top = ranking.iter().map(|pair| pair.1).fold(f32::MIN_POSITIVE, f32::max);
        let mut ranked: Vec<(NodeId, f32)> = Vec::new();
        let mut answered = BTreeSet::new();
        for &(node, score) in ranking {
            let share = (score.max(0.0) / top) * 0.049;
            if self.answers.binary_search(&node).is_ok() {
                answered.insert(node);
                ranked.push((node, 0.51 + share));
            } else if self.alternatives.binary_search(&node).is_ok() {
                answered.insert(node);
                ranked.push((node, 0.26 + share));
            } else if self.named.binary_search(&node).is_err() {
                ranked.push((node, share));
            }
        }
        for (nodes, score) in [(&self.answers, 0.505), (&self.alternatives, 0.255)] {
            let lacking = nodes.iter().filter(|node| !answered.contains(node));
            ranked.extend(lacking.map(|&node| (node, score)));
        }
        if let Some(by_date) = &self.by_date {
            let n = by_date.len() as f32;
            let places: BTreeMap<NodeId, usize> = by_date.iter().copied().zip(0..).collect();
            for (node, score) in &mut ranked {
                if let Some(&place) = places.get(node) {
                    *score = 0.51 + 0.049 * (1.0 - place as f32 / n);
                }
            }
        }
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_testing::example_base;

    #[test]
    fn a_name_and_no_word_more_asks_for_what_bears_it() {
        let base = example_base();
        let read = |query: &str| {
            read_or_guess(&base, &Conditions::read(&base, query), &Phrasings::default()).0
        };
        let product = base.kb.nodes_of_type(base.kb.type_id("product").unwrap())[0];
        let name = base.kb.name(product);
        let reading = read(name).unwrap();
        assert_eq!((reading.answers.as_slice(), reading.named.len()), ([product].as_slice(), 0));
        let ranked = reading.apply(&[(product + 1, 0.9), (product, 0.1)]);
        assert_eq!(ranked[0].0, product);
        // Of two names, the one that may be an answer and is a neighbour of the other.
        let has_brand = base.kb.relation_id("has_brand").unwrap();
        let brand = base.kb.neighbors(product, has_brand, Direction::Out)[0];
        for between in ["", "by ", "from the "] {
            let both = format!("{name} {between}{}", base.kb.name(brand));
            assert_eq!(read(&both).unwrap().answers, [product], "{both}");
        }
        // A brand is not an answer, and words beside a name ask for something else.
        let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[0];
        for (query, node) in [
            (base.kb.name(brand).to_owned(), brand),
            (format!("other products like {name}"), product),
        ] {
            let asked = read(&query);
            assert!(asked.is_none_or(|reading| !reading.answers.contains(&node)), "{query}");
        }
    }
}
