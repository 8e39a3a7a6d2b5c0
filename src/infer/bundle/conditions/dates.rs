//! Dates and order: "in March 2025", "2018 or later", "from 2019 to 2021", "newest".

use std::ops::Range;

use crate::bundle::conditions::{
    Kind, Reader, Word, languages,
    numbers::reversed,
    phrases::{AFTER_DATE, DATE_WORDS, IN, LIMITS, ORDERS, THE_END_OF, THE_START_OF, THINGS, TO},
};
use agent_kb::{
    filter::{Condition, Operator},
    table::dates::{DateSpan, date_at},
};

impl Reader<'_> {
    /// Reads a date, a limit or a span that begins at word `at`; returns the position after it.
    pub(super) fn read_dates(&mut self, at: usize) -> Option<usize> {
        self.read_span(at).or_else(|| self.read_limit(at)).or_else(|| self.read_date(at))
    }

    /// Reads "between 5 May and 7 May 2024", "from 2019 to 2021", "2018 through 2020", "1998-2002".
    fn read_span(&mut self, at: usize) -> Option<usize> {
        let is_between = self.is(at, "between");
        let (from, next) = self.date_at(at + usize::from(is_between || self.is_any(at, IN)))?;
        let joining = match is_between {
            true => self.is(next, "and").then_some(1),
            false => self.phrase_at(next, TO),
        };
        let joining = joining.or_else(|| self.is_hyphened(next).then_some(0))?;
        if self.negated_before(at).is_some() {
            return None;
        }
        let (to, end) = self.date_at(next + joining)?;
        let parts = [(Operator::AtLeast, vec![from.from]), (Operator::AtMost, vec![to.to])];
        self.put_dates(at, end + usize::from(self.is(end, "inclusive")), parts)
    }

    /// Reads "since 2020", "before March 2025", "no later than 2019".
    fn read_limit(&mut self, at: usize) -> Option<usize> {
        let (n, operator) = self.meaning_at(at, &LIMITS)?;
        let (of_end, of_start) =
            (self.phrase_at(at + n, THE_END_OF), self.phrase_at(at + n, THE_START_OF));
        let operator = match operator {
            Operator::Less if of_end.is_some() => Operator::AtMost,
            Operator::AtLeast if of_end.is_some() => Operator::More,
            other => other,
        };
        let (span, end) = self.date_at(at + n + of_end.or(of_start).unwrap_or(0))?;
        let start = self.limit_start(at)?;
        let operator = if start < at { reversed(operator) } else { operator };
        let end = self.put_dates(at, end, [(operator, vec![limit(operator, span)])])?;
        if start < at {
            self.use_words(start, at);
        }
        Some(end)
    }

    /// Reads "in March 2025", "2018 or later", "in 2009, 2010 or 2011".
    fn read_date(&mut self, at: usize) -> Option<usize> {
        if self.negated_before(at).is_some() {
            return None;
        }
        let has_word = self.is_any(at, IN);
        let (span, mut end) = self.date_at(at + usize::from(has_word))?;
        if let Some((n, operator)) = self.meaning_at(end, &AFTER_DATE) {
            return self.put_dates(at, end + n, [(operator, vec![limit(operator, span)])]);
        }
        let mut dates = vec![span];
        loop {
            let next = end + usize::from(self.is_any(end, "or and"));
            let is_listed = has_word && (next > end || self.is_cut(end));
            match self.date_at(next).filter(|_| is_listed) {
                Some((span, after)) => {
                    dates.push(span);
                    end = after;
                }
                None => break,
            }
        }
        // A bare number of four digits need not be a year.
        let is_number = dates.iter().all(|span| span.from.len() == 4);
        if !has_word && dates.len() == 1 && is_number {
            return None;
        }
        match dates.as_slice() {
            [DateSpan { from, to }] if from != to => {
                let parts =
                    [(Operator::AtLeast, vec![from.clone()]), (Operator::AtMost, vec![to.clone()])];
                self.put_dates(at, end, parts)
            }
            spans if spans.iter().all(|span| span.from == span.to) => {
                let days = dates.into_iter().map(|span| span.from).collect();
                self.put_dates(at, end, [(Operator::Is, days)])
            }
            _ => None,
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

    /// Whether only a hyphen or dash stands between word `at` and the word before.
    fn is_hyphened(&self, at: usize) -> bool {
        matches!(self.before(at).map(str::trim), Some("-" | "\u{2013}" | "\u{2014}"))
    }

    /// Adds conditions on the date field that the words around `at` refer to. Returns `end`;
    /// `None` if there is no such field, or if the words are not a date.
    fn put_dates<const N: usize>(
        &mut self,
        at: usize,
        end: usize,
        parts: [(Operator, Vec<String>); N],
    ) -> Option<usize> {
        // In other languages than English, the word for the field may follow the date.
        let is_foreign = languages::are_known(self.base.stems.languages());
        let next = self.words.get(end).filter(|word| !word.is_in_name);
        let names_field = |word: &Word<'_>| {
            let mut dates = self.fields.iter().filter(|field| field.kind == Kind::Date);
            dates.any(|field| self.is_named(field, word, &DATE_WORDS))
        };
        let is_followed = is_foreign && next.is_some_and(names_field);
        // In "2000 images", the number is a count.
        let is_year = parts.iter().flat_map(|part| &part.1).all(|date| date.len() == 4);
        let is_type = |word: &Word<'_>| !self.schema.meanings(&word.stem).0.is_empty();
        if is_year && !is_followed && !self.is_end(end) && !next.is_some_and(is_type) {
            return None;
        }
        let after = if is_foreign { end } else { at };
        let (start, field) = self.named_field(at, after, Kind::Date, &DATE_WORDS)?;
        let end = end + usize::from(is_followed);
        for (operator, values) in parts {
            self.found.all.push(Condition::new(field.clone(), operator, values));
        }
        self.use_words(start, end);
        Some(end)
    }

    /// Reads "newest", "most recently published", "the last paper", "oldest".
    pub(super) fn read_order(&mut self, at: usize) -> Option<usize> {
        let is_type = |at: usize| {
            if self.is_any(at, THINGS) {
                return true;
            }
            let stem = self.words.get(at).map(|word| &word.stem);
            let wanted = self.wanted_types();
            stem.is_some_and(|stem| {
                self.schema.meanings(stem).0.iter().any(|kind| wanted.contains(kind))
            })
        };
        let (n, newest_first) = match self.meaning_at(at, &ORDERS) {
            Some(order) => order,
            None if self.is(at, "last") && is_type(at + 1) => (1, true),
            None if self.is(at, "first") && is_type(at + 1) => (1, false),
            None => return None,
        };
        if self.negated_before(at).is_some() {
            return None;
        }
        self.fields.iter().find(|field| field.kind == Kind::Date && self.is_own(field))?;
        let is_dated = DATE_WORDS
            .iter()
            .any(|(word, synonyms)| self.is(at + n, word) || self.is_any(at + n, synonyms));
        let end = at + n + usize::from(is_dated);
        self.found.newest_first = Some(newest_first);
        self.used.push(at..end);
        Some(end)
    }
}

/// Returns the date of the span that bounds values with this operator: the last date for "at most"
/// and "more than", otherwise the first.
fn limit(operator: Operator, span: DateSpan) -> String {
    match operator {
        Operator::AtMost | Operator::More => span.to,
        _ => span.from,
    }
}
