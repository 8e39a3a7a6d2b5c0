//! Reads words that a question excludes without naming a node: "playmobil sets other than knights",
//! "gift cards not for birthdays".
//!
//! A phrase consists of the words after a negation, at most three. It ends before the next
//! punctuation mark, question word or word such as "with". "Or" begins a new phrase, and so does
//! "and" after "other than".
//!
//! Nodes with the words of a phrase in their name come last. So do nodes with such a neighbour, if
//! the neighbour has another type or is a broader class of the node. Other neighbours of the same
//! type do not count: a product that is bought together with a node is not a property of the node.
//! Names that contain the negation, such as "Learning without Forgetting" and "latex-free", do not
//! count. Word search leaves the words out, unless the negation occurs in titles, as "without" and
//! "no" do.

use std::{borrow::Cow, ops::Range};

use crate::bundle::conditions::{
    Reader,
    phrases::{
        BEFORE_LIMITS, COMPARISONS, EXCEPT, FILLERS, IN_TITLES, JOINING, LIMITS, NOT_NEGATED, OR,
        OTHER_THAN, has,
    },
};
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{Direction, NodeId, RelationId, table::dates::as_year};

/// Maximum number of words of an excluded phrase.
const MAX_WORDS: usize = 3;
/// Maximum number of excluded phrases of a question.
const MAX_PHRASES: usize = 8;
/// Maximum number of neighbours of a node, per relation, whose names are read.
const MAX_NEIGHBORS: usize = 256;
/// Word of the lexicon for relations from a thing to its broader class, such as `is_a`.
const KIND: &str = "kind";

/// An excluded phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excluded {
    /// The words as written.
    text: String,
    /// The stems of the words.
    stems: Vec<String>,
    /// Relations from a node to its broader classes; `None` if the names of neighbours do not
    /// count.
    kinds: Option<Vec<RelationId>>,
}

impl Excluded {
    /// Creates a phrase that the names of answers should not have; `None` without words.
    pub(super) fn new(base: &IndexedBase, text: &str) -> Option<Self> {
        let stem = |(_, word): (_, Cow<'_, str>)| base.stems.stem(&word).into_owned();
        let stems: Vec<String> = name_words(text).map(stem).collect();
        (!stems.is_empty()).then(|| Self { text: text.to_owned(), stems, kinds: None })
    }

    /// Whether a node is excluded: by its name or, if neighbours count, by the name of a neighbour.
    pub(super) fn excludes(&self, base: &IndexedBase, node: NodeId) -> bool {
        self.is_in_name(base, node) || self.is_in_neighbor(base, node)
    }

    /// Describes the phrase as a condition.
    pub(super) fn condition(&self) -> String {
        let part = if self.kinds.is_some() { "" } else { "name " };
        format!("{part}without {}", self.text)
    }

    /// Whether the name of a node has all words of the phrase, none of them negated.
    fn is_in_name(&self, base: &IndexedBase, node: NodeId) -> bool {
        let words: Vec<_> = name_words(base.kb.name(node)).map(|pair| pair.1).collect();
        let is_negated = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| words.get(at));
            before.is_some_and(|word| word == "non" || has(IN_TITLES, word))
                || words.get(at + 1).is_some_and(|word| word == "free")
        };
        let is_stem = |at: usize, stem: &String| base.stems.stem(&words[at]) == **stem;
        let is_said = |stem| (0..words.len()).any(|at| is_stem(at, stem) && !is_negated(at));
        self.stems.iter().all(is_said)
    }

    /// Whether a neighbour of a node has the phrase in its name. Only neighbours of another type
    /// and broader classes of the node count.
    fn is_in_neighbor(&self, base: &IndexedBase, node: NodeId) -> bool {
        let Some(kinds) = &self.kinds else { return false };
        let names = &base.neighbor_names;
        let may_have =
            |stem: &String| names.stem_id(stem).is_some_and(|stem| names.has(node, stem));
        if !self.stems.iter().all(may_have) {
            return false;
        }
        let kb = &base.kb;
        let own = kb.node_type(node);
        kb.relations_of(own).iter().any(|&relation| {
            let is_kind = kinds.contains(&relation);
            let direction = if is_kind { Direction::Out } else { Direction::Any };
            let neighbors = kb.neighbors(node, relation, direction);
            let counts = |other: &&NodeId| is_kind || kb.node_type(**other) != own;
            let mut counted = neighbors.iter().take(MAX_NEIGHBORS).filter(counts);
            counted.any(|&other| self.is_in_name(base, other))
        })
    }
}

impl Reader<'_> {
    /// Reads the words that a negation at `start` excludes; they begin at or after word `at`.
    pub(super) fn read_excluded(&mut self, mut start: usize, mut at: usize) {
        let is_kept = self.is_any(start, IN_TITLES);
        let takes_list = [OTHER_THAN, EXCEPT].iter().any(|of| self.phrase_at(start, of).is_some())
            || self.is_any(start, "except excluding");
        while self.found.excluded.len() < MAX_PHRASES {
            while self.is_any(at, FILLERS) && !self.is_cut(at) {
                at += 1;
            }
            let from = at;
            while let Some(word) = self.words.get(at) {
                let ends = is_question_word(&word.folded)
                    || [JOINING, FILLERS, NOT_NEGATED, OR].iter().any(|of| self.is_any(at, of));
                if ends || self.begins_limit(at) || self.is_cut(at) || at - from == MAX_WORDS {
                    break;
                }
                at += 1;
            }
            if at == from {
                return;
            }
            self.exclude(from..at, true);
            self.put_literal(start, at, is_kept);
            let is_listed = takes_list && self.is(at, "and") && !self.is_any(at + 1, FILLERS);
            if !is_listed && !self.is_any(at, OR) {
                return;
            }
            (start, at) = (at, at + 1);
        }
    }

    /// Whether word `at` belongs to a limit or date, which is read as a condition of its own.
    fn begins_limit(&self, at: usize) -> bool {
        let mut limits = LIMITS.iter().chain(&COMPARISONS);
        limits.any(|(_, phrases)| self.phrase_at(at, phrases).is_some())
            || self.is_any(at, BEFORE_LIMITS)
            || self.is(at, "between")
            || self.words.get(at).is_some_and(|word| as_year(&word.folded).is_some())
    }

    /// Adds the words at `range` as an excluded phrase. With `in_neighbors`, the names of
    /// neighbours count too.
    pub(super) fn exclude(&mut self, range: Range<usize>, in_neighbors: bool) {
        let words = self.words.get(range).unwrap_or_default();
        let (Some(first), Some(last)) = (words.first(), words.last()) else { return };
        let text = &self.text[first.range.start..last.range.end];
        let Some(mut phrase) = Excluded::new(self.base, text) else { return };
        phrase.kinds = in_neighbors.then(|| self.schema.relations_meaning(KIND));
        if self.found.excluded.len() < MAX_PHRASES && !self.found.excluded.contains(&phrase) {
            self.found.excluded.push(phrase);
        }
    }

    /// Records the words of an exclusion, including the negation: a node whose name contains
    /// exactly these words fulfils the conditions. Word search leaves the words out unless
    /// `is_kept`.
    pub(super) fn put_literal(&mut self, start: usize, end: usize, is_kept: bool) {
        let words = self.words.get(start..end).unwrap_or_default();
        if self.found.literals.len() < MAX_PHRASES {
            self.found.literals.push(words.iter().map(|word| word.folded.to_string()).collect());
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
