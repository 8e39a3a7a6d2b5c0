//! Reads the assumption of a hypothetical question, such as "if A were left out".

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Bound, Cue},
    mentions::{Mention, Mentions, What},
    missing,
    plan::{Change, Test},
    reading::{Reading, numbers::NumberUse, operation::Parts},
};
use agent_kb::table::ColumnSpec;

/// Characters that may stand beside the comma between two names of a list.
const BESIDE_NAMES: [char; 6] = [' ', '"', '\u{201c}', '\u{201d}', '\u{ab}', '\u{bb}'];

/// Returns, for each mention, whether it is part of the assumption, which extends from its first
/// word to the end of its clause.
pub(super) fn supposed(mentions: &Mentions, text: &str) -> Vec<bool> {
    let all = &mentions.all;
    let first = |wanted: Cue| all.iter().position(|one| one.what == What::Cue(wanted));
    let begin = first(Cue::Suppose)
        .or_else(|| (0..all.len()).find(|&at| is_change_in_percent(all, at)))
        .or_else(|| first(Cue::LeaveOut));
    let Some(begin) = begin else { return vec![false; all.len()] };
    let changes = |one: &Mention| {
        matches!(
            one.cue(),
            Some(
                Cue::LeaveOut
                    | Cue::Raise
                    | Cue::Lower
                    | Cue::Times(_)
                    | Cue::Only
                    | Cue::More(_)
                    | Cue::Comparative(..)
            )
        )
    };
    let ends = |at: usize| {
        let (own, next) = (mentions.said(at).last(), mentions.said(at + 1).first());
        let (Some(own), Some(next)) = (own, next) else { return true };
        let between = &text[own.range.end..next.range.start];
        // A list of names continues after a comma.
        let is_thing = |at: usize| matches!(all[at].what, What::Thing(_));
        let lists = is_thing(at) && is_thing(at + 1) && between.trim_matches(BESIDE_NAMES) == ",";
        !lists && between.contains([',', ':', ';', '?', '.', '\u{2013}', '\u{2014}'])
    };
    let first = (begin..all.len()).find(|&at| changes(&all[at])).unwrap_or(all.len());
    let end = (first..all.len()).find(|&at| ends(at)).unwrap_or(all.len());
    (0..all.len()).map(|at| (begin..=end).contains(&at)).collect()
}

/// Whether the mention with index `at` is a percentage by which values change: `a 10 % discount`.
fn is_change_in_percent(all: &[Mention], at: usize) -> bool {
    let is_percent = matches!(&all[at].what, What::Number(_, unit) if unit.as_deref() == Some("%"));
    let mut behind = all[at + 1..].iter().map(|one| &one.what);
    let next = behind.find(|what| !matches!(what, What::Filler | What::Field(_)));
    is_percent && matches!(next, Some(What::Cue(Cue::Raise | Cue::Lower)))
}

fn two_at_once<T>() -> Result<T, AskError> {
    missing("two assumptions at once are not supported; make one at a time")
}

/// Whether two tests bound the same column from below and from above: `more than 20 and less than
/// 50`.
fn is_interval(one: &Test, other: &Test) -> bool {
    let is_low = |bound: Bound| matches!(bound, Bound::Above | Bound::AtLeast);
    let is_high = |bound: Bound| matches!(bound, Bound::Below | Bound::AtMost);
    match (one, other) {
        (
            &Test::Number { column, bound, number, .. },
            &Test::Number { column: own, bound: second, number: to, .. },
        ) if column == own => {
            is_low(bound) && is_high(second) && number <= to
                || is_high(bound) && is_low(second) && to <= number
        }
        _ => false,
    }
}

impl Reading<'_> {
    /// Reads the assumption of the question; `None` if it makes none. Fails if the assumption is
    /// unclear or not supported.
    pub(super) fn change(&mut self) -> Result<Option<Change>, AskError> {
        if !self.changed.contains(&true) {
            return Ok(None);
        }
        let cues: Vec<Cue> = self.cues(true).map(|(_, cue)| cue).collect();
        if self.denied.iter().any(|at| self.changed[*at]) {
            return missing("a negated assumption is not supported; say which rows to leave out");
        }
        let numbers = self.numbers.iter().filter(|one| one.changed);
        let both = |one: &NumberUse| {
            let mut others = numbers.clone().filter(|other| other.at != one.at);
            one.bound == Bound::Equal && others.any(|other| other.what == one.what)
        };
        if numbers.clone().any(both) {
            return two_at_once();
        }
        let mut parts = Parts::default();
        self.put_things(Kind::Aggregation, true, &mut parts)?;
        self.put_numbers(Kind::Aggregation, true, &mut parts)?;
        let mut tests = parts.filters;
        for (at, condition) in parts.conditions {
            tests.push((at, self.test_of(condition)));
        }
        tests.sort_by_key(|(at, _)| *at);
        for pair in tests.windows(2) {
            // `and` between two tests states two assumptions: `without those below 20 and those
            // above 50`, `without A and those of 2010`.
            if let [(one, first), (other, second)] = pair
                && self.is_said_between(*one, *other, &["and"])
                && !is_interval(first, second)
            {
                return two_at_once();
            }
        }
        let tests: Vec<Test> = tests.into_iter().map(|(_, test)| test).collect();
        const UNCLEAR: &str = "cannot tell what is assumed";
        let leaves = cues.contains(&Cue::LeaveOut) || cues.contains(&Cue::Only);
        let changes = |cue: &Cue| matches!(cue, Cue::Raise | Cue::Lower | Cue::Times(_));
        if leaves && cues.iter().any(changes) {
            return two_at_once();
        }
        if leaves && tests.is_empty() {
            return missing(UNCLEAR);
        }
        if cues.contains(&Cue::LeaveOut) {
            return Ok(Some(Change::LeaveOut(tests)));
        }
        if leaves {
            return Ok(Some(Change::Only(tests)));
        }
        let own = (0..self.mentions.all.len()).filter(|at| self.changed[*at]);
        let number = own.filter_map(|at| self.what(at)).find_map(|what| match what {
            What::Number(number, unit) => Some((*number, unit.as_deref() == Some("%"))),
            _ => None,
        });
        let up = cues.iter().find_map(|cue| match cue {
            Cue::Raise | Cue::More(true) => Some(true),
            Cue::Lower | Cue::More(false) => Some(false),
            // A cheaper product has a lower price; an older one has an earlier year.
            Cue::Comparative(high, _) => Some(*high),
            _ => None,
        });
        let times = cues.iter().find_map(|cue| match cue {
            Cue::Times(times) => Some(*times),
            _ => None,
        });
        let (times, plus) = match (times, number, up) {
            (Some(times), _, _) => (times, 0.0),
            (None, Some((number, is_percent)), Some(up)) => {
                let number = if up { number } else { -number };
                if is_percent { (1.0 + number / 100.0, 0.0) } else { (1.0, number) }
            }
            _ => return missing(UNCLEAR),
        };
        if !tests.is_empty() {
            return missing(
                "changing only some rows is not supported; apply it to all rows, or leave \
                 rows out",
            );
        }
        let implied = cues.iter().find_map(|cue| match cue {
            Cue::Comparative(_, names) => self.implied(self.rows, names),
            _ => None,
        });
        let column = match implied {
            Some(field) => Some(self.column(ColumnSpec::Field(field))),
            None => match self.first_number(true)? {
                None => self.first_number(false)?,
                found => found,
            },
        };
        match column {
            Some(column) => Ok(Some(Change::Scale { column, times, plus })),
            None => missing(UNCLEAR),
        }
    }
}
