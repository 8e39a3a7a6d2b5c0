//! Interprets the words between mentions: lists joined by `and` or `or`, negations, and bounds that
//! are not supported.

use std::{collections::BTreeSet, iter::successors};

use crate::{
    AskError,
    lexicon::{Bound, Cue},
    mentions::{Thing, Token, What},
    missing,
    reading::Reading,
    schema::FieldValue,
};
use agent_kb::NodeId;

/// Words between the two ends of a range: `from 3 to 5`.
const RANGES: [&str; 4] = ["to", "through", "until", "till"];

impl Reading<'_> {
    /// Whether the numbers or dates in two mentions are the ends of a range: `from 3 to 5`, `3-5`.
    pub(super) fn is_range(&self, one: usize, other: usize) -> bool {
        let is_dash =
            self.between(one, other).is_some_and(|text| ["-", "\u{2013}"].contains(&text));
        is_dash || self.is_said_between(one, other, &RANGES)
    }

    /// Whether a new clause begins between two mentions, with a comma or a word such as `and`.
    pub(super) fn is_apart(&self, one: usize, other: usize) -> bool {
        self.is_said_between(one, other, &["and", "but", "with"])
            || self.is_comma_between(one, other)
    }

    /// Whether one of `words` stands between two mentions.
    pub(super) fn is_said_between(&self, one: usize, other: usize, words: &[&str]) -> bool {
        let (start, end) = (self.mentions.range(one).end, self.mentions.range(other).start);
        (start..end).any(|at| words.contains(&self.mentions.word(at)))
    }

    /// Whether a mention is the word `or`.
    pub(super) fn is_or(&self, at: usize) -> bool {
        self.cue(at) == Some(Cue::Versus) && self.said_at(at) == "or"
    }

    /// Whether the number in a mention follows `or`; a bound, a field or a type may stand between.
    pub(super) fn is_alternative(&self, at: usize) -> bool {
        let passes = |place: usize| {
            let what = self.what(place);
            matches!(what, Some(What::Cue(Cue::Bound(..)) | What::Field(_) | What::Type(_)))
        };
        self.beside_past(at, -1, passes).is_some_and(|place| self.is_or(place))
    }

    /// Returns the mention of the preceding name to which the name in mention `at` is joined by
    /// `and`, a comma or `or`, and whether the word is `or`. `None` if the name is not joined to
    /// another name.
    pub(super) fn joined(&self, at: usize) -> Option<(usize, bool)> {
        let (mut place, mut or) = (self.beside(at, -1)?, false);
        loop {
            match self.what(place)? {
                What::Thing(_) => break,
                What::Cue(Cue::Versus) if !or && self.is_or(place) => or = true,
                // In `A products and B products`, the repeated row type is skipped.
                What::Type(kind) if *kind == self.rows => {}
                _ if self.is_own(place) => {}
                _ => return None,
            }
            place = self.beside(place, -1)?;
        }
        let and = self.is_said_between(place, at, &["and"]) || self.is_comma_between(place, at);
        (or || and).then_some((place, or))
    }

    /// Whether a mention belongs to the name after it: it describes the name, or is a phrase such
    /// as `in`.
    fn is_own(&self, at: usize) -> bool {
        self.bound.contains_key(&at) || self.is_equal(at)
    }

    fn is_comma_between(&self, one: usize, other: usize) -> bool {
        self.between(one, other).is_some_and(|between| between.contains(','))
    }

    /// Returns the text of the question between two mentions.
    fn between(&self, one: usize, other: usize) -> Option<&str> {
        let end = self.mentions.said(one).last()?.range.end;
        self.text.get(end..self.mentions.said(other).first()?.range.start)
    }

    /// Returns the indexes of the mentions that are negated: names, fields, types and relations.
    ///
    /// # Errors
    /// If it is unclear what a word of negation applies to.
    pub(super) fn find_denied(&self) -> Result<BTreeSet<usize>, AskError> {
        let mut denied = BTreeSet::new();
        for at in 0..self.mentions.all.len() {
            let other = matches!(self.cue(at), Some(Cue::Bound(Bound::Not, _)));
            if !other && self.cue(at) != Some(Cue::Not) {
                continue;
            }
            let next = self.beside_past(at, 1, |place| self.is_own(place));
            match next.and_then(|place| Some((place, self.what(place)?))) {
                Some((place, What::Thing(_))) => {
                    denied.insert(place);
                    self.deny_list(place, &mut denied)?;
                }
                _ if other => {}
                Some((place, What::Field(_) | What::Type(_) | What::Links(_))) => {
                    denied.insert(place);
                }
                _ => {
                    let said = self.said_at(at);
                    return missing(format!(
                        "cannot tell what {said:?} negates; write it directly before a name or field"
                    ));
                }
            }
        }
        Ok(denied)
    }

    /// Adds to `denied` the names that are listed after the negated name in mention `first`: `not
    /// by A, B and C`.
    ///
    /// # Errors
    /// If it is unclear whether a following name is negated too.
    fn deny_list(&self, first: usize, denied: &mut BTreeSet<usize>) -> Result<(), AskError> {
        let mut last = first;
        for (at, thing) in self.things().filter(|(at, _)| *at > first) {
            let Some((_, or)) = self.joined(at).filter(|(before, _)| *before == last) else {
                break;
            };
            let listed = self.is_listed(last, at);
            let alike = self.thing(last).is_some_and(|one| self.may_be_of_one_sort(one, thing));
            if !or && !listed && !alike {
                break;
            }
            if !(or || listed && alike) {
                let said = &thing.text;
                return missing(format!(
                    "cannot tell whether {said:?} is negated too; put \"not\" before it, or ask for \
                     it separately"
                ));
            }
            denied.insert(at);
            last = at;
        }
        Ok(())
    }

    /// Whether only `and`, `or`, `the` and descriptions of names stand between two mentions.
    pub(super) fn is_listed(&self, one: usize, other: usize) -> bool {
        let joins = |token: &Token| ["and", "or", "the"].contains(&token.word.as_str());
        (one + 1..other)
            .all(|at| self.bound.contains_key(&at) || self.mentions.said(at).iter().all(joins))
    }

    /// Whether two names may be nodes of the same type, or values of the same field.
    fn may_be_of_one_sort(&self, one: &Thing, other: &Thing) -> bool {
        let is_type = |node: &NodeId| self.has_node_of(other, self.kb.node_type(*node));
        let has_field = |own: &FieldValue| {
            other.values.iter().any(|value| (value.kind, value.field) == (own.kind, own.field))
        };
        one.nodes.iter().any(is_type) || one.values.iter().any(has_field)
    }

    /// Returns the name or number on one side of mention `at`: after it if `step` is 1, before it
    /// if `step` is -1. If there is none, returns the nearest field, type or relation on that side.
    /// Skips bounds and negations.
    fn beside_or(&self, at: usize, step: isize) -> Option<&What> {
        let mut field = None;
        for place in successors(self.beside(at, step), |at| self.beside(*at, step)) {
            match self.what(place)? {
                What::Cue(Cue::Bound(..) | Cue::Not) => {}
                what @ (What::Field(_) | What::Type(_) | What::Links(_)) => {
                    field = field.or(Some(what));
                }
                what @ (What::Thing(_) | What::Number(..) | What::Date(_)) => {
                    return Some(what);
                }
                _ => break,
            }
        }
        field
    }

    /// Refuses a question with `or` between a name and a number, beside a date or before a
    /// negation, or with `or more` without a number before it.
    pub(super) fn check_alternatives(&self) -> Result<(), AskError> {
        for (at, cue) in self.cues(false) {
            let is_behind = |number: usize| self.or_more(number).is_some_and(|(own, _)| own == at);
            let follows = (0..at).any(|place| self.is_number(place) && is_behind(place));
            if matches!(cue, Cue::OrMore(_)) && !follows {
                let said = self.said_at(at);
                return missing(format!("{said:?} must follow a number"));
            }
            if !self.is_or(at) {
                continue;
            }
            let (one, other) = (self.beside_or(at, -1), self.beside_or(at, 1));
            let both_denied = self.cue_beside(at, 1) == Some(Cue::Not);
            let differ = matches!(
                (one, other),
                (Some(What::Number(..)), Some(What::Thing(_)))
                    | (Some(What::Thing(_)), Some(What::Number(..)))
                    | (Some(What::Date(_)), _)
                    | (_, Some(What::Date(_)))
            );
            if differ || both_denied {
                return missing(
                    "\"or\" between dates, or between different kinds of conditions, is not supported; \
                     ask about each separately",
                );
            }
        }
        Ok(())
    }

    /// Refuses a question with a bound that would have to be computed (`above the average`), with
    /// `exactly` without a number, or with `only` where it is unclear what `only` refers to.
    pub(super) fn check_bounds(&self) -> Result<(), AskError> {
        for (at, cue) in self.cues(false) {
            let behind = self.what_beside(at, 1);
            let is_number = matches!(behind, Some(What::Number(..)));
            let follows = match cue {
                Cue::Bound(Bound::Equal, false) if !is_number => "a number",
                Cue::Bound(bound, true)
                    if bound != Bound::Equal
                        && !is_number
                        && !matches!(behind, Some(What::Date(_))) =>
                {
                    "a year or a date"
                }
                _ => "",
            };
            if !follows.is_empty() {
                return missing(format!("{:?} must be followed by {follows}", self.said_at(at)));
            }
            // In `only wrote one paper`, `only` modifies the verb.
            let beside = self.beside(at, 1).map(|next| self.mentions.range(next).start);
            let is_next = beside == Some(self.mentions.range(at).end);
            let keeps = matches!(behind, Some(What::Number(..) | What::Thing(_) | What::Type(_)))
                && (is_next || self.has(Cue::Suppose));
            if cue == Cue::Only && !keeps {
                return missing("cannot tell what \"only\" refers to");
            }
            let bounds = match cue {
                Cue::Bound(bound, by_time) => !by_time && bound != Bound::Between,
                Cue::Versus => self.said_at(at) == "than",
                _ => false,
            };
            let Some(next) = self.beside(at, 1).filter(|_| bounds) else { continue };
            let has_number =
                matches!(self.what_beside(next, 1), Some(What::Number(..) | What::Date(_)));
            let is_field = cue != Cue::Versus && self.fields_at(next).is_some() && !has_number;
            if is_field || matches!(self.cue(next), Some(Cue::Of(_))) {
                return missing(format!(
                    "a comparison with {:?} of each row is not supported; give a number",
                    self.said_at(next)
                ));
            }
        }
        Ok(())
    }
}
