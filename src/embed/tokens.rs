//! Splits a text into lower-case words and stems the words by the rules of the languages of a
//! knowledge base.
//!
//! Words are split by [`agent_ground::words`]; stop words are left out. Text in a script without
//! spaces (such as Chinese) is cut into pairs of characters if the knowledge base has such a
//! language. For languages with compounds or many word forms, letter n-grams are added, unless
//! English is among the languages.
//!
//! | limit | value | reason |
//! | --- | --- | --- |
//! | [`MAX_WORD_CHARS`] | 40 characters | longer runs are identifiers or noise; they are skipped |
//! | [`MAX_TEXT_WORDS`] | 8192 words | bounds the cost of one text; the rest is not read |
//! | [`MAX_CACHED_WORDS`] | 100 000 words | bounds the memory of one [`StemCache`] |

use std::collections::HashMap;

use agent_ground::words::{Language, Languages, Stems, grams, is_unspaced, name_words};

/// Maximum length of a word, in characters; longer words are ignored.
pub(crate) const MAX_WORD_CHARS: usize = 40;
/// Maximum number of words read from one text; the rest is ignored.
pub(crate) const MAX_TEXT_WORDS: usize = 8192;
/// Maximum number of words in one [`StemCache`]; a full cache is emptied.
const MAX_CACHED_WORDS: usize = 100_000;

/// Calls `each` for every word of `text` except stop words, in lower case, without accents and not
/// stemmed. If the languages use letter n-grams and English is not among the languages, also calls
/// `each` for the letter n-grams of each word.
pub(crate) fn for_each_word(languages: Languages, text: &str, mut each: impl FnMut(&str)) {
    // If English is among the languages, n-grams would outnumber the English words.
    let has_grams = languages.have_grams() && !languages.has(Language::ENGLISH);
    for (_, word) in name_words(text).take(MAX_TEXT_WORDS) {
        languages.for_each_part(&languages.composed(&word), &mut |word| {
            let n_chars = word.chars().take(MAX_WORD_CHARS + 1).count();
            let is_character = n_chars == 1 && languages.are_cut() && word.chars().all(is_unspaced);
            let is_word = (2..=MAX_WORD_CHARS).contains(&n_chars) || is_character;
            if is_word && !languages.is_stop_word(word) {
                each(word);
                if has_grams {
                    grams(word, &mut each);
                }
            }
        });
    }
}

/// Stems words and caches a value per word, computed from its stem.
///
/// `T` is the caller's value, such as the id of the stem. The cache affects speed only.
pub(crate) struct StemCache<T> {
    stems: Stems,
    known: HashMap<Box<str>, T>,
}

impl<T: Copy> StemCache<T> {
    /// Creates an empty cache.
    pub(crate) fn new(languages: Languages) -> StemCache<T> {
        StemCache { stems: Stems::new(languages), known: HashMap::new() }
    }

    /// Languages by which words are stemmed.
    pub(crate) fn languages(&self) -> Languages {
        self.stems.languages()
    }

    /// Returns the cached value of `word`; if there is none, calls `make` with the word's stem and
    /// caches the value that `make` returns.
    pub(crate) fn get(&mut self, word: &str, make: impl FnOnce(&str) -> T) -> T {
        if let Some(found) = self.known.get(word) {
            return *found;
        }
        let made = make(&self.stems.stem(word));
        if self.known.len() >= MAX_CACHED_WORDS {
            self.known.clear();
        }
        self.known.insert(word.into(), made);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_word(Languages::ENGLISH, text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_are_lower_case_without_function_words() {
        assert_eq!(words("The IL-2 Receptor of ÉCOLE ﬁne x!"), ["il", "receptor", "ecole", "fine"]);
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn long_words_and_long_texts_are_bounded() {
        let longest = "q".repeat(MAX_WORD_CHARS);
        assert_eq!(words(&longest), [&*longest]);
        assert!(words(&format!("{longest}q")).is_empty());
        assert_eq!(words(&"word ".repeat(MAX_TEXT_WORDS + 5)).len(), MAX_TEXT_WORDS);
    }

    #[test]
    fn a_stem_is_made_once_per_word() {
        let mut cache = StemCache::new(Languages::ENGLISH);
        let mut n_made = 0;
        for _ in 0..2 {
            cache.get("embeddings", |stem| {
                assert_eq!(stem, "embed");
                n_made += 1;
            });
        }
        assert_eq!(n_made, 1);
    }
}
