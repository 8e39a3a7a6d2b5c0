//! Conditions that a question states: dates, numbers and absence.
//!
//! | in the question | condition |
//! | --- | --- |
//! | created in March 2025, before 2020, between 5 May 2024 and June 2024, in Q1 2025 | `created=2025-03` ... |
//! | price under 20, more than 50 reviews | `price<20`, `reviews>50` |
//! | not closed, without Anna Ode, that do not cause dizziness | `status!=closed`, `drug_causes_effect!=dizziness` |
//! | without a product, not closed (a date) | `product!=*`, `closed!=*` |
//! | other than The Silent Harbor | `name!=The Silent Harbor` |
//! | newest, oldest | answers of a plain question by date |
//!
//! Each condition has the syntax of [`agent_kb::filter`], in which it is also shown to the user. A
//! phrase counts only if the base has the node that it names, or a field of dates or numbers for
//! it. The rest of the question, without the words of conditions, may be a plain question. Nodes
//! that fulfil all conditions come first; no node is removed, since a phrase may be misread.
//! English only; no date is relative to today.

mod phrases;

use std::{borrow::Cow, collections::BTreeSet, ops::Range};

use crate::bundle::{
    conditions::phrases::{
        COMPARISONS, DATE_WORDS, FILLERS, GENERAL_DATES, HAVING, IN, JOINING, LIMITS, NEGATIONS,
        OTHER_THAN,
    },
    lexicon::stemmed,
    schema::{Schema, is_form},
};
use agent_ground::words::{is_question_word, name_words, quoted_ranges};
use agent_index::{IndexedBase, entities::ExactMention};
use agent_kb::{
    FieldId, Kb, NodeId, RelationId, Tuple, TypeId,
    filter::{Check, Condition, Operator},
    table::{
        dates::{DateSpan, MONTHS, as_year, date_at},
        value::{category, date, quantity},
    },
};
use agent_retrieve::AppliedConditions;

/// Maximum number of nodes sampled per type to determine the kinds of its fields.
const SAMPLE: usize = 32;
/// Minimum share of dates or numbers among the sampled values of a field of that kind.
const MIN_SHARE: f32 = 0.9;
/// Maximum distance, in words, of the word that names the field: before a date, or on either side
/// of a number.
const MAX_FIELD_DISTANCE: usize = 3;
/// Maximum number of words between a negation and a name.
const MAX_BETWEEN: usize = 4;
/// After [`Conditions::apply`], the best score of the nodes that do not fulfil the conditions, as a
/// share of the lowest score of those that do.
const OUTSIDE_SHARE: f32 = 0.5;

/// The conditions of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The question without the words of conditions.
    pub rest: String,
    /// The conditions, in the order of the question.
    pub all: Vec<Condition>,
    /// `true` if the question asks for the newest nodes, `false` for the oldest; `None` for
    /// neither.
    pub newest_first: Option<bool>,
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
}

/// A word of the question.
struct Word<'a> {
    range: Range<usize>,
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
    schema: Schema,
    /// The types that the question mentions first, if any.
    wanted: Option<Vec<TypeId>>,
    /// Fields of dates and numbers.
    fields: Vec<Field>,
    found: Vec<Condition>,
    /// Ranges of positions in `words` that belong to conditions.
    used: Vec<Range<usize>>,
    newest_first: Option<bool>,
}

impl Conditions {
    /// Reads the conditions of a question.
    pub fn read(base: &IndexedBase, text: &str) -> Self {
        let words: Vec<(Range<usize>, Cow<'_, str>)> = name_words(text).collect();
        let mut reader = match words.iter().any(|(_, word)| may_begin(word)) {
            true => Reader::new(base, text, words),
            false => return Self { rest: text.to_owned(), ..Self::default() },
        };
        let mut at = 0;
        while at < reader.words.len() {
            at = reader.read_at(at).unwrap_or(at + 1);
        }
        let rest = reader.rest();
        Self { rest, all: reader.found, newest_first: reader.newest_first }
    }

    /// Returns a function that checks whether a node fulfils all conditions.
    fn holds<'a>(&'a self, kb: &'a Kb) -> impl Fn(NodeId) -> bool + use<'a> {
        let checks = self.all.iter().filter_map(|condition| Check::new(kb, condition).ok());
        let checks: Vec<Check<'a>> = checks.collect();
        move |node| checks.iter().all(|check| check.holds(node))
    }

    /// Keeps the nodes that fulfil all conditions; all nodes if none does.
    pub fn fulfilled(&self, kb: &Kb, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let holds = self.holds(kb);
        let fulfilled: Vec<NodeId> = nodes.iter().copied().filter(|node| holds(*node)).collect();
        if fulfilled.is_empty() { nodes } else { fulfilled }
    }

    /// Describes the conditions, and counts the nodes of a ranking that fulfil all of them; `None`
    /// without conditions.
    pub fn applied(&self, kb: &Kb, ranking: &[(NodeId, f32)]) -> Option<AppliedConditions> {
        let order =
            self.newest_first.map(|newest| if newest { "newest first" } else { "oldest first" });
        let texts: Vec<String> =
            self.all.iter().map(Condition::to_string).chain(order.map(str::to_owned)).collect();
        let holds = self.holds(kb);
        let n_fulfilled = ranking.iter().filter(|pair| holds(pair.0)).count();
        let rest = self.rest.clone();
        (!texts.is_empty()).then_some(AppliedConditions { texts, rest, n_fulfilled })
    }

    /// Moves the nodes that fulfil all conditions to the front of a ranking. The other nodes keep
    /// their order and get lower scores.
    pub fn apply(&self, kb: &Kb, ranking: Vec<(NodeId, f32)>) -> Vec<(NodeId, f32)> {
        if self.all.is_empty() {
            return ranking;
        }
        let holds = self.holds(kb);
        let (mut first, others): (Vec<_>, Vec<_>) =
            ranking.into_iter().partition(|pair| holds(pair.0));
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

    /// Orders the nodes by date, undated nodes last, if the question asks for the newest or oldest;
    /// `None` otherwise, or if the type of the first node has no field of dates.
    pub fn by_date(&self, base: &IndexedBase, nodes: &[NodeId]) -> Option<Vec<NodeId>> {
        let newest_first = self.newest_first?;
        let kind = base.kb.node_type(*nodes.first()?);
        let fields = fields_of(&base.kb);
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
    let begins = |phrase: &&[&str]| phrase.first() == Some(&word);
    let limits = LIMITS.iter().chain(&COMPARISONS).map(|pair| pair.0);
    NEGATIONS.contains(&word)
        || ["no", "t", "between", "newest", "latest", "recent", "oldest", "earliest"]
            .contains(&word)
        || MONTHS.contains(&word)
        || as_year(word).is_some()
        || limits.chain(OTHER_THAN).any(|phrase| begins(&phrase))
}

fn date_or_year(text: &str) -> Option<String> {
    date(text).or_else(|| as_year(text.trim()).map(|_| text.trim().to_owned()))
}

/// Finds the fields of dates and numbers, each with its types, by the values of sampled nodes.
fn fields_of(kb: &Kb) -> Vec<Field> {
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
                Some(known) => known.types.push(of),
                None => fields.push(Field { id, kind, types: vec![of] }),
            }
        }
    }
    fields
}

/// Returns the field to which a date without a named field refers: the first by [`GENERAL_DATES`].
fn most_general(kb: &Kb, fields: &[&Field]) -> Option<FieldId> {
    let name = |field: &Field| kb.field_names().get(usize::from(field.id.0)).map(String::as_str);
    let place = |field: &&&Field| {
        let name = name(field).unwrap_or_default();
        let place = GENERAL_DATES.iter().position(|general| name.contains(general));
        (place.unwrap_or(GENERAL_DATES.len()), field.id)
    };
    fields.iter().min_by_key(place).map(|field| field.id)
}

impl<'a> Reader<'a> {
    fn new(base: &'a IndexedBase, text: &'a str, words: Vec<(Range<usize>, Cow<'a, str>)>) -> Self {
        let mentions = base.entities.exact_mentions(text);
        let is_in_name = |at: usize| {
            let holds = |mention: &&ExactMention| mention.words.contains(&at);
            let mention = mentions.iter().find(holds);
            mention.is_some_and(|mention| mention.quoted || mention.words.len() > 1)
        };
        let quoted = quoted_ranges(text);
        let word = |(at, (range, folded)): (usize, (Range<usize>, Cow<'a, str>))| Word {
            stem: base.stems.stem(&folded).into_owned(),
            is_in_name: is_in_name(at) || quoted.iter().any(|part| part.contains(&range.start)),
            folded,
            range,
        };
        let words: Vec<Word<'a>> = words.into_iter().enumerate().map(word).collect();
        let schema = Schema::new(base);
        let stems: Vec<String> =
            words.iter().filter(|word| !word.is_in_name).map(|word| word.stem.clone()).collect();
        let wanted = schema.first_mentioned(&stems);
        let fields = fields_of(&base.kb);
        let (found, used, newest_first) = Default::default();
        Self { base, text, words, mentions, schema, wanted, fields, found, used, newest_first }
    }

    fn is(&self, at: usize, phrase: &[&str]) -> bool {
        let own = self.words.get(at..at + phrase.len()).unwrap_or_default();
        own.len() == phrase.len()
            && own
                .iter()
                .zip(phrase)
                .all(|(word, wanted)| !word.is_in_name && word.folded == *wanted)
    }

    fn is_any(&self, at: usize, of: &[&str]) -> bool {
        of.iter().any(|one| self.is(at, &[one]))
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

    /// Reads "in March 2025", "since 2020", "between 5 May and 7 May 2024", "from 2019 to 2021".
    fn read_dates(&mut self, at: usize) -> Option<usize> {
        let two = [("between", "and"), ("from", "to"), ("from", "until")];
        for (first, second) in two {
            if self.is(at, &[first])
                && let Some((from, next)) = self.date_at(at + 1)
                && self.is(next, &[second])
                && let Some((to, end)) = self.date_at(next + 1)
            {
                let parts = [(Operator::AtLeast, from.from), (Operator::AtMost, to.to)];
                return self.put_dates(at, end, parts);
            }
        }
        for (phrase, operator) in LIMITS {
            if self.is(at, phrase)
                && let Some((span, end)) = self.date_at(at + phrase.len())
            {
                let limit = match operator {
                    Operator::AtMost | Operator::More => span.to,
                    _ => span.from,
                };
                return self.put_dates(at, end, [(operator, limit)]);
            }
        }
        let has_word = self.is_any(at, &IN);
        let (span, end) = self.date_at(at + usize::from(has_word))?;
        // A number of four digits alone need not be a year.
        if !has_word && span.from.len() == 4 {
            return None;
        }
        match span.from == span.to {
            true => self.put_dates(at, end, [(Operator::Is, span.from)]),
            false => {
                let parts = [(Operator::AtLeast, span.from), (Operator::AtMost, span.to)];
                self.put_dates(at, end, parts)
            }
        }
    }

    /// Parses a date that begins at word `at`; returns the date and the position after it.
    fn date_at(&self, at: usize) -> Option<(DateSpan, usize)> {
        let own = self.words.iter();
        let words = own.map(|word| {
            (word.range.clone(), if word.is_in_name { "" } else { word.folded.as_ref() })
        });
        let words: Vec<(Range<usize>, &str)> = words.collect();
        date_at(self.text, &words, at)
    }

    /// Adds conditions on a field of dates.
    fn put_dates<const N: usize>(
        &mut self,
        at: usize,
        end: usize,
        parts: [(Operator, String); N],
    ) -> Option<usize> {
        let (start, field) = self.named_field(at, at, Kind::Date, &DATE_WORDS)?;
        for (operator, value) in parts {
            self.found.push(Condition::new(field.clone(), operator, vec![value]));
        }
        self.use_words(start, end);
        Some(end)
    }

    /// Finds the field of kind `kind` that a word shortly before `at`, or a word at or shortly
    /// after `after`, names; for dates without such a word, the most general field. Returns the
    /// position of the condition's first word and the left side of the condition.
    fn named_field(
        &self,
        at: usize,
        after: usize,
        kind: Kind,
        synonyms: &[(&str, &[&str])],
    ) -> Option<(usize, String)> {
        let kb = &self.base.kb;
        let name = |field: &Field| kb.field_names()[usize::from(field.id.0)].as_str();
        let fields: Vec<&Field> = self.fields.iter().filter(|field| field.kind == kind).collect();
        let is_marked = |place: &usize| {
            self.mentions.iter().any(|mention| mention.marked && mention.words.contains(place))
        };
        let before = (at.saturating_sub(MAX_FIELD_DISTANCE)..at).rev();
        let behind = after..(after + usize::from(after > at) * MAX_FIELD_DISTANCE);
        // A name ends the words of each side that belong to the condition.
        let before = before.take_while(|place| !is_marked(place));
        for place in before.chain(behind.take_while(|place| !is_marked(place))) {
            let Some(word) = self.words.get(place).filter(|word| !word.is_in_name) else {
                continue;
            };
            let means = |field: &&&Field| {
                let own = stemmed(&self.base.stems, name(field));
                let is_of = |row: &&(&str, &[&str])| {
                    own.iter().any(|own| *own == self.base.stems.stem(row.0))
                };
                own.iter().any(|own| !is_question_word(own) && is_form(own, &word.stem))
                    || synonyms
                        .iter()
                        .filter(is_of)
                        .any(|row| row.1.contains(&word.folded.as_ref()))
            };
            let mut own = fields.iter().filter(means);
            if let Some(field) = own.next() {
                // "price" of a product is preferred to "sale price" of an offer.
                let path = own.chain([field]).find_map(|field| self.path_to(field));
                return Some((place.min(at), path?));
            }
        }
        let reachable = |field: &&&Field| self.path_to(field).is_some();
        let dates: Vec<&Field> = match kind {
            Kind::Date => fields.iter().filter(reachable).copied().collect(),
            Kind::Number => Vec::new(),
        };
        let own: Vec<&Field> = dates.iter().filter(|field| self.is_own(field)).copied().collect();
        let id = most_general(kb, if own.is_empty() { &dates } else { &own })?;
        let field = fields.iter().find(|field| field.id == id)?;
        Some((at, self.path_to(field)?))
    }

    /// Whether a wanted type has this field.
    fn is_own(&self, field: &Field) -> bool {
        let candidates = self.base.kb.candidate_types();
        let wanted = self.wanted.as_deref().unwrap_or(candidates);
        field.types.iter().any(|of| wanted.contains(of))
    }

    /// Returns the left side of a condition on a field: the field's name or, if only a type related
    /// to the wanted type has the field, `type.field`.
    fn path_to(&self, field: &Field) -> Option<String> {
        let kb = &self.base.kb;
        let name = kb.field_names().get(usize::from(field.id.0))?;
        if self.is_own(field) {
            return Some(name.clone());
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

    fn is_beside(&self, wanted: &[TypeId], of: TypeId) -> bool {
        !self.relations_to(wanted, of).is_empty()
    }

    /// Reads "price under 20", "more than 50 reviews", "rated at least 4.5".
    fn read_number(&mut self, at: usize) -> Option<usize> {
        let own = COMPARISONS.iter().find(|(phrase, _)| self.is(at, phrase));
        let &(phrase, operator) = own?;
        let first = at + phrase.len();
        let start = self.words.get(first)?.range.start;
        let written = self.text[start..].split_whitespace().next().unwrap_or_default();
        let written = written.trim_end_matches(|c: char| !c.is_alphanumeric());
        let number = quantity(written)?.number;
        let n = self.words[first..]
            .iter()
            .take_while(|word| word.range.start < start + written.len())
            .count();
        let after = first + n;
        let rows: [(&str, &[&str]); 2] = [
            ("price", &["cost", "costs", "costing", "dollars", "euros"]),
            ("rating", &["rated", "stars"]),
        ];
        let (begin, field) = self.named_field(at, after, Kind::Number, &rows)?;
        let own = stemmed(&self.base.stems, &field);
        let is_own = |word: &Word<'_>| own.iter().any(|own| is_form(own, &word.stem));
        let end = after + usize::from(self.words.get(after).is_some_and(is_own));
        self.found.push(Condition::new(field, operator, vec![number.to_string()]));
        self.use_words(begin, end);
        Some(end)
    }

    /// Reads "newest", "latest", "most recent", "oldest", "earliest".
    fn read_order(&mut self, at: usize) -> Option<usize> {
        let phrases: [(&[&str], bool); 5] = [
            (&["most", "recent"], true),
            (&["newest"], true),
            (&["latest"], true),
            (&["oldest"], false),
            (&["earliest"], false),
        ];
        let &(phrase, newest_first) = phrases.iter().find(|(phrase, _)| self.is(at, phrase))?;
        let is_dated = |field: &&Field| field.kind == Kind::Date && self.is_own(field);
        self.fields.iter().find(is_dated)?;
        self.newest_first = Some(newest_first);
        self.used.push(at..at + phrase.len());
        Some(at + phrase.len())
    }

    /// Reads "not closed", "without Anna Ode", "other than The Silent Harbor", "without a product".
    fn read_absence(&mut self, at: usize) -> Option<usize> {
        if let Some(phrase) = OTHER_THAN.iter().find(|phrase| self.is(at, phrase)) {
            let mention = self.mention_at(at + phrase.len())?;
            let (name, end) = (self.base.kb.name(*mention.nodes.first()?), mention.words.end);
            self.found.push(Condition::new("name", Operator::IsNot, vec![name.to_owned()]));
            self.use_words(at, end);
            return Some(end);
        }
        let is_short = self.is(at, &["t"]) && at > 0 && self.words[at - 1].folded.ends_with('n');
        let is_no = self.is(at, &["no"]) && at > 0 && self.is_any(at - 1, &HAVING);
        if !is_short && !is_no && !self.is_any(at, &NEGATIONS) {
            return None;
        }
        let start = at - usize::from(is_short);
        let mut between: Vec<&str> = Vec::new();
        let mut next = at + 1;
        let name = loop {
            if let Some(mention) = self.mention_at(next) {
                break Some(mention);
            }
            let Some(word) = self.words.get(next).filter(|word| !word.is_in_name) else {
                break None;
            };
            let is_known = self.schema.says(&word.stem) || self.schema.is_synonym(&word.stem);
            if between.len() == MAX_BETWEEN
                || !(is_known || FILLERS.contains(&word.folded.as_ref()))
            {
                break None;
            }
            between.push(&word.stem);
            next += 1;
        };
        let Some(mention) = name else { return self.read_lack(start, at + 1) };
        let field = self.absent_side(&mention, &between)?;
        let kb = &self.base.kb;
        let mut values = vec![kb.name(*mention.nodes.first()?).to_owned()];
        let mut end = mention.words.end;
        // "not low or medium".
        while self.is_any(end, &["or", "and", "nor"])
            && let Some(other) = self.mention_at(end + 1)
            && self.absent_side(&other, &between).as_ref() == Some(&field)
        {
            values.push(kb.name(*other.nodes.first()?).to_owned());
            end = other.words.end;
        }
        self.found.push(Condition::new(field, Operator::IsNot, values));
        self.use_words(start, end);
        Some(end)
    }

    /// Reads the absence of any neighbour of a type, or of a field: "without a product".
    fn read_lack(&mut self, start: usize, mut at: usize) -> Option<usize> {
        while self.is_any(at, &["a", "an", "the", "any", "been", "yet"]) {
            at += 1;
        }
        let stems: Vec<&String> = self.words.get(at..)?.iter().map(|word| &word.stem).collect();
        let kb = &self.base.kb;
        let wanted = self.wanted.as_deref()?;
        let spelled = |name: &str| {
            let own = stemmed(&self.base.stems, name);
            let is_own = !own.is_empty()
                && own.len() <= stems.len()
                && own.iter().zip(&stems).all(|(own, stem)| own == *stem);
            is_own.then_some(own.len())
        };
        let types = (0..kb.types().len()).map(|at| TypeId(at as u16));
        let beside = types.filter(|&of| !wanted.contains(&of) && self.is_beside(wanted, of));
        let names: BTreeSet<&str> = beside.map(|of| kb.type_name(of)).collect();
        let fields = kb.field_names().iter().map(String::as_str);
        let (name, n) = names
            .into_iter()
            .chain(fields)
            .find_map(|name| Some((name.to_owned(), spelled(name)?)))?;
        self.found.push(Condition::new(name, Operator::IsNot, vec!["*".to_owned()]));
        self.use_words(start, at + n);
        Some(at + n)
    }

    /// Returns the mention that begins at word `at`. If any of its nodes have exactly this name,
    /// nodes that only have it as an alias are dropped.
    fn mention_at(&self, at: usize) -> Option<ExactMention> {
        let found = self.mentions.iter().find(|mention| mention.words.start == at)?;
        let (first, last) = (self.words.get(at)?, self.words.get(found.words.end.checked_sub(1)?)?);
        let written = category(self.text.get(first.range.start..last.range.end)?);
        let is_named = |node: &NodeId| category(self.base.kb.name(*node)) == written;
        let named: Vec<NodeId> = found.nodes.iter().copied().filter(is_named).collect();
        let nodes = if named.is_empty() { found.nodes.clone() } else { named };
        Some(ExactMention { nodes, ..found.clone() })
    }

    /// Returns the left side of the condition that a named node is absent: the relation that the
    /// words between negation and name state, else the node's type. If no relation connects the
    /// wanted type and that type, returns `type.field` of a type between them.
    fn absent_side(&self, mention: &ExactMention, between: &[&str]) -> Option<String> {
        let kb = &self.base.kb;
        let kinds: BTreeSet<TypeId> =
            mention.nodes.iter().map(|&node| kb.node_type(node)).collect();
        let candidates = kb.candidate_types();
        let wanted = self.wanted.as_deref().unwrap_or(candidates);
        if let Some(&kind) = kinds.iter().find(|&&kind| self.is_beside(wanted, kind)) {
            let own = self.relations_to(wanted, kind);
            let said = |relation: &&RelationId| {
                between.iter().any(|stem| self.schema.relation_means(**relation, stem))
            };
            let named: Vec<&RelationId> = own.iter().filter(said).collect();
            return Some(match named.as_slice() {
                &[&only] if own.len() > 1 => kb.relations()[usize::from(only.0)].clone(),
                _ => kb.type_name(kind).to_owned(),
            });
        }
        let middle = (0..kb.types().len()).map(|at| TypeId(at as u16)).find(|&middle| {
            self.is_beside(wanted, middle)
                && kinds.iter().any(|&kind| self.is_beside(&[middle], kind))
        })?;
        let kind = kinds.into_iter().find(|&kind| self.is_beside(&[middle], kind))?;
        let field = kb.field_names().iter().find(|name| *name == kb.type_name(kind))?;
        Some(format!("{}.{field}", kb.type_name(middle)))
    }

    /// Marks the words of a condition, and the words that join them to the question, so that
    /// [`Self::rest`] omits them.
    fn use_words(&mut self, mut start: usize, end: usize) {
        while start > 0 && self.is_any(start - 1, &JOINING) {
            start -= 1;
        }
        // A question that begins with a joining word keeps it.
        let start = if start == 0 {
            start + usize::from(self.is_any(0, &["which", "who", "what"]))
        } else {
            start
        };
        self.used.push(start..end);
    }

    /// Returns the text without the words of conditions.
    fn rest(&self) -> String {
        let is_used = |at: usize| self.used.iter().any(|range| range.contains(&at));
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
        rest.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use super::*;
    use agent_testing::base_of;
    use serde_json::json;

    /// Tickets of two people about two products, with a status, two dates, hours and perhaps no
    /// product.
    fn desk() -> Arc<IndexedBase> {
        static BASE: LazyLock<Arc<IndexedBase>> = LazyLock::new(|| {
            let person = |id: u32, name: &str, unit: &str, hired: &str| {
                let details = json!({"department": unit, "hired": hired});
                json!({"id": id, "type": "employee", "name": name, "details": details})
            };
            let mut nodes = vec![
                person(0, "Anna Ode", "Purchasing", "2019-03-01"),
                person(1, "Max Behr", "Legal", "2010-07-15"),
            ];
            let others = [
                (2, "open", "status"),
                (3, "closed", "status"),
                (4, "Lumen Router 500", "product"),
                (5, "Fjord Scanner 650", "product"),
                (6, "Purchasing", "department"),
                (7, "Legal", "department"),
            ];
            let other = |(id, name, kind)| json!({"id": id, "type": kind, "name": name});
            nodes.extend(others.map(other));
            let mut edges = "0\thas_department\t6\n1\thas_department\t7\n".to_owned();
            for at in 0..8 {
                let id = at + 8;
                let created = format!("2025-{:02}-10", at + 1);
                let mut details = json!({"created": created, "hours": at.to_string()});
                if at % 2 == 1 {
                    details["closed"] = format!("2025-{:02}-20", at + 2).into();
                }
                let name = format!("Problem {at}");
                nodes.push(json!({"id": id, "type": "ticket", "name": name, "details": details}));
                edges +=
                    &format!("{id}\trequested_by\t{}\n{id}\thas_status\t{}\n", at / 4, 2 + at % 2);
                if at > 1 {
                    edges += &format!("{id}\tabout\t{}\n", 4 + at % 3 % 2);
                }
            }
            let nodes: Vec<String> = nodes.iter().map(|node| format!("{node}\n")).collect();
            let nodes = nodes.concat();
            base_of(&nodes, &edges, "ticket")
        });
        BASE.clone()
    }

    /// Reads a question: its conditions, the rest of its text, and its order by date.
    fn read(text: &str) -> (Vec<String>, String, Option<bool>) {
        let found = Conditions::read(&desk(), text);
        (found.all.iter().map(Condition::to_string).collect(), found.rest, found.newest_first)
    }

    #[test]
    fn what_a_question_states_becomes_conditions() {
        for (text, conditions, rest) in [
            ("tickets created in March 2025", "created=2025-03", "tickets"),
            ("tickets from 5 March 2025 by Anna Ode", "created=2025-03-05", "tickets by Anna Ode"),
            (
                "tickets by Anna Ode opened on March 5th, 2025",
                "created=2025-03-05",
                "tickets by Anna Ode",
            ),
            ("tickets that were closed before 2025-03", "closed<2025-03", "tickets"),
            ("tickets closed on 20.03.2025?", "closed=2025-03-20", "tickets ?"),
            ("tickets since 2025", "created>=2025", "tickets"),
            (
                "tickets between March 2025 and May 2025",
                "created>=2025-03 created<=2025-05",
                "tickets",
            ),
            ("tickets created in Q1 2025", "created>=2025-01 created<=2025-03", "tickets"),
            ("tickets of people hired after 2012", "employee.hired>2012", "tickets of people"),
            ("tickets with more than 3 hours", "hours>3", "tickets"),
            ("tickets whose hours are at least 2", "hours>=2", "tickets"),
            (
                "tickets about the Lumen Router 500 that are not closed",
                "status!=closed",
                "tickets about the Lumen Router 500",
            ),
            ("tickets that aren't closed or open", "status!=closed,open", "tickets"),
            ("tickets not requested by Anna Ode", "employee!=Anna Ode", "tickets"),
            (
                "tickets of people not in Purchasing",
                "employee.department!=Purchasing",
                "tickets of people",
            ),
            ("tickets by Anna Ode without a product", "product!=*", "tickets by Anna Ode"),
            ("tickets other than Problem 3 by Anna Ode", "name!=Problem 3", "tickets by Anna Ode"),
        ] {
            let (found, left, _) = read(text);
            assert_eq!((found.join(" ").as_str(), left.as_str()), (conditions, rest), "{text}");
        }
        assert_eq!(
            read("the newest tickets by Anna Ode"),
            (vec![], "the tickets by Anna Ode".to_owned(), Some(true))
        );
    }

    #[test]
    fn what_the_base_does_not_have_stays_in_the_question() {
        for text in [
            "tickets about model 2025",
            "tickets in March by Anna Ode",
            "not just any tickets",
            "tickets that are not urgent",
            "more than a feeling",
            "\"not closed\"",
            "tickets under 20 euros",
            "is there something without much noise",
        ] {
            let (found, rest, newest) = read(text);
            assert!(
                found.is_empty() && newest.is_none() && rest == text,
                "{text}: {found:?} {rest}"
            );
        }
    }

    #[test]
    fn nodes_that_fulfil_the_conditions_come_first_and_none_is_lost() {
        let base = desk();
        let tickets = base.kb.nodes_of_type(base.kb.type_id("ticket").unwrap()).to_vec();
        let ranking: Vec<(NodeId, f32)> =
            tickets.iter().map(|&node| (node, 1.0 - node as f32 / 100.0)).collect();
        let asked = Conditions::read(&base, "tickets that are not closed created after March 2025");
        let sorted = asked.apply(&base.kb, ranking.clone());
        let names: Vec<&str> = sorted.iter().map(|pair| base.kb.name(pair.0)).collect();
        assert_eq!(
            names,
            [
                "Problem 4",
                "Problem 6",
                "Problem 0",
                "Problem 1",
                "Problem 2",
                "Problem 3",
                "Problem 5",
                "Problem 7"
            ]
        );
        assert!(sorted.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{sorted:?}");
        assert_eq!(asked.applied(&base.kb, &sorted).unwrap().n_fulfilled, 2);
        // Where none fulfils them, the order stays.
        let none = Conditions::read(&base, "tickets created in March 2031");
        assert_eq!(none.apply(&base.kb, ranking.clone()), ranking);
        assert_eq!(none.applied(&base.kb, &ranking).unwrap().n_fulfilled, 0);
        let oldest = Conditions::read(&base, "oldest tickets");
        assert_eq!(oldest.by_date(&base, &tickets[2..5]).unwrap(), tickets[2..5]);
        let newest =
            Conditions::read(&base, "newest tickets").by_date(&base, &tickets[2..5]).unwrap();
        assert_eq!(newest, tickets[2..5].iter().rev().copied().collect::<Vec<_>>());
    }
}
