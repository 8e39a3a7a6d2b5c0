//! Reads the mentions of a question as a plan.
//!
//! The rows are the nodes of the counted type, or of the type with the mentioned fields. Other
//! mentions become conditions, filters, groups or subjects, depending on their position. The kinds
//! of questions are tried, most probable first, until a kind finds all the parts it needs. A
//! question with an unexplained word gets no plan, because the word may be decisive.
//!
//! Does not build tables or write SQL.

mod asks;
pub(crate) mod choices;
mod correlation;
mod dates;
mod joining;
mod numbers;
mod operation;
mod presence;
mod refusals;
mod rows;
mod share;
mod shared;
mod superlative;
mod supposition;
#[cfg(test)]
mod tests;
mod things;
mod value;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    iter::successors,
    mem::discriminant,
};

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Bound, Cue, Function, is_frequency},
    mentions::{COUNTS, Mention, Mentions, Thing, What},
    missing,
    plan::{Condition, Measure, Operation, Plan, Test},
    reading::{
        asks::{asks_for_many, asks_surely, compares_names, counts},
        choices::Choices,
        dates::DateUse,
        numbers::{Bounded, NumberUse, is_year},
        operation::YES_NO,
    },
    schema::Schema,
};
use agent_kb::{
    Direction, FieldId, Kb, MetapathStep, TypeId, distinct,
    table::{ColumnKind, ColumnSpec, Sample, reached, sampled, value::quantity},
};

/// Approximate number of nodes in samples that decide whether a step leads to one node or to
/// several, and whether a field has a zero.
const LOOKED_AT: usize = 1_000;

/// The state of reading one question. Sets and maps refer to mentions by their index in
/// `mentions.all`.
struct Reading<'a> {
    kb: &'a Kb,
    schema: &'a Schema,
    mentions: &'a Mentions,
    text: &'a str,
    /// For each mention, whether it is part of the question's assumption.
    changed: Vec<bool>,
    /// Mentions of types and fields that only describe an adjacent name, such as `brand` in `the
    /// brand "X"`, each with the mention of that name.
    bound: BTreeMap<usize, usize>,
    /// Mentions of types whose nodes are counted, each with the type.
    counted: BTreeMap<usize, TypeId>,
    numbers: Vec<NumberUse>,
    dates: Vec<DateUse>,
    /// Mentions of fields and counts that a number or a date bounds.
    bounded: BTreeSet<usize>,
    /// Mentions that are negated: names, fields, types and relations.
    denied: BTreeSet<usize>,
    /// The mention of the requested column, which is no condition or group.
    asked: Option<usize>,
    /// Number of requested results, as in `top 5`; `None` if the question gives no number.
    top: Option<usize>,
    /// Whether the question is read as a request for a list of the rows, or as the question whether
    /// any row exists.
    lists: bool,
    /// Stems of the question's words that do not belong to names of nodes or values.
    said: BTreeSet<String>,
    rows: TypeId,
    columns: Vec<ColumnSpec>,
    assumed: Vec<String>,
    choices: &'a Choices,
}

/// Whether a question that begins with a count asks for something else too: `how many people work
/// here and who leads them`.
fn asks_twice(mentions: &Mentions) -> bool {
    const ASKING: [&str; 5] = ["what", "when", "where", "which", "who"];
    let counts = mentions.all.first().is_some_and(|own| own.what == What::Cue(Cue::HowMany));
    let mut pairs = mentions.tokens.windows(2);
    counts && pairs.any(|two| two[0].word == "and" && ASKING.contains(&two[1].word.as_str()))
}

/// Reads the question `text` as a plan. `kinds` are its possible kinds, most probable first. Where
/// the question is ambiguous, takes the options given by `choices`.
///
/// # Errors
/// [`AskError`] if something is missing or not understood.
pub(crate) fn read(
    schema: &Schema,
    mentions: &Mentions,
    text: &str,
    kinds: &[Kind],
    choices: &Choices,
) -> Result<Plan, AskError> {
    let unknown: Vec<String> = mentions
        .all
        .iter()
        .filter_map(|mention| match &mention.what {
            What::Unknown(word) | What::NoThing(word) => Some(word.clone()),
            _ => None,
        })
        .collect();
    if asks_twice(mentions) {
        return missing("two questions are asked at once; ask one at a time");
    }
    let counts_each = asks::counted_by_each(mentions).is_some();
    let listed = asks::listed(schema, mentions);
    let asks_who = mentions.word(0) == "who";
    let computes = asks_for_many(mentions) || compares_names(mentions) || counts_each;
    let is_thing = |own: &Mention| matches!(own.what, What::Thing(_));
    if !computes && !asks_who && listed.is_none() && !mentions.all.iter().any(is_thing) {
        return Err(AskError::NoTable);
    }
    let counts = counts(mentions);
    if !unknown.is_empty() {
        let is_name = |word: &&String| !schema.nodes_named(word).is_empty();
        let names = unknown.iter().filter(is_name).cloned().collect();
        return Err(AskError::Unknown { words: unknown, names, near: Vec::new(), counts });
    }
    let mut reading = Reading {
        kb: &schema.base.kb,
        schema,
        changed: supposition::supposed(mentions, text),
        mentions,
        text,
        bound: BTreeMap::new(),
        counted: BTreeMap::new(),
        numbers: Vec::new(),
        dates: Vec::new(),
        bounded: BTreeSet::new(),
        denied: BTreeSet::new(),
        asked: None,
        top: None,
        lists: false,
        said: mentions.outside_names().map(|token| token.stem.clone()).collect(),
        rows: TypeId::NONE,
        columns: Vec::new(),
        assumed: Vec::new(),
        choices,
    };
    reading.bind();
    reading.denied = reading.find_denied()?;
    reading.check_bounds()?;
    reading.check_alternatives()?;
    reading.count();
    reading.use_numbers()?;
    reading.use_dates()?;
    reading.is_one_question()?;
    reading.rows = reading.choose_rows()?;
    if let Some(own) = reading.with_own_types() {
        return read(schema, &own, text, kinds, choices);
    }
    let is_person = asks_who && schema.are_people(reading.rows);
    let listed = listed.or_else(|| is_person.then_some((reading.rows, Operation::List)));
    reading.refuse_difference()?;
    reading.refuse_with_and_without()?;
    // `written together by A and B` and `associated with C` may also ask for nodes.
    let may_list = !asks_surely(mentions) && !compares_names(mentions);
    // A number does not answer `who` or a yes-or-no question.
    let is_number = computes || listed.is_some() && !asks_who && !reading.is_yes_no();
    let read = match is_number.then(|| reading.plan_of_any(kinds)) {
        None => Err(AskError::NoTable),
        Some(Ok(Plan { operation: Operation::Compare { .. }, .. })) if may_list => {
            Err(AskError::NoTable)
        }
        Some(read) => read,
    };
    // `X's boss` is whom X reports to, and not who reports to X.
    let read = match read {
        Err(error) if asks_who => reading.value().map_err(|_| error),
        read => read,
    };
    let read = match (read, listed) {
        (Err(error), Some((kind, listed))) => reading.list(kind, listed).map_err(|_| error),
        (read, _) => read,
    };
    let read = match read {
        Err(error) if !computes && !asks_who => reading.value().map_err(|_| error),
        read => read,
    };
    match read {
        Err(AskError::Missing(_)) if may_list => Err(AskError::NoTable),
        read => read,
    }
}

impl Reading<'_> {
    /// Chooses one of several options that fit the question equally; other readings of the question
    /// take the other options. `told` describes an option in words. `None` if there are no options.
    fn choose<T>(&self, mut options: Vec<T>, told: impl Fn(&T) -> String) -> Option<T> {
        let at = self.choices.take(&options.iter().map(told).collect::<Vec<_>>());
        (at < options.len()).then(|| options.swap_remove(at))
    }

    fn what(&self, at: usize) -> Option<&What> {
        self.mentions.all.get(at).map(|mention| &mention.what)
    }

    fn cue(&self, at: usize) -> Option<Cue> {
        self.mentions.all.get(at)?.cue()
    }

    /// Returns the phrases of the lexicon in the assumption (if `changed`) or outside, with the
    /// indexes of their mentions.
    fn cues(&self, changed: bool) -> impl Iterator<Item = (usize, Cue)> + '_ {
        let own = move |at: &usize| self.changed[*at] == changed;
        (0..self.mentions.all.len()).filter(own).filter_map(|at| Some((at, self.cue(at)?)))
    }

    /// Returns the index of the first token outside the assumption that begins a phrase or is a
    /// word of yes-or-no questions, if the question starts with an assumption; otherwise 0.
    fn begin(&self) -> usize {
        if self.changed.first() != Some(&true) {
            return 0;
        }
        let start = |at: usize| self.mentions.range(at).start;
        let mut own = (0..self.mentions.all.len()).filter(|at| !self.changed[*at]);
        let begins = |at: &usize| {
            self.cue(*at).is_some() || YES_NO.contains(&self.mentions.word(start(*at)))
        };
        own.find(begins).map_or(0, start)
    }

    fn has(&self, cue: Cue) -> bool {
        self.cues(false).any(|(_, own)| own == cue)
    }

    /// Returns the index of the nearest mention after (`step` 1) or before (`step` -1) mention
    /// `at`, skipping fillers and relations.
    fn beside(&self, at: usize, step: isize) -> Option<usize> {
        let next = |at: usize| at.checked_add_signed(step);
        let mut places =
            successors(next(at), |at| next(*at)).take_while(|at| self.what(*at).is_some());
        places.find(|at| {
            let what = self.what(*at);
            !matches!(what, Some(What::Filler | What::Relation | What::Cue(Cue::Filler)))
        })
    }

    /// Applies [`beside`](Self::beside) repeatedly, from mention `at`, and returns the index of the
    /// first mention for which `pass` returns false.
    fn beside_past(&self, at: usize, step: isize, pass: impl Fn(usize) -> bool) -> Option<usize> {
        successors(self.beside(at, step), |at| self.beside(*at, step)).find(|at| !pass(*at))
    }

    /// Whether a mention is a phrase for equality, such as `in` or `equals`.
    fn is_equal(&self, at: usize) -> bool {
        matches!(self.cue(at), Some(Cue::Bound(Bound::Equal, _)))
    }

    /// Returns the meaning of the mention [`beside`](Self::beside) a mention.
    fn what_beside(&self, at: usize, step: isize) -> Option<&What> {
        self.what(self.beside(at, step)?)
    }

    /// Returns the meaning of the phrase [`beside`](Self::beside) a mention.
    fn cue_beside(&self, at: usize, step: isize) -> Option<Cue> {
        self.cue(self.beside(at, step)?)
    }

    /// Returns the fields that a mention may mean.
    fn fields_at(&self, at: usize) -> Option<&[(FieldId, f32)]> {
        match self.what(at)? {
            What::Field(fields) => Some(fields),
            _ => None,
        }
    }

    /// Returns the type that a mention means.
    fn type_at(&self, at: usize) -> Option<TypeId> {
        match self.what(at)? {
            What::Type(kind) => Some(*kind),
            _ => None,
        }
    }

    fn is_number(&self, at: usize) -> bool {
        matches!(self.what(at), Some(What::Number(..)))
    }

    /// Returns the folded word before a mention; empty if there is none.
    fn word_before(&self, at: usize) -> &str {
        let start = self.mentions.range(at).start;
        start.checked_sub(1).map_or("", |before| self.mentions.word(before))
    }

    /// Returns the folded word after a mention; empty if there is none.
    fn word_after(&self, at: usize) -> &str {
        self.mentions.word(self.mentions.range(at).end)
    }

    /// Whether the question begins with a word of yes-or-no questions.
    fn is_yes_no(&self) -> bool {
        YES_NO.contains(&self.mentions.word(0))
    }

    fn things(&self) -> impl Iterator<Item = (usize, &Thing)> {
        (0..self.mentions.all.len()).filter_map(|at| Some((at, self.thing(at)?)))
    }

    fn thing(&self, at: usize) -> Option<&Thing> {
        match self.what(at)? {
            What::Thing(thing) => Some(thing),
            _ => None,
        }
    }

    fn has_node_of(&self, thing: &Thing, kind: TypeId) -> bool {
        thing.nodes.iter().any(|&node| self.kb.node_type(node) == kind)
    }

    /// Returns the mentions with types of the rows' own values in the place of types of other
    /// nodes' values: in `offers per status`, the type of the offers' own status, where properties
    /// have a status too. `None` if there are no such types.
    fn with_own_types(&self) -> Option<Mentions> {
        let linked = self.schema.steps(self.rows);
        let is_linked = |kind: TypeId| kind == self.rows || linked.iter().any(|one| one.to == kind);
        let values = &self.schema.value_types;
        let own_type = |mention: &Mention| {
            let What::Type(kind) = mention.what else { return None };
            if is_linked(kind) || !values.contains(&kind) {
                return None;
            }
            let stem = &self.mentions.tokens[mention.at.clone()].last()?.stem;
            let mut own = linked.iter().map(|step| step.to).filter(|to| {
                values.contains(to) && self.schema.types[usize::from(to.0)].is_headed_by(stem)
            });
            own.next().filter(|_| own.next().is_none())
        };
        let mut all = self.mentions.all.clone();
        for mention in &mut all {
            if let Some(kind) = own_type(mention) {
                mention.what = What::Type(kind);
            }
        }
        (all != self.mentions.all).then(|| Mentions { tokens: self.mentions.tokens.clone(), all })
    }

    /// Finds the types and fields that only describe an adjacent name, and stores them in `bound`:
    /// `the brand "X"`, `X papers`.
    fn bind(&mut self) {
        let mut bound = BTreeMap::new();
        for (at, thing) in self.things() {
            // The description may be separated from the name: `the brand is X`, `published in X`.
            let before = self.beside_past(at, -1, |place| self.is_equal(place));
            for place in [before, self.beside(at, 1)].into_iter().flatten() {
                let binds = match self.what(place) {
                    Some(What::Type(kind)) => {
                        // In `institutions in France`, France is not the name of an institution.
                        let is_place = Some(place) == before
                            && self.beside(at, -1) != before
                            && self.is_plural(place, *kind)
                            && thing.nodes.iter().any(|&one| self.kb.node_type(one) != *kind);
                        self.has_node_of(thing, *kind) && !is_place
                    }
                    Some(What::Field(fields)) => fields
                        .iter()
                        .any(|(field, _)| thing.values.iter().any(|own| own.field == *field)),
                    _ => false,
                };
                // A counted or requested type is not bound to the name after it.
                let asked = place.checked_sub(1).and_then(|before| self.cue(before));
                let counts =
                    matches!(asked, Some(Cue::HowMany | Cue::NumberOf | Cue::Which | Cue::Each));
                if binds && !counts && !bound.contains_key(&place) {
                    bound.insert(place, at);
                    break;
                }
            }
        }
        self.bound = bound;
    }

    /// Finds the types whose nodes are counted, and stores them in `counted`: `how many X`, `number
    /// of X`, `most X`, `more than 3 X`.
    fn count(&mut self) {
        let mut counted = BTreeMap::new();
        for at in 0..self.mentions.all.len() {
            let counts = match self.what(at) {
                // In `the most common X`, the nodes that have an X are counted.
                Some(What::Cue(Cue::Most | Cue::Fewest)) => !is_frequency(&self.said_at(at)),
                // `tend to have more X` counts X.
                Some(What::Cue(Cue::Correlate)) => self.said_at(at).ends_with(" more"),
                Some(What::Cue(cue)) => {
                    matches!(cue, Cue::NumberOf | Cue::More(_) | Cue::OrMore(_) | Cue::HowMany)
                }
                // `top 3 X` and `which 3 X have the most` ask for the first X.
                Some(What::Number(..)) => !self.is_top(at),
                _ => false,
            };
            // `count by X` names no counted type.
            let is_next = |next: &usize| counts && !self.is_said_between(at, *next, &["by"]);
            let Some(mut next) = self.beside(at, 1).filter(is_next) else { continue };
            // Skips names before the counted type: `how many X papers`, `how many X or Y papers`.
            while matches!(
                self.what(next),
                Some(What::Thing(_) | What::Field(_) | What::Cue(Cue::Versus))
            ) && let Some(behind) = self.beside(next, 1)
                && (self.mentions.range(next).end == self.mentions.range(behind).start
                    || self.is_said_between(next, behind, &["and"]))
            {
                next = behind;
            }
            counted.extend(self.type_at(next).map(|kind| (next, kind)));
        }
        // In `author list` and `paper counts`, the type before the word is counted.
        let listed =
            (0..self.mentions.all.len()).filter(|at| COUNTS.contains(&self.word_after(*at)));
        counted.extend(listed.filter_map(|at| Some((at, self.type_at(at)?))));
        counted.retain(|at, _| !self.bound.contains_key(at));
        self.counted = counted;
    }

    /// Returns the numeric field of a type whose name contains the stem of one of `names`. Of
    /// several, an exactly equal name is preferred, then the field with the most values.
    fn implied(&self, kind: TypeId, names: &[&str]) -> Option<FieldId> {
        self.called(kind, names, false)
    }

    /// As [`implied`](Self::implied), but if `or_dated`, the field may also hold dates, whose years
    /// a number can bound; numeric fields are preferred to dates.
    fn called(&self, kind: TypeId, names: &[&str], or_dated: bool) -> Option<FieldId> {
        let is_exact =
            |field: FieldId| names.contains(&self.kb.field_name(field).to_lowercase().as_str());
        let best = self
            .all_called(kind, names, or_dated)
            .max_by_key(|sample| (is_exact(sample.field), sample.kind.is_number(), sample.filled));
        best.map(|sample| sample.field)
    }

    /// Returns the fields of numbers or, if `or_dated`, also of dates whose names contain the stem
    /// of one of `names`.
    fn all_called<'b>(
        &'b self,
        kind: TypeId,
        names: &'b [&str],
        or_dated: bool,
    ) -> impl Iterator<Item = &'b Sample> {
        self.schema.samples(kind).iter().filter(move |sample| {
            (sample.kind.is_number() || or_dated && sample.kind == ColumnKind::Date)
                && self.schema.is_called(self.schema.field(sample.field), names)
        })
    }

    /// Returns the field of the rows that matches a mention best, by the mentioned share of its
    /// name. `numbers` restricts the fields to numeric ones. Of equal matches,
    /// [`choose`](Self::choose) selects one.
    fn field(&self, fields: &[(FieldId, f32)], numbers: bool) -> Option<FieldId> {
        let own = fields.iter().filter_map(|(field, share)| {
            let sample = self.schema.sample(self.rows, *field)?;
            let fits = !numbers || sample.kind.is_number();
            fits.then_some((*share, sample.filled, *field))
        });
        let mut own: Vec<(f32, usize, FieldId)> = own.collect();
        let most = own.iter().map(|one| one.0).max_by(f32::total_cmp)?;
        own.retain(|one| one.0 == most);
        own.sort_by_key(|(_, filled, field)| (Reverse(*filled), *field));
        let told = |one: &(f32, usize, FieldId)| self.field_in_words(&one.2);
        Some(self.choose(own, told)?.2)
    }

    fn field_in_words(&self, field: &FieldId) -> String {
        format!("field {}", self.kb.field_name(*field))
    }

    fn kind_of(&self, field: FieldId) -> Option<ColumnKind> {
        self.schema.sample(self.rows, field).map(|sample| sample.kind)
    }

    /// Returns the index of a column in the plan; adds the column if it is missing.
    fn column(&mut self, spec: ColumnSpec) -> usize {
        if let Some(at) = self.columns.iter().position(|own| *own == spec) {
            return at;
        }
        self.columns.push(spec);
        self.columns.len() - 1
    }

    /// Returns the index of the column of a field of the rows; adds the column if it is missing.
    fn field_column(&mut self, field: FieldId) -> usize {
        self.column(ColumnSpec::Field(field))
    }

    /// Whether a mention follows `how many` or `number of`.
    fn is_count_of(&self, at: usize) -> bool {
        matches!(self.cue_beside(at, -1), Some(Cue::HowMany | Cue::NumberOf))
    }

    /// Returns the index of the column of numbers that a mention names: a numeric field, or a count
    /// of linked nodes. `None` if it names no numbers.
    fn number_column(&mut self, at: usize) -> Result<Option<usize>, AskError> {
        let spec = match self.what(at).cloned() {
            Some(What::Field(fields)) => match self.field(&fields, true) {
                Some(field) => ColumnSpec::Field(field),
                // In `the number of reviews`, the field `reviews` may hold texts and another field
                // their number.
                None if self.is_count_of(at) => return Ok(self.number_called(at)),
                None => return Ok(None),
            },
            Some(What::Type(kind)) if self.counted.contains_key(&at) && kind != self.rows => {
                ColumnSpec::Count(self.path_to(kind)?)
            }
            Some(What::Links(relation)) => match self.schema.step_of(self.rows, relation) {
                Some(step) => ColumnSpec::Count(vec![step]),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(self.column(spec)))
    }

    /// Builds the test that compares a column with a number of the question.
    fn number_test(&mut self, number: &NumberUse) -> Result<Test, AskError> {
        let rows = self.kb.type_name(self.rows);
        if let Some(test) = self.flag_is(number) {
            return Ok(test);
        }
        let column = match number.what {
            Bounded::Mention(at) if self.is_time(at) && is_year(number.number) => {
                self.field_column(self.said_time_field(Some(at))?)
            }
            Bounded::Mention(at) => {
                let column = self.number_column(at)?.or_else(|| self.number_called(at));
                let said = self.said_at(at);
                let none = || missing(format!("{rows} has no numeric field {said:?}"));
                column.map_or_else(none, Ok)?
            }
            Bounded::Year => self.field_column(self.time_field()?),
            Bounded::Implied(names) => {
                let Some(field) = self.called(self.rows, names, true) else {
                    let what = names.first().unwrap_or(&"value");
                    return missing(format!("{rows} has no {what}"));
                };
                if self.kind_of(field) == Some(ColumnKind::Date) && !is_year(number.number) {
                    return missing("dates can only be compared with years");
                }
                self.field_column(field)
            }
        };
        let is_share = number.unit.as_deref() == Some("%") && self.has_shares(column);
        let column = match &number.unit {
            Some(unit) if !is_share => self.in_unit(column, unit)?,
            _ => column,
        };
        let scale = if is_share { 100.0 } else { 1.0 };
        if let (Bound::Not, ColumnSpec::Field(field)) = (number.bound, &self.columns[column])
            && let Some(sample) = self.schema.sample(self.rows, *field)
            && (sample.kind, sample.filled < sample.seen) == (ColumnKind::Date, true)
        {
            let name = self.kb.field_name(*field);
            return missing(format!(
                "cannot tell whether to count each {rows} that has no {name:?}"
            ));
        }
        let (bound, to) = (number.bound, number.to.map(|to| to / scale));
        Ok(Test::Number { column, bound, number: number.number / scale, to })
    }

    /// Builds the test that a field of 1 and 0 equals the number; `None` for other fields and
    /// numbers.
    fn flag_is(&mut self, number: &NumberUse) -> Option<Test> {
        let Bounded::Mention(at) = number.what else { return None };
        let field = self.field(self.fields_at(at)?, false)?;
        let said = number.number.to_string();
        let key = self.schema.truths(self.rows, field)?.into_iter().find(|key| **key == said)?;
        let test = Test::Value { column: self.field_column(field), key: key.to_owned() };
        (number.bound == Bound::Equal).then_some(test)
    }

    /// Whether the numbers of a column are shares of 1, so that `10 %` is 0.1: some are fractions,
    /// and none is larger than 1.
    fn has_shares(&mut self, column: usize) -> bool {
        let ColumnSpec::Field(field) = self.columns[column] else { return false };
        let texts = sampled(self.kb, self.rows, LOOKED_AT);
        let numbers = texts.filter_map(|node| quantity(self.kb.field(node, field)?));
        let numbers: Vec<f64> = numbers.map(|quantity| quantity.number).collect();
        let are_shares = numbers.iter().all(|number| (0.0..=1.0).contains(number))
            && numbers.iter().any(|number| number.fract() != 0.0);
        if are_shares {
            let name = self.kb.field_name(field);
            self.assumed.push(format!("{name:?} holds fractions, so 0.1 is read as 10 %"));
        }
        are_shares
    }

    /// Returns the field of the rows whose name contains all stems of a mention:
    /// `number_of_reviews` for `reviews`, if the field `reviews` holds texts. `numbers` restricts
    /// the fields to numeric ones. `None` if there is no such field.
    fn field_called(&self, at: usize, numbers: bool) -> Option<FieldId> {
        let said = self.mentions.said(at);
        let says = |field: &FieldId| {
            let stems = &self.schema.field(*field).stems;
            said.iter().all(|token| stems.contains(&token.stem))
        };
        let samples = self.schema.samples(self.rows).iter();
        // All such fields fit equally, however long their names are.
        let fields: Vec<(FieldId, f32)> =
            samples.map(|sample| sample.field).filter(says).map(|field| (field, 1.0)).collect();
        self.field(&fields, numbers)
    }

    /// Returns the index of the column of the number that [`field_called`](Self::field_called)
    /// finds.
    fn number_called(&mut self, at: usize) -> Option<usize> {
        let field = self.field_called(at, true)?;
        Some(self.field_column(field))
    }

    /// Returns the question's folded words that do not belong to names of nodes or values, in
    /// order.
    fn own_words(&self) -> Vec<&str> {
        self.mentions.outside_names().map(|token| token.word.as_str()).collect()
    }

    /// Returns the index of the column with the numbers of `column` in the unit `said`. If another
    /// field's name contains the unit and all words of this column's name, returns that field's
    /// column: `price_gbp` instead of `price` for pounds. Otherwise returns `column`. Refuses a
    /// column with another unit. If the column has no unit, notes the assumption that its unit is
    /// `said`.
    fn in_unit(&mut self, column: usize, said: &str) -> Result<usize, AskError> {
        let ColumnSpec::Field(field) = self.columns[column] else { return Ok(column) };
        let samples = self.schema.samples(self.rows);
        let words = |field: FieldId| &self.schema.field(field).words;
        let is_in_unit = |other: &&Sample| {
            other.kind.is_number()
                && words(other.field).iter().any(|word| word.eq_ignore_ascii_case(said))
                && words(field).iter().all(|word| words(other.field).contains(word))
        };
        let field = samples.iter().find(is_in_unit).map_or(field, |other| other.field);
        let name = self.kb.field_name(field);
        let sample = samples.iter().find(|sample| sample.field == field);
        match sample.and_then(|sample| sample.unit.as_deref()) {
            Some(unit) if unit == said => {}
            Some(unit) => return missing(format!("{name:?} is in {unit}, not in {said}")),
            None => self.assumed.push(format!("{name:?} has no unit; taken as {said}")),
        }
        Ok(self.field_column(field))
    }

    /// Returns the folded words of a mention, separated by spaces.
    fn said_at(&self, at: usize) -> String {
        let words = self.mentions.said(at).iter().map(|token| token.word.as_str());
        words.collect::<Vec<_>>().join(" ")
    }

    /// Refuses a question that asks for two numbers at once.
    fn is_one_question(&self) -> Result<(), AskError> {
        let several = |one: usize, other: usize| {
            let (one, other) = (self.said_at(one), self.said_at(other));
            missing(format!("{one} and {other} are requested at once; ask one question at a time"))
        };
        // `how many papers and authors are there`
        for (&at, kind) in &self.counted {
            if let Some(next) = self.beside_past(at, 1, |place| self.is_or(place))
                && self.type_at(next).is_some_and(|other| other != *kind)
                && (self.is_how_many(at) || self.cue_beside(at, -1) == Some(Cue::NumberOf))
                && self.is_listed(at, next)
            {
                return several(at, next);
            }
        }
        let asks = |cue: Cue| matches!(cue, Cue::HowMany | Cue::Best(..) | Cue::Of(_));
        for (at, cue) in self.cues(false).filter(|(_, cue)| asks(*cue)) {
            let again = |(place, other): &(usize, Cue)| {
                *place > at && discriminant(other) == discriminant(&cue)
            };
            if let Some((place, other)) = self.cues(false).find(again)
                && (cue == Cue::HowMany || other != cue && self.is_apart(at, place))
            {
                return several(at, place);
            }
        }
        Ok(())
    }

    /// Plans the question over the chosen row type. If that fails and the question asks for most or
    /// fewest, tries the counted types: `who wrote the most papers at V` becomes papers grouped by
    /// author. If that fails too, tries the other types that have a mentioned numeric field.
    fn plan_of_any(&mut self, kinds: &[Kind]) -> Result<Plan, AskError> {
        let chosen = self.rows;
        let error = match self.plan(kinds) {
            Err(error) => error,
            plan => return plan,
        };
        let mut others = Vec::new();
        if self.has(Cue::Most) || self.has(Cue::Fewest) {
            others = distinct(self.counted.values().copied().collect());
            others.retain(|kind| *kind != chosen);
        }
        // In `which venue has the highest mean citations`, the numbers belong to papers, not to
        // venues.
        others.extend(self.types_with_numbers());
        for kind in others {
            self.rows = kind;
            if let Ok(plan) = self.plan(kinds) {
                return Ok(plan);
            }
        }
        self.rows = chosen;
        Err(error)
    }

    /// Refuses a plan that counts all linked nodes although the question sets a condition on them.
    /// For the papers at a venue by each author, such a plan counts all papers of these authors.
    /// Returns other plans unchanged.
    fn is_narrowed(&self, plan: Plan) -> Result<Plan, AskError> {
        let kb = self.kb;
        let of_value = |column: usize| match &plan.columns[column] {
            ColumnSpec::FieldOf { steps, field } => {
                Some((kb.field_name(*field).to_owned(), steps.clone()))
            }
            _ => None,
        };
        let values = plan.filters.iter().flat_map(Test::columns).filter_map(of_value);
        // A test for existence does not use the number that the condition would change.
        let exists = |at: usize| {
            plan.filters.iter().any(|test| {
                matches!(test, Test::Number { column, bound: Bound::Above, number: 0.0, .. }
                    if *column == at)
            })
        };
        let names = plan.conditions.iter().filter_map(|condition| {
            let (_, between) = condition.steps.split_last()?;
            Some((format!("{:?}", condition.name), between.to_vec()))
        });
        if let Operation::Number(Measure::Of(Function::Sum, column)) = plan.operation
            && matches!(plan.columns.get(column), Some(ColumnSpec::Field(_)))
            && let Some(condition) = plan.conditions.iter().find(|one| self.is_shared(one))
        {
            let rows = kb.type_name(plan.rows);
            return missing(format!(
                "several links may lead from {:?} to one {rows}, which would be added only once; \
                 name the linked type with the numbers",
                condition.name
            ));
        }
        for (name, between) in names.chain(values) {
            for (at, spec) in plan.columns.iter().enumerate() {
                let ColumnSpec::Count(steps) = spec else { continue };
                let Some(end) = steps.last().filter(|_| !exists(at)) else { continue };
                if between.iter().any(|step| step.to == end.to) {
                    let (counted, rows) = (kb.type_name(end.to), kb.type_name(plan.rows));
                    return missing(format!(
                        "{name} restricts the {counted}, but all {counted} of each {rows} would be counted"
                    ));
                }
            }
        }
        Ok(plan)
    }

    /// Whether a condition leads to a row over nodes of which several may link to the row, as the
    /// visits of an owner to drugs.
    fn is_shared(&self, condition: &Condition) -> bool {
        let [.., between, last] = condition.steps.as_slice() else { return false };
        let back = MetapathStep { direction: last.direction.reversed(), to: between.to, ..*last };
        last.direction == Direction::Out && !self.leads_to_one(last.to, &[back])
    }

    /// Whether a metapath leads from a node of type `from` to one node only. Judged by a sample: at
    /// most 1 % of the nodes from which it leads to any node may lead to several.
    fn leads_to_one(&self, from: TypeId, steps: &[MetapathStep]) -> bool {
        let (mut some, mut several) = (0, 0);
        for node in sampled(self.kb, from, LOOKED_AT) {
            let n = reached(self.kb, node, steps).len();
            some += usize::from(n > 0);
            several += usize::from(n > 1);
        }
        several * 100 <= some
    }

    /// Plans the question as the first of `kinds` that finds all the parts it needs; a comparison
    /// of names is tried as an intercomparison first.
    fn plan(&mut self, kinds: &[Kind]) -> Result<Plan, AskError> {
        let mut first: Option<AskError> = None;
        let difference = self.asks_difference();
        let compares = difference || compares_names(self.mentions);
        let others = kinds.iter().copied().filter(|_| !difference);
        for kind in compares.then_some(Kind::Intercomparison).into_iter().chain(others) {
            (self.columns, self.assumed) = (Vec::new(), Vec::new());
            match self.of_kind(kind) {
                Ok(plan) => return self.is_narrowed(plan),
                // Keeps the first error that names the missing part.
                Err(error) if first.is_none() || first == Some(AskError::NoTable) => {
                    first = Some(error);
                }
                Err(_) => {}
            }
        }
        Err(first.unwrap_or(AskError::NoTable))
    }

    /// Returns the index of the first column of numbers that is mentioned in the assumption (if
    /// `changed`) or outside.
    fn first_number(&mut self, changed: bool) -> Result<Option<usize>, AskError> {
        for at in 0..self.mentions.all.len() {
            if self.changed[at] == changed
                && let Some(column) = self.number_column(at)?
            {
                return Ok(Some(column));
            }
        }
        Ok(None)
    }

    /// Returns the first aggregate function that is mentioned outside of the assumption.
    fn function(&self) -> Option<Function> {
        self.cues(false).find_map(|(_, cue)| match cue {
            Cue::Of(function) => Some(function),
            _ => None,
        })
    }
}
