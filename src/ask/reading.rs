//! Reads a question's mentions as a plan.
//!
//! The row type is the one with the mentioned fields; other named things are conditions, filters,
//! groups or subjects, by their position. Kinds of questions are tried in order, likeliest first,
//! until one finds all its parts. Every word must be explained: if one is not, there is no plan,
//! because it may be the decisive one.
//!
//! Independent of tables and SQL.

mod asks;
mod correlation;
mod joining;
mod numbers;
mod operation;
mod share;
mod superlative;
mod supposition;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Bound, Cue, Function, is_frequency},
    mentions::{COUNTS, Mention, Mentions, Thing, What},
    plan::{Operation, Plan, Test},
    reading::{
        asks::{asks_for_many, asks_surely, counts},
        numbers::{Bounded, NumberUse, is_year},
    },
    schema::Schema,
};
use agent_index::IndexedBase;
use agent_kb::{
    Direction, FieldId, MetapathStep, NodeId, TypeId, metapath_in_words,
    table::{ColumnKind, ColumnSpec, reached},
};

/// Number of nodes sampled to estimate the degree of links.
const LOOKED_AT: usize = 1_000;

/// Score of a row type for a mentioned field that it has.
const HAS_FIELD: f32 = 3.0;
/// Score of a row type for being counted.
const IS_COUNTED: f32 = 4.0;
/// Score of a row type for links to the counted nodes.
const HAS_COUNTED: f32 = 2.0;
/// Score of a row type for a mentioned value of its fields.
const HAS_VALUE: f32 = 1.0;
/// Score of a row type for a mention of its name.
const IS_SAID: f32 = 1.0;
/// Score of a row type for a plural mention.
const IS_PLURAL: f32 = 0.5;
/// Score of a row type for a mention after `among`.
const IS_AMONG: f32 = 4.0;

/// Relation of a named thing to the rows.
#[derive(Clone, Debug, PartialEq)]
enum Role {
    /// Linked to the rows.
    Linked { kind: TypeId, nodes: Vec<NodeId>, steps: Vec<MetapathStep> },
    /// A value of the rows.
    Value { field: FieldId, key: String },
    /// Some of the rows.
    Is(Vec<NodeId>),
}

/// State of reading one question.
struct Reading<'a> {
    base: &'a IndexedBase,
    schema: &'a Schema,
    mentions: &'a Mentions,
    text: &'a str,
    /// Whether each mention is part of the assumption.
    changed: Vec<bool>,
    /// Mentions of types and fields that only describe a named thing, with the mention of that
    /// thing.
    bound: BTreeMap<usize, usize>,
    /// Counted types, by the mention of the type.
    counted: BTreeMap<usize, TypeId>,
    numbers: Vec<NumberUse>,
    /// Fields and counts bounded by a number.
    bounded: BTreeSet<usize>,
    /// Negated things, fields and types.
    denied: BTreeSet<usize>,
    /// Number of first results requested.
    top: Option<usize>,
    said: BTreeSet<String>,
    rows: TypeId,
    columns: Vec<ColumnSpec>,
    assumed: Vec<String>,
}

/// The plan of a question, given its possible kinds, likeliest first.
///
/// # Errors
/// The missing part.
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
    let counts = counts(mentions);
    if !unknown.is_empty() {
        let is_name =
            |word: &&String| !base.entities.exact_mentions(&format!("\"{word}\"")).is_empty();
        let names = unknown.iter().filter(is_name).cloned().collect();
        return Err(AskError::Unknown { words: unknown, names, near: Vec::new(), counts });
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
    reading.check_alternatives()?;
    reading.count();
    reading.use_numbers()?;
    reading.is_one_question()?;
    reading.rows = reading.choose_rows()?;
    // `written together by A and B` and `associated with C` say it of nodes as well.
    match reading.plan_of_any(kinds) {
        Ok(Plan { operation: Operation::Compare { .. }, .. }) | Err(AskError::Missing(_))
            if !asks_surely(mentions) =>
        {
            Err(AskError::NoTable)
        }
        read => read,
    }
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

    /// All phrases outside of the assumption, or within it.
    fn cues(&self, changed: bool) -> impl Iterator<Item = (usize, Cue)> + '_ {
        let own = move |at: &usize| self.changed.get(*at) == Some(&changed);
        (0..self.mentions.all.len()).filter(own).filter_map(|at| Some((at, self.cue(at)?)))
    }

    fn has(&self, cue: Cue) -> bool {
        self.cues(false).any(|(_, own)| own == cue)
    }

    /// The next meaningful mention before or after a position.
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
        (0..self.mentions.all.len()).filter_map(|at| Some((at, self.thing(at)?)))
    }

    fn thing(&self, at: usize) -> Option<&Thing> {
        match self.what(at)? {
            What::Thing(thing) => Some(thing),
            _ => None,
        }
    }

    fn has_node_of(&self, thing: &Thing, kind: TypeId) -> bool {
        thing.nodes.iter().any(|&node| self.base.kb.node_type(node) == kind)
    }

    /// Binds types and fields to adjacent named things: `the brand "X"`, `X papers`.
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

    /// Finds the counted types: `how many X`, `number of X`, `most X`, `more than 3 X`.
    fn count(&mut self) {
        let mut counted = BTreeMap::new();
        for at in 0..self.mentions.all.len() {
            let counts = match self.what(at) {
                Some(What::Cue(cue)) => {
                    matches!(
                        cue,
                        Cue::NumberOf
                            | Cue::Most
                            | Cue::Fewest
                            | Cue::More(_)
                            | Cue::OrMore(_)
                            | Cue::HowMany
                    )
                }
                // `top 3 X` and `which 3 X have the most` are the first of them.
                Some(What::Number(..)) => {
                    self.beside(at, -1).and_then(|before| self.cue(before)) != Some(Cue::Top)
                        && !self.leads(at)
                }
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
        // `author list`, `paper counts`
        for (at, mention) in self.mentions.all.iter().enumerate() {
            let behind = self.mentions.tokens.get(mention.at.end).map(|token| token.word.as_str());
            let listed = behind.is_some_and(|word| COUNTS.contains(&word));
            if let What::Type(kind) = mention.what
                && listed
                && !self.bound.contains_key(&at)
            {
                counted.insert(at, kind);
            }
        }
        self.counted = counted;
    }

    /// Whether the question asks how often something occurs.
    fn is_frequency(&self) -> bool {
        self.cues(false).any(|(at, cue)| {
            matches!(cue, Cue::Most | Cue::Fewest | Cue::More(_)) && is_frequency(&self.said_at(at))
        })
    }

    /// The type whose nodes are counted if the question asks how often something occurs but names
    /// no type: the main candidate type, if the mentioned type links to it most.
    fn occurs_in(&self) -> Option<TypeId> {
        let &[wanted] = self.base.kb.candidate_types() else { return None };
        let counts = |mention: &Mention| matches!(mention.what, What::Field(_) | What::Links(_));
        if !self.is_frequency() || !self.counted.is_empty() || self.mentions.all.iter().any(counts)
        {
            return None;
        }
        let mut types: Vec<TypeId> = Vec::new();
        for mention in &self.mentions.all {
            match &mention.what {
                What::Type(kind) => types.push(*kind),
                What::Thing(thing) => {
                    types.extend(thing.nodes.iter().map(|&node| self.base.kb.node_type(node)));
                }
                _ => {}
            }
        }
        let all = types
            .iter()
            .all(|kind| *kind != wanted && self.schema.most_linked(*kind) == Some(wanted));
        (all && !types.is_empty()).then_some(wanted)
    }

    /// Whether the question asks who published or wrote more, or most, without naming the type.
    fn publishes(&self) -> bool {
        const PUBLISH: [&str; 7] =
            ["publish", "published", "publishes", "wrote", "write", "writes", "written"];
        let fruitful = |(at, _)| {
            let said = self.said_at(at);
            said.ends_with("prolific") || said.ends_with("productive")
        };
        self.counted.is_empty()
            && (self.own_words().iter().any(|word| PUBLISH.contains(word))
                || self.cues(false).any(fruitful))
    }

    /// The row type.
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

    /// Score of a type as the row type.
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
                    // Of equals, the first mentioned.
                    points += if said_before { 0.0 } else { IS_SAID } + 0.1 / (at + 1) as f32;
                    points += if self.is_plural(at, kind) { IS_PLURAL } else { 0.0 };
                    points += if self.is_among(mention) { IS_AMONG } else { 0.0 };
                    said_before = true;
                }
                What::Links(relation) => {
                    let out = self.schema.step_of(kind, *relation).map(|step| step.direction);
                    points += match out {
                        Some(Direction::Out) => 1.0,
                        Some(_) => 0.5,
                        None => 0.0,
                    };
                    points += if out.is_some() && self.is_said(kind) { HAS_COUNTED } else { 0.0 };
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
        points += if self.occurs_in() == Some(kind) { IS_COUNTED } else { 0.0 };
        for number in &self.numbers {
            let has = match number.what {
                Bounded::Year => self.year(kind).is_some(),
                Bounded::Implied(names) => self.implied_or_dated(kind, names).is_some(),
                Bounded::Mention(_) => false,
            };
            points += if has { HAS_VALUE } else { 0.0 };
        }
        points
    }

    /// Whether a counted type follows `how many`, but not `how many on average`.
    fn is_how_many(&self, at: usize) -> bool {
        let of_each = self.function().is_some_and(|function| function != Function::Sum);
        let mut before = self.beside(at, -1);
        if before.is_some_and(|before| matches!(self.what(before), Some(What::Thing(_)))) {
            before = before.and_then(|before| self.beside(before, -1));
        }
        !of_each && before.and_then(|before| self.cue(before)) == Some(Cue::HowMany)
    }

    /// Whether a type is mentioned other than as a counted type or a description of a thing.
    fn is_said(&self, kind: TypeId) -> bool {
        self.mentions.all.iter().enumerate().any(|(at, mention)| {
            mention.what == What::Type(kind)
                && !self.counted.contains_key(&at)
                && !self.bound.contains_key(&at)
        })
    }

    /// Whether another type is mentioned on its own.
    fn says_other(&self, kind: TypeId) -> bool {
        let types = (0..self.schema.types.len()).map(|other| TypeId(other as u16));
        types.filter(|other| *other != kind).any(|other| self.is_said(other))
    }

    /// Whether a type is mentioned after `among`.
    fn is_among(&self, mention: &Mention) -> bool {
        let before = mention.at.start.checked_sub(1).and_then(|at| self.mentions.tokens.get(at));
        before.is_some_and(|token| token.word == "among")
    }

    /// Whether the mention of a type is plural: another form than its name.
    fn is_plural(&self, at: usize, kind: TypeId) -> bool {
        let own = self.schema.types.get(kind.0 as usize).map(|own| own.words.join(" "));
        own.is_some_and(|own| own != self.said_at(at))
    }

    fn links(&self, from: TypeId, to: TypeId) -> bool {
        !self.schema.paths(from, to, &self.said).is_empty()
    }

    /// The numeric field of a type whose name has one of these words, best filled first.
    fn implied(&self, kind: TypeId, names: &[&str]) -> Option<FieldId> {
        self.called(kind, names, ColumnKind::is_number)
    }

    /// As [`implied`](Self::implied), or a field of dates: their years may be bounded, and nothing
    /// else is computed from them.
    fn implied_or_dated(&self, kind: TypeId, names: &[&str]) -> Option<FieldId> {
        self.called(kind, names, |kind| kind.is_number() || kind == ColumnKind::Date)
    }

    fn called(
        &self,
        kind: TypeId,
        names: &[&str],
        may_be: impl Fn(ColumnKind) -> bool,
    ) -> Option<FieldId> {
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
            .filter(|sample| may_be(sample.kind))
            .filter(|sample| names.iter().any(|name| fits(sample.field, name)));
        fitting
            .max_by_key(|sample| {
                (self.is_exact(sample.field, names), sample.kind.is_number(), sample.filled)
            })
            .map(|sample| sample.field)
    }

    fn is_exact(&self, field: FieldId, names: &[&str]) -> bool {
        names.contains(&self.base.kb.field_name(field).to_lowercase().as_str())
    }

    /// The field of years of a type.
    fn year(&self, kind: TypeId) -> Option<FieldId> {
        let samples = self.schema.samples(self.base, kind);
        let years = samples.iter().filter(|sample| sample.kind == ColumnKind::Year);
        years.max_by_key(|sample| sample.filled).map(|sample| sample.field)
    }

    /// The field of the rows in a mention: of those that the rows have, the best match.
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

    /// The index of a column, which is added if it is missing.
    fn column(&mut self, spec: ColumnSpec) -> usize {
        if let Some(at) = self.columns.iter().position(|own| *own == spec) {
            return at;
        }
        self.columns.push(spec);
        self.columns.len() - 1
    }

    /// The best metapath from the rows to a type; notes an assumption if another is equally good.
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

    /// The relation of a named thing to the rows.
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
                if let Some(value) = value {
                    self.assumed.push(format!(
                        "{:?} taken as the {} of that name, not as {}",
                        thing.text,
                        kb.type_name(kind),
                        kb.field_name(value.field)
                    ));
                }
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

    /// A role as a test of a row.
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

    /// The column of numbers in a mention, if there is one: a field, or a count.
    fn number_column(&mut self, at: usize) -> Result<Option<usize>, AskError> {
        let spec = match self.what(at).cloned() {
            Some(What::Field(fields)) => match self.field(&fields, true) {
                Some(field) => ColumnSpec::Field(field),
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

    /// The test of a number.
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
                let own = self.implied_or_dated(self.rows, names);
                let is_date = own.and_then(|own| self.kind_of(own)) == Some(ColumnKind::Date);
                if is_date && !is_year(number.number) {
                    return Err(AskError::Missing("dates are bounded by years alone".to_owned()));
                }
                let spec = field(own, names.first().unwrap_or(&"value"))?;
                self.column(spec)
            }
        };
        self.check_unit(column, number.unit.as_deref())?;
        Ok(Test::Number { column, bound: number.bound, number: number.number, to: number.to })
    }

    /// The words of the question that are not part of names.
    fn own_words(&self) -> Vec<&str> {
        let own = self
            .mentions
            .all
            .iter()
            .filter(|own| !matches!(own.what, What::Thing(_) | What::NoThing(_)));
        let tokens =
            own.flat_map(|own| self.mentions.tokens.get(own.at.clone()).unwrap_or_default());
        tokens.map(|token| token.word.as_str()).collect()
    }

    /// Refuses a number whose unit differs from its column's; notes an assumption if the column has
    /// no unit.
    fn check_unit(&mut self, column: usize, said: Option<&str>) -> Result<(), AskError> {
        let (Some(said), Some(&ColumnSpec::Field(field))) = (said, self.columns.get(column)) else {
            return Ok(());
        };
        let sample = self.schema.sample(self.base, self.rows, field);
        let name = self.base.kb.field_name(field);
        match sample.and_then(|sample| sample.unit.as_deref()) {
            Some(unit) if unit == said => {}
            Some(unit) => {
                return Err(AskError::Missing(format!("{name:?} is in {unit}, and not in {said}")));
            }
            None => self.assumed.push(format!("{name:?} has no unit; taken as {said}")),
        }
        Ok(())
    }

    /// The words of a mention.
    fn said_at(&self, at: usize) -> String {
        let own = self.mentions.all.get(at).map(|mention| mention.at.clone()).unwrap_or_default();
        let words = self.mentions.tokens.get(own).unwrap_or_default();
        words.iter().map(|token| token.word.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Refuses a question for two numbers at once.
    fn is_one_question(&self) -> Result<(), AskError> {
        let several = |one: &str, other: &str| {
            Err(AskError::Missing(format!(
                "it asks for {one} and for {other} at once; ask one question at a time"
            )))
        };
        let counts = self.cues(false).filter(|(_, cue)| *cue == Cue::HowMany);
        if let [one, other, ..] = counts.map(|(at, _)| at).collect::<Vec<_>>().as_slice() {
            return several(&self.said_at(*one), &self.said_at(*other));
        }
        let best = self.cues(false).filter(|(_, cue)| matches!(cue, Cue::Best(..)));
        if let [(one, first), (other, second), ..] = best.collect::<Vec<_>>().as_slice()
            && first != second
            && self.is_apart(*one, *other)
        {
            return several(&self.said_at(*one), &self.said_at(*other));
        }
        let which = self.cues(false).filter(|(_, cue)| *cue == Cue::Which).last();
        if let (Some((one, _)), Some((other, _))) =
            (self.cues(false).find(|(_, cue)| *cue == Cue::HowMany), which)
            && one < other
            && self.is_said_between(other.saturating_sub(2), other, &["and"])
        {
            return several(&self.said_at(one), &self.said_at(other));
        }
        let functions: Vec<(usize, Function)> = self
            .cues(false)
            .filter_map(|(at, cue)| match cue {
                Cue::Of(function) => Some((at, function)),
                _ => None,
            })
            .collect();
        for pair in functions.windows(2) {
            if let &[(one, first), (other, second)] = pair
                && first != second
                && self.is_apart(one, other)
            {
                return several(&self.said_at(one), &self.said_at(other));
            }
        }
        Ok(())
    }

    /// The plan over the best row type. If there is none and the question asks for the maximum
    /// number of a type, the plan over that type: `who wrote the most papers at V` becomes papers
    /// by author.
    fn plan_of_any(&mut self, kinds: &[Kind]) -> Result<Plan, AskError> {
        let error = match self.plan(kinds).and_then(|plan| self.is_narrowed(plan)) {
            Ok(plan) => return Ok(plan),
            Err(error) => error,
        };
        let chosen = self.rows;
        if self.has(Cue::Most) || self.has(Cue::Fewest) {
            let counted: BTreeSet<TypeId> = self.counted.values().copied().collect();
            for kind in counted.into_iter().filter(|kind| *kind != chosen) {
                self.rows = kind;
                if let Ok(plan) = self.plan(kinds).and_then(|plan| self.is_narrowed(plan)) {
                    return Ok(plan);
                }
            }
        }
        self.rows = chosen;
        Err(error)
    }

    /// Refuses a plan that ignores a condition on the counted nodes, such as counting all papers of
    /// the authors with a paper at a venue.
    fn is_narrowed(&self, plan: Plan) -> Result<Plan, AskError> {
        let kb = &self.base.kb;
        for condition in &plan.conditions {
            let Some((_, between)) = condition.steps.split_last() else { continue };
            for spec in &plan.columns {
                let ColumnSpec::Count(steps) = spec else { continue };
                let Some(end) = steps.last() else { continue };
                if between.iter().any(|step| step.to == end.to) {
                    let (counted, rows) = (kb.type_name(end.to), kb.type_name(plan.rows));
                    return Err(AskError::Missing(format!(
                        "{:?} narrows the {counted} of a {rows}, and all of them would be counted",
                        condition.name
                    )));
                }
            }
        }
        Ok(plan)
    }

    /// Whether a step leads from the rows to at most one node, with few exceptions.
    fn leads_to_one(&self, steps: &[MetapathStep]) -> bool {
        let nodes = self.base.kb.nodes_of_type(self.rows);
        let every = nodes.len().div_ceil(LOOKED_AT).max(1);
        let (mut some, mut several) = (0, 0);
        for &node in nodes.iter().step_by(every) {
            let n = reached(&self.base.kb, node, steps).len();
            some += usize::from(n > 0);
            several += usize::from(n > 1);
        }
        steps.len() == 1 && several * 100 <= some
    }

    /// The plan of the first kind that finds all its parts.
    fn plan(&mut self, kinds: &[Kind]) -> Result<Plan, AskError> {
        let mut first: Option<AskError> = None;
        for &kind in kinds {
            (self.columns, self.assumed) = (Vec::new(), Vec::new());
            match self.of_kind(kind) {
                Ok(plan) => return Ok(plan),
                // The first error that names the missing part.
                Err(error) => {
                    if first.as_ref().is_none_or(|first| *first == AskError::NoTable) {
                        first = Some(error);
                    }
                }
            }
        }
        Err(first.unwrap_or(AskError::NoTable))
    }

    /// The first mentioned column of numbers, within the assumption or outside of it.
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

    /// The first mentioned function.
    fn function(&self) -> Option<Function> {
        self.cues(false).find_map(|(_, cue)| match cue {
            Cue::Of(function) => Some(function),
            _ => None,
        })
    }
}
