//! Determines the type of the rows: the type that the question counts, or the type with the
//! mentioned fields. Each type gets points for what the question mentions; the type with the most
//! points is taken.

use std::collections::BTreeSet;

use crate::{
    AskError,
    lexicon::{Cue, Function, is_frequency, property},
    mentions::What,
    missing,
    reading::{Reading, asks, numbers::Bounded},
    schema::types_of,
};
use agent_kb::{Direction, FieldId, TypeId};

/// Points of a type that has a field whose whole name is mentioned.
const HAS_FIELD: f32 = 3.0;
/// Fraction of [`HAS_FIELD`] that is scaled by the share of the type's nodes that have the field.
const FILLED_SHARE: f32 = 0.1;
/// Points of a type whose nodes the question counts.
const IS_COUNTED: f32 = 4.0;
/// Points of a mentioned type that has links to the counted nodes.
const HAS_COUNTED: f32 = 2.0;
/// Points of a type that has a field that a number in the question may bound. A type gets half of
/// these points for each name in the question that is one of its nodes or values.
const HAS_VALUE: f32 = 1.0;
/// Points of a type that is mentioned by name.
const IS_SAID: f32 = 1.0;
/// Points for a type that is mentioned in the plural.
const IS_PLURAL: f32 = 0.5;
/// Points of a type that is mentioned after `among`.
const IS_AMONG: f32 = 4.0;

impl Reading<'_> {
    /// Whether the question asks for a frequency.
    pub(super) fn is_frequency(&self) -> bool {
        self.cues(false).any(|(at, cue)| {
            matches!(cue, Cue::Most | Cue::Fewest | Cue::More(_)) && is_frequency(&self.said_at(at))
        })
    }

    /// Whether nodes of a type are counted although no word for counting stands before the type.
    pub(super) fn counts_unnamed(&self, kind: TypeId) -> bool {
        let counted = [self.occurs_in(), self.counted_by_name(), self.counted_ends()];
        counted.contains(&Some(kind))
    }

    /// Returns the type whose nodes are counted if the question asks for a frequency: the base's
    /// only candidate type. Types that are mentioned or have a named node must be linked to it by
    /// their step with the most edges. `None` otherwise, or if the question names what to count or
    /// mentions a field.
    fn occurs_in(&self) -> Option<TypeId> {
        let &[wanted] = self.kb.candidate_types() else { return None };
        if !self.is_frequency() || !self.counted.is_empty() {
            return None;
        }
        let mut types: Vec<TypeId> = Vec::new();
        for mention in &self.mentions.all {
            match &mention.what {
                What::Field(_) | What::Links(_) => return None,
                What::Type(kind) => types.push(*kind),
                What::Thing(thing) => {
                    types.extend(thing.nodes.iter().map(|&node| self.kb.node_type(node)));
                }
                _ => {}
            }
        }
        // The step from a type never leads to the type itself.
        let all = types.iter().all(|kind| self.schema.most_linked(*kind) == Some(wanted));
        (all && !types.is_empty()).then_some(wanted)
    }

    /// Returns the type that is counted without a word for counting (`papers per venue`), or
    /// without being mentioned (`how many analysts`). The latter is the only type with the named
    /// value or, if the name is not a value, the base's only candidate type.
    fn counted_by_name(&self) -> Option<TypeId> {
        if let Some(kind) = asks::counted_by_each(self.mentions) {
            return Some(kind);
        }
        let counts = |cue: Cue| matches!(cue, Cue::HowMany | Cue::NumberOf);
        let (at, _) = self.cues(false).find(|(_, cue)| counts(*cue))?;
        let thing = self.thing(self.beside(at, 1)?)?;
        let mut types: Vec<TypeId> = thing.values.iter().map(|value| value.kind).collect();
        types.dedup();
        if types.is_empty() {
            types = self.kb.candidate_types().to_vec();
        }
        let is_said = self.says_type(|_| true) || !self.counted.is_empty();
        if let (&[kind], false) = (types.as_slice(), is_said) { Some(kind) } else { None }
    }

    /// Returns the type whose nodes are counted if the question only asks how many nodes a relation
    /// leads to: `how many lecturers are there`, where courses have a lecturer.
    fn counted_ends(&self) -> Option<TypeId> {
        let (at, _) = self.cues(false).find(|(_, cue)| *cue == Cue::HowMany)?;
        let next = self.beside(at, 1)?;
        let Some(What::Links(relation)) = self.what(next) else { return None };
        let is_part = |place: usize| {
            let what = self.what(place);
            place != next && !matches!(what, Some(What::Filler | What::Cue(Cue::HowMany)))
        };
        if (0..self.mentions.all.len()).any(is_part) {
            return None;
        }
        let ends = self.kb.tuples().iter().filter(|tuple| tuple.relation == *relation);
        ends.max_by_key(|tuple| tuple.edges).map(|tuple| tuple.target)
    }

    /// Whether the question has a word for publishing or writing, and does not say which type to
    /// count: `who published the most`.
    pub(super) fn publishes(&self) -> bool {
        const PUBLISH: [&str; 7] =
            ["publish", "published", "publishes", "wrote", "write", "writes", "written"];
        let is_fruitful =
            |said: String| ["prolific", "productive"].iter().any(|end| said.ends_with(end));
        self.counted.is_empty()
            && (self.own_words().iter().any(|word| PUBLISH.contains(word))
                || self.cues(false).any(|(at, _)| is_fruitful(self.said_at(at))))
    }

    /// Returns the type with the most points. If the question mentions no type,
    /// [`choose`](Self::choose) selects among the types with nearly as many points. Fails if no
    /// type has any points.
    pub(super) fn choose_rows(&self) -> Result<TypeId, AskError> {
        let kb = self.kb;
        let mut found: Vec<(f32, TypeId)> = types_of(kb)
            .map(|kind| (self.points(kind), kind))
            .filter(|(points, _)| *points > 0.0)
            .collect();
        found.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        // If no type is mentioned, any type with the field may be meant.
        let says_type = !self.counted.is_empty() || self.says_type(|_| true);
        let most = found.first().map_or(0.0, |best| best.0);
        let is_best = |own: TypeId| found.first().is_some_and(|(_, kind)| *kind == own);
        let says_best = says_type
            && (self.says_type(is_best) || self.counted.values().any(|kind| is_best(*kind)));
        let nearly = if says_type { 0.0 } else { FILLED_SHARE * HAS_FIELD };
        found.retain(|(points, _)| *points >= most - nearly);
        let told = |(_, kind): &(f32, TypeId)| format!("every {}", kb.type_name(*kind));
        let best = match says_best {
            true => found.first().copied(),
            false => self.choose(found, told),
        };
        match best {
            Some((_, kind)) => Ok(kind),
            None => missing(format!(
                "cannot tell which type is meant; this base has nodes of the types {}",
                kb.types().join(", ")
            )),
        }
    }

    /// Returns the points of a type as a candidate for the row type.
    fn points(&self, kind: TypeId) -> f32 {
        let mut points = 0.0;
        let mut said_before = false;
        let first = self.beside(0, 1).filter(|_| self.cue(0) == Some(Cue::Which));
        let asks_type = first.is_some_and(|first| self.type_at(first).is_some());
        let is_said = || self.says_type(|said| said == kind);
        for (at, mention) in self.mentions.all.iter().enumerate() {
            match &mention.what {
                What::Field(fields) => {
                    // The type with more nodes that have the field is preferred.
                    let (mut share, mut filled) = (0.0, 0.0);
                    for (field, own) in fields {
                        if let Some(sample) = self.schema.sample(kind, *field) {
                            share = f32::max(share, *own);
                            filled =
                                f32::max(filled, sample.filled as f32 / sample.seen.max(1) as f32);
                        }
                    }
                    points += HAS_FIELD * share * (1.0 - FILLED_SHARE + FILLED_SHARE * filled);
                }
                What::Type(own) if self.counted.contains_key(&at) => {
                    let how_many = self.is_how_many(at);
                    if *own == kind {
                        points += match how_many {
                            true => IS_COUNTED,
                            // Counted nodes are the rows if no other type is mentioned.
                            false if !self.says_type(|other| other != kind) => IS_SAID,
                            false => 0.1,
                        };
                    } else if !how_many && self.links(kind, *own) && is_said() {
                        points += HAS_COUNTED;
                    }
                }
                // `percentage of orders that ...`
                What::Type(own) if *own == kind && self.cue_beside(at, -1) == Some(Cue::Share) => {
                    points += IS_COUNTED;
                }
                What::Type(own) if *own == kind && !self.bound.contains_key(&at) => {
                    // The first mentioned of equal types is preferred.
                    points += if said_before { 0.0 } else { IS_SAID } + 0.1 / (at + 1) as f32;
                    points += if self.is_plural(at, kind) { IS_PLURAL } else { 0.0 };
                    points += if self.word_before(at) == "among" { IS_AMONG } else { 0.0 };
                    said_before = true;
                }
                What::Links(relation) => {
                    let out = self.schema.step_of(kind, *relation).map(|step| step.direction);
                    if let Some(direction) = out {
                        points += if direction == Direction::Out { 1.0 } else { 0.5 };
                        points += if is_said() { HAS_COUNTED } else { 0.0 };
                    }
                }
                What::Cue(Cue::Best(_, names) | Cue::Comparative(_, names)) => {
                    // In `which grant started earliest`, no other type's year is meant.
                    let may_be = is_said() || !asks_type || **names != *property("time");
                    let has = may_be && self.implied(kind, names).is_some();
                    points += if has { HAS_FIELD } else { 0.0 };
                }
                What::Thing(thing) => {
                    let of_rows = thing.values.iter().any(|value| value.kind == kind);
                    let is_own = of_rows || self.has_node_of(thing, kind);
                    points += if is_own { HAS_VALUE * 0.5 } else { 0.0 };
                }
                _ => {}
            }
        }
        points += if self.counts_unnamed(kind) { IS_COUNTED } else { 0.0 };
        for number in &self.numbers {
            let has = match number.what {
                Bounded::Year => !self.time_fields(kind).is_empty(),
                Bounded::Implied(names) => self.called(kind, names, true).is_some(),
                Bounded::Mention(_) => false,
            };
            points += if has { HAS_VALUE } else { 0.0 };
        }
        points
    }

    /// Whether the counted type in mention `at` follows `how many` or `number of`, and the question
    /// computes no function other than a sum.
    pub(super) fn is_how_many(&self, at: usize) -> bool {
        let of_each = self.function().is_some_and(|function| function != Function::Sum);
        let names =
            |at: usize| matches!(self.what(at), Some(What::Thing(_) | What::Cue(Cue::Versus)));
        let before = self.beside_past(at, -1, names);
        !of_each
            && match before.and_then(|before| self.cue(before)) {
                Some(Cue::HowMany) => true,
                Some(Cue::NumberOf) => self.computes_nothing(),
                _ => false,
            }
    }

    /// Whether the question asks for `the number of X` itself, and does not compute with that
    /// number.
    fn computes_nothing(&self) -> bool {
        let begins = |cue: Cue| matches!(cue, Cue::NumberOf | Cue::Which | Cue::Filler);
        let fits = |cue: Cue| begins(cue) || matches!(cue, Cue::Each | Cue::Not | Cue::Bound(..));
        self.cues(false).all(|(_, cue)| fits(cue))
            && self.cues(false).next().is_some_and(|(_, cue)| begins(cue))
    }

    /// Whether a type that `fits` is mentioned, other than to be counted or to describe a name.
    pub(super) fn says_type(&self, fits: impl Fn(TypeId) -> bool) -> bool {
        self.mentions.all.iter().enumerate().any(|(at, mention)| {
            matches!(mention.what, What::Type(kind) if fits(kind))
                && !self.counted.contains_key(&at)
                && !self.bound.contains_key(&at)
        })
    }

    /// Whether the mention of a type is taken as a plural: its words differ from the type's name.
    pub(super) fn is_plural(&self, at: usize, kind: TypeId) -> bool {
        self.schema.types[usize::from(kind.0)].words.join(" ") != self.said_at(at)
    }

    fn links(&self, from: TypeId, to: TypeId) -> bool {
        !self.schema.paths(from, to, &self.said).is_empty()
    }

    /// Returns the types, other than the row type, that have a mentioned numeric field. The type
    /// whose field has the most values comes first, ties by ascending id.
    pub(super) fn types_with_numbers(&self) -> Vec<TypeId> {
        let mentioned = (0..self.mentions.all.len()).filter_map(|at| self.fields_at(at));
        let fields: BTreeSet<FieldId> = mentioned.flatten().map(|(field, _)| *field).collect();
        let filled = |kind: TypeId| {
            let samples = self.schema.samples(kind).iter();
            let own = samples.filter(|own| own.kind.is_number() && fields.contains(&own.field));
            own.map(|own| own.filled).max()
        };
        let mut found: Vec<(usize, TypeId)> = types_of(self.kb)
            .filter(|kind| *kind != self.rows)
            .filter_map(|kind| Some((filled(kind)?, kind)))
            .collect();
        found.sort_by_key(|(filled, kind)| (std::cmp::Reverse(*filled), *kind));
        found.into_iter().map(|(_, kind)| kind).collect()
    }
}
