//! Conditions in other languages than English: `nicht geschlossen`, `avant mars 2025`.
//!
//! The table `languages.tsv` has phrases of other languages with the English phrases of the same
//! meaning. In a base with texts in such a language, the words of these phrases are read as the
//! English ones, and word order is not that of English: the word that names a field may follow its
//! date. Names and quotations keep their words.

use std::{borrow::Cow, cmp::Reverse, collections::HashMap, iter, sync::LazyLock};

use agent_ground::words::{Languages, name_words};

const TABLE: &str = include_str!("languages.tsv");

/// The phrases of one language by their first word, longest first; each with its English words.
type Phrases = HashMap<String, Vec<(Vec<String>, Vec<&'static str>)>>;

/// The phrases of each language, by the code of the language.
static PHRASES: LazyLock<HashMap<&'static str, Phrases>> = LazyLock::new(|| {
    let mut languages: HashMap<&'static str, Phrases> = HashMap::new();
    for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
        let mut cells = line.split('\t');
        let [code, english, others] = std::array::from_fn(|_| cells.next().unwrap_or_default());
        let english: Vec<&'static str> = english.split(' ').collect();
        for other in others.split(", ") {
            let words: Vec<String> = name_words(other).map(|pair| pair.1.into_owned()).collect();
            let Some(first) = words.first() else { continue };
            let phrases = languages.entry(code).or_default().entry(first.clone()).or_default();
            phrases.push((words, english.clone()));
            phrases.sort_by_key(|pair| Reverse(pair.0.len()));
        }
    }
    languages
});

/// Whether the table has phrases of one of these languages.
pub(super) fn are_known(languages: Languages) -> bool {
    languages.iter().any(|language| PHRASES.contains_key(language.code()))
}

/// Returns the folded words of a question with the phrases of `languages` in English. The words of
/// the question keep their places: an English phrase with fewer words stands at the end of the
/// phrase, after empty words.
pub(super) fn in_english<'a>(languages: Languages, words: &[Cow<'a, str>]) -> Vec<Cow<'a, str>> {
    let mut english = words.to_vec();
    let known: Vec<&Phrases> =
        languages.iter().filter_map(|language| PHRASES.get(language.code())).collect();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let phrases = known.iter().filter_map(|phrases| phrases.get(word.as_ref())).flatten();
        let begins = |(phrase, _): &&(Vec<String>, Vec<&str>)| {
            words.get(at..at + phrase.len()).is_some_and(|own| own == phrase.as_slice())
        };
        let Some((phrase, meaning)) = phrases.filter(begins).max_by_key(|pair| pair.0.len()) else {
            at += 1;
            continue;
        };
        let empty = phrase.len().saturating_sub(meaning.len());
        let own = iter::repeat_n("", empty).chain(meaning.iter().copied());
        for (place, word) in english[at..].iter_mut().zip(own) {
            *place = Cow::Borrowed(word);
        }
        at += phrase.len();
    }
    english
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_phrase_has_more_words_in_english() {
        for (phrase, english) in PHRASES.values().flat_map(HashMap::values).flatten() {
            assert!(phrase.len() >= english.len(), "{phrase:?}: {english:?}");
        }
    }

    #[test]
    fn phrases_keep_their_places() {
        let languages: Languages = "en,fr".parse().expect("languages");
        let words = ["livres", "a", "partir", "de", "2020", "plus", "recents"];
        let expected = ["livres", "", "", "since", "2020", "most", "recent"];
        let english = in_english(languages, &words.map(Cow::Borrowed));
        assert_eq!(english, expected);
        assert_eq!(in_english(Languages::ENGLISH, &words.map(Cow::Borrowed)), words);
    }
}
