//! Words that a question excludes without naming a node: "playmobil sets other than knights", "gift
//! cards not for birthdays".
//!
//! Nodes whose name has such words come last, except where the name has the negation too, as in
//! "Learning without Forgetting". Word search leaves the words out, unless the negation is one that
//! titles have, such as "without" or "no". The words after a negation count up to the next
//! punctuation mark, question word or word such as "with"; at most three, and "or" begins a new
//! phrase.

use std::{borrow::Cow, ops::Range};

use crate::bundle::conditions::{
    Reader,
    phrases::{BEFORE_LIMITS, COMPARISONS, FILLERS, IN_TITLES, JOINING, LIMITS, NOT_NEGATED, OR},
};
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, table::dates::as_year};

/// Maximum number of words of an excluded phrase.
const MAX_WORDS: usize = 3;
/// Maximum number of excluded phrases of a question.
const MAX_PHRASES: usize = 8;

/// An excluded phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excluded {
    /// The words as written.
    pub(super) text: String,
    /// The stems of the words.
    stems: Vec<String>,
}

impl Excluded {
    /// `None` without words.
    pub(super) fn new(base: &IndexedBase, text: &str) -> Option<Self> {
        let stem = |(_, word): (_, Cow<'_, str>)| base.stems.stem(&word).into_owned();
        let stems: Vec<String> = name_words(text).map(stem).collect();
        (!stems.is_empty()).then(|| Self { text: text.to_owned(), stems })
    }

    /// Whether the name of a node has all words of the phrase.
    pub(super) fn is_in_name(&self, base: &IndexedBase, node: NodeId) -> bool {
        let words: Vec<_> = name_words(base.kb.name(node)).map(|pair| pair.1).collect();
        let has = |stem: &String| words.iter().any(|word| base.stems.stem(word) == **stem);
        self.stems.iter().all(has)
    }
}

impl Reader<'_> {
    /// Reads the words that a negation at `start` excludes; they begin at or after word `at`.
    pub(super) fn read_excluded(&mut self, mut start: usize, mut at: usize) {
        let is_kept = self.is_any(start, &IN_TITLES);
        while self.excluded.len() < MAX_PHRASES {
            while self.is_any(at, &FILLERS) && !self.is_cut(at) {
                at += 1;
            }
            let from = at;
            while let Some(word) = self.words.get(at) {
                let ends = is_question_word(&word.folded)
                    || [&JOINING[..], &FILLERS, &NOT_NEGATED, &OR]
                        .iter()
                        .any(|of| self.is_any(at, of));
                if ends || self.begins_limit(at) || self.is_cut(at) || at - from == MAX_WORDS {
                    break;
                }
                at += 1;
            }
            if at == from {
                return;
            }
            self.exclude(from..at);
            self.put_literal(start, at, is_kept);
            if !self.is_any(at, &OR) {
                return;
            }
            (start, at) = (at, at + 1);
        }
    }

    /// Whether word `at` belongs to a limit or date, which is read as a condition of its own.
    fn begins_limit(&self, at: usize) -> bool {
        let mut limits = LIMITS.iter().chain(&COMPARISONS);
        limits.any(|(phrase, _)| self.is(at, phrase))
            || self.is_any(at, &BEFORE_LIMITS)
            || self.is(at, &["between"])
            || self.words.get(at).is_some_and(|word| as_year(&word.folded).is_some())
    }

    /// Adds the words at `range` as an excluded phrase.
    pub(super) fn exclude(&mut self, range: Range<usize>) {
        let words = self.words.get(range).unwrap_or_default();
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let text = &self.text[first.range.start..last.range.end];
        let Some(phrase) = Excluded::new(self.base, text) else { return };
        if self.excluded.len() < MAX_PHRASES && !self.excluded.contains(&phrase) {
            self.excluded.push(phrase);
        }
    }

    /// Records the words of an exclusion, including the negation: a node whose name contains
    /// exactly these words fulfils the conditions. Word search leaves the words out unless
    /// `is_kept`.
    pub(super) fn put_literal(&mut self, start: usize, end: usize, is_kept: bool) {
        let words = self.words.get(start..end).unwrap_or_default();
        if self.literals.len() < MAX_PHRASES {
            self.literals.push(words.iter().map(|word| word.folded.to_string()).collect());
        }
        if !is_kept {
            self.negated.push(start..end);
        }
    }
}

/// Whether the name of a node has these words one after another.
pub(super) fn is_named(base: &IndexedBase, node: NodeId, words: &[String]) -> bool {
    let name: Vec<_> = name_words(base.kb.name(node)).map(|pair| pair.1).collect();
    name.windows(words.len().max(1)).any(|own| own.iter().eq(words))
}
