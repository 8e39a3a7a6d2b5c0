//! Words that a question excludes without naming a node: "playmobil sets other than knights", "gift
//! cards not for birthdays".
//!
//! Word search leaves such words out, and nodes whose name has them come last. The words after a
//! negation count up to the next punctuation mark, question word or word such as "with"; at most
//! three, "or" begins anew.

use std::ops::Range;

use crate::bundle::conditions::{
    Reader,
    phrases::{FILLERS, JOINING, NOT_NEGATED, OR},
};
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::NodeId;

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
    /// Whether the name of a node has all words of the phrase.
    pub(super) fn is_in_name(&self, base: &IndexedBase, node: NodeId) -> bool {
        let words: Vec<_> = name_words(base.kb.name(node)).map(|pair| pair.1).collect();
        let has = |stem: &String| words.iter().any(|word| base.stems.stem(word) == **stem);
        self.stems.iter().all(has)
    }
}

impl Reader<'_> {
    /// Reads the words that a negation at `start` excludes; they begin at or after word `at`.
    pub(super) fn read_excluded(&mut self, start: usize, mut at: usize) {
        while self.is_any(at, &FILLERS) && !self.is_cut(at) {
            at += 1;
        }
        let from = at;
        while let Some(word) = self.words.get(at) {
            let ends = is_question_word(&word.folded)
                || [&JOINING[..], &FILLERS, &NOT_NEGATED, &OR].iter().any(|of| self.is_any(at, of));
            if ends || self.is_cut(at) || at - from == MAX_WORDS {
                break;
            }
            at += 1;
        }
        if at > from {
            self.exclude(from..at);
            self.negated.push(start..at);
            if self.is_any(at, &OR) {
                self.read_excluded(at, at + 1);
            }
        }
    }

    /// Adds the words at `range` as an excluded phrase.
    pub(super) fn exclude(&mut self, range: Range<usize>) {
        let words = self.words.get(range).unwrap_or_default();
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let phrase = Excluded {
            text: self.text[first.range.start..last.range.end].to_owned(),
            stems: words.iter().map(|word| word.stem.clone()).collect(),
        };
        if self.excluded.len() < MAX_PHRASES && !self.excluded.contains(&phrase) {
            self.excluded.push(phrase);
        }
    }
}
