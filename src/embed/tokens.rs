//! Splits a text into lower-case word stems.
//!
//! A word is two or more letters, digits, underscores or combining marks (`\w\w+`), after NFKC and lower
//! case. English function words are dropped, the rest is stemmed by the Snowball English stemmer
//! (Porter 2001). Text without spaces between words (Chinese, Japanese, Thai) is not segmented.
//!
//! | limit | value | reason |
//! | --- | --- | --- |
//! | [`MAX_WORD_CHARS`] | 40 characters | longer runs are identifiers or noise; they are skipped |
//! | [`MAX_TEXT_WORDS`] | 8192 words | bounds the cost of one text; the rest is not read |
//! | [`MAX_CACHED_WORDS`] | 100 000 words | bounds the memory of one [`StemCache`] |

use std::borrow::Cow;
use std::collections::HashMap;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Longest word read, in characters.
pub(crate) const MAX_WORD_CHARS: usize = 40;
/// Words read from one text; what follows is ignored.
pub(crate) const MAX_TEXT_WORDS: usize = 8192;
/// Words remembered by one [`StemCache`]; it is emptied when full.
const MAX_CACHED_WORDS: usize = 100_000;

/// English words that join others and say little themselves.
const FUNCTION_WORDS: [&str; 35] = [
    "an", "and", "are", "as", "at", "be", "been", "but", "by", "for", "from", "has", "have", "if",
    "in", "into", "is", "it", "its", "no", "not", "of", "on", "or", "so", "that", "the", "their",
    "these", "this", "to", "was", "which", "will", "with",
];

/// Calls `each` for every word of `text`, lower case, function words left out, not stemmed.
pub(crate) fn for_each_word(text: &str, mut each: impl FnMut(&str)) {
    let text =
        if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.nfkc().collect()) };
    let mut n_words = 0;
    let mut word = String::new();
    for run in text.split(|c: char| !is_word_char(c)) {
        if run.len() < 2 {
            continue;
        }
        word.clear();
        if run.is_ascii() {
            word.push_str(run);
            word.make_ascii_lowercase();
        } else {
            word.extend(run.chars().flat_map(char::to_lowercase));
        }
        let n_chars = if word.is_ascii() {
            word.len()
        } else {
            word.chars().take(MAX_WORD_CHARS + 1).count()
        };
        if !(2..=MAX_WORD_CHARS).contains(&n_chars) {
            continue;
        }
        n_words += 1;
        if n_words > MAX_TEXT_WORDS {
            return;
        }
        if FUNCTION_WORDS.binary_search(&word.as_str()).is_err() {
            each(&word);
        }
    }
}

/// Stems words, remembering what each word's stem maps to.
///
/// `T` is whatever the caller keeps per stem: an id, or the stem itself. A cache changes speed only.
pub(crate) struct StemCache<T> {
    stemmer: Stemmer,
    known: HashMap<Box<str>, T>,
}

impl<T: Copy> StemCache<T> {
    /// An empty cache.
    pub(crate) fn new() -> StemCache<T> {
        StemCache { stemmer: Stemmer::create(Algorithm::English), known: HashMap::new() }
    }

    /// What `make` says of the stem of `word`; asked once per word while the cache remembers it.
    pub(crate) fn get(&mut self, word: &str, make: impl FnOnce(&str) -> T) -> T {
        if let Some(found) = self.known.get(word) {
            return *found;
        }
        let made = make(&self.stemmer.stem(word));
        if self.known.len() >= MAX_CACHED_WORDS {
            self.known.clear();
        }
        self.known.insert(word.into(), made);
        made
    }
}

fn is_word_char(c: char) -> bool {
    if c.is_ascii() {
        c.is_ascii_alphanumeric() || c == '_'
    } else {
        c.is_alphanumeric() || is_combining_mark(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for_each_word(text, |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn words_are_lower_case_without_function_words() {
        assert!(FUNCTION_WORDS.is_sorted());
        assert_eq!(
            words("The IL-2 Receptor, a_b of ÉCOLE ﬁne x!"),
            ["il", "receptor", "a_b", "école", "fine"]
        );
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
        let mut cache = StemCache::new();
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
