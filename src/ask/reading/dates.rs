//! Determines which field each date in a question bounds, and how, by the words around the date.

use crate::{
    AskError,
    lexicon::{Bound, Cue},
    mentions::What,
    missing,
    plan::{DatePart, Test},
    reading::Reading,
    schema::types_of,
};
use agent_kb::{
    FieldId, TypeId,
    table::{ColumnKind, ColumnSpec, dates::DateSpan},
};

/// A date of a question that bounds a field of dates. `changed` states whether the date is part of
/// the assumption.
#[derive(Clone, Debug)]
pub(super) struct DateUse {
    /// Index of the mention of the date.
    pub(super) at: usize,
    /// Index of the mention of the bounded field; `None` if the question does not mention the
    /// field.
    field: Option<usize>,
    /// The comparisons, each with a date; a value must satisfy all of them.
    bounds: Vec<(Bound, String)>,
    pub(super) changed: bool,
}

impl Reading<'_> {
    /// Determines how each date of the question is used, and stores the results in `dates` and
    /// `bounded`.
    ///
    /// # Errors
    /// If a date is compared in a way that is not supported for dates.
    pub(super) fn use_dates(&mut self) -> Result<(), AskError> {
        let mut begin = 0;
        for at in 0..self.mentions.all.len() {
            let Some(What::Date(span)) = self.what(at).filter(|_| at >= begin).cloned() else {
                continue;
            };
            let changed = self.changed[at];
            let next = self.beside(at, 1);
            let second = next.and_then(|next| match self.what(next) {
                Some(What::Date(to)) => Some((next, to.clone())),
                _ => None,
            });
            let between = self.cue_beside(at, -1) == Some(Cue::Bound(Bound::Between, false));
            let ranged = second.filter(|(place, _)| between || self.is_range(at, *place));
            let bound_behind = || match self.cue_beside(at, 1) {
                Some(Cue::OrMore(true)) => Bound::AtLeast,
                Some(Cue::OrMore(false)) => Bound::AtMost,
                _ => Bound::Equal,
            };
            let (end, bounds) = match ranged {
                Some((place, to)) => {
                    (place, vec![(Bound::AtLeast, span.from), (Bound::AtMost, to.to)])
                }
                None => (at, bounded(self.compared(at).0.unwrap_or_else(bound_behind), span)),
            };
            if bounds.is_empty() {
                return missing("cannot tell which field the date refers to; name the field");
            }
            let is_near = |place: &usize| self.is_time(*place) && self.changed[*place] == changed;
            let field = (0..at).rev().find(is_near).or_else(|| next.filter(is_near));
            self.bounded.extend(field);
            // One value cannot be in two months, so two spans of one field are refused.
            let is_span = |bounds: &[(Bound, String)]| {
                matches!(bounds, [(Bound::Equal, _)] | [(Bound::AtLeast, _), (Bound::AtMost, _)])
            };
            let again = |last: &DateUse| last.field == field && is_span(&last.bounds);
            if self.dates.last().is_some_and(again) && is_span(&bounds) {
                return missing(
                    "two dates for one field are not supported; ask about each date separately",
                );
            }
            self.dates.push(DateUse { at, field, bounds, changed });
            begin = end + 1;
        }
        Ok(())
    }

    /// Builds the tests for all dates in the assumption (if `changed`) or outside, each with the
    /// mention of its date.
    pub(super) fn all_date_tests(&mut self, changed: bool) -> Result<Vec<(usize, Test)>, AskError> {
        let mut tests = Vec::new();
        for date in self.dates.clone().iter().filter(|date| date.changed == changed) {
            tests.extend(self.date_tests(date)?.into_iter().map(|test| (date.at, test)));
        }
        Ok(tests)
    }

    /// Builds the tests that compare a field with a date of the question, one for each bound. Fails
    /// if the rows have no such field of dates.
    fn date_tests(&mut self, date: &DateUse) -> Result<Vec<Test>, AskError> {
        let field = self.said_time_field(date.field)?;
        if self.kind_of(field) != Some(ColumnKind::Date) {
            let name = self.kb.field_name(field);
            return missing(format!("{name:?} has no dates; use a year"));
        }
        let column = self.field_column(field);
        let test = |(bound, date): &(Bound, String)| Test::Date {
            column,
            bound: *bound,
            date: date.clone(),
        };
        Ok(date.bounds.iter().map(test).collect())
    }

    /// Returns a type's field of years; of several such fields, the field with the most values. If
    /// no field holds years, returns all fields that hold dates.
    pub(super) fn time_fields(&self, kind: TypeId) -> Vec<FieldId> {
        let of = |wanted: ColumnKind| {
            let own = self.schema.samples(kind).iter().filter(move |own| own.kind == wanted);
            own.map(|sample| (sample.filled, sample.field))
        };
        match of(ColumnKind::Year).max() {
            Some((_, year)) => vec![year],
            None => of(ColumnKind::Date).map(|(_, field)| field).collect(),
        }
    }

    /// Returns the field of the rows that a year or date bounds if the question does not mention
    /// the field. Fields that share a word with the question are preferred; of several fields,
    /// [`choose`](Self::choose) selects one.
    ///
    /// # Errors
    /// If the rows have no field of years or dates.
    pub(super) fn time_field(&self) -> Result<FieldId, AskError> {
        let rows = self.kb.type_name(self.rows);
        let none = || missing(format!("no field of {rows} holds a year or a date"));
        self.choose_said(self.time_fields(self.rows)).map_or_else(none, Ok)
    }

    /// Returns one of several fields; fields that share a word with the question are preferred. Of
    /// several, [`choose`](Self::choose) selects one.
    pub(super) fn choose_said(&self, mut fields: Vec<FieldId>) -> Option<FieldId> {
        let is_said = |field: &FieldId| {
            self.schema.field(*field).stems.iter().any(|stem| self.said.contains(stem))
        };
        if fields.iter().any(is_said) {
            fields.retain(is_said);
        }
        self.choose(fields, |field| self.field_in_words(field))
    }

    /// Returns the field of the rows that mention `at` names; if it names none, the field that
    /// [`time_field`](Self::time_field) returns.
    pub(super) fn said_time_field(&self, at: Option<usize>) -> Result<FieldId, AskError> {
        let said = at.and_then(|at| self.field(self.fields_at(at)?, false));
        said.map_or_else(|| self.time_field(), Ok)
    }

    /// Returns the index of the mention that groups the rows by a part of dates: `per month`,
    /// `which year`.
    pub(super) fn part_mention(&self) -> Option<usize> {
        (0..self.mentions.all.len()).find(|at| self.part_at(*at).is_some() && self.is_parting(*at))
    }

    /// Returns the part of dates by which the rows are grouped, if column `group` holds dates and
    /// the question groups by a part.
    pub(super) fn date_part(&self, group: usize) -> Option<DatePart> {
        let ColumnSpec::Field(field) = self.columns[group] else { return None };
        let is_date = self.kind_of(field) == Some(ColumnKind::Date);
        self.part_mention().and_then(|at| self.part_at(at)).filter(|_| is_date)
    }

    fn part_at(&self, at: usize) -> Option<DatePart> {
        match (self.what(at)?, self.said_at(at).as_str()) {
            (What::Filler, "month" | "months") if !self.is_rate(&["monthly", "month"]) => {
                Some(DatePart::Month)
            }
            (What::Filler, "year" | "years") if !self.is_rate(&["yearly", "annual"]) => {
                Some(DatePart::Year)
            }
            _ => None,
        }
    }

    /// Whether a mentioned numeric field is a rate for a period with one of these words in its
    /// name: `monthly_salary` in `earn per month`.
    fn is_rate(&self, period: &[&str]) -> bool {
        let fields = (0..self.mentions.all.len()).filter_map(|at| self.fields_at(at));
        let mut fields = fields.filter_map(|fields| self.field(fields, true));
        fields.any(|field| {
            self.schema.field(field).words.iter().any(|word| period.contains(&word.as_str()))
        })
    }

    /// Whether a mention names a field, of any type, that holds years or dates.
    pub(super) fn is_time(&self, at: usize) -> bool {
        let Some(fields) = self.fields_at(at) else { return false };
        let mut known = types_of(self.kb).flat_map(|kind| self.schema.samples(kind));
        known.any(|sample| {
            matches!(sample.kind, ColumnKind::Year | ColumnKind::Date)
                && fields.iter().any(|(field, share)| *field == sample.field && *share > 0.4)
        })
    }
}

/// Converts a comparison with a span of dates, such as a month, to comparisons with single dates,
/// all of which must hold; empty for [`Bound::Not`] and [`Bound::Between`], which are not
/// supported.
fn bounded(bound: Bound, span: DateSpan) -> Vec<(Bound, String)> {
    let DateSpan { from, to } = span;
    match bound {
        Bound::Above | Bound::AtMost => vec![(bound, to)],
        Bound::AtLeast | Bound::Below => vec![(bound, from)],
        Bound::Equal if from == to => vec![(bound, from)],
        Bound::Equal => vec![(Bound::AtLeast, from), (Bound::AtMost, to)],
        Bound::Not | Bound::Between => Vec::new(),
    }
}
