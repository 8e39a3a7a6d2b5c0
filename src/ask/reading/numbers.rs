//! Determines how each number in a question is used: as a bound on a value, or as the number of
//! requested results.

use crate::{
    AskError,
    lexicon::{Bound, Cue},
    mentions::{Mention, What},
    missing,
    plan::{MAX_TOP, Test},
    reading::{Reading, operation::YES_NO},
};

/// Range of numbers that may be years.
const YEARS: std::ops::RangeInclusive<i64> = 1500..=2100;

/// The value that a number bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bounded {
    /// The field or the count in the mention with this index.
    Mention(usize),
    /// A field whose name contains one of these words, as a comparative such as `cheaper` implies.
    Implied(&'static [&'static str]),
    /// The field of the rows that holds years or dates.
    Year,
}

/// A number of a question that bounds a value. `to` is the other end of a range; `changed` states
/// whether the number is part of the assumption.
#[derive(Clone, Debug)]
pub(super) struct NumberUse {
    /// Index of the mention of the number.
    pub(super) at: usize,
    pub(super) what: Bounded,
    pub(super) bound: Bound,
    pub(super) number: f64,
    pub(super) to: Option<f64>,
    pub(super) unit: Option<String>,
    pub(super) changed: bool,
    /// Whether the number is joined to the preceding number by `or`.
    pub(super) or: bool,
}

/// How a number bounds a value, read from the words around the number.
struct Limit {
    /// The comparison; `None` if the words state none.
    bound: Option<Bound>,
    /// The value that is bounded; `None` if the words do not imply one.
    implied: Option<Bounded>,
    /// The other end of a range, if the number begins one.
    to: Option<f64>,
    unit: Option<String>,
    /// Index of the last mention that belongs to the number.
    end: usize,
    /// Whether the words allow the number to be a year.
    by_time: bool,
}

/// Whether a number may be a year.
pub(super) fn is_year(number: f64) -> bool {
    number.fract() == 0.0 && YEARS.contains(&(number as i64))
}

/// Appends the test of the number in mention `at` to `tests`. If `joins` is true and the last test
/// also tests a number, makes the new test an alternative to the last one instead.
pub(super) fn push_number(tests: &mut Vec<(usize, Test)>, at: usize, test: Test, joins: bool) {
    let before =
        tests.pop_if(|(_, last)| joins && matches!(last, Test::Any(_) | Test::Number { .. }));
    let test = match before {
        Some((_, Test::Any(mut tests))) => {
            tests.push(test);
            Test::Any(tests)
        }
        Some((_, last)) => Test::Any(vec![last, test]),
        None => test,
    };
    tests.push((at, test));
}

impl Reading<'_> {
    /// Whether a mention is a field or a count, which a number may bound.
    pub(super) fn is_value(&self, at: usize) -> bool {
        match self.what(at) {
            Some(What::Field(_)) => !self.bound.contains_key(&at),
            Some(What::Links(_)) => true,
            _ => self.counted.contains_key(&at),
        }
    }

    /// Determines how each number of the question is used, and stores the results in `numbers`,
    /// `top` and `bounded`.
    ///
    /// # Errors
    /// If a number is approximate, if too many results are requested, or if the bounded value or
    /// the range is unclear.
    pub(super) fn use_numbers(&mut self) -> Result<(), AskError> {
        let mut uses: Vec<NumberUse> = Vec::new();
        let mut next = 0;
        for at in 0..self.mentions.all.len() {
            let Some(&What::Number(number, ref unit)) = self.what(at).filter(|_| at >= next) else {
                continue;
            };
            let unit = unit.clone();
            let changed = self.changed[at];
            if let Some(about) = self.is_rough(at) {
                return missing(format!(
                    "{about:?} is not an exact range; give a lower and an upper limit"
                ));
            }
            if self.is_top(at) {
                if !(1.0..=MAX_TOP as f64).contains(&number) {
                    return missing(format!("top {number} is not between 1 and {MAX_TOP}"));
                }
                self.top = Some(number as usize);
                continue;
            }
            // The amount of a change is read with the assumption.
            let bound = self.compared(at).0;
            let is_amount =
                unit.as_deref() == Some("%") && matches!(bound, None | Some(Bound::Equal));
            if changed && (is_amount || self.scales(at)) {
                continue;
            }
            let limit = self.limit(at, unit)?;
            let Some(what) = self.bounded(at, number, &limit, changed) else {
                return missing(format!(
                    "cannot tell which field {number} refers to; name the field"
                ));
            };
            if let Bounded::Mention(place) = what
                && self.changed[place] == changed
            {
                self.bounded.insert(place);
            }
            let mut bound = limit.bound.unwrap_or(Bound::Equal);
            // In `do not cost more than 50`, the negation reverses the bound.
            if let Bounded::Mention(place) = what
                && place < at
                && self.denied.remove(&place)
            {
                let open = || missing("a negated range is not supported; give a single limit");
                bound = bound.denied().map_or_else(open, Ok)?;
            }
            let or = !uses.is_empty() && self.is_alternative(at);
            let Limit { to, unit, end, .. } = limit;
            uses.push(NumberUse { at, what, bound, number, to, unit, changed, or });
            next = end + 1;
        }
        self.numbers = uses;
        Ok(())
    }

    /// Whether the number in a mention is the number of requested results: `top 5`, `the 5
    /// cheapest`, `the cheapest 5`.
    pub(super) fn is_top(&self, at: usize) -> bool {
        // `which month of 2024 did the most`
        let may_be_year =
            matches!(self.what(at), Some(What::Number(number, None)) if is_year(*number));
        if may_be_year && ["of", "in", "during", "for", "from"].contains(&self.word_before(at)) {
            return false;
        }
        let last = at.checked_sub(1).and_then(|last| self.cue(last));
        let is_plain = matches!(self.what(at), Some(What::Number(_, None)));
        self.cue_beside(at, -1) == Some(Cue::Top)
            || matches!(last, Some(Cue::Best(..))) && is_plain && !may_be_year
            || self.cue_beside(at, 1).is_some_and(Cue::is_extreme)
            || self.leads(at)
    }

    /// Reads from the words around the number in mention `at` how the number bounds a value.
    fn limit(&self, at: usize, mut unit: Option<String>) -> Result<Limit, AskError> {
        let (before, next) = (self.beside(at, -1), self.beside(at, 1));
        let (mut bound, implied) = self.compared(at);
        let (mut to, mut end) = (None, at);
        if let Some(second) = next
            && let Some(What::Number(other, other_unit)) = self.what(second)
            && (bound == Some(Bound::Between)
                || matches!(bound, None | Some(Bound::Equal)) && self.is_range(at, second))
        {
            bound = Some(Bound::Between);
            to = Some(*other);
            end = second;
            unit = unit.or_else(|| other_unit.clone());
        }
        // Two adjacent numbers may be one number, as in `two hundred` or `1 000`.
        if bound.is_none()
            && let Some(before) = before.filter(|before| self.is_number(*before))
            && !self.is_apart(before, at)
        {
            let (one, other) = (self.said_at(before), self.said_at(at));
            return missing(format!(
                "{one:?} and {other:?} are adjacent numbers; if they are one number, write it in \
                 digits without spaces"
            ));
        }
        // `from 2010 on` is a lower bound.
        if before.is_some_and(|before| self.said_at(before) == "from")
            && self.word_after(at) == "on"
        {
            bound = Some(Bound::AtLeast);
        }
        // The words after a number may state its bound: `3 or more`, `from 2010 onwards`.
        let mut by_time =
            matches!(self.cue_beside(at, -1), Some(Cue::Bound(_, true))) || bound.is_none();
        if let Some((place, more)) = self.or_more(at)
            && matches!(bound, None | Some(Bound::Equal))
        {
            bound = Some(if more { Bound::AtLeast } else { Bound::AtMost });
            end = if Some(place) == next { place } else { at };
        }
        by_time |= bound == Some(Bound::Between) && to.is_some_and(is_year);
        Ok(Limit { bound, implied, to, unit, end, by_time })
    }

    /// Returns the phrase such as `or more` after the number in mention `at`, or after the value
    /// that follows the number (`50 batches or more`): the index of its mention, and whether the
    /// number is a lower bound.
    pub(super) fn or_more(&self, at: usize) -> Option<(usize, bool)> {
        let is_value = |at: usize| {
            matches!(self.what(at), Some(What::Type(_) | What::Field(_) | What::Links(_)))
        };
        let place = self.beside_past(at, 1, is_value)?;
        match self.cue(place)? {
            Cue::OrMore(more) => Some((place, more)),
            _ => None,
        }
    }

    /// Returns the bound that the mention before the number or date in mention `at` states, and the
    /// bounded value that the mention implies: `newer than`.
    pub(super) fn compared(&self, at: usize) -> (Option<Bound>, Option<Bounded>) {
        let than = |high| Some(if high { Bound::Above } else { Bound::Below });
        match self.cue_beside(at, -1) {
            Some(Cue::Bound(bound, _)) => (Some(bound), None),
            // A field may stand between: `a higher price than 20`.
            Some(Cue::Versus) => match self
                .beside(at, -1)
                .and_then(|than| self.beside_past(than, -1, |at| self.is_value(at)))
                .and_then(|more| self.cue(more))
            {
                // `newer than 2010` bounds the year from below.
                Some(Cue::Comparative(high, names)) => (than(high), Some(Bounded::Implied(names))),
                Some(Cue::More(high)) => (than(high), None),
                _ => (None, None),
            },
            _ => (None, None),
        }
    }

    /// Returns the value that the number in mention `at` bounds; `None` if it is unclear.
    fn bounded(&self, at: usize, number: f64, limit: &Limit, changed: bool) -> Option<Bounded> {
        let behind = self.beside(limit.end, 1).filter(|place| {
            let value = self.is_value(*place) && limit.to.is_none();
            // `released in 2023 have been deprecated`
            (value || self.counted.contains_key(place))
                && !self.is_apart(limit.end, *place)
                && !self.is_said_between(limit.end, *place, &YES_NO)
        });
        // A number does not bound the requested count: `how many have one over 20`.
        let is_rows = |place: usize| self.counted.contains_key(&place) && self.is_how_many(place);
        let values = || (0..at).rev().filter(|place| self.is_value(*place) && !is_rows(*place));
        let ahead =
            values().find(|place| self.changed[*place] == changed).or_else(|| values().next());
        // Money bounds a field, not a count: `products over 100 dollars`.
        let is_money = matches!(limit.unit.as_deref(), Some("USD" | "GBP" | "EUR" | "JPY"));
        let may_be_year = limit.by_time && is_year(number);
        let fits = |place: &usize| {
            (!is_money || self.fields_at(*place).is_some())
                && (!may_be_year || self.is_time(*place))
        };
        match (&limit.implied, behind.filter(fits).or_else(|| ahead.filter(fits))) {
            (Some(implied), _) => Some(implied.clone()),
            (None, Some(place)) => Some(Bounded::Mention(place)),
            _ if is_year(number) && limit.unit.is_none() => Some(Bounded::Year),
            _ if is_money => Some(Bounded::Implied(&["price", "cost"])),
            _ => None,
        }
    }

    /// Returns the word before a number that makes the number approximate, such as `about`; `None`
    /// if there is none.
    fn is_rough(&self, at: usize) -> Option<&str> {
        const ROUGH: [&str; 7] =
            ["about", "around", "roughly", "approximately", "nearly", "almost", "circa"];
        Some(self.word_before(at)).filter(|before| ROUGH.contains(before))
    }

    /// Whether a number at the beginning of a question for a maximum or minimum is the number of
    /// requested results: `which three products are the cheapest`.
    pub(super) fn leads(&self, at: usize) -> bool {
        let is_before = |own: &Mention| {
            matches!(own.what, What::Filler | What::Relation | What::Cue(Cue::Which | Cue::Filler))
        };
        matches!(self.what(at), Some(What::Number(number, None)) if number.fract() == 0.0)
            && matches!(self.cue_beside(at, -1), None | Some(Cue::Which))
            && matches!(self.what_beside(at, 1), Some(What::Type(_) | What::Field(_)))
            && self.mentions.all.iter().take(at).all(is_before)
            && self.cues(false).any(|(_, cue)| cue.is_extreme())
    }

    /// Whether a number in the assumption is the amount by which values change, instead of
    /// selecting rows.
    fn scales(&self, at: usize) -> bool {
        let changes = |cue: Option<Cue>| {
            matches!(cue, Some(Cue::Raise | Cue::Lower | Cue::More(_) | Cue::Comparative(..)))
        };
        let before = self.cue_beside(at, -1);
        let behind = self.beside(at, 1).and_then(|next| self.cue_beside(next, 1));
        changes(before)
            || changes(self.cue_beside(at, 1))
            || changes(behind) && !matches!(before, Some(Cue::Bound(..)))
    }
}
