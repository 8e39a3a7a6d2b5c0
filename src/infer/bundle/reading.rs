//! Plain questions: questions of names and relations only, which the graph alone answers.
//!
//! "Other films by the director of The Silent Harbor" contains a name and its relation to the answers.
//! Such a question is read as one metapath from each name to one type of answers; its answers are the
//! nodes that all metapaths reach. A question is plain if a reading explains every word that is
//! neither part of a name nor a question word; all other questions are left to programs. A bare name
//! asks for the node with that name, if it may be an answer.
//!
//! The likelihood of words under a reading is a naive Bayes model over the presence of words (Maron
//! 1961) with two sources: names of types and relations as a prior, and the training questions that
//! the reading answers exactly.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::bundle::{
    conditions::Conditions,
    lexicon::{Synonyms, saying_nothing},
    schema::{Schema, is_form},
};
use agent_ground::words::{is_question_word, name_words};
use agent_index::{IndexedBase, entities::ExactMention};
use agent_kb::{
    self as kb, Direction, Kb, MetapathStep, NodeId, Path, RelationId, TypeId, answer::Explanation,
    paths_along,
};

/// Maximum number of names of a plain question.
const MAX_NAMES: usize = 3;
/// Maximum number of nodes of one name; those with the smallest ids are kept.
const MAX_SAME: usize = 64;
/// Maximum number of words of a plain question, without its names.
const MAX_WORDS: usize = 48;
/// Maximum number of steps of a metapath.
const MAX_STEPS: usize = 2;
/// Maximum number of metapaths from one name to one type that are combined with those of other
/// names.
const KEPT_METAPATHS: usize = 12;
/// Maximum number of readings whose answers are computed, most likely first.
const TRIED: usize = 24;
/// Maximum number of edges that a metapath follows; a reading that needs more is not answered.
const MAX_EDGES: usize = 100_000;
/// Maximum number of answers of a plain question; programs rank larger sets better by words.
const MAX_ANSWERS: usize = 1_000;

/// Probability that a question contains a word of the target type.
const TARGET_WORD_PROBABILITY: f32 = 0.8;
/// Probability that it contains a word of a followed relation, or of the type of a name.
const METAPATH_WORD_PROBABILITY: f32 = 0.5;
/// Probability that it contains a word of the middle type of a metapath.
const MIDDLE_WORD_PROBABILITY: f32 = 0.3;
/// Probability that a question has a given synonym of a type or relation of its metapaths.
const SYNONYM_PROBABILITY: f32 = 0.3;
/// Log penalty of a relation that a word of the question excludes.
const EXCLUDED_PENALTY: f32 = -6.0;
/// Probability of a question word.
const QUESTION_WORD_PROBABILITY: f32 = 0.1;
/// Probability of any other word.
const OTHER_WORD_PROBABILITY: f32 = 0.001;
/// Minimum probability of an explained word.
const EXPLAINED: f32 = 0.01;
/// Weight of the prior, in questions.
const PRIOR_WEIGHT: f32 = 2.0;
/// Minimum number of training questions with a word for it to count.
const MIN_WORD_QUESTIONS: u32 = 2;
/// Log penalty of each step after the first of a metapath without training questions.
const LONGER: f32 = -2.0;
/// Log penalty if the target type is not the first type in the question.
const LATER_TARGET_PENALTY: f32 = -3.0;
/// Log penalty of each word of a metapath that does not precede the metapath's name, and of two
/// steps in forward order: questions state the last step first.
const ELSEWHERE_PENALTY: f32 = -0.5;
/// Maximum log distance to the most likely reading, for readings that are tried after better ones
/// reached nothing.
const MAX_BEHIND: f32 = 4.0;
/// Maximum log distance of equally likely readings, whose answers are united.
const SAME_LOG: f32 = 1e-3;
/// Words that relate the answers to the names, in any base.
const COMPARING: [&str; 8] =
    ["same", "other", "both", "share", "sharing", "shared", "common", "together"];
/// Words for a common property of the answers and a name: the metapath follows a step and returns.
const IN_COMMON: [&str; 5] = ["same", "share", "sharing", "shared", "common"];
/// Log penalty of such a word if no metapath returns along its first step.
const NOTHING_IN_COMMON: f32 = -2.0;

/// One step of a metapath.
pub type Step = (RelationId, Direction);

/// A metapath from a name to the answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metapath {
    /// Type of the named node.
    pub start: TypeId,
    /// One or two steps.
    pub steps: Vec<Step>,
    /// Type of the answers.
    pub target: TypeId,
    /// Type between two steps.
    pub middle: Option<TypeId>,
}

impl Metapath {
    /// Its steps with their end types.
    fn typed_steps(&self) -> Vec<MetapathStep> {
        let ends = self.middle.into_iter().chain([self.target]);
        let step = |(&(relation, direction), to)| MetapathStep { relation, direction, to };
        self.steps.iter().zip(ends).map(step).collect()
    }

    /// Whether it follows a relation within a type in one direction, which only training questions
    /// can determine.
    fn is_one_way_within_a_type(&self) -> bool {
        let ends = self.middle.into_iter().chain([self.target]);
        let begins = [self.start].into_iter().chain(self.middle);
        let mut pairs = self.steps.iter().zip(begins.zip(ends));
        pairs.any(|(step, (from, to))| from == to && step.1 != Direction::Any)
    }

    /// Whether its second step reverses the first, as in "same brand".
    fn goes_there_and_back(&self) -> bool {
        match self.steps.as_slice() {
            &[(there, out), (back, home)] => {
                there == back && home == out.reversed() && self.target == self.start
            }
            _ => false,
        }
    }
}

/// Words of the training questions of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrasing {
    /// The metapaths in words, ascending, one for each name; see [`metapath_in_words`].
    #[serde(rename = "walks")]
    pub metapaths: Vec<String>,
    /// Number of questions.
    pub n: u32,
    /// Stems other than those of the names, with the number of questions that contain them.
    pub words: BTreeMap<String, u32>,
}

/// All trained phrasings of plain questions. If empty, only names of types and relations are used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phrasings(pub Vec<Phrasing>);

/// The reading of a plain question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The distinct metapaths of its names, in words.
    pub metapaths: Vec<String>,
    /// The named nodes, ascending; they are not answers. Empty for a bare name.
    pub named: Vec<NodeId>,
    /// The answers, ascending; at least one.
    pub answers: Vec<NodeId>,
    /// Whether a word was taken for a type or relation whose name has not this word: what training
    /// questions were answered by says nothing about it.
    pub by_synonym: bool,
    /// The answers by date, if the question asks for the newest or oldest.
    by_date: Option<Vec<NodeId>>,
    /// Equally likely readings: for each name its nodes and the metapath from them.
    ways: Vec<Vec<(Vec<NodeId>, Metapath)>>,
}

/// A question's names and other words.
pub struct Question {
    /// Nodes of each name.
    pub names: Vec<Vec<NodeId>>,
    /// Distinct stems of the other words, in order.
    pub other_stems: Vec<String>,
    /// Whether each stem is a question word.
    pub(super) asks: Vec<bool>,
    /// Whether it has a word of [`IN_COMMON`].
    in_common: bool,
    /// Stems between the previous name and each name.
    before: Vec<Vec<String>>,
    /// The words of the base's schema.
    pub(super) schema: Schema,
}

/// The metapath in words, such as `brand <-has_brand- product`.
pub fn metapath_in_words(base: &IndexedBase, metapath: &Metapath) -> String {
    kb::metapath_in_words(&base.kb, metapath.start, metapath.typed_steps())
}

impl Question {
    /// Splits a text into names and other words. Lower-case names made of words of the base's types and
    /// relations do not count as names.
    pub fn new(base: &IndexedBase, text: &str) -> Self {
        let schema = Schema::new(base);
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
        // Where no name is marked, a word in small letters that means nothing else may be one; beside other
        // names only what cannot be an answer, such as "urgent".
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
        let mut end = 0;
        let stems_before = |name: &ExactMention| {
            let from = std::mem::replace(&mut end, name.words.end);
            (from..name.words.start).filter_map(stem).collect()
        };
        let before = names.iter().map(stems_before).collect();
        let first = |name: ExactMention| name.nodes.into_iter().take(MAX_SAME).collect();
        let names = names.into_iter().map(first).collect();
        Self { names, other_stems, asks, in_common, before, schema }
    }

    /// Whether the numbers of names and words are within the limits of a plain question.
    pub fn may_be_plain(&self) -> bool {
        (1..=MAX_NAMES).contains(&self.names.len()) && self.other_stems.len() <= MAX_WORDS
    }

    /// The types of the nodes of each name, ascending.
    pub fn linked_types(&self, base: &IndexedBase) -> Vec<Vec<TypeId>> {
        let types = |nodes: &Vec<NodeId>| -> BTreeSet<TypeId> {
            nodes.iter().map(|&node| base.kb.node_type(node)).collect()
        };
        self.names.iter().map(|nodes| types(nodes).into_iter().collect()).collect()
    }
}

/// All metapaths of one and two steps from a type to candidate types. Relations within a type are
/// followed in both directions at once, and in each direction too if `directed`.
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
    metapaths.sort();
    metapaths.dedup();
    metapaths
}

/// The steps from a type with their end types.
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

/// The nodes of the target type that a metapath reaches from the nodes of a name, ascending; `None`
/// if it would follow more than 100,000 edges.
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
        next.sort_unstable();
        next.dedup();
        nodes = next;
    }
    Some(nodes)
}

/// The nodes in all sets that are not named, ascending.
pub fn answers(sets: &[Vec<NodeId>], named: &[NodeId]) -> Vec<NodeId> {
    let Some((first, others)) = sets.split_first() else { return Vec::new() };
    let in_all = |node: &&NodeId| others.iter().all(|set| set.binary_search(node).is_ok());
    let not_named = |node: &&NodeId| named.binary_search(node).is_err();
    first.iter().filter(in_all).filter(not_named).copied().collect()
}

/// Likelihood of the words of one question under its readings.
struct Model<'a> {
    base: &'a IndexedBase,
    question: &'a Question,
    /// Phrasings by their metapaths in words.
    phrasings: BTreeMap<Vec<&'a str>, &'a Phrasing>,
    /// The metapaths of all phrasings.
    learnt: BTreeSet<&'a str>,
    /// Start and target types of these metapaths.
    learnt_ends: BTreeSet<(TypeId, TypeId)>,
    /// See [`Schema::first_mentioned`].
    first: Option<Vec<TypeId>>,
    /// The words that are not question words, as bits, like the sets below.
    topical: u64,
    /// For each type, then each relation: the words that are forms of a word of its name.
    of_types: Vec<u64>,
    of_relations: Vec<u64>,
    /// Likewise: the words that are synonyms of it.
    type_synonyms: Vec<u64>,
    relation_synonyms: Vec<u64>,
    /// See [`Schema::excluded`].
    excluded: Vec<bool>,
    /// The stems of the schema, ascending, each with the words that are forms of it.
    stems: Vec<String>,
    forms: Vec<u64>,
    /// For each type, then each relation: indexes into `stems` of its name.
    type_stems: Vec<Vec<usize>>,
    relation_stems: Vec<Vec<usize>>,
}

/// A metapath, with its text if a phrasing has it.
struct WordedMetapath<'a> {
    metapath: Metapath,
    words: Option<&'a str>,
}

/// A candidate reading with its log likelihood.
struct Guess {
    metapaths: Vec<Metapath>,
    log: f32,
    plain: bool,
    /// Whether a word counts only as a synonym.
    by_synonym: bool,
}

/// Bits by index; none beyond the end.
fn bits(of: &[u64], at: u16) -> u64 {
    of.get(usize::from(at)).copied().unwrap_or(0)
}

impl<'a> Model<'a> {
    fn new(base: &'a IndexedBase, question: &'a Question, phrasings: &'a Phrasings) -> Self {
        let schema = &question.schema;
        let first = schema.first_mentioned(&question.other_stems);
        let metapaths = phrasings.0.iter().flat_map(|phrasing| &phrasing.metapaths);
        let learnt: BTreeSet<&str> = metapaths.map(String::as_str).collect();
        let types = || base.kb.types().iter().zip(0u16..);
        let pairs = types().flat_map(|start| types().map(move |target| (start, target)));
        let learnt_ends = pairs
            .filter(|((start, _), (target, _))| {
                let is_between =
                    |words: &&str| words.starts_with(*start) && words.ends_with(*target);
                learnt.iter().any(is_between)
            })
            .map(|((_, start), (_, target))| (TypeId(start), TypeId(target)))
            .collect();
        let by_metapaths = |phrasing: &'a Phrasing| {
            (phrasing.metapaths.iter().map(String::as_str).collect(), phrasing)
        };
        let phrasings = phrasings.0.iter().map(by_metapaths).collect();
        let bits = |holds: &dyn Fn(usize) -> bool| -> u64 {
            let positions = 0..question.other_stems.len().min(MAX_WORDS);
            positions.filter(|&at| holds(at)).map(|at| 1 << at).sum()
        };
        let forms = |own: &Vec<String>| {
            bits(&|at| own.iter().any(|own| is_form(&question.other_stems[at], own)))
        };
        let topical = bits(&|at| !question.asks[at]);
        let of_types = schema.types.iter().map(forms).collect();
        let of_relations = schema.relations.iter().map(forms).collect();
        let equal = |own: &[String]| bits(&|at| own.contains(&question.other_stems[at]));
        let synonyms = |of: &[Synonyms]| of.iter().map(|own| equal(&own.means)).collect();
        let type_synonyms = synonyms(&schema.type_synonyms);
        let relation_synonyms = synonyms(&schema.relation_synonyms);
        let excluded = schema.excluded(&question.other_stems, &question.asks);
        let stems: BTreeSet<&String> =
            schema.types.iter().chain(&schema.relations).flatten().collect();
        let stems: Vec<String> = stems.into_iter().cloned().collect();
        let places = |own: &Vec<String>| {
            own.iter().filter_map(|stem| stems.binary_search(stem).ok()).collect()
        };
        let type_stems = schema.types.iter().map(places).collect();
        let relation_stems = schema.relations.iter().map(places).collect();
        let forms = |stem: &String| bits(&|at| is_form(&question.other_stems[at], stem));
        let forms = stems.iter().map(forms).collect();
        Self {
            base,
            question,
            phrasings,
            learnt,
            learnt_ends,
            first,
            topical,
            of_types,
            of_relations,
            type_synonyms,
            relation_synonyms,
            excluded,
            stems,
            forms,
            type_stems,
            relation_stems,
        }
    }

    fn worded(&self, metapath: Metapath) -> WordedMetapath<'a> {
        WordedMetapath { words: self.learnt_words(&metapath), metapath }
    }

    /// A metapath in words, if a phrasing has it.
    fn learnt_words(&self, metapath: &Metapath) -> Option<&'a str> {
        if !self.learnt_ends.contains(&(metapath.start, metapath.target)) {
            return None;
        }
        self.learnt.get(metapath_in_words(self.base, metapath).as_str()).copied()
    }

    /// Whether metapaths may explain every word: by their own names, or by a phrasing.
    fn may_be_plain(&self, metapaths: &[&WordedMetapath<'_>]) -> bool {
        let explained = metapaths.iter().fold(0, |explained, one| {
            explained | self.names_of(&one.metapath) | self.synonyms_of(&one.metapath)
        });
        self.topical & !explained == 0 || self.phrasing(metapaths).is_some()
    }

    /// The words that are forms of names of the types and relations of a metapath.
    fn names_of(&self, metapath: &Metapath) -> u64 {
        let types = [metapath.start, metapath.target].into_iter().chain(metapath.middle);
        let types = types.map(|kind| bits(&self.of_types, kind.0));
        let relations = metapath.steps.iter().map(|step| bits(&self.of_relations, step.0.0));
        types.chain(relations).fold(0, |all, own| all | own)
    }

    /// The words that are synonyms of the types and relations of a metapath.
    fn synonyms_of(&self, metapath: &Metapath) -> u64 {
        let types = [metapath.start, metapath.target].into_iter().chain(metapath.middle);
        let types = types.map(|kind| bits(&self.type_synonyms, kind.0));
        let relations = metapath.steps.iter().map(|step| bits(&self.relation_synonyms, step.0.0));
        types.chain(relations).fold(0, |all, own| all | own)
    }

    /// Number of steps whose relation is excluded.
    fn n_excluded(&self, metapaths: &[Metapath]) -> usize {
        let steps = metapaths.iter().flat_map(|metapath| &metapath.steps);
        let is_excluded = |step: &&Step| self.excluded.get(usize::from(step.0.0)) == Some(&true);
        steps.filter(is_excluded).count()
    }

    /// The phrasing of these metapaths.
    fn phrasing(&self, metapaths: &[&WordedMetapath<'_>]) -> Option<&'a Phrasing> {
        let mut words: Vec<&str> = metapaths.iter().map(|one| one.words).collect::<Option<_>>()?;
        words.sort_unstable();
        self.phrasings.get(words.as_slice()).copied()
    }

    /// Whether every word is a question word, a word of the schema, or a word of a phrasing; no
    /// reading explains any other word.
    fn may_explain(&self) -> bool {
        let in_phrasing = |stem: &str| {
            let count = |phrasing: &&Phrasing| phrasing.words.get(stem).copied();
            self.phrasings.values().any(|phrasing| count(phrasing) >= Some(MIN_WORD_QUESTIONS))
        };
        let mut words = self.question.other_stems.iter().zip(&self.question.asks);
        words.all(|(stem, &asks)| {
            asks || self.question.schema.says(stem)
                || self.question.schema.is_synonym(stem)
                || in_phrasing(stem)
        })
    }

    /// Indexes of the schema's stems that metapaths contain, ascending, with the probability of each.
    fn expected(&self, metapaths: &[Metapath]) -> Vec<(usize, f32)> {
        let mut expected: Vec<(usize, f32)> = Vec::new();
        // Where a synonym is said, a name's own words are not expected.
        let mut put = |of: &[Vec<usize>], synonyms: &[u64], at: u16, chance: f32| {
            let is_replaced = bits(synonyms, at) != 0;
            let own = of.get(usize::from(at)).into_iter().flatten();
            let own = own.filter(|&&stem| !is_replaced || self.forms[stem] != 0);
            expected.extend(own.map(|&stem| (stem, chance)));
        };
        for metapath in metapaths {
            let (types, synonyms) = (&self.type_stems, &self.type_synonyms);
            put(types, synonyms, metapath.target.0, TARGET_WORD_PROBABILITY);
            put(types, synonyms, metapath.start.0, METAPATH_WORD_PROBABILITY);
            for &(RelationId(relation), _) in &metapath.steps {
                let synonyms = &self.relation_synonyms;
                put(&self.relation_stems, synonyms, relation, METAPATH_WORD_PROBABILITY);
            }
            if let Some(kind) = metapath.middle {
                put(types, synonyms, kind.0, MIDDLE_WORD_PROBABILITY);
            }
        }
        expected.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        expected.dedup_by_key(|pair| pair.0);
        expected
    }

    /// The likelihood of the question's words under metapaths, by a phrasing or by the names of types
    /// and relations, whichever is larger.
    fn guess(&self, worded: &[&WordedMetapath<'_>]) -> Guess {
        let metapaths: Vec<Metapath> = worded.iter().map(|one| one.metapath.clone()).collect();
        let expected = self.expected(&metapaths);
        let there_and_back = metapaths.iter().any(Metapath::goes_there_and_back);
        let expected_length =
            |metapath: &Metapath| self.question.in_common && metapath.goes_there_and_back();
        let longer = metapaths.iter().filter(|metapath| !expected_length(metapath));
        let longer: usize = longer.map(|metapath| metapath.steps.len() - 1).sum();
        let synonyms = metapaths.iter().fold(0, |all, metapath| all | self.synonyms_of(metapath));
        let unlearnt = self.wording(&expected, synonyms, None);
        let names = metapaths.iter().fold(0, |all, metapath| all | self.names_of(metapath));
        let by_synonym = self.topical & synonyms & !names != 0;
        let (log, plain) = (unlearnt.0 + LONGER * longer as f32, unlearnt.1);
        let by_schema = Guess { metapaths, log, plain, by_synonym };
        let learnt = self.phrasing(worded).map(|phrasing| {
            let (log, plain) = self.wording(&expected, synonyms, Some(phrasing));
            (log + (phrasing.n as f32 + 1.0).ln(), plain)
        });
        let mut guess = by_schema;
        if guess.metapaths.iter().any(|metapath| metapath.is_one_way_within_a_type()) {
            guess.plain = false;
        }
        if let Some((log, plain)) = learnt
            && plain
            && (!guess.plain || log > guess.log)
        {
            (guess.log, guess.plain, guess.by_synonym) = (log, plain, false);
        }
        let asks_later =
            |target: TypeId| self.first.as_ref().is_some_and(|first| !first.contains(&target));
        if guess.metapaths.first().is_some_and(|metapath| asks_later(metapath.target)) {
            guess.log += LATER_TARGET_PENALTY;
        }
        if self.question.in_common && !there_and_back {
            guess.log += NOTHING_IN_COMMON;
        }
        let misplaced =
            self.n_words_elsewhere(&guess.metapaths) + self.n_in_order(&guess.metapaths);
        guess.log += ELSEWHERE_PENALTY * misplaced as f32;
        guess.log += EXCLUDED_PENALTY * self.n_excluded(&guess.metapaths) as f32;
        guess
    }

    /// Number of words of the metapaths' relations that do not precede the metapath's name in the
    /// question; 0 for a single name.
    fn n_words_elsewhere(&self, metapaths: &[Metapath]) -> usize {
        let says = |stems: &[String], own: &str| stems.iter().any(|stem| is_form(stem, own));
        let of_name = |(metapath, before): (&Metapath, &Vec<String>)| {
            let own =
                metapath.steps.iter().flat_map(|step| self.question.schema.of_relation(step.0));
            own.filter(|own| says(&self.question.other_stems, own) && !says(before, own)).count()
        };
        match metapaths.len() {
            0 | 1 => 0,
            _ => metapaths.iter().zip(&self.question.before).map(of_name).sum(),
        }
    }

    /// Number of metapaths whose first step precedes the second in the words before the name.
    fn n_in_order(&self, metapaths: &[Metapath]) -> usize {
        let is_in_order = |(metapath, before): &(&Metapath, &Vec<String>)| {
            let &[(first, _), (second, _)] = metapath.steps.as_slice() else { return false };
            let last_said = |of: RelationId, not_of: RelationId| {
                let (own, other) = (
                    self.question.schema.of_relation(of),
                    self.question.schema.of_relation(not_of),
                );
                let is_own = |stem: &String| {
                    own.iter().any(|own| is_form(stem, own) && !other.contains(own))
                };
                before.iter().rposition(is_own)
            };
            let places = last_said(first, second).zip(last_said(second, first));
            places.is_some_and(|(first, second)| first < second)
        };
        metapaths.iter().zip(&self.question.before).filter(is_in_order).count()
    }

    /// The log likelihood of the words under a reading with these expected stems and words that are
    /// its synonyms, and whether all words are explained.
    fn wording(
        &self,
        expected: &[(usize, f32)],
        synonyms: u64,
        phrasing: Option<&Phrasing>,
    ) -> (f32, bool) {
        let n = phrasing.map_or(0, |phrasing| phrasing.n) as f32;
        let count = |stem: &str| {
            let count = phrasing.and_then(|phrasing| phrasing.words.get(stem)).copied();
            count.filter(|&count| count >= MIN_WORD_QUESTIONS).unwrap_or(0) as f32
        };
        let chance =
            |stem: &str, prior: f32| (count(stem) + PRIOR_WEIGHT * prior) / (n + PRIOR_WEIGHT);
        let prior = |at: usize, asks: bool| {
            let forms = expected.iter().filter(|pair| self.forms[pair.0] >> at & 1 == 1);
            let least = match (synonyms >> at & 1 == 1, asks) {
                (true, _) => SYNONYM_PROBABILITY,
                (false, true) => QUESTION_WORD_PROBABILITY,
                (false, false) => OTHER_WORD_PROBABILITY,
            };
            forms.map(|pair| pair.1).fold(least, f32::max)
        };
        let (mut log, mut plain) = (0.0, true);
        for (at, (stem, &asks)) in
            self.question.other_stems.iter().zip(&self.question.asks).enumerate()
        {
            let chance = chance(stem, prior(at, asks));
            log += chance.ln();
            plain &= asks || chance >= EXPLAINED;
        }
        let is_expected = |stem: &str| {
            let place = self.stems.binary_search_by(|other| other.as_str().cmp(stem));
            place.is_ok_and(|at| expected.binary_search_by_key(&at, |pair| pair.0).is_ok())
        };
        let is_said =
            |stem: &str| self.question.other_stems.iter().any(|other| is_form(stem, other));
        let learnt = phrasing.into_iter().flat_map(|phrasing| phrasing.words.keys());
        let learnt = learnt.map(String::as_str).filter(|stem| !is_expected(stem) && !is_said(stem));
        let unsaid: f32 = expected
            .iter()
            .filter(|pair| self.forms[pair.0] == 0)
            .map(|&(stem, prior)| (self.stems[stem].as_str(), prior))
            .chain(learnt.map(|stem| (stem, OTHER_WORD_PROBABILITY)))
            .map(|(stem, prior)| (1.0 - chance(stem, prior)).max(OTHER_WORD_PROBABILITY).ln())
            .sum();
        (log + unsaid, plain)
    }

    /// Readings that explain all words, most likely first; ties by their metapaths.
    fn guesses(&self) -> Vec<Guess> {
        let types = self.question.linked_types(self.base);
        let of_name: Vec<Vec<WordedMetapath<'_>>> = types
            .iter()
            .map(|types| {
                let learnt = |metapath: &Metapath| self.learnt_words(metapath).is_some();
                let of = |&kind: &TypeId| {
                    let mut metapaths = metapaths_from(self.base, kind, false);
                    if !self.phrasings.is_empty() {
                        let directed = metapaths_from(self.base, kind, true);
                        metapaths.extend(directed.into_iter().filter(learnt));
                        metapaths.sort();
                        metapaths.dedup();
                    }
                    metapaths.into_iter().map(|metapath| self.worded(metapath))
                };
                types.iter().flat_map(of).collect()
            })
            .collect();
        let targets: BTreeSet<TypeId> =
            of_name.iter().flatten().map(|one| one.metapath.target).collect();
        let mut guesses: Vec<Guess> =
            targets.into_iter().flat_map(|target| self.guesses_at(target, &of_name)).collect();
        guesses.retain(|guess| guess.plain);
        guesses.sort_by(|a, b| b.log.total_cmp(&a.log).then_with(|| a.metapaths.cmp(&b.metapaths)));
        guesses
    }

    /// Readings with one target type: combinations of the likeliest metapaths from each name.
    fn guesses_at(&self, target: TypeId, of_name: &[Vec<WordedMetapath<'_>>]) -> Vec<Guess> {
        let mut combined: Vec<Vec<&WordedMetapath<'_>>> = vec![Vec::new()];
        for metapaths in of_name {
            let own = metapaths.iter().filter(|one| one.metapath.target == target);
            let mut own: Vec<(f32, &WordedMetapath<'_>)> =
                own.map(|one| (self.guess(&[one]).log, one)).collect();
            own.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.metapath.cmp(&b.1.metapath)));
            let kept: Vec<&WordedMetapath<'_>> = own
                .into_iter()
                .map(|pair| pair.1)
                .enumerate()
                .filter(|(at, one)| *at < KEPT_METAPATHS || one.words.is_some())
                .map(|pair| pair.1)
                .collect();
            combined = combined
                .iter()
                .flat_map(|before| {
                    kept.iter().map(|&one| before.iter().copied().chain([one]).collect())
                })
                .collect();
        }
        let plain = combined.iter().filter(|metapaths| self.may_be_plain(metapaths));
        plain.map(|metapaths| self.guess(metapaths)).collect()
    }
}

/// Reads the rest of a question beside its conditions as a plain one; `None` if it is not plain, or no
/// reading that explains its words has answers. Of the answers, those that fulfil the conditions stay, if
/// there are any.
pub fn read(base: &IndexedBase, conditions: &Conditions, phrasings: &Phrasings) -> Option<Reading> {
    let mut reading = read_rest(base, &conditions.rest, phrasings)?;
    reading.answers = conditions.fulfilled(&base.kb, reading.answers);
    reading.by_date = conditions.by_date(base, &reading.answers);
    (reading.answers.len() <= MAX_ANSWERS).then_some(reading)
}

fn read_rest(base: &IndexedBase, text: &str, phrasings: &Phrasings) -> Option<Reading> {
    let question = Question::new(base, text);
    if !question.may_be_plain() {
        return None;
    }
    if let Some(reading) = bare_name(base, &question) {
        return Some(reading);
    }
    let named: BTreeSet<NodeId> = question.names.iter().flatten().copied().collect();
    let named: Vec<NodeId> = named.into_iter().collect();
    let model = Model::new(base, &question, phrasings);
    if !model.may_explain() {
        return None;
    }
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
            let named = named.clone();
            (guess.log, Reading { named, by_synonym: guess.by_synonym, ..Reading::default() })
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
    found.map(|pair| pair.1)
}

/// The reading of a bare name: the nodes with that name that may be answers.
fn bare_name(base: &IndexedBase, question: &Question) -> Option<Reading> {
    let [nodes] = question.names.as_slice() else { return None };
    let may_answer = |&&node: &&NodeId| base.kb.is_candidate(node);
    let answers: BTreeSet<NodeId> = nodes.iter().filter(may_answer).copied().collect();
    let is_bare = question.other_stems.is_empty() && !answers.is_empty();
    let answers = answers.into_iter().collect();
    is_bare.then(|| Reading { answers, ..Reading::default() })
}

impl Reading {
    /// Explains the reading and the place of a node in it.
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

    /// For each node, the paths to it along the metapaths, one from each name; empty for a node that
    /// is not an answer.
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

    /// The ranking with the answers of the reading first, missing ones after the ranked ones, and
    /// without the named nodes. Answers score above 0.5, all other nodes below 0.05, so that the
    /// cut-off lies between them; best first, ties by smaller id.
    pub fn apply(&self, ranking: &[(NodeId, f32)]) -> Vec<(NodeId, f32)> {
        let top = ranking.iter().map(|pair| pair.1).fold(f32::MIN_POSITIVE, f32::max);
        let mut ranked: Vec<(NodeId, f32)> = Vec::new();
        let mut answered = BTreeSet::new();
        for &(node, score) in ranking {
            let share = (score.max(0.0) / top) * 0.049;
            if self.answers.binary_search(&node).is_ok() {
                answered.insert(node);
                ranked.push((node, 0.51 + share));
            } else if self.named.binary_search(&node).is_err() {
                ranked.push((node, share));
            }
        }
        let lacking = self.answers.iter().filter(|node| !answered.contains(node));
        ranked.extend(lacking.map(|&node| (node, 0.505)));
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
        let read = |query: &str| read_rest(&base, query, &Phrasings::default());
        let product = base.kb.nodes_of_type(base.kb.type_id("product").unwrap())[0];
        let name = base.kb.name(product);
        let reading = read(name).unwrap();
        assert_eq!((reading.answers.as_slice(), reading.named.len()), ([product].as_slice(), 0));
        let ranked = reading.apply(&[(product + 1, 0.9), (product, 0.1)]);
        assert_eq!(ranked[0].0, product);
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
