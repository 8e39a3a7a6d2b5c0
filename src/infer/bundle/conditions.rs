//! Conditions that a question states: dates, numbers and absence.
//!
//! | in the question | condition |
//! | --- | --- |
//! | created in March 2025, before 2020, in Q1 2025, from 2019 to 2021 | `created=2025-03` ... |
//! | price under 20, more than 50 reviews | `price<20`, `reviews>50` |
//! | not closed, without Anna Ode | `status!=closed`, `employee!=Anna Ode` |
//! | that do not cause dizziness | `drug_causes_effect!=dizziness` |
//! | without a product, not closed (a date) | `product!=*`, `closed!=*` |
//! | other than The Silent Harbor | `name!=The Silent Harbor` |
//! | newest, oldest | order of a plain question's answers by date |
//! | sets other than knights, not for birthdays | words that name no node: see `excluded` |
//!
//! Each condition has the syntax of [`agent_kb::filter`], in which it is also shown to the user. A
//! phrase counts only if the base has the node that it names, or a date or number field for
//! it. The rest of the question, without the words of conditions, may be a plain question. Nodes
//! that fulfil all conditions come first; no node is removed, since a phrase may be misread.
//! English, German, French and Spanish; no date is relative to today.

mod absence;
mod dates;
mod excluded;
mod languages;
mod numbers;
mod phrases;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, cmp::Reverse, collections::BTreeSet, ops::Range, sync::Arc};

use crate::bundle::{
    conditions::{
        excluded::{Excluded, is_named},
        phrases::{
            BEFORE_LIMITS, COMPARISONS, EXCEPT, FILLERS, GENERAL_DATES, JOINING, LIMITS, NEGATIONS,
            NUMBERS, OR, ORDERS, OTHER_THAN, has,
        },
    },
    lexicon::stemmed,
    schema::{Schema, is_form},
};
use agent_ground::words::{is_question_word, name_words, one_line, quoted_ranges};
use agent_index::{IndexedBase, entities::ExactMention};
use agent_kb::{
    FieldId, Kb, NodeId, RelationId, Tuple, TypeId,
    filter::{Check, Condition, matching},
    table::{
        dates::{MONTHS, as_year},
        value::{date, quantity},
    },
};
use agent_retrieve::AppliedConditions;

/// Maximum number of nodes sampled per type to determine the kinds of its fields.
const SAMPLE: usize = 32;
/// Minimum share of dates or numbers among the sampled values of a field of that kind.
const MIN_SHARE: f32 = 0.9;
/// Maximum distance in words from a date or number to the word that names its field. The word may
/// precede a date, and stand on either side of a number.
const MAX_FIELD_DISTANCE: usize = 3;
/// Maximum distance in words from a negation to the limit or date that it may negate.
const MAX_NEGATED: usize = 6;
/// A field counts as rarely filled if another field with the same meaning has more than this factor
/// times its number of values.
const FEW: u32 = 4;
/// Number of words after "which" or "what" that may name the requested type.
const MAX_ASKED: usize = 3;
/// After [`Conditions::apply`]: best score of the nodes that do not fulfil the conditions, as a
/// share of the lowest score of the nodes that do.
const OUTSIDE_SHARE: f32 = 0.5;
/// Maximum number of nodes that fulfil the conditions and are appended to a ranking without them.
const MAX_FULFILLED: usize = 1_000;
/// Share of the score that a node keeps if it lacks a value that a condition compares.
const UNKNOWN_SHARE: f32 = 0.5;

/// Whether a node fulfils all conditions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fulfilled {
    Yes,
    No,
    /// The node lacks a value that a condition compares, and fulfils all other conditions.
    Unknown,
}

/// The conditions of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The question without the words of conditions.
    pub rest: String,
    /// The question without conditions and excluded phrases, for programs and search.
    pub wanted: String,
    /// The conditions, in the order of the question.
    pub all: Vec<Condition>,
    /// `true` if the question asks for the newest nodes, `false` for the oldest; `None` for
    /// neither.
    pub newest_first: Option<bool>,
    /// Phrases that the names of answers should not have.
    excluded: Vec<Excluded>,
    /// Exclusions as written, including the negation; a node whose name contains one of them
    /// fulfils the conditions.
    literals: Vec<Vec<String>>,
}

/// Moves the nodes for which `holds` is true to the front; both parts keep their order. The scores
/// of the other nodes are scaled to lie below those of the front.
pub fn first_of(ranking: Vec<(NodeId, f32)>, holds: impl Fn(NodeId) -> bool) -> Vec<(NodeId, f32)> {
    let (first, others) = ranking.into_iter().partition(|pair| holds(pair.0));
    followed(first, others)
}

/// Appends `others` to the ranking `first`, with scores scaled to lie below those of `first`.
fn followed(mut first: Vec<(NodeId, f32)>, others: Vec<(NodeId, f32)>) -> Vec<(NodeId, f32)> {
    let (Some(least), Some(most)) = (first.last(), others.first()) else {
        first.extend(others);
        return first;
    };
    let least = least.1;
    let share = match most.1 > 0.0 && least > 0.0 {
        true => OUTSIDE_SHARE * least / most.1,
        false => 0.0,
    };
    first.extend(others.into_iter().map(|(node, score)| (node, score * share)));
    first
}

/// Kind of the values of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Date,
    Number,
}

/// A field with the types that have it.
struct Field {
    id: FieldId,
    kind: Kind,
    types: Vec<TypeId>,
    /// Number of sampled nodes with a value.
    n: u32,
}

/// A word of the question.
struct Word<'a> {
    range: Range<usize>,
    /// The word, folded; in English if it is in a phrase of [`languages`], and perhaps empty.
    folded: Cow<'a, str>,
    stem: String,
    /// Whether the word is in quotation marks or in a name of several words.
    is_in_name: bool,
}

/// State while the conditions of a question are read from left to right.
struct Reader<'a> {
    base: &'a IndexedBase,
    text: &'a str,
    words: Vec<Word<'a>>,
    mentions: Vec<ExactMention>,
    schema: Arc<Schema>,
    /// The types that the question asks for, if any.
    wanted: Option<Vec<TypeId>>,
    /// Fields of dates and numbers.
    fields: Arc<Vec<Field>>,
    /// The conditions so far, without texts.
    found: Conditions,
    /// Ranges of positions in `words` that belong to conditions.
    used: Vec<Range<usize>>,
    /// Ranges of positions in `words` that word search leaves out.
    negated: Vec<Range<usize>>,
}

impl Conditions {
    /// Reads the conditions of a question.
    pub fn read(base: &IndexedBase, text: &str) -> Self {
        let (ranges, words): (Vec<Range<usize>>, Vec<Cow<'_, str>>) = name_words(text).unzip();
        let english = languages::in_english(base.stems.languages(), &words);
        let mut reader = match english.iter().any(|word| may_begin(word)) {
            true => Reader::new(base, text, ranges, words, english),
            false => {
                let text = text.to_owned();
                return Self { rest: text.clone(), wanted: text, ..Self::default() };
            }
        };
        let mut at = 0;
        while at < reader.words.len() {
            at = reader.read_at(at).unwrap_or(at + 1);
        }
        let rest = reader.without(&reader.used);
        let wanted = reader.without(&[&*reader.used, &*reader.negated].concat());
        let wanted = if name_words(&wanted).next().is_none() { text.to_owned() } else { wanted };
        Self { rest, wanted, ..reader.found }
    }

    /// Removes all conditions; keeps the texts of the question.
    pub(crate) fn cleared(self) -> Self {
        Self { rest: self.rest, wanted: self.wanted, ..Self::default() }
    }

    /// Replaces the conditions by `texts`, in the syntax of [`agent_kb::filter`], and the excluded
    /// phrases by `excluded`. Ignores invalid texts, and conditions that no candidate fulfils.
    pub(crate) fn replaced(
        self,
        base: &IndexedBase,
        texts: &[String],
        excluded: &[String],
    ) -> Self {
        let kb = &base.kb;
        let is_candidate = |node: &NodeId| kb.is_candidate(*node);
        let may_hold = |condition: &Condition| {
            let fulfilled = matching(kb, std::slice::from_ref(condition));
            fulfilled.is_ok_and(|nodes| nodes.as_slice().iter().any(is_candidate))
        };
        let all = texts.iter().filter_map(|text| text.parse().ok()).filter(may_hold).collect();
        let excluded = excluded.iter().filter_map(|text| Excluded::new(base, text)).collect();
        Self { all, excluded, ..self.cleared() }
    }

    /// Returns a function that checks whether a node fulfils all conditions.
    fn holds<'a>(&'a self, base: &'a IndexedBase) -> impl Fn(NodeId) -> bool + use<'a> {
        let check = self.check(base);
        move |node| check(node) == Fulfilled::Yes
    }

    /// Returns a function that determines whether a node fulfils all conditions, or only lacks
    /// values that they compare.
    fn check<'a>(&'a self, base: &'a IndexedBase) -> impl Fn(NodeId) -> Fulfilled + use<'a> {
        let checks = self.all.iter().filter_map(|condition| Check::new(&base.kb, condition).ok());
        let checks: Vec<Check<'a>> = checks.collect();
        move |node| {
            if self.literals.iter().any(|words| is_named(base, node, words)) {
                return Fulfilled::Yes;
            }
            if self.excluded.iter().any(|phrase| phrase.excludes(base, node)) {
                return Fulfilled::No;
            }
            let failed: Vec<_> = checks.iter().filter(|check| !check.holds(node)).collect();
            match failed.iter().all(|check| check.is_unknown(node)) {
                true if failed.is_empty() => Fulfilled::Yes,
                true => Fulfilled::Unknown,
                false => Fulfilled::No,
            }
        }
    }

    /// Returns the nodes that fulfil all conditions; all nodes if none of them does.
    pub fn fulfilled(&self, base: &IndexedBase, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let holds = self.holds(base);
        let fulfilled: Vec<NodeId> = nodes.iter().copied().filter(|node| holds(*node)).collect();
        if fulfilled.is_empty() { nodes } else { fulfilled }
    }

    /// Describes the conditions, and counts the nodes of a ranking that fulfil all of them; `None`
    /// without conditions.
    pub fn applied(
        &self,
        base: &IndexedBase,
        ranking: &[(NodeId, f32)],
    ) -> Option<AppliedConditions> {
        let order =
            self.newest_first.map(|newest| if newest { "newest first" } else { "oldest first" });
        let excluded = self.excluded.iter().map(Excluded::condition);
        let all = self.all.iter().map(Condition::to_string).chain(excluded);
        let texts: Vec<String> = all.chain(order.map(str::to_owned)).collect();
        let holds = self.holds(base);
        let n_fulfilled = ranking.iter().filter(|pair| holds(pair.0)).count();
        let rest = self.wanted.clone();
        (!texts.is_empty()).then_some(AppliedConditions { texts, rest, n_fulfilled })
    }

    /// Moves the nodes that fulfil all conditions to the front of a ranking. A node that only lacks
    /// a value that a condition compares, such as a price, is moved there too, with half of its
    /// score, if a node of its type fulfils all conditions. The other nodes keep their order and
    /// get lower scores.
    pub fn apply(&self, base: &IndexedBase, ranking: Vec<(NodeId, f32)>) -> Vec<(NodeId, f32)> {
        if self.all.is_empty() && self.excluded.is_empty() {
            return ranking;
        }
        let check = self.check(base);
        let checked: Vec<Fulfilled> = ranking.iter().map(|pair| check(pair.0)).collect();
        let kind = |node: NodeId| base.kb.node_type(node);
        let all = || ranking.iter().zip(&checked);
        let fulfil = all().filter(|(_, fulfilled)| **fulfilled == Fulfilled::Yes);
        let kinds: BTreeSet<TypeId> = fulfil.map(|(pair, _)| kind(pair.0)).collect();
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for (&(node, score), fulfilled) in all() {
            match fulfilled {
                Fulfilled::Yes => first.push((node, score)),
                Fulfilled::Unknown if kinds.contains(&kind(node)) => {
                    let share = if score > 0.0 { UNKNOWN_SHARE } else { 1.0 };
                    first.push((node, score * share));
                }
                _ => others.push((node, score)),
            }
        }
        first.sort_by(|a, b| b.1.total_cmp(&a.1));
        followed(first, others)
    }

    /// If no node of a ranking fulfils the conditions, appends the candidates that do, ascending, if
    /// there are at most 1,000; only those of the types `asked`, unless it is empty. `employees
    /// hired in 2024` has no other words by which a search finds them.
    pub fn completed(
        &self,
        base: &IndexedBase,
        mut ranking: Vec<(NodeId, f32)>,
        asked: &[TypeId],
    ) -> Vec<(NodeId, f32)> {
        let holds = self.holds(base);
        if self.all.is_empty() || ranking.iter().any(|pair| holds(pair.0)) {
            return ranking;
        }
        let kb = &base.kb;
        let is_asked = |node: NodeId| asked.is_empty() || asked.contains(&kb.node_type(node));
        let fulfilled = matching(kb, &self.all).map(|nodes| nodes.as_slice().to_vec());
        let mut nodes = fulfilled.unwrap_or_default();
        nodes.retain(|&node| kb.is_candidate(node) && is_asked(node) && holds(node));
        if nodes.len() <= MAX_FULFILLED {
            let score = ranking.last().map_or(1.0, |last| last.1);
            ranking.extend(nodes.into_iter().map(|node| (node, score)));
        }
        ranking
    }

    /// Orders the nodes by date, undated nodes last, if the question asks for the newest or oldest;
    /// `None` otherwise, or if the type of the first node has no date field.
    pub fn by_date(&self, base: &IndexedBase, nodes: &[NodeId]) -> Option<Vec<NodeId>> {
        let newest_first = self.newest_first?;
        let kind = base.kb.node_type(*nodes.first()?);
        let fields = fields_of(base);
        let dated: Vec<&Field> = fields
            .iter()
            .filter(|field| field.kind == Kind::Date && field.types.contains(&kind))
            .collect();
        let field = most_general(&base.kb, &dated)?;
        let of = |&node: &NodeId| (base.kb.field(node, field).and_then(date_or_year), node);
        let (mut dates, undated): (Vec<_>, Vec<_>) =
            nodes.iter().map(of).partition(|pair| pair.0.is_some());
        dates.sort_by(|a, b| {
            let by_date = if newest_first { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) };
            by_date.then(a.1.cmp(&b.1))
        });
        Some(dates.into_iter().chain(undated).map(|pair| pair.1).collect())
    }
}

/// Whether a condition may begin with this word.
fn may_begin(word: &str) -> bool {
    let limits = LIMITS.iter().chain(&COMPARISONS).map(|pair| pair.1);
    let lists = limits.chain(ORDERS.map(|pair| pair.1)).chain([OTHER_THAN, EXCEPT]);
    let mut phrases = lists.flat_map(|phrases| phrases.split(", "));
    has(NEGATIONS, word)
        || ["no", "t", "between", "last", "first"].contains(&word)
        || MONTHS.contains(&word)
        || NUMBERS.contains(&word)
        || word.starts_with(|c: char| c.is_ascii_digit())
        || phrases.any(|phrase| phrase.split(' ').next() == Some(word))
}

fn date_or_year(text: &str) -> Option<String> {
    date(text).or_else(|| as_year(text.trim()).map(|_| text.trim().to_owned()))
}

/// Returns the date and number fields of a base; computed at first use.
fn fields_of(base: &IndexedBase) -> Arc<Vec<Field>> {
    base.derived(|base| sampled_fields(&base.kb))
}

/// Finds the date and number fields, each with its types, by the values of sampled nodes.
fn sampled_fields(kb: &Kb) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for at in 0..kb.types().len() {
        let of = TypeId(at as u16);
        let nodes = kb.nodes_of_type(of);
        let mut counts = vec![(0u32, 0u32, 0u32); kb.field_names().len()];
        for &node in nodes.iter().step_by((nodes.len() / SAMPLE).max(1)).take(SAMPLE) {
            for (FieldId(field), text) in kb.fields(node) {
                let Some((n, dates, numbers)) = counts.get_mut(usize::from(field)) else {
                    continue;
                };
                *n += 1;
                *dates += u32::from(date_or_year(text).is_some());
                *numbers += u32::from(quantity(text).is_some());
            }
        }
        for (field, (n, dates, numbers)) in counts.into_iter().enumerate() {
            let is_most = |part: u32| n > 0 && part as f32 >= MIN_SHARE * n as f32;
            let kind = match (is_most(dates), is_most(numbers)) {
                (true, _) => Kind::Date,
                (false, true) => Kind::Number,
                _ => continue,
            };
            let id = FieldId(field as u16);
            match fields.iter_mut().find(|known| (known.id, known.kind) == (id, kind)) {
                Some(known) => {
                    known.types.push(of);
                    known.n += n;
                }
                None => fields.push(Field { id, kind, types: vec![of], n }),
            }
        }
    }
    fields
}

/// Returns the field to which a date without a named field refers: the field whose name contains
/// the earliest entry of [`GENERAL_DATES`], ties by field id.
fn most_general(kb: &Kb, fields: &[&Field]) -> Option<FieldId> {
    let place = |field: &&&Field| {
        let name = kb.field_name(field.id).to_lowercase();
        let place = GENERAL_DATES.iter().position(|general| name.contains(general));
        (place.unwrap_or(GENERAL_DATES.len()), field.id)
    };
    fields.iter().min_by_key(place).map(|field| field.id)
}

/// Returns the types that a question asks for: the types named right after "which" or "what", else
/// the types that the question mentions first. Keeps only candidate types; `None` if there are
/// none.
fn wanted(base: &IndexedBase, schema: &Schema, words: &[Word<'_>]) -> Option<Vec<TypeId>> {
    let stems_from = |at: usize, n: usize| -> Vec<String> {
        let own = words.iter().skip(at).take(n).filter(|word| !word.is_in_name);
        let own = own.filter(|word| !is_question_word(&word.folded));
        own.map(|word| word.stem.clone()).collect()
    };
    let asks = words.iter().rposition(|word| ["which", "what"].contains(&word.folded.as_ref()));
    let asked = asks.and_then(|at| schema.first_mentioned(&stems_from(at + 1, MAX_ASKED)));
    let mut types = asked.or_else(|| schema.first_mentioned(&stems_from(0, words.len())))?;
    types.retain(|kind| base.kb.candidate_types().contains(kind));
    (!types.is_empty()).then_some(types)
}

impl<'a> Reader<'a> {
    /// `words` are the folded words of `text` at `ranges`, `english` the same in English.
    fn new(
        base: &'a IndexedBase,
        text: &'a str,
        ranges: Vec<Range<usize>>,
        words: Vec<Cow<'a, str>>,
        english: Vec<Cow<'a, str>>,
    ) -> Self {
        let mentions = base.entities.exact_mentions(text);
        let is_in_name = |at: usize| {
            let holds = |mention: &&ExactMention| mention.words.contains(&at);
            let mention = mentions.iter().find(holds);
            mention.is_some_and(|mention| mention.quoted || mention.words.len() > 1)
        };
        let quoted = quoted_ranges(text);
        let parts = ranges.into_iter().zip(words).zip(english).enumerate();
        let words = parts.map(|(at, ((range, word), english))| {
            let is_quoted = quoted.iter().any(|part| part.contains(&range.start));
            let is_in_name = is_quoted || is_in_name(at);
            let stem = base.stems.stem(&word).into_owned();
            Word { stem, is_in_name, folded: if is_in_name { word } else { english }, range }
        });
        let words: Vec<Word<'a>> = words.collect();
        let schema = Schema::of(base);
        let wanted = wanted(base, &schema, &words);
        let fields = fields_of(base);
        let (found, used, negated) = Default::default();
        Self { base, text, words, mentions, schema, wanted, fields, found, used, negated }
    }

    /// Whether a phrase begins at word `at`; no word of a name is part of it.
    fn is(&self, at: usize, phrase: &str) -> bool {
        phrase.split(' ').zip(at..).all(|(word, at)| self.is_any(at, word))
    }

    /// Whether word `at` is one of `words` and in no name.
    fn is_any(&self, at: usize, words: &str) -> bool {
        self.words.get(at).is_some_and(|word| !word.is_in_name && has(words, &word.folded))
    }

    /// Returns the number of words of the first of `phrases` that begins at word `at`.
    fn phrase_at(&self, at: usize, phrases: &str) -> Option<usize> {
        let phrase = phrases.split(", ").find(|phrase| self.is(at, phrase))?;
        Some(phrase.split(' ').count())
    }

    /// Returns the number of words of the first phrase of `table` that begins at word `at`, and its
    /// meaning.
    fn meaning_at<T: Copy>(&self, at: usize, table: &[(T, &str)]) -> Option<(usize, T)> {
        table.iter().find_map(|&(meaning, phrases)| Some((self.phrase_at(at, phrases)?, meaning)))
    }

    /// Returns the text between word `at` and the word before it; `None` at the ends.
    fn before(&self, at: usize) -> Option<&str> {
        let (before, word) = (self.words.get(at.checked_sub(1)?)?, self.words.get(at)?);
        self.text.get(before.range.end..word.range.start)
    }

    /// Whether a punctuation mark separates word `at` from the word before.
    fn is_cut(&self, at: usize) -> bool {
        self.before(at).is_some_and(|text| text.contains([',', ';', '.', ':', '?', '!', '(']))
    }

    /// Whether word `at` is the "t" of "n't".
    fn is_contracted(&self, at: usize) -> bool {
        self.is(at, "t")
            && matches!(self.before(at), Some("'" | "\u{2019}"))
            && at > 0
            && self.words[at - 1].folded.ends_with('n')
    }

    /// Whether a condition may end before word `at`: at the end of the question, at a punctuation
    /// mark, or before a function word.
    fn is_end(&self, at: usize) -> bool {
        self.is_cut(at)
            || self.words.get(at).is_none_or(|word| {
                is_question_word(&word.folded)
                    || [FILLERS, JOINING, OR, "and all only itself inclusive began"]
                        .iter()
                        .any(|of| self.is_any(at, of))
            })
    }

    /// Returns the number of words between word `at` and the negation before it; `None` if no
    /// negation that may apply to word `at` is among the [`MAX_NEGATED`] words before it.
    fn negated_before(&self, at: usize) -> Option<usize> {
        for n in 1..=MAX_NEGATED {
            let place = at.checked_sub(n)?;
            let is_used = self.used.iter().any(|range| range.contains(&place));
            if is_used || self.is_cut(place + 1) || self.words.get(place)?.is_in_name {
                return None;
            }
            let ends = |phrase: &str| {
                let start = (place + 1).checked_sub(phrase.split(' ').count());
                start.is_some_and(|start| self.is(start, phrase))
            };
            let is_phrase = [OTHER_THAN, EXCEPT].iter().any(|of| of.split(", ").any(ends));
            let is_negation = self.is_any(place, NEGATIONS) || self.is(place, "no");
            if is_negation || is_phrase || self.is_contracted(place) {
                return Some(n - 1);
            }
            if self.is(place, "but") {
                return None;
            }
        }
        None
    }

    /// Returns the position at which the limit at word `at` begins. If a negation reverses the
    /// limit, as in "doesn't cost more than", this is the position of the negation, otherwise `at`.
    /// `None` if a negation before the limit applies to something else; the limit must then not be
    /// read.
    fn limit_start(&self, at: usize) -> Option<usize> {
        let Some(n) = self.negated_before(at) else { return Some(at) };
        let start = at - n - 1;
        let is_of_limit = (at - n..at).all(|place| self.is_any(place, BEFORE_LIMITS));
        is_of_limit.then(|| start - usize::from(self.is_contracted(start)))
    }

    /// Reads a condition that begins at word `at`; returns the position after the condition, `None`
    /// if there is none.
    fn read_at(&mut self, at: usize) -> Option<usize> {
        if self.words.get(at)?.is_in_name {
            return None;
        }
        let read = self.read_dates(at).or_else(|| self.read_number(at));
        read.or_else(|| self.read_order(at)).or_else(|| self.read_absence(at))
    }

    /// Finds the field of kind `kind` that is named by a word shortly before `at`, or by a word at
    /// or shortly after `after`; for dates without such a word, the most general field, unless the
    /// question names no type and types have different date fields. Returns the position of the
    /// condition's first word and the left side of the condition.
    fn named_field(
        &self,
        at: usize,
        after: usize,
        kind: Kind,
        synonyms: &[(&str, &str)],
    ) -> Option<(usize, String)> {
        let kb = &self.base.kb;
        let fields: Vec<&Field> = self.fields.iter().filter(|field| field.kind == kind).collect();
        let is_marked = |place: &usize| {
            self.mentions.iter().any(|mention| mention.marked && mention.words.contains(place))
        };
        let before = (at.saturating_sub(MAX_FIELD_DISTANCE)..at).rev();
        let behind = after..(after + usize::from(after > at) * MAX_FIELD_DISTANCE);
        // On each side, a name ends the words that belong to the condition.
        let before = before.take_while(|place| !is_marked(place));
        for place in before.chain(behind.take_while(|place| !is_marked(place))) {
            let Some(word) = self.words.get(place).filter(|word| !word.is_in_name) else {
                continue;
            };
            let means = |field: &&&Field| self.is_named(field, word, synonyms);
            // "price" is preferred to "sale price"; a field that far more nodes have is preferred
            // to both.
            let reachable =
                fields.iter().filter(means).filter(|field| self.path_to(field).is_some());
            let most = reachable.clone().map(|field| field.n).max().unwrap_or_default();
            let best = reachable.min_by_key(|field| {
                let is_more = stemmed(&self.base.stems, kb.field_name(field.id)).len() > 1;
                (!self.is_own(field), field.n * FEW < most, is_more, Reverse(field.n), field.id)
            });
            if let Some(field) = best {
                return Some((place.min(at), self.path_to(field)?));
            }
        }
        let reachable = |field: &&&Field| self.path_to(field).is_some();
        let dates: Vec<&Field> = match kind {
            Kind::Date => fields.iter().filter(reachable).copied().collect(),
            Kind::Number => Vec::new(),
        };
        let own: Vec<&Field> = dates.iter().filter(|field| self.is_own(field)).copied().collect();
        let id = most_general(kb, if own.is_empty() { &dates } else { &own })?;
        // Without a named type, a date field that some dated candidate types lack is not used:
        // `work on it in 2017`, where documents are created and work has a date too.
        let has_field =
            |kind: &TypeId| dates.iter().any(|field| field.id == id && field.types.contains(kind));
        let is_dated = |kind: &&TypeId| dates.iter().any(|field| field.types.contains(kind));
        if self.wanted.is_none() && !kb.candidate_types().iter().filter(is_dated).all(has_field) {
            return None;
        }
        let field = fields.iter().find(|field| field.id == id)?;
        Some((at, self.path_to(field)?))
    }

    /// Whether a word is a form of a word of the field's name, or one of its `synonyms`.
    fn is_named(&self, field: &Field, word: &Word<'_>, synonyms: &[(&str, &str)]) -> bool {
        let own = stemmed(&self.base.stems, self.base.kb.field_name(field.id));
        let is_of = |row: &&(&str, &str)| own.iter().any(|own| *own == self.base.stems.stem(row.0));
        own.iter().any(|own| !is_question_word(own) && is_form(own, &word.stem))
            || synonyms.iter().filter(is_of).any(|row| has(row.1, &word.folded))
    }

    /// Whether a wanted type has this field.
    fn is_own(&self, field: &Field) -> bool {
        field.types.iter().any(|of| self.wanted_types().contains(of))
    }

    /// Returns the left side of a condition on a field: the field's name or, if only a type related
    /// to the wanted type has the field, `type.field`.
    fn path_to(&self, field: &Field) -> Option<String> {
        let kb = &self.base.kb;
        let name = kb.field_name(field.id);
        if self.is_own(field) {
            return Some(name.to_owned());
        }
        let wanted = self.wanted.as_deref()?;
        let of = field.types.iter().find(|&&of| self.is_beside(wanted, of))?;
        Some(format!("{}.{name}", kb.type_name(*of)))
    }

    /// Returns the relations between any wanted type and the type `of`.
    fn relations_to(&self, wanted: &[TypeId], of: TypeId) -> BTreeSet<RelationId> {
        let joins = |tuple: &&Tuple| {
            (wanted.contains(&tuple.source) && tuple.target == of)
                || (wanted.contains(&tuple.target) && tuple.source == of)
        };
        self.base.kb.tuples().iter().filter(joins).map(|tuple| tuple.relation).collect()
    }

    /// Returns the types that the question asks for; all candidate types if it names none.
    fn wanted_types(&self) -> &[TypeId] {
        self.wanted.as_deref().unwrap_or(self.base.kb.candidate_types())
    }

    fn is_beside(&self, wanted: &[TypeId], of: TypeId) -> bool {
        !self.relations_to(wanted, of).is_empty()
    }

    /// Marks the words of a condition, and the words that join them to the question, so that
    /// [`Self::rest`] omits them.
    fn use_words(&mut self, mut start: usize, end: usize) {
        let is_empty = |at: usize| self.words.get(at).is_some_and(|word| word.folded.is_empty());
        while start > 0 && (self.is_any(start - 1, JOINING) || is_empty(start - 1)) {
            start -= 1;
        }
        // A question that begins with a joining word keeps it.
        let start =
            if start == 0 { start + usize::from(self.is_any(0, "which who what")) } else { start };
        self.used.push(start..end);
    }

    /// Returns the text without the words at the positions in `ranges`.
    fn without(&self, ranges: &[Range<usize>]) -> String {
        if ranges.is_empty() {
            return self.text.to_owned();
        }
        let is_used = |at: usize| ranges.iter().any(|range| range.contains(&at));
        let mut rest = String::new();
        let mut from = 0;
        for (at, word) in self.words.iter().enumerate() {
            if is_used(at) {
                if !is_used(at.wrapping_sub(1)) {
                    rest.push_str(&self.text[from..word.range.start]);
                }
                from = word.range.end;
            }
        }
        rest.push_str(&self.text[from..]);
        one_line(&rest)
    }
}
