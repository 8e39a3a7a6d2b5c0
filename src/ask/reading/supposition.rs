//! Reads the assumption of a hypothetical question, such as "if A were left out".

use crate::{
    AskError,
    lexicon::{Bound, Cue},
    mentions::{Mention, Mentions, Thing, What},
    missing,
    plan::{Change, Test},
    reading::{
        Reading,
        numbers::{NumberUse, push_number},
    },
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
    let says = |at: usize| {
        let change = |one: &Mention| {
            matches!(
                one.what,
                What::Cue(
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
        all.get(begin..=at).is_some_and(|own| own.iter().any(change))
    };
    let ends = |at: usize| {
        let (own, next) = (mentions.said(at).last(), mentions.said(at + 1).first());
        let (Some(own), Some(next)) = (own, next) else { return true };
        let between = text.get(own.range.end..next.range.start).unwrap_or_default();
        // A list of names continues after a comma.
        let is_thing =
            |at: usize| all.get(at).is_some_and(|one| matches!(one.what, What::Thing(_)));
        let lists = is_thing(at) && is_thing(at + 1) && between.trim_matches(BESIDE_NAMES) == ",";
        !lists && between.contains([',', ':', ';', '?', '.', '\u{2013}', '\u{2014}'])
    };
    let end = (begin..all.len()).find(|&at| says(at) && ends(at)).unwrap_or(all.len());
    (0..all.len()).map(|at| (begin..=end).contains(&at)).collect()
}

/// Whether the mention with index `at` is a percentage by which values change: `a 10 % discount`.
fn is_change_in_percent(all: &[Mention], at: usize) -> bool {
    let percent = all.get(at).is_some_and(
        |one| matches!(&one.what, What::Number(_, unit) if unit.as_deref() == Some("%")),
    );
    let behind = all.get(at + 1..).unwrap_or_default().iter().map(|one| &one.what);
    let next = behind.clone().find(|what| !matches!(what, What::Filler | What::Field(_)));
    percent && matches!(next, Some(What::Cue(Cue::Raise | Cue::Lower)))
}

fn two_at_once() -> AskError {
    AskError::Missing("two assumptions at once are not supported; make one at a time".to_owned())
}

/// Whether two tests are of the same sort, so that they can be alternatives: categories in the same
/// column, links in the same column, or the row's node.
fn is_of_one_sort(one: &Test, other: &Test) -> bool {
    match (one, other) {
        (Test::Linked { column: one, .. }, Test::Linked { column: other, .. })
        | (Test::Value { column: one, .. }, Test::Value { column: other, .. }) => one == other,
        (Test::Is(_), Test::Is(_)) => true,
        _ => false,
    }
}

/// Whether two tests bound the same column from below and from above: `more than 20 and less than
/// 50`.
fn is_interval(one: &Test, other: &Test) -> bool {
    let side = |test: &Test| match test {
        Test::Number { column, bound: Bound::Above | Bound::AtLeast, number, .. } => {
            Some((*column, true, *number))
        }
        Test::Number { column, bound: Bound::Below | Bound::AtMost, number, .. } => {
            Some((*column, false, *number))
        }
        _ => None,
    };
    match (side(one), side(other)) {
        (Some((column, true, from)), Some((own, false, to)))
        | (Some((column, false, to)), Some((own, true, from))) => column == own && from <= to,
        _ => false,
    }
}

impl Reading<'_> {
    /// Converts the names in the assumption to tests, each with the index of its last mention.
    /// Several names of the same sort become one test with alternatives.
    fn changed_things(&mut self) -> Result<Vec<(usize, Test)>, AskError> {
        let things: Vec<(usize, Thing)> = self
            .things()
            .filter(|(at, _)| self.changed.get(*at) == Some(&true))
            .map(|(at, thing)| (at, thing.clone()))
            .collect();
        let mut sorts: Vec<(usize, Vec<Test>, Vec<String>)> = Vec::new();
        for (at, thing) in things {
            let role = self.role(at, &thing)?;
            let test = self.test(role);
            let known = sorts.iter_mut().find(|(_, tests, _)| {
                tests.first().is_some_and(|known| is_of_one_sort(known, &test))
            });
            match known {
                Some((last, tests, names)) => {
                    *last = at;
                    tests.push(test);
                    names.push(thing.text);
                }
                None => sorts.push((at, vec![test], vec![thing.text])),
            }
        }
        let mut all = Vec::new();
        for (at, mut tests, names) in sorts {
            if tests.len() > 1 {
                let kind = self.base.kb.type_name(self.rows);
                self.assumed
                    .push(format!("taken as each {kind} with any of {}", names.join(" or ")));
                tests = vec![Test::Any(tests)];
            }
            all.extend(tests.into_iter().map(|test| (at, test)));
        }
        Ok(all)
    }

    /// Reads the assumption of the question; `None` if it makes none. Fails if the assumption is
    /// unclear or not supported.
    pub(super) fn change(&mut self) -> Result<Option<Change>, AskError> {
        if !self.changed.contains(&true) {
            return Ok(None);
        }
        let cues: Vec<Cue> = self.cues(true).map(|(_, cue)| cue).collect();
        if self.denied.iter().any(|at| self.changed.get(*at) == Some(&true)) {
            return missing("a negated assumption is not supported; say which rows to leave out");
        }
        let mut tests = self.changed_things()?;
        let numbers: Vec<_> = self.numbers.iter().filter(|one| one.changed).cloned().collect();
        let both = |one: &NumberUse| {
            one.bound == Bound::Equal
                && numbers.iter().any(|other| other.at != one.at && other.what == one.what)
        };
        if numbers.iter().any(both) {
            return Err(two_at_once());
        }
        for number in &numbers {
            let test = self.number_test(number)?;
            push_number(&mut tests, number.at, test, number.or);
        }
        let dates: Vec<_> = self.dates.iter().filter(|one| one.changed).cloned().collect();
        for date in &dates {
            tests.extend(self.date_tests(date)?.into_iter().map(|test| (date.at, test)));
        }
        tests.sort_by_key(|(at, _)| *at);
        for pair in tests.windows(2) {
            // `without those below 20 and those above 50`, `without A and those of 2010`
            if let [(one, first), (other, second)] = pair
                && self.is_said_between(*one, *other, &["and"])
                && !is_interval(first, second)
            {
                return Err(two_at_once());
            }
        }
        let tests: Vec<Test> = tests.into_iter().map(|(_, test)| test).collect();
        let nothing = || AskError::Missing("cannot tell what is assumed".to_owned());
        let leaves = cues.contains(&Cue::LeaveOut) || cues.contains(&Cue::Only);
        let changes = |cue: &Cue| matches!(cue, Cue::Raise | Cue::Lower | Cue::Times(_));
        if leaves && cues.iter().any(changes) {
            return Err(two_at_once());
        }
        if leaves && tests.is_empty() {
            return Err(nothing());
        }
        if cues.contains(&Cue::LeaveOut) {
            return Ok(Some(Change::LeaveOut(tests)));
        }
        if cues.contains(&Cue::Only) {
            return Ok(Some(Change::Only(tests)));
        }
        let number =
            self.mentions.all.iter().enumerate().find_map(|(at, mention)| match &mention.what {
                What::Number(number, unit) if self.changed.get(at) == Some(&true) => {
                    Some((*number, unit.as_deref() == Some("%")))
                }
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
            (None, Some((number, true)), Some(up)) => {
                (if up { 1.0 + number / 100.0 } else { 1.0 - number / 100.0 }, 0.0)
            }
            (None, Some((number, false)), Some(up)) => (1.0, if up { number } else { -number }),
            _ => return Err(nothing()),
        };
        if !tests.is_empty() {
            return missing(
                "a change of only some rows is not supported; apply it to all rows, or leave \
                 rows out",
            );
        }
        let implied = cues.iter().find_map(|cue| match cue {
            Cue::Comparative(_, names) => self.implied(self.rows, names),
            _ => None,
        });
        let column = match implied {
            Some(field) => Some(self.column(ColumnSpec::Field(field))),
            None => self
                .first_number(true)?
                .map_or_else(|| self.first_number(false), |at| Ok(Some(at)))?,
        };
        let column = column.ok_or_else(nothing)?;
        Ok(Some(Change::Scale { column, times, plus }))
    }
}
