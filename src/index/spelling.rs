//! Replaces misspelled words of a query with words of the base; English only.
//!
//! A word that occurs in no document and in no neighbour's name is replaced by the known word that
//! is nearest by optimal string alignment (insertions, deletions, substitutions and swaps of
//! adjacent letters). Of equally near words, the one that shares the most texts with another word
//! of the query is chosen, then the most frequent: "siatic nerve" becomes "sciatic nerve", not
//! "sialic nerve". Only words of at least five letters, without other characters, are corrected,
//! and their first letter is never changed. Words in quotation marks and common English words are
//! kept.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, ops::Range, sync::Mutex};

use crate::postings::Postings;
use agent_ground::{
    locks::locked,
    words::{is_question_word, name_words, quoted_ranges},
};

/// Minimum number of letters of a word that is corrected.
const MIN_LETTERS: usize = 5;
/// Minimum number of letters of a word in which two errors are corrected; in a shorter word, only
/// one error is corrected.
const MIN_LETTERS_FOR_TWO: usize = 9;
/// Maximum number of letters of a word that is corrected.
const MAX_LETTERS: usize = 32;
/// Minimum number of texts that must contain a word for it to replace a misspelled one; in a large
/// base, at least one in [`TEXTS_PER_WORD`] texts must contain the word.
const MIN_TEXTS: usize = 2;
/// In a base of `n` texts, a word replaces a misspelled word only if at least `n / TEXTS_PER_WORD`
/// texts contain it.
const TEXTS_PER_WORD: usize = 16_000;
/// Maximum number of words of a text that are checked; later ones are kept.
const MAX_WORDS: usize = 256;
/// Maximum number of known words, equally near to a misspelled one, among which the other words of
/// the query decide. If there are more, only the most frequent are considered.
const MAX_NEAREST: usize = 8;
/// Maximum number of words whose nearest words are cached; a full cache is cleared.
const MAX_CACHED: usize = 4_096;

/// Common English words, separated by spaces, that a base may lack: words of five letters or more,
/// including contractions without their apostrophe.
const COMMON: &str = "after again alright anyone anything anyway around because before being \
    below beside besides between beyond brother cannot couldnt daughter didnt doesnt doing every \
    everyone everything father gonna grandma grandpa grandson having helps husband kinda maybe \
    mother nobody nothing often quite rather shouldnt since sister somebody somehow someone \
    somewhere stuff thats their theirs there theres these theyre thing things though wanna wasnt \
    whats wheres while whoever woman women";

/// Finds the nearest words for a misspelled word; results are cached by word.
#[derive(Default)]
pub(crate) struct Spelling(Mutex<HashMap<String, Vec<String>>>);

impl Spelling {
    /// Returns the range in `text` of each misspelled word, and the word of `postings` that
    /// replaces it. The words of `postings` are not stemmed. Words for which `is_known` returns
    /// true are kept. `together` gets a word of `postings` and the words of the query. It counts
    /// the texts that contain this word together with a known word of the query. O(words with the
    /// same first letter) for each misspelled word.
    pub(crate) fn corrections(
        &self,
        postings: &Postings,
        text: &str,
        is_known: impl Fn(&str) -> bool,
        together: impl Fn(&str, &[Cow<'_, str>]) -> usize,
    ) -> Vec<(Range<usize>, String)> {
        let is_misspelled = |word: &str| {
            (MIN_LETTERS..=MAX_LETTERS).contains(&word.len())
                && word.bytes().all(|byte| byte.is_ascii_lowercase())
                && !is_question_word(word)
                && COMMON.split(' ').all(|common| common != word)
                && !is_known(word)
        };
        // A capital letter within a text begins a name, which the base may lack.
        let is_name = |range: &Range<usize>| {
            range.start > 0 && text[range.clone()].starts_with(char::is_uppercase)
        };
        let words = || name_words(text).take(MAX_WORDS);
        let misspelled = words().filter(|(range, word)| is_misspelled(word) && !is_name(range));
        let mut found: Vec<(Range<usize>, Vec<String>)> = misspelled
            .map(|(range, word)| (range, self.nearest(postings, &word)))
            .filter(|(_, nearest)| !nearest.is_empty())
            .collect();
        if found.is_empty() {
            return Vec::new();
        }
        let quoted = quoted_ranges(text);
        found.retain(|(range, _)| !quoted.iter().any(|part| part.contains(&range.start)));
        let others: Vec<Cow<'_, str>> =
            words().map(|pair| pair.1).filter(|word| !is_question_word(word)).collect();
        let best = |(range, nearest): (Range<usize>, Vec<String>)| {
            let n =
                |at: &usize| if nearest.len() > 1 { together(&nearest[*at], &others) } else { 0 };
            let best = (0..nearest.len()).max_by_key(|at| (n(at), Reverse(*at)))?;
            Some((range, nearest[best].clone()))
        };
        found.into_iter().filter_map(best).collect()
    }

    /// As [`nearest`], cached.
    fn nearest(&self, postings: &Postings, word: &str) -> Vec<String> {
        let lock = || locked(&self.0);
        if let Some(known) = lock().get(word) {
            return known.clone();
        }
        let found = nearest(postings, word);
        let mut cached = lock();
        if cached.len() >= MAX_CACHED {
            cached.clear();
        }
        cached.insert(word.to_owned(), found.clone());
        found
    }
}

/// Finds the known words nearest to `word`, all equally near: the [`MAX_NEAREST`] most frequent,
/// most frequent first, ties in alphabetical order. Empty if no known word is near enough.
fn nearest(postings: &Postings, word: &str) -> Vec<String> {
    let errors = if word.len() >= MIN_LETTERS_FOR_TWO { 2 } else { 1 };
    let (letters, Some(first)) = (letter_set(word), word.get(..1)) else { return Vec::new() };
    let min_texts = MIN_TEXTS.max(postings.n_texts() / TEXTS_PER_WORD);
    let known = postings.words_from(first).take_while(|(known, _)| known.starts_with(first));
    let near = known.filter(|(known, texts)| {
        *texts as usize >= min_texts
            && known.len().abs_diff(word.len()) <= errors
            && (letter_set(known) ^ letters).count_ones() as usize <= 2 * errors
    });
    // "plant" is not a misspelling of "plan", but "pluss" may be one of "plus".
    let is_doubled = |long: &str| long.as_bytes().last_chunk::<2>().is_some_and(|[a, b]| a == b);
    let is_longer = |long: &str, short: &str| {
        long.len() == short.len() + 1 && long.starts_with(short) && !is_doubled(long)
    };
    let near = near.filter(|(known, _)| !is_longer(word, known) && !is_longer(known, word));
    let distances = near.filter_map(|(known, texts)| {
        let distance = strsim::osa_distance(word, known);
        (distance <= errors).then_some((distance, Reverse(texts), known))
    });
    let mut found: Vec<_> = distances.collect();
    found.sort_unstable();
    let least = found.first().map_or(0, |first| first.0);
    let nearest = found.iter().take_while(|near| near.0 == least).take(MAX_NEAREST);
    nearest.map(|near| near.2.to_owned()).collect()
}

/// Returns the set of the letters a to z in a word, one bit each.
fn letter_set(word: &str) -> u32 {
    let letters = word.bytes().filter(u8::is_ascii_lowercase);
    letters.fold(0, |set, letter| set | 1 << (letter - b'a'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings;
    use agent_ground::words::Analysis;

    #[test]
    fn common_words_ascend() {
        assert!(COMMON.split(' ').is_sorted());
    }

    #[test]
    fn misspelled_words_become_the_nearest_frequent_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("postings");
        let texts = [
            "trainer estimation plus giant lavender",
            "trainer estimation plus plush giant plush lavender",
            "plus antidepressants rare plush pluck",
            "antidepressants trains pluck",
        ];
        postings::build(&path, Analysis::Words, texts).unwrap();
        let (postings, spelling) = (Postings::open(&path).unwrap(), Spelling::default());
        let is_known = |word: &str| postings.words_from(word).next().is_some_and(|w| w.0 == word);
        let with = |text: &str, together: &dyn Fn(&str, &[Cow<'_, str>]) -> usize| {
            let found = spelling.corrections(&postings, text, is_known, together).into_iter();
            found.map(|(range, word)| (text[range].to_owned(), word)).collect::<Vec<_>>()
        };
        let corrected = |text| with(text, &|_, _| 0);
        // One swap, one letter too many, one missing, two errors in a long word.
        let found = corrected("Pokemon trianer, pluss lavendar antidpresants");
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(
            found,
            [
                ("trianer", "trainer"),
                ("pluss", "plus"),
                ("lavendar", "lavender"),
                ("antidpresants", "antidepressants")
            ]
        );
        // In quotation marks, short, two errors in a short word, another first letter, a rare word,
        // an added last letter.
        let kept =
            ["\"trianer\"", "the Trianer", "trai", "gantz", "uestimation", "trainss", "giants"];
        for text in kept {
            assert_eq!(corrected(text), []);
        }
        assert_eq!(spelling.0.lock().unwrap()["trianer"], ["trainer"]);
        // "Pluck" and "plush" are one letter from "pluch"; the other words decide.
        let beside_lavender = |word: &str, others: &[Cow<'_, str>]| {
            usize::from(word == "plush" && others.contains(&"lavender".into()))
        };
        assert_eq!(corrected("pluch lavender")[0].1, "pluck");
        assert_eq!(with("pluch lavender", &beside_lavender)[0].1, "plush");
        assert_eq!(with("pluch giant", &beside_lavender)[0].1, "pluck");
    }
}
