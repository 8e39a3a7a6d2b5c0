//! Analyses a query: splits it into words and finds the stems of names that each word may match.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
};

use crate::entities::{
    EntityIndex, GoOn, MAX_TYPO_ENTRIES, MIN_FUZZY_LETTERS, PARTED_STRENGTH,
    forms::{Key, NameWord, deletions, key, name_words, stem_of, stem_pieces, then_stems},
};
use agent_ground::words::{is_part, is_too_long};
use agent_kb::{Bits, distinct};

/// Maximum number of words of a query; further words are ignored.
const MAX_QUERY_WORDS: usize = 256;
/// Minimum number of letters of both parts when a word is split in two, such as "betacarotene" into
/// "beta" and "carotene". A split between a letter and a digit may give shorter parts.
const MIN_PART_LETTERS: usize = 3;
/// Strength of a stem that matches a query word after one edit; a stem that matches without an edit
/// has strength 1.
pub(super) const TYPO_STRENGTH: f32 = 0.9;

/// A word of a query.
#[derive(Clone)]
pub(super) struct Word {
    /// The word in folded form (case and accents).
    pub(super) text: String,
    /// Stems of the parts of the word, in order; see [`stem_pieces`].
    pieces: Vec<String>,
    /// Whether the word has a capital letter.
    pub(super) capital: bool,
    /// Whether the word is a question word.
    pub(super) asks: bool,
    /// Whether the word is only a piece of a longer one: one character of a run without spaces,
    /// such as a Japanese word, or a part in the sense of `is_part`. Such a word alone does not
    /// count as a name.
    pub(super) is_inside: bool,
    /// Whether the word is a [part](is_part) of a longer English word.
    is_part: bool,
    /// Id of the word's stem; `None` if the stem occurs in no name.
    pub(super) stem: Option<u32>,
}

impl Word {
    /// Extends a hash of stems by the stems of this word. `follows`: other words precede it in the
    /// hash.
    pub(super) fn then_stems(&self, key: Key, follows: bool) -> Key {
        then_stems(key, &self.pieces, follows)
    }
}

/// The words of a query, with the stems of names that they may match.
pub(super) struct QueryWords {
    pub(super) words: Vec<Word>,
    /// All words of the query; each word that occurs in no name is replaced by the nearest word of
    /// a name within one edit, if there is one. Empty if no word is replaced.
    pub(super) corrected: Vec<Word>,
    /// Stems of the index that the query may match, ascending, each with its strength in `0..=1`.
    pub(super) stems: Vec<(u32, f32)>,
    /// For each entry of `stems`, in the same order, the stem's inverse document frequency times
    /// its strength.
    weights: Vec<f32>,
    /// The stems in `stems` as a set, to reject most lookups quickly.
    has_stem: Bits,
}

impl QueryWords {
    /// Returns the strength of a stem in the query; zero if the query does not match the stem.
    pub(super) fn strength(&self, stem: u32) -> f32 {
        self.place(stem).map_or(0.0, |at| self.stems[at].1)
    }

    /// Returns the inverse document frequency of a stem times its strength; zero if the query does
    /// not match the stem.
    #[inline]
    pub(super) fn weight(&self, stem: u32) -> f32 {
        self.place(stem).map_or(0.0, |at| self.weights[at])
    }

    #[inline]
    fn place(&self, stem: u32) -> Option<usize> {
        if !self.has_stem.contains(stem) {
            return None;
        }
        self.stems.binary_search_by_key(&stem, |pair| pair.0).ok()
    }
}

impl EntityIndex {
    /// Splits a text into words and finds the stems that they may match. Calls `go_on` before each
    /// word, so that the caller can stop.
    ///
    /// # Errors
    /// The error of `go_on`.
    pub(super) fn look_up<E>(&self, text: &str, go_on: GoOn<'_, E>) -> Result<QueryWords, E> {
        let word = |NameWord { range, folded, form }: NameWord<'_>| {
            let is_part = is_part(text, &range);
            Word {
                pieces: stem_pieces(&self.stems, &text[range.clone()]),
                capital: text[range].chars().any(char::is_uppercase),
                asks: self.stems.languages().is_question_word(&folded),
                is_inside: is_part || form.as_ref().is_none_or(|form| form.len() > folded.len()),
                is_part,
                stem: form.and_then(|form| self.stem_id(&form)),
                text: folded.into_owned(),
            }
        };
        let words = name_words(&self.stems, text).into_iter();
        let words: Vec<Word> = words.take(MAX_QUERY_WORDS).map(word).collect();
        let corrected = self.corrected(&words, go_on)?;
        let mut found: HashMap<u32, f32> = HashMap::new();
        let mut add = |stem: u32, strength: f32| {
            let best = found.entry(stem).or_default();
            *best = best.max(strength);
        };
        for word in words.iter().filter(|word| !word.asks && !word.is_part) {
            go_on()?;
            match word.stem {
                Some(stem) => add(stem, 1.0),
                None => {
                    self.near(&word.text).into_iter().for_each(|stem| add(stem, TYPO_STRENGTH));
                    for (first, second) in self.parted(&word.text) {
                        add(first, PARTED_STRENGTH);
                        add(second, PARTED_STRENGTH);
                    }
                }
            }
        }
        for pair in words.windows(2) {
            let [first, second] = pair else { continue };
            let joined = format!("{}{}", first.text, second.text);
            if !first.asks && !second.asks && joined.chars().nth(MIN_FUZZY_LETTERS - 1).is_some() {
                self.stem_id(&joined).into_iter().for_each(|s| add(s, PARTED_STRENGTH));
            }
        }
        let mut stems: Vec<(u32, f32)> = found.into_iter().collect();
        stems.sort_unstable_by_key(|pair| pair.0);
        let mut has_stem = Bits::new(self.vocabulary.len());
        for &(stem, _) in &stems {
            has_stem.insert(stem);
        }
        let weights = stems.iter().map(|&(stem, strength)| self.idf(stem) * strength).collect();
        Ok(QueryWords { words, corrected, stems, weights, has_stem })
    }

    /// Corrects typos: replaces each word that occurs in no name by a word of a name within one
    /// edit. Prefers a word whose stem shares a name with another word of the query, then the word
    /// in the most names, then the alphabetically first. Question words are kept. Returns an empty
    /// list if no word is replaced.
    fn corrected<E>(&self, words: &[Word], go_on: GoOn<'_, E>) -> Result<Vec<Word>, E> {
        let nearest = |word: &Word| -> Option<Word> {
            if word.asks || word.stem.is_some() {
                return None;
            }
            let near = self.near_words(&word.text);
            let common = |at: &(u32, u32)| {
                let is_together = near.len() > 1 && self.shares_name(at.1, words);
                (is_together, self.entries_of(at.1).len(), Reverse(at.0))
            };
            let (at, stem) = near.iter().copied().max_by_key(common)?;
            let text = std::str::from_utf8(self.words.get(at as usize)).ok()?;
            Some(Word {
                pieces: stem_pieces(&self.stems, text),
                text: text.to_owned(),
                stem: Some(stem),
                ..*word
            })
        };
        let mut corrected = Vec::with_capacity(words.len());
        for word in words {
            go_on()?;
            corrected.push(nearest(word));
        }
        if corrected.iter().all(Option::is_none) {
            return Ok(Vec::new());
        }
        let whole = corrected.into_iter().zip(words);
        Ok(whole.map(|(near, word)| near.unwrap_or(word.clone())).collect())
    }

    /// Whether some name contains both the stem and the stem of one of `words`; reads at most
    /// [`MAX_TYPO_ENTRIES`] names.
    fn shares_name(&self, stem: u32, words: &[Word]) -> bool {
        let others = || words.iter().filter(|word| !word.asks && !word.is_part);
        let others: Vec<u32> = others().filter_map(|word| word.stem).collect();
        let mut entries = self.entries_of(stem).iter().take(MAX_TYPO_ENTRIES);
        entries.any(|&entry| self.stems_of(entry).iter().any(|other| others.contains(other)))
    }

    /// Finds the id of the stem of a folded word; `None` if the stem occurs in no name.
    pub(super) fn stem_id(&self, word: &str) -> Option<u32> {
        match self.words.find(word) {
            Some(at) => self.word_stems.as_slice().get(at).copied(),
            None => self.vocabulary.find(&stem_of(&self.stems, word)).map(|stem| stem as u32),
        }
    }

    /// Returns the ids of the stems found by [`Self::near_words`], ascending and without
    /// duplicates.
    pub(super) fn near(&self, word: &str) -> Vec<u32> {
        distinct(self.near_words(word).into_iter().map(|pair| pair.1).collect())
    }

    /// Finds the words of names that are within one edit (insertion, deletion, substitution or swap
    /// of neighbouring letters) of a word. Returns pairs (position in `words`, id of the stem),
    /// ascending; none for a word of fewer than [`MIN_FUZZY_LETTERS`] letters or a word that is too
    /// long.
    fn near_words(&self, word: &str) -> Vec<(u32, u32)> {
        let mut near = BTreeSet::new();
        if word.chars().nth(MIN_FUZZY_LETTERS - 1).is_none() || is_too_long(word) {
            return Vec::new();
        }
        for form in std::iter::once(word.to_owned()).chain(deletions(word)) {
            let same = self.fuzzy_places.find(self.fuzzy_keys.as_slice(), key(&form));
            let words = self.fuzzy_words.as_slice().get(same).unwrap_or(&[]);
            near.extend(words.iter().filter_map(|&at| {
                let other = std::str::from_utf8(self.words.get(at as usize)).ok()?;
                let stem = self.word_stems.as_slice().get(at as usize).copied()?;
                (strsim::osa_distance(word, other) <= 1).then_some((at, stem))
            }));
        }
        near.into_iter().collect()
    }

    /// Splits an ASCII word into two words at each allowed position; returns the pairs of stem ids
    /// that occur together in a name, such as those of "beta" and "carotene" for "betacarotene".
    pub(super) fn parted(&self, word: &str) -> Vec<(u32, u32)> {
        if !word.is_ascii() || is_too_long(word) {
            return Vec::new();
        }
        let bytes = word.as_bytes();
        let may_part = |at: usize| {
            let beside = bytes.get(at - 1).zip(bytes.get(at));
            let changes = beside.is_some_and(|(a, b)| a.is_ascii_digit() != b.is_ascii_digit());
            changes || at >= MIN_PART_LETTERS && at + MIN_PART_LETTERS <= word.len()
        };
        (1..word.len())
            .filter(|&at| may_part(at))
            .filter_map(|at| {
                let (first, second) = word.split_at(at);
                Some((self.stem_id(first)?, self.stem_id(second)?))
            })
            .filter(|&(first, second)| first != second && self.stand_together(first, second))
            .collect()
    }

    /// Whether some name contains both stems.
    fn stand_together(&self, first: u32, second: u32) -> bool {
        let (first, second) = (self.entries_of(first), self.entries_of(second));
        let (few, many) =
            if first.len() < second.len() { (first, second) } else { (second, first) };
        few.iter().any(|entry| many.binary_search(entry).is_ok())
    }
}
