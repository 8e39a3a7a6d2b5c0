//! Determines the field of dates that each date in a question bounds, by the words around it.

use crate::{
    AskError,
    lexicon::{Bound, Cue},
    mentions::What,
    plan::{DatePart, Test},
    reading::Reading,
};
use agent_kb::{
    FieldId, TypeId,
    table::{ColumnKind, ColumnSpec, dates::DateSpan},
};

/// A date that bounds a field of dates.
#[derive(Clone, Debug)]
pub(super) struct DateUse {
    /// The mention of the date.
    pub(super) at: usize,
    /// The mention of the field, if the question has one.
    field: Option<usize>,
    /// The bounds, which all hold.
    bounds: Vec<(Bound, String)>,
    pub(super) changed: bool,
}

impl Reading<'_> {
    /// Finds the field that each date bounds.
    ///
    /// # Errors
    /// If a date has a comparison that dates do not support.
    pub(super) fn use_dates(&mut self) -> Result<(), AskError> {
        let mut at = 0;
        while at < self.mentions.all.len() {
            let Some(What::Date(span)) = self.what(at).cloned() else {
                at += 1;
                continue;
            };
            let changed = self.changed.get(at).copied().unwrap_or(false);
            let before = self.beside(at, -1);
            let cue = before.and_then(|before| self.cue(before));
            let next = self.beside(at, 1);
            let second = next.and_then(|next| match self.what(next) {
                Some(What::Date(to)) => Some((next, to.clone())),
                _ => None,
            });
            let ranged = second.filter(|(place, _)| {
                cue == Some(Cue::Bound(Bound::Between, false)) || self.is_range(at, *place)
            });
            let (mut bounds, mut end) = (Vec::new(), at);
            match (ranged, self.bound_before(before)) {
                (Some((place, to)), _) => {
                    bounds.push((Bound::AtLeast, span.from));
                    bounds.push((Bound::AtMost, to.to));
                    end = place;
                }
                (None, Some(bound)) => bounds.extend(bounded(bound, span)),
                (None, None) => {
                    let more = next.and_then(|next| self.cue(next));
                    match more {
                        Some(Cue::OrMore(true)) => bounds.push((Bound::AtLeast, span.from)),
                        Some(Cue::OrMore(false)) => bounds.push((Bound::AtMost, span.to)),
                        _ => bounds.extend(bounded(Bound::Equal, span)),
                    }
                }
            }
            if bounds.is_empty() {
                return Err(AskError::Missing(
                    "cannot tell what is bounded by the date".to_owned(),
                ));
            }
            let is_near =
                |place: &usize| self.is_time(*place) && self.changed.get(*place) == Some(&changed);
            let field = (0..at).rev().find(is_near).or_else(|| next.filter(is_near));
            self.bounded.extend(field);
            self.dates.push(DateUse { at, field, bounds, changed });
            at = end + 1;
        }
        Ok(())
    }

    /// Returns the bound in the words before a date.
    fn bound_before(&self, before: Option<usize>) -> Option<Bound> {
        match self.cue(before?)? {
            Cue::Bound(bound, _) => Some(bound),
            // `newer than` a date is above it.
            Cue::Versus => match self.cue(self.beside(before?, -1)?)? {
                Cue::Comparative(true, _) => Some(Bound::Above),
                Cue::Comparative(false, _) => Some(Bound::Below),
                _ => None,
            },
            _ => None,
        }
    }

    /// Builds the tests of a date.
    pub(super) fn date_tests(&mut self, date: &DateUse) -> Result<Vec<Test>, AskError> {
        let said = date.field.and_then(|at| match self.what(at) {
            Some(What::Field(fields)) => self.field(fields, false),
            _ => None,
        });
        let field = match said {
            Some(field) => field,
            None => self.time_field()?,
        };
        if self.kind_of(field) != Some(ColumnKind::Date) {
            let name = self.base.kb.field_name(field);
            return Err(AskError::Missing(format!("{name:?} holds no dates; name a year")));
        }
        let column = self.column(ColumnSpec::Field(field));
        let test = |(bound, date): &(Bound, String)| Test::Date {
            column,
            bound: *bound,
            date: date.clone(),
        };
        Ok(date.bounds.iter().map(test).collect())
    }

    /// Returns the field of years of a type with the most values; without one, all fields of dates.
    pub(super) fn time_fields(&self, kind: TypeId) -> Vec<FieldId> {
        let samples = self.schema.samples(self.base, kind);
        let of = |wanted: ColumnKind| {
            let own = samples.iter().filter(move |sample| sample.kind == wanted);
            own.map(|sample| (sample.filled, sample.field)).collect::<Vec<_>>()
        };
        match of(ColumnKind::Year).into_iter().max() {
            Some((_, year)) => vec![year],
            None => of(ColumnKind::Date).into_iter().map(|(_, field)| field).collect(),
        }
    }

    /// Returns the field that a year or a date without a field bounds. Chooses among several, or
    /// among those whose names are mentioned.
    ///
    /// # Errors
    /// If the rows have no field of years or dates.
    pub(super) fn time_field(&self) -> Result<FieldId, AskError> {
        let mut fields = self.time_fields(self.rows);
        let is_said = |field: &FieldId| {
            let names = self.schema.fields.get(usize::from(field.0));
            names.is_some_and(|own| own.stems.iter().any(|stem| self.said.contains(stem)))
        };
        if fields.iter().any(is_said) {
            fields.retain(is_said);
        }
        let told: Vec<String> = fields
            .iter()
            .map(|field| format!("field {}", self.base.kb.field_name(*field)))
            .collect();
        let none = || {
            let rows = self.base.kb.type_name(self.rows);
            AskError::Missing(format!("no field of {rows} holds a year or a date"))
        };
        fields.get(self.choose(&told)).copied().ok_or_else(none)
    }

    /// Returns the mention of a part of dates that groups the rows: `per month`, `which year`.
    pub(super) fn part_mention(&self) -> Option<usize> {
        (0..self.mentions.all.len()).find(|at| self.part_at(*at).is_some() && self.is_parting(*at))
    }

    /// Returns the part of dates by which a column of dates groups the rows, if any.
    pub(super) fn date_part(&self, group: usize) -> Option<DatePart> {
        let &ColumnSpec::Field(field) = self.columns.get(group)? else { return None };
        let is_date = self.kind_of(field) == Some(ColumnKind::Date);
        self.part_mention().and_then(|at| self.part_at(at)).filter(|_| is_date)
    }

    fn part_at(&self, at: usize) -> Option<DatePart> {
        match (self.what(at)?, self.said_at(at).as_str()) {
            (What::Filler, "month" | "months") => Some(DatePart::Month),
            (What::Filler, "year" | "years") => Some(DatePart::Year),
            _ => None,
        }
    }

    /// Whether a mention is a field of years or dates.
    pub(super) fn is_time(&self, at: usize) -> bool {
        let Some(What::Field(fields)) = self.what(at) else { return false };
        let types = (0..self.schema.types.len()).map(|kind| TypeId(kind as u16));
        let mut known = types.flat_map(|kind| self.schema.samples(self.base, kind));
        known.any(|sample| {
            matches!(sample.kind, ColumnKind::Year | ColumnKind::Date)
                && fields.iter().any(|(field, share)| *field == sample.field && *share > 0.4)
        })
    }
}

/// Converts a bound on a span of dates to bounds on single dates; empty for [`Bound::Not`] and
/// [`Bound::Between`].
fn bounded(bound: Bound, span: DateSpan) -> Vec<(Bound, String)> {
    let DateSpan { from, to } = span;
    match bound {
        Bound::Above => vec![(Bound::Above, to)],
        Bound::AtLeast => vec![(Bound::AtLeast, from)],
        Bound::Below => vec![(Bound::Below, from)],
        Bound::AtMost => vec![(Bound::AtMost, to)],
        Bound::Equal if from == to => vec![(Bound::Equal, from)],
        Bound::Equal => vec![(Bound::AtLeast, from), (Bound::AtMost, to)],
        Bound::Not | Bound::Between => Vec::new(),
    }
}
