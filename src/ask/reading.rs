//! Here is a question taken apart: what does it ask for?
//!
//! The type of the rows is the one that has the fields that are said; what is named besides are
//! conditions, filters, groups or subjects, by where it stands. A kind of question is tried after
//! another, likeliest first, until one finds all that it needs. Every word must be explained:
//! with one that is not, there is no plan, since it may be the one that matters.
//!
//! Must not know: tables, SQL.

mod joining;
mod operation;
mod supposition;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ask::{
        AskError,
        kind::Kind,
        lexicon::{Bound, Cue, Function},
        mentions::{Mention, Mentions, Thing, What},
        plan::{Plan, Test},
        schema::Schema,
    },
    index::IndexedBase,
    kb::{FieldId, MetapathStep, NodeId, TypeId, metapath_in_words},
    table::{ColumnKind, ColumnSpec},
};

/// Years that a bare number behind `in` may be.
const YEARS: std::ops::RangeInclusive<i64> = 1500..=2100;
/// What a type gains as the rows by a field that it has, by being counted, by having what is
/// counted, by a value of its own, by its name.
const HAS_FIELD: f32 = 3.0;
const IS_COUNTED: f32 = 4.0;
const HAS_COUNTED: f32 = 2.0;
const HAS_VALUE: f32 = 1.0;
const IS_SAID: f32 = 1.0;
/// By being said of several, and behind `among`.
const IS_PLURAL: f32 = 0.5;
const IS_AMONG: f32 = 4.0;

/// What a number bounds.
#[derive(Clone, Debug, PartialEq)]
enum Bounded {
    /// The field or the count of a mention.
    Mention(usize),
    /// A field of one of these names.
    Implied(&'static [&'static str]),
    /// The year.
    Year,
}

/// A number that bounds something.
#[derive(Clone, Debug)]
struct NumberUse {
    what: Bounded,
    bound: Bound,
    number: f64,
    to: Option<f64>,
    changed: bool,
    /// Whether it is said as an alternative to the number before.
    or: bool,
}

/// What a named thing is to the rows.
#[derive(Clone, Debug, PartialEq)]
enum Role {
    /// Linked to them.
    Linked { kind: TypeId, nodes: Vec<NodeId>, steps: Vec<MetapathStep> },
    /// A value of theirs.
    Value { field: FieldId, key: String },
    /// Some of them.
    Is(Vec<NodeId>),
}

/// One question with what is known of it so far.
struct Reading<'a> {
    base: &'a IndexedBase,
    schema: &'a Schema,
    mentions: &'a Mentions,
    text: &'a str,
    /// Whether each mention stands in what is supposed.
    changed: Vec<bool>,
    /// Mentions of types and fields that only say what a named thing is; and of which one.
    bound: BTreeMap<usize, usize>,
    /// Types that are counted, by the mention of the type.
    counted: BTreeMap<usize, TypeId>,
    numbers: Vec<NumberUse>,
    /// Fields and counts that a number bounds.
    bounded: BTreeSet<usize>,
    /// Things, fields and types that are said not to be so.
    denied: BTreeSet<usize>,
    /// How many first ones are asked for.
    top: Option<usize>,
    said: BTreeSet<String>,
    rows: TypeId,
    columns: Vec<ColumnSpec>,
    assumed: Vec<String>,
}

/// What a question asks for, given the kinds that it may be of, likeliest first.
///
/// # Errors
/// What is missing.
pub(crate) fn read(
    base: &IndexedBase,
    schema: &Schema,
    mentions: &Mentions,
    text: &str,
    kinds: &[Kind],
) -> Result<Plan, AskError> {
    let unknown: Vec<String> = mentions
        .all
        .iter()
        .filter_map(|mention| match &mention.what {
            What::Unknown(word) | What::NoThing(word) => Some(word.clone()),
            _ => None,
        })
        .collect();
    if !asks_for_many(mentions) {
        return Err(AskError::NoTable);
    }
    if !unknown.is_empty() {
        let is_name = |word: &&String| !base.entities.spelled(&format!("\"{word}\"")).is_empty();
        let names = unknown.iter().filter(is_name).cloned().collect();
        return Err(AskError::Unknown { words: unknown, names, counts: counts(mentions) });
    }
    let mut reading = Reading {
        base,
        schema,
        changed: supposition::supposed(mentions, text),
        mentions,
        text,
        bound: BTreeMap::new(),
        counted: BTreeMap::new(),
        numbers: Vec::new(),
        bounded: BTreeSet::new(),
        denied: BTreeSet::new(),
        top: None,
        said: mentions.tokens.iter().map(|token| token.stem.clone()).collect(),
        rows: TypeId::NONE,
        columns: Vec::new(),
        assumed: Vec::new(),
    };
    reading.bind();
    reading.denied = reading.find_denied()?;
    reading.check_bounds()?;
    reading.count();
    reading.use_numbers()?;
    reading.rows = reading.choose_rows()?;
    reading.plan(kinds)
}

/// Whether anything is said that only many nodes together can answer.
fn asks_for_many(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| match mention.what {
        What::Cue(cue) => !matches!(
            cue,
            Cue::Filler
                | Cue::Which
                | Cue::Versus
                | Cue::Bound(..)
                | Cue::Only
                | Cue::Raise
                | Cue::Lower
                | Cue::Each
                | Cue::Differ
                | Cue::Suppose
                | Cue::LeaveOut
        ),
        _ => false,
    })
}

/// Whether anything is said that no node can answer: a number, a test, something supposed.
fn counts(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| {
        matches!(
            mention.what,
            What::Cue(
                Cue::Of(_)
                    | Cue::HowMany
                    | Cue::NumberOf
                    | Cue::Share
                    | Cue::Normal
                    | Cue::Correlate
                    | Cue::Spread
            )
        )
    })
}

impl Reading<'_> {
    fn what(&self, at: usize) -> Option<&What> {
        self.mentions.all.get(at).map(|mention| &mention.what)
    }

    fn cue(&self, at: usize) -> Option<Cue> {
        match self.what(at)? {
            What::Cue(cue) => Some(*cue),
            _ => None,
        }
    }

    /// All phrases outside of what is supposed, or within it.
    fn cues(&self, changed: bool) -> impl Iterator<Item = (usize, Cue)> + '_ {
        let own = move |at: &usize| self.changed.get(*at) == Some(&changed);
        (0..self.mentions.all.len()).filter(own).filter_map(|at| Some((at, self.cue(at)?)))
    }

    fn has(&self, cue: Cue) -> bool {
        self.cues(false).any(|(_, own)| own == cue)
    }

    /// The mention before or behind a place, without those that say nothing.
    fn beside(&self, at: usize, step: isize) -> Option<usize> {
        let mut at = at.checked_add_signed(step)?;
        loop {
            match self.what(at)? {
                What::Filler | What::Relation | What::Cue(Cue::Filler) => {
                    at = at.checked_add_signed(step)?;
                }
                _ => return Some(at),
            }
        }
    }

    fn things(&self) -> impl Iterator<Item = (usize, &Thing)> {
        self.mentions.all.iter().enumerate().filter_map(|(at, mention)| match &mention.what {
            What::Thing(thing) => Some((at, thing)),
            _ => None,
        })
    }

    fn has_node_of(&self, thing: &Thing, kind: TypeId) -> bool {
        thing.nodes.iter().any(|&node| self.base.kb.node_type(node) == kind)
    }

    /// Binds types and fields to the named things beside them: `the brand "X"`, `X papers`.
    fn bind(&mut self) {
        let mut bound = BTreeMap::new();
        for (at, thing) in self.things() {
            let mut before = self.beside(at, -1);
            // `the brand is X`, `published in X`
            while let Some(place) = before
                && matches!(self.cue(place), Some(Cue::Bound(Bound::Equal, _)))
            {
                before = self.beside(place, -1);
            }
            for place in [before, self.beside(at, 1)].into_iter().flatten() {
                let binds = match self.what(place) {
                    Some(What::Type(kind)) => self.has_node_of(thing, *kind),
                    Some(What::Field(fields)) => {
                        let is = |field| thing.values.iter().any(|value| value.field == field);
                        fields.iter().any(|(field, _)| is(*field))
                    }
                    _ => false,
                };
                // What is counted or asked for is not bound to the name behind it.
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

    /// Finds what is counted: `how many X`, `number of X`, `most X`, `more than 3 X`.
    fn count(&mut self) {
        let mut counted = BTreeMap::new();
        for at in 0..self.mentions.all.len() {
            let counts = match self.what(at) {
                Some(What::Cue(cue)) => {
                    matches!(
                        cue,
                        Cue::NumberOf | Cue::Most | Cue::Fewest | Cue::More(_) | Cue::HowMany
                    )
                }
                Some(What::Number(..)) => true,
                _ => false,
            };
            // `tend to have more X`
            let counts = counts
                || self.cue(at) == Some(Cue::Correlate) && self.said_at(at).ends_with(" more");
            let Some(mut next) = self.beside(at, 1).filter(|_| counts) else { continue };
            // `how many X papers`
            if matches!(self.what(next), Some(What::Thing(_)))
                && let Some(behind) = self.beside(next, 1)
                && self.mentions.all.get(next).map(|one| one.at.end)
                    == self.mentions.all.get(behind).map(|one| one.at.start)
            {
                next = behind;
            }
            if let Some(What::Type(kind)) = self.what(next)
                && !self.bound.contains_key(&next)
            {
                counted.insert(next, *kind);
            }
        }
        self.counted = counted;
    }

    /// Whether a mention is a field or a count, which a number may bound.
    fn is_value(&self, at: usize) -> bool {
        match self.what(at) {
            Some(What::Field(_)) => !self.bound.contains_key(&at),
            _ => self.counted.contains_key(&at),
        }
    }

    /// Finds what each number bounds.
    fn use_numbers(&mut self) -> Result<(), AskError> {
        let mut uses: Vec<NumberUse> = Vec::new();
        let mut at = 0;
        while at < self.mentions.all.len() {
            let Some(What::Number(number, unit)) = self.what(at).cloned() else {
                at += 1;
                continue;
            };
            let changed = self.changed.get(at).copied().unwrap_or(false);
            let before = self.beside(at, -1);
            let cue = before.and_then(|before| self.cue(before));
            let next = self.beside(at, 1);
            let next_cue = next.and_then(|next| self.cue(next));
            // `top 5`, `the 5 cheapest`
            let first = matches!(
                next_cue,
                Some(Cue::High | Cue::Low | Cue::Best(..) | Cue::Most | Cue::Fewest)
            );
            if cue == Some(Cue::Top) || first {
                self.top = Some(number.max(1.0) as usize);
                at += 1;
                continue;
            }
            // What is supposed of values themselves is read apart.
            if changed && (unit.as_deref() == Some("%") || self.scales(at)) {
                at += 1;
                continue;
            }
            let mut to = None;
            let mut end = at;
            let mut bound = match cue {
                Some(Cue::Bound(bound, _)) => Some(bound),
                _ => None,
            };
            let mut implied = None;
            if cue == Some(Cue::Versus)
                && let Some(place) = before.and_then(|before| self.beside(before, -1))
            {
                match self.cue(place) {
                    Some(Cue::Comparative(high, names)) => {
                        // A newer thing has a larger year, and so on.
                        bound = Some(if high { Bound::Above } else { Bound::Below });
                        implied = Some(Bounded::Implied(names));
                    }
                    Some(Cue::More(high)) => {
                        bound = Some(if high { Bound::Above } else { Bound::Below });
                    }
                    _ => {}
                }
            }
            let second = next.filter(|next| matches!(self.what(*next), Some(What::Number(..))));
            let is_year = |number: f64| number.fract() == 0.0 && YEARS.contains(&(number as i64));
            if let Some(second) = second
                && let Some(What::Number(other, _)) = self.what(second)
                && (bound == Some(Bound::Between)
                    || bound == Some(Bound::Equal) && self.is_range(at, second))
            {
                bound = Some(Bound::Between);
                to = Some(*other);
                end = second;
            } else if next_cue == Some(Cue::Versus)
                && let Some(Cue::More(high)) =
                    next.and_then(|next| self.beside(next, 1)).and_then(|at| self.cue(at))
            {
                bound = Some(if high { Bound::AtLeast } else { Bound::AtMost });
                end = next.map_or(at, |next| next + 1);
            }
            let years = bound == Some(Bound::Between) && to.is_some_and(is_year);
            let by_time = matches!(cue, Some(Cue::Bound(_, true))) || bound.is_none() || years;
            let behind = self.beside(end, 1).filter(|place| {
                let value = self.is_value(*place) && to.is_none();
                (value || self.counted.contains_key(place)) && !self.is_apart(end, *place)
            });
            let ahead = (0..at)
                .rev()
                .find(|place| self.is_value(*place) && self.changed.get(*place) == Some(&changed));
            let is_time = |place: usize| self.is_time(place);
            let what = match (implied, behind, ahead) {
                (Some(implied), _, _) => Some(implied),
                (_, Some(place), _) if !(by_time && is_year(number) && !is_time(place)) => {
                    Some(Bounded::Mention(place))
                }
                (_, _, Some(place)) if !(by_time && is_year(number)) || is_time(place) => {
                    Some(Bounded::Mention(place))
                }
                _ if is_year(number) && unit.is_none() => Some(Bounded::Year),
                _ if matches!(unit.as_deref(), Some("USD" | "GBP" | "EUR" | "JPY")) => {
                    Some(Bounded::Implied(&["price", "cost"]))
                }
                _ => None,
            };
            let Some(what) = what else {
                return Err(AskError::Missing(format!(
                    "it does not say of which value {number} is said; name a field"
                )));
            };
            if let Bounded::Mention(place) = what {
                self.bounded.insert(place);
            }
            let bound = bound.unwrap_or(Bound::Equal);
            let or = uses.last().is_some() && self.is_alternative(at);
            uses.push(NumberUse { what, bound, number, to, changed, or });
            at = end + 1;
        }
        self.numbers = uses;
        Ok(())
    }

    /// Whether a field holds years or dates.
    fn is_time(&self, at: usize) -> bool {
        match self.what(at) {
            Some(What::Field(fields)) => fields.iter().any(|(field, share)| {
                let name = self.base.kb.field_name(*field);
                *share > 0.4 && (name.contains("year") || name.contains("date"))
            }),
            _ => false,
        }
    }

    /// Whether a number within what is supposed says by how much values change, and not which.
    fn scales(&self, at: usize) -> bool {
        let near = |step: isize| self.beside(at, step).and_then(|at| self.cue(at));
        let changes = |cue: Option<Cue>| {
            matches!(cue, Some(Cue::Raise | Cue::Lower | Cue::More(_) | Cue::Comparative(..)))
        };
        let behind =
            self.beside(at, 1).and_then(|next| self.beside(next, 1)).and_then(|at| self.cue(at));
        changes(near(-1))
            || changes(near(1))
            || changes(behind) && !matches!(near(-1), Some(Cue::Bound(..)))
    }

    /// The type that the rows are of.
    fn choose_rows(&self) -> Result<TypeId, AskError> {
        let kb = &self.base.kb;
        let mut best: Option<(f32, TypeId)> = None;
        for kind in (0..kb.types().len()).map(|kind| TypeId(kind as u16)) {
            let points = self.points(kind);
            if points > 0.0 && best.is_none_or(|(most, _)| points > most) {
                best = Some((points, kind));
            }
        }
        let unsaid = || {
            AskError::Missing(format!(
                "it does not say of what; this base has nodes of the types {}",
                kb.types().join(", ")
            ))
        };
        best.map(|(_, kind)| kind).ok_or_else(unsaid)
    }

    /// How much speaks for a type as that of the rows.
    fn points(&self, kind: TypeId) -> f32 {
        let mut points = 0.0;
        let mut said_before = false;
        for (at, mention) in self.mentions.all.iter().enumerate() {
            match &mention.what {
                What::Field(fields) => {
                    let own =
                        |field: &FieldId| self.schema.sample(self.base, kind, *field).is_some();
                    let share =
                        fields.iter().filter(|(field, _)| own(field)).map(|(_, share)| *share);
                    // Which of several types has a field is told by how many of its nodes do.
                    let filled = fields.iter().filter_map(|(field, _)| {
                        let sample = self.schema.sample(self.base, kind, *field)?;
                        Some(sample.filled as f32 / sample.seen.max(1) as f32)
                    });
                    points += HAS_FIELD
                        * share.fold(0.0, f32::max)
                        * (0.9 + 0.1 * filled.fold(0.0, f32::max));
                }
                What::Type(own) if self.counted.contains_key(&at) => {
                    let how_many = at.checked_sub(1).is_some() && self.is_how_many(at);
                    if *own == kind {
                        points += match how_many {
                            true => IS_COUNTED,
                            // What is counted of nothing else are the rows.
                            false if !self.says_other(kind) => IS_SAID,
                            false => 0.1,
                        };
                    } else if !how_many && self.links(kind, *own) && self.is_said(kind) {
                        points += HAS_COUNTED;
                    }
                }
                What::Type(own) if *own == kind && !self.bound.contains_key(&at) => {
                    // Of equals, the first that is said.
                    points += if said_before { 0.0 } else { IS_SAID } + 0.1 / (at + 1) as f32;
                    points += if self.is_plural(at, kind) { IS_PLURAL } else { 0.0 };
                    points += if self.is_among(mention) { IS_AMONG } else { 0.0 };
                    said_before = true;
                }
                What::Cue(Cue::Best(_, names) | Cue::Comparative(_, names)) => {
                    points += if self.implied(kind, names).is_some() { HAS_FIELD } else { 0.0 };
                }
                What::Thing(thing) => {
                    let of_rows = thing.values.iter().any(|value| value.kind == kind);
                    points += if of_rows || self.has_node_of(thing, kind) {
                        HAS_VALUE * 0.5
                    } else {
                        0.0
                    };
                }
                _ => {}
            }
        }
        for number in &self.numbers {
            let has = match number.what {
                Bounded::Year => self.year(kind).is_some(),
                Bounded::Implied(names) => self.implied(kind, names).is_some(),
                Bounded::Mention(_) => false,
            };
            points += if has { HAS_VALUE } else { 0.0 };
        }
        points
    }

    /// Whether a type that is counted stands behind `how many`, and not `how many on average`.
    fn is_how_many(&self, at: usize) -> bool {
        let of_each = self.function().is_some_and(|function| function != Function::Sum);
        let mut before = self.beside(at, -1);
        if before.is_some_and(|before| matches!(self.what(before), Some(What::Thing(_)))) {
            before = before.and_then(|before| self.beside(before, -1));
        }
        !of_each && before.and_then(|before| self.cue(before)) == Some(Cue::HowMany)
    }

    /// Whether a type is said other than as what is counted or what a thing is.
    fn is_said(&self, kind: TypeId) -> bool {
        self.mentions.all.iter().enumerate().any(|(at, mention)| {
            mention.what == What::Type(kind)
                && !self.counted.contains_key(&at)
                && !self.bound.contains_key(&at)
        })
    }

    /// Whether another type than this is said of itself.
    fn says_other(&self, kind: TypeId) -> bool {
        let types = (0..self.schema.types.len()).map(|other| TypeId(other as u16));
        types.filter(|other| *other != kind).any(|other| self.is_said(other))
    }

    /// Whether a type is said behind `among`.
    fn is_among(&self, mention: &Mention) -> bool {
        let before = mention.at.start.checked_sub(1).and_then(|at| self.mentions.tokens.get(at));
        before.is_some_and(|token| token.word == "among")
    }

    /// Whether a type is said of several: in another form than its name.
    fn is_plural(&self, at: usize, kind: TypeId) -> bool {
        let own = self.schema.types.get(kind.0 as usize).map(|own| own.words.join(" "));
        own.is_some_and(|own| own != self.said_at(at))
    }

    fn links(&self, from: TypeId, to: TypeId) -> bool {
        !self.schema.paths(from, to, &self.said).is_empty()
    }

    /// The field of a type whose name has one of these words, best filled first.
    fn implied(&self, kind: TypeId, names: &[&str]) -> Option<FieldId> {
        let samples = self.schema.samples(self.base, kind);
        let fits = |field: FieldId, name: &&str| {
            let stem = self.base.stems.stem(name);
            self.schema
                .fields
                .get(field.0 as usize)
                .is_some_and(|own| own.stems.contains(&stem.into_owned()))
        };
        let fitting = samples
            .iter()
            .filter(|sample| sample.kind.is_number() || sample.kind == ColumnKind::Date)
            .filter(|sample| names.iter().any(|name| fits(sample.field, name)));
        fitting
            .max_by_key(|sample| (self.is_exact(sample.field, names), sample.filled))
            .map(|sample| sample.field)
    }

    fn is_exact(&self, field: FieldId, names: &[&str]) -> bool {
        names.contains(&self.base.kb.field_name(field))
    }

    /// The field of a type that holds years.
    fn year(&self, kind: TypeId) -> Option<FieldId> {
        let samples = self.schema.samples(self.base, kind);
        let years = samples.iter().filter(|sample| sample.kind == ColumnKind::Year);
        years.max_by_key(|sample| sample.filled).map(|sample| sample.field)
    }

    /// The field of the rows that a mention says: of those that they have the one that is said best.
    fn field(&self, fields: &[(FieldId, f32)], numbers: bool) -> Option<FieldId> {
        let own = fields.iter().filter_map(|(field, share)| {
            let sample = self.schema.sample(self.base, self.rows, *field)?;
            let fits = !numbers || sample.kind.is_number();
            fits.then_some((*share, sample.filled, *field))
        });
        let best = own.max_by(|one, other| {
            one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)).then(other.2.cmp(&one.2))
        });
        best.map(|(_, _, field)| field)
    }

    fn kind_of(&self, field: FieldId) -> Option<ColumnKind> {
        self.schema.sample(self.base, self.rows, field).map(|sample| sample.kind)
    }

    /// The place of a column, which is added if it is not there.
    fn column(&mut self, spec: ColumnSpec) -> usize {
        if let Some(at) = self.columns.iter().position(|own| *own == spec) {
            return at;
        }
        self.columns.push(spec);
        self.columns.len() - 1
    }

    /// The best metapath from the rows to a type; says so where another would do as well.
    fn path_to(&mut self, kind: TypeId) -> Result<Vec<MetapathStep>, AskError> {
        let mut paths = self.schema.paths(self.rows, kind, &self.said);
        let kb = &self.base.kb;
        if paths.is_empty() {
            return Err(AskError::Missing(format!(
                "nothing links {} to {}",
                kb.type_name(self.rows),
                kb.type_name(kind)
            )));
        }
        if let [first, second, ..] = paths.as_slice()
            && first.len() == second.len()
        {
            let told = format!(
                "taken as {}, not as {}",
                metapath_in_words(kb, self.rows, first.iter().copied()),
                metapath_in_words(kb, self.rows, second.iter().copied())
            );
            if !self.assumed.contains(&told) {
                self.assumed.push(told);
            }
        }
        Ok(paths.swap_remove(0))
    }

    /// What a named thing is to the rows.
    fn role(&mut self, at: usize, thing: &Thing) -> Result<Role, AskError> {
        let kb = &self.base.kb;
        let binder = self.bound.iter().find(|(_, own)| **own == at).map(|(place, _)| *place);
        let mut types: Vec<TypeId> = thing.nodes.iter().map(|&node| kb.node_type(node)).collect();
        types.sort_unstable();
        types.dedup();
        match binder.and_then(|place| self.what(place)).cloned() {
            Some(What::Type(kind)) => types.retain(|own| *own == kind),
            Some(What::Field(fields)) => {
                let own = thing.values.iter().find(|value| {
                    value.kind == self.rows && fields.iter().any(|(field, _)| *field == value.field)
                });
                if let Some(value) = own {
                    return Ok(Role::Value { field: value.field, key: value.key.clone() });
                }
            }
            _ => {}
        }
        let nodes_of = |kind: TypeId| -> Vec<NodeId> {
            thing.nodes.iter().copied().filter(|&node| kb.node_type(node) == kind).collect()
        };
        let mut linked: Vec<(Vec<MetapathStep>, TypeId)> = Vec::new();
        for kind in types.iter().copied().filter(|kind| *kind != self.rows) {
            linked.extend(
                self.schema
                    .paths(self.rows, kind, &self.said)
                    .into_iter()
                    .next()
                    .map(|steps| (steps, kind)),
            );
        }
        linked.sort_by_key(|(steps, _)| steps.len());
        let value = thing.values.iter().find(|value| value.kind == self.rows);
        match (linked.into_iter().next(), value, types.contains(&self.rows)) {
            (Some((steps, kind)), _, _) if steps.len() == 1 => {
                // Says so where another relation leads there as well.
                let steps = self.path_to(kind).unwrap_or(steps);
                Ok(Role::Linked { kind, nodes: nodes_of(kind), steps })
            }
            (_, Some(value), _) => Ok(Role::Value { field: value.field, key: value.key.clone() }),
            (_, _, true) if self.schema.is_linked_within(self.rows, &self.said) => {
                let rows = kb.type_name(self.rows);
                Err(AskError::Missing(format!(
                    "{:?} is a {rows} itself, and what links one {rows} to another is not followed",
                    thing.text
                )))
            }
            (_, _, true) => Ok(Role::Is(nodes_of(self.rows))),
            (Some((_, kind)), _, _) => {
                let steps = self.path_to(kind)?;
                Ok(Role::Linked { kind, nodes: nodes_of(kind), steps })
            }
            _ => Err(AskError::Missing(format!(
                "nothing links {} to {:?}",
                kb.type_name(self.rows),
                thing.text
            ))),
        }
    }

    /// A role as something that is so of a row or not.
    fn test(&mut self, role: Role) -> Test {
        match role {
            Role::Linked { nodes, steps, .. } => {
                let column = self.column(ColumnSpec::Names(steps));
                Test::Linked { column, nodes }
            }
            Role::Value { field, key } => {
                Test::Value { column: self.column(ColumnSpec::Field(field)), key }
            }
            Role::Is(nodes) => Test::Is(nodes),
        }
    }

    /// The column of numbers that a mention says, if it says one: a field, or a count.
    fn number_column(&mut self, at: usize) -> Result<Option<usize>, AskError> {
        let spec = match self.what(at).cloned() {
            Some(What::Field(fields)) => match self.field(&fields, true) {
                Some(field) => ColumnSpec::Field(field),
                None => return Ok(None),
            },
            Some(What::Type(kind)) if self.counted.contains_key(&at) && kind != self.rows => {
                ColumnSpec::Count(self.path_to(kind)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(self.column(spec)))
    }

    /// The test that a number makes.
    fn number_test(&mut self, number: &NumberUse) -> Result<Test, AskError> {
        let rows = self.base.kb.type_name(self.rows).to_owned();
        let field = |field: Option<FieldId>, what: &str| {
            let none = || AskError::Missing(format!("no {what} is known of {rows}"));
            field.map(ColumnSpec::Field).ok_or_else(none)
        };
        let column = match number.what {
            Bounded::Mention(at) => match self.number_column(at)? {
                Some(column) => column,
                None => {
                    let said = self.said_at(at);
                    return Err(AskError::Missing(format!(
                        "no number called {said:?} is known of {rows}"
                    )));
                }
            },
            Bounded::Year => {
                let spec = field(self.year(self.rows), "year")?;
                self.column(spec)
            }
            Bounded::Implied(names) => {
                let spec =
                    field(self.implied(self.rows, names), names.first().unwrap_or(&"value"))?;
                self.column(spec)
            }
        };
        Ok(Test::Number { column, bound: number.bound, number: number.number, to: number.to })
    }

    /// The words of a mention.
    fn said_at(&self, at: usize) -> String {
        let own = self.mentions.all.get(at).map(|mention| mention.at.clone()).unwrap_or_default();
        let words = self.mentions.tokens.get(own).unwrap_or_default();
        words.iter().map(|token| token.word.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The plan of the first kind that finds all it needs.
    fn plan(&mut self, kinds: &[Kind]) -> Result<Plan, AskError> {
        let mut first: Option<AskError> = None;
        for &kind in kinds {
            (self.columns, self.assumed) = (Vec::new(), Vec::new());
            match self.of_kind(kind) {
                Ok(plan) => return Ok(plan),
                // The first that says what is missing.
                Err(error) => {
                    if first.as_ref().is_none_or(|first| *first == AskError::NoTable) {
                        first = Some(error);
                    }
                }
            }
        }
        Err(first.unwrap_or(AskError::NoTable))
    }

    /// The first column of numbers that is said, in what is supposed or outside of it.
    fn first_number(&mut self, changed: bool) -> Result<Option<usize>, AskError> {
        for at in 0..self.mentions.all.len() {
            if self.changed.get(at) == Some(&changed)
                && let Some(column) = self.number_column(at)?
            {
                return Ok(Some(column));
            }
        }
        Ok(None)
    }

    /// The function that is said first.
    fn function(&self) -> Option<Function> {
        self.cues(false).find_map(|(_, cue)| match cue {
            Cue::Of(function) => Some(function),
            _ => None,
        })
    }
}
