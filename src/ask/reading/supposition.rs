//! Here is a question that supposes something: which of its words say what, and what is it?

use crate::{
    ask::{
        AskError,
        lexicon::{Bound, Cue},
        mentions::{Mention, Mentions, Thing, What},
        plan::Change,
        reading::{Reading, numbers::NumberUse},
    },
    table::ColumnSpec,
};

/// Which mentions stand in what is supposed: from the word that supposes to the end of its clause,
/// which says what is otherwise.
pub(super) fn supposed(mentions: &Mentions, text: &str) -> Vec<bool> {
    let all = &mentions.all;
    let is = |at: usize, wanted: Cue| all.get(at).is_some_and(|one| one.what == What::Cue(wanted));
    let begin = (0..all.len())
        .find(|&at| is(at, Cue::Suppose))
        .or_else(|| (0..all.len()).find(|&at| is_change_in_percent(all, at)))
        .or_else(|| (0..all.len()).find(|&at| is(at, Cue::LeaveOut)));
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
        let place = |at: usize| all.get(at).and_then(|one| mentions.tokens.get(one.at.start));
        let (Some(own), Some(next)) = (
            all.get(at).and_then(|one| mentions.tokens.get(one.at.end.saturating_sub(1))),
            place(at + 1),
        ) else {
            return true;
        };
        let between = text.get(own.range.end..next.range.start).unwrap_or_default();
        between.contains([',', ':', ';', '?', '.', '\u{2013}', '\u{2014}'])
    };
    let end = (begin..all.len()).find(|&at| says(at) && ends(at)).unwrap_or(all.len());
    (0..all.len()).map(|at| (begin..=end).contains(&at)).collect()
}

/// Whether a number in percent says by how much values change: `a 10 % discount`.
fn is_change_in_percent(all: &[Mention], at: usize) -> bool {
    let percent = all.get(at).is_some_and(
        |one| matches!(&one.what, What::Number(_, unit) if unit.as_deref() == Some("%")),
    );
    let behind = all.get(at + 1..).unwrap_or_default().iter().map(|one| &one.what);
    let next = behind.clone().find(|what| !matches!(what, What::Filler | What::Field(_)));
    percent && matches!(next, Some(What::Cue(Cue::Raise | Cue::Lower)))
}

impl Reading<'_> {
    /// What is supposed, if anything.
    pub(super) fn change(&mut self) -> Result<Option<Change>, AskError> {
        if !self.changed.contains(&true) {
            return Ok(None);
        }
        let cues: Vec<Cue> = self.cues(true).map(|(_, cue)| cue).collect();
        let mut tests = Vec::new();
        let things: Vec<(usize, Thing)> = self
            .things()
            .filter(|(at, _)| self.changed.get(*at) == Some(&true))
            .map(|(at, thing)| (at, thing.clone()))
            .collect();
        for (at, thing) in things {
            let role = self.role(at, &thing)?;
            tests.push(self.test(role));
        }
        let numbers: Vec<_> = self.numbers.iter().filter(|one| one.changed).cloned().collect();
        let both = |one: &NumberUse| {
            one.bound == Bound::Equal
                && numbers.iter().any(|other| other.at != one.at && other.what == one.what)
        };
        if numbers.iter().any(both) {
            return Err(AskError::Missing(
                "it supposes two things at once; suppose one at a time".to_owned(),
            ));
        }
        for number in &numbers {
            tests.push(self.number_test(number)?);
        }
        let nothing = || AskError::Missing("it does not say what is supposed".to_owned());
        let leaves = cues.contains(&Cue::LeaveOut) || cues.contains(&Cue::Only);
        let changes = |cue: &Cue| matches!(cue, Cue::Raise | Cue::Lower | Cue::Times(_));
        if leaves && cues.iter().any(changes) {
            return Err(AskError::Missing(
                "it supposes two things at once; suppose one at a time".to_owned(),
            ));
        }
        if cues.contains(&Cue::LeaveOut) {
            return if tests.is_empty() {
                Err(nothing())
            } else {
                Ok(Some(Change::LeaveOut(tests)))
            };
        }
        if cues.contains(&Cue::Only) {
            return if tests.is_empty() { Err(nothing()) } else { Ok(Some(Change::Only(tests))) };
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
            // A cheaper thing has a smaller price; an older one a smaller year.
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
            return Err(AskError::Missing(
                "a supposed change of some rows alone is not understood; suppose it of all, or leave \
                 rows out"
                    .to_owned(),
            ));
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
