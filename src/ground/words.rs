//! Tokenization of texts, shared by all indexes and text comparisons.
//!
//! Three tokenizations, from strict to loose:
//! - [`for_each_reference_word`]: lower case, at least two word characters, 33 stop words dropped;
//!   the analysis of the BM25 baseline of STaRK (pattern `\b\w\w+\b`, no stemming).
//! - [`name_words`]: case and accents folded, every alphanumeric run, nothing dropped; used to look
//!   up names.
//! - [`Stems`]: name words of at least two characters, stop words dropped, stemmed in the languages
//!   of a base. Languages with compounds or many word forms add the letter n-grams of the stems.
//!   Scripts without spaces have pairs of characters instead of words.
//!
//! Each word has one stem, in texts and queries alike: the stemmers of all languages of the base
//! are applied in turn.

mod language;
mod quoted;

use std::{borrow::Cow, collections::HashMap, ops::Range, sync::LazyLock};

use rust_stemmers::Stemmer;
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

pub use crate::words::{
    language::{Language, Languages, is_unspaced, letters},
    quoted::{quoted, quoted_ranges},
};

/// Maximum length, in letters, of a run that is treated as a word of a language. A longer run (an
/// encoded file, a sequence) matches only in its exact form: stems, parts and typos would cost more
/// than linear time.
pub const MAX_WORD_LETTERS: usize = 64;
/// Number of letters in an n-gram of a stem; docs/languages.md gives the reason for it.
const GRAM_LETTERS: usize = 4;
/// Total weight of all n-grams of a query word, whose stem has weight 1. No single n-gram has a
/// weight above 1.
const GRAMS_WEIGHT: f32 = 2.0;

/// English function words that carry no topic, sorted: the list of Lucene's standard analyzer.
pub const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it",
    "no", "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these",
    "they", "this", "to", "was", "will", "with",
];

/// Quick filter before a search in [`STOP_WORDS`]: for each first byte, bit `n` is set if a stop
/// word with this first byte has `n` bytes.
static STOP_WORD_LENGTHS: [u8; 256] = {
    let (mut lengths, mut at) = ([0; 256], 0);
    while at < STOP_WORDS.len() {
        let word = STOP_WORDS[at].as_bytes();
        lengths[word[0] as usize] |= 1 << word.len();
        at += 1;
    }
    lengths
};

/// English words that shape a question but do not describe its answers, sorted.
const QUESTION_WORDS: [&str; 105] = [
    "about",
    "again",
    "also",
    "already",
    "am",
    "another",
    "any",
    "anything",
    "apart",
    "around",
    "can",
    "could",
    "did",
    "do",
    "does",
    "doing",
    "else",
    "ever",
    "find",
    "from",
    "get",
    "give",
    "go",
    "going",
    "good",
    "got",
    "had",
    "has",
    "have",
    "having",
    "he",
    "help",
    "her",
    "here",
    "him",
    "his",
    "how",
    "i",
    "interested",
    "its",
    "itself",
    "just",
    "know",
    "let",
    "like",
    "list",
    "look",
    "looking",
    "made",
    "make",
    "many",
    "may",
    "maybe",
    "me",
    "might",
    "more",
    "most",
    "much",
    "must",
    "my",
    "name",
    "need",
    "one",
    "ones",
    "only",
    "other",
    "others",
    "our",
    "out",
    "please",
    "really",
    "recommend",
    "search",
    "searching",
    "see",
    "she",
    "should",
    "show",
    "so",
    "some",
    "something",
    "suggest",
    "tell",
    "than",
    "thanks",
    "them",
    "themselves",
    "those",
    "too",
    "us",
    "very",
    "want",
    "wanted",
    "we",
    "were",
    "what",
    "when",
    "where",
    "whether",
    "which",
    "who",
    "whose",
    "would",
    "you",
    "your",
];

/// Whether a lower-case word is one of [`STOP_WORDS`].
pub fn is_stop_word(word: &str) -> bool {
    let lengths = word.bytes().next().map_or(0, |first| STOP_WORD_LENGTHS[usize::from(first)]);
    word.len() < 8 && lengths >> word.len() & 1 == 1 && STOP_WORDS.binary_search(&word).is_ok()
}

/// Whether a lower-case word is a stop word or an English word that only shapes a question.
pub fn is_question_word(word: &str) -> bool {
    is_stop_word(word) || QUESTION_WORDS.contains(&word)
}

/// English nouns for people by their role, as they occur in names of types; separated by spaces.
const PEOPLE: &str = "\
    author person people user customer employee director actor artist member student scientist \
    researcher player patient inventor tenant staff owner reader borrower librarian driver teacher \
    nurse doctor vet guest passenger resident pupil worker volunteer client subscriber critic crew \
    lecturer professor instructor tutor trainer coach mechanic technician engineer manager clerk \
    cook pilot lawyer visitor reviewer";

/// Whether a lower-case word is a noun for people, in the singular.
pub fn is_person(word: &str) -> bool {
    PEOPLE.split(' ').any(|own| own == word)
}

/// Whether the name of a type, in lower case with underscores, contains a noun for people.
pub fn is_of_people(type_name: &str) -> bool {
    type_name.split('_').any(is_person)
}

/// Returns the words that a lower-case abbreviation in the name of a table or column stands for,
/// such as `birth date` for `dob`; `None` for other words.
pub fn long_form(word: &str) -> Option<&'static str> {
    static ALL: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
        let rows = include_str!("words/abbreviations.tsv").lines();
        rows.filter_map(|row| row.split_once('\t')).collect()
    });
    ALL.get(word).copied()
}

/// Returns the name in `known` that is nearest to the unknown `name` by optimal string alignment,
/// which counts insertions, deletions, substitutions and swaps of adjacent characters. The distance
/// must be at most `max_distance` and less than the number of characters of `name`. Of several
/// nearest names, the first one is returned.
pub fn nearest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    max_distance: usize,
) -> Option<&'a str> {
    let distances = known.into_iter().map(|known| (strsim::osa_distance(name, known), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= max_distance && distance < name.chars().count()).then_some(nearest)
}

/// Returns the byte ranges of the maximal runs of characters for which `is_word` holds.
fn runs(text: &str, is_word: impl Fn(char) -> bool) -> impl Iterator<Item = Range<usize>> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = chars.by_ref().find(|&(_, c)| is_word(c))?;
        while chars.next_if(|&(_, c)| is_word(c)).is_some() {}
        Some(start..chars.peek().map_or(text.len(), |&(at, _)| at))
    })
}

/// Folds a word: lower case, compatibility decomposition (NFKD), and no combining marks such as
/// accents.
pub fn fold(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) {
        return Cow::Borrowed(word);
    }
    if word.is_ascii() {
        return Cow::Owned(word.to_ascii_lowercase());
    }
    Cow::Owned(
        word.nfkd().filter(|&c| !is_combining_mark(c)).flat_map(char::to_lowercase).collect(),
    )
}

/// Converts a name to lower case with underscores: `brandId` and `Brand Id` become `brand_id`.
pub fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    let mut before_lower = false;
    for c in name.trim().chars() {
        if c.is_alphanumeric() {
            if c.is_uppercase() && before_lower {
                text.push('_');
            }
            text.extend(c.to_lowercase());
        } else if !text.ends_with('_') && !text.is_empty() {
            text.push('_');
        }
        before_lower = c.is_lowercase() || c.is_numeric();
    }
    text.trim_end_matches('_').to_owned()
}

/// Converts a name as [`snake`] does, and abbreviations to the words that they stand for:
/// `customer_number` for `cust_nr`.
pub fn spelled_out(name: &str) -> String {
    let snake = snake(name);
    let words: Vec<&str> = snake.split('_').map(|word| long_form(word).unwrap_or(word)).collect();
    words.join("_").replace(' ', "_")
}

/// Guesses the singular of an English noun from its ending.
pub fn singular(name: &str) -> String {
    let keep = ["ss", "us", "is", "series", "species", "news", "pays"];
    // `res` is rather short for `result`.
    if name.len() <= 3 || keep.iter().any(|ending| name.ends_with(ending)) {
        return name.to_owned();
    }
    if let Some(stem) = name.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return format!("{stem}y");
    }
    let hissing = ["sses", "shes", "ches", "xes", "zes"];
    let suffix = if hissing.iter().any(|ending| name.ends_with(ending)) { "es" } else { "s" };
    name.strip_suffix(suffix).filter(|stem| !stem.is_empty()).unwrap_or(name).to_owned()
}

/// Whether a list of words, separated by spaces, contains a word.
pub fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|own| own == word)
}

/// Whether a character ends a line, moves a cursor or changes the direction of the text around it.
/// These are control characters, line and paragraph separators, and the embeddings, overrides and
/// isolates of the bidirectional algorithm (Unicode Standard Annex 9). Joiners, soft hyphens and
/// directional marks are not included, as some languages need them.
pub fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Replaces each run of whitespace and [control characters](is_control) with one space, and trims
/// both ends.
pub fn one_line(text: &str) -> String {
    let parts = text.split(|c: char| c.is_whitespace() || is_control(c));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Lists the first `max` names, comma-separated, and counts the others: `a, b and 3 more`.
pub fn listed<T: AsRef<str>>(names: &[T], max: usize) -> String {
    let first: Vec<&str> = names.iter().take(max).map(AsRef::as_ref).collect();
    let rest = names.len() - first.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

/// Cuts a text to `max_chars` characters, with `mark` in place of the rest.
pub fn cut(text: &str, max_chars: usize, mark: &str) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}{mark}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether the pattern `\w` of the BM25 baseline matches the character: letters, numbers and `_`,
/// but not the symbols that look like circled or squared letters, although Unicode calls those
/// alphabetic.
fn is_reference_char(c: char) -> bool {
    let is_symbol = || {
        matches!(c, '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f149}'
            | '\u{1f150}'..='\u{1f169}' | '\u{1f170}'..='\u{1f189}')
    };
    c == '_' || c.is_alphanumeric() && !is_combining_mark(c) && !is_symbol()
}

/// Calls `each` with the words of `text` in order, as the BM25 baseline of STaRK splits them: lower
/// case, at least two characters, no stop words.
pub fn for_each_reference_word(text: &str, mut each: impl FnMut(&str)) {
    // The lower case of sigma depends on its context, even beyond the word.
    if text.contains('\u{3a3}') {
        for_each_run(&text.to_lowercase(), &mut each);
    } else {
        for_each_run(text, &mut each);
    }
}

/// Does the same as [`for_each_reference_word`] for a text that can be lowercased word by word.
fn for_each_run(text: &str, each: &mut impl FnMut(&str)) {
    let is_ascii_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let (bytes, mut word) = (text.as_bytes(), String::new());
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        while at < bytes.len() && is_ascii_word(bytes[at]) {
            at += 1;
        }
        if bytes.get(at).is_some_and(|byte| !byte.is_ascii()) {
            let rest = &text[start..];
            let length = rest.find(|c| !is_reference_char(c)).unwrap_or(rest.len());
            // Lowercasing may add characters that end a word, as for U+0130.
            for part in rest[..length].to_lowercase().split(|c| !is_reference_char(c)) {
                if part.chars().nth(1).is_some() && !is_stop_word(part) {
                    each(part);
                }
            }
            at = start + length;
        } else if at - start > 1 {
            word.clear();
            word.push_str(&text[start..at]);
            word.make_ascii_lowercase();
            if !is_stop_word(&word) {
                each(&word);
            }
        }
        at = text.ceil_char_boundary(at + 1);
    }
}

/// Returns the words of a name in order: its alphanumeric runs, each as a byte range of `text` and
/// in folded form.
pub fn name_words(text: &str) -> impl Iterator<Item = (Range<usize>, Cow<'_, str>)> {
    runs(text, |c| c.is_alphanumeric() || is_combining_mark(c))
        .map(|range| (range.clone(), fold(&text[range])))
}

/// Whether the word at `range` is only a part of a longer word: at most two letters after an
/// apostrophe ("there's", "can't"), a single letter before an apostrophe and a longer word
/// ("d'accueil"), or a single letter beside a hyphen ("X-linked", "e-mail"). Such a part alone is
/// not a name.
pub fn is_part(text: &str, range: &Range<usize>) -> bool {
    let is_apostrophe = |c: char| matches!(c, '\'' | '\u{2019}');
    let n = text[range.clone()].chars().take(3).count();
    let before = text[..range.start].chars().next_back();
    let rest = &text[range.end..];
    let after = rest.chars().next();
    let is_word = |word: &str| word.chars().take(2).filter(|c| c.is_alphabetic()).count() == 2;
    let is_elided = rest.strip_prefix(is_apostrophe).is_some_and(is_word);
    let is_hyphen = |c: char| matches!(c, '-' | '\u{2010}' | '\u{2011}');
    let is_letter = n == 1 && text[range.clone()].chars().all(char::is_alphabetic);
    n <= 2 && before.is_some_and(is_apostrophe)
        || is_letter && is_elided
        || is_letter && (before.is_some_and(is_hyphen) || after.is_some_and(is_hyphen))
}

/// Whether a run has more than [`MAX_WORD_LETTERS`] characters.
pub fn is_too_long(word: &str) -> bool {
    word.chars().nth(MAX_WORD_LETTERS).is_some()
}

/// Stemmer of words in the languages of a base; English by default.
pub struct Stems {
    languages: Languages,
    stemmers: Vec<(Language, Stemmer)>,
}

impl Default for Stems {
    fn default() -> Self {
        Self::new(Languages::ENGLISH)
    }
}

impl Stems {
    /// Creates a stemmer for these languages, whose stemmers are applied in turn.
    pub fn new(languages: Languages) -> Self {
        let stemmer = |language: Language| Some((language, Stemmer::create(language.stemmer()?)));
        Self { languages, stemmers: languages.iter().filter_map(stemmer).collect() }
    }

    /// Returns the languages of the stemmer.
    pub fn languages(&self) -> Languages {
        self.languages
    }

    /// Returns the stem of a folded word; the word itself if it has more than [`MAX_WORD_LETTERS`]
    /// bytes, because the time of stemming is quadratic in the length.
    pub fn stem<'a>(&self, word: &'a str) -> Cow<'a, str> {
        if word.len() > MAX_WORD_LETTERS {
            return Cow::Borrowed(word);
        }
        let mut stem = Cow::Borrowed(word);
        for (language, stemmer) in &self.stemmers {
            stem = match (*language, stem) {
                (Language::ENGLISH, stem) if !stem.is_ascii() => stem,
                (Language::ENGLISH, Cow::Borrowed(word)) => stemmer.stem(word),
                (language, stem) => {
                    let spelled = language.spelled(&stem);
                    Cow::Owned(fold(&stemmer.stem(&spelled)).into_owned())
                }
            };
        }
        stem
    }

    /// Calls `each` with the index terms of a folded word and their weights in a query. The terms
    /// are the stem and, in languages with compounds or many forms, the n-grams of the stem. A run
    /// of a script without spaces is first cut into pairs of characters, which count as words. Stop
    /// words, and single characters of other scripts, have no terms.
    pub fn for_each_term(&self, word: &str, each: &mut dyn FnMut(&str, f32)) {
        self.languages.for_each_part(&self.languages.composed(word), &mut |part| {
            let is_single = part.chars().nth(1).is_none();
            if is_single && !(self.languages.are_cut() && part.chars().all(is_unspaced))
                || self.languages.is_stop_word(part)
            {
                return;
            }
            let stem = self.stem(part);
            each(&stem, 1.0);
            if self.languages.have_grams() {
                let n = (stem.chars().count() + 1).saturating_sub(GRAM_LETTERS).max(1);
                let weight = (GRAMS_WEIGHT / n as f32).min(1.0);
                grams(&stem, &mut |gram| each(gram, weight));
            }
        });
    }

    /// Returns the index terms of a folded word; see [`Self::for_each_term`].
    pub fn terms(&self, word: &str) -> Vec<String> {
        let mut terms = Vec::new();
        self.for_each_term(word, &mut |term, _| terms.push(term.to_owned()));
        terms
    }

    /// Returns the index terms of a text in order, without stop words and single characters.
    pub fn of(&self, text: &str) -> impl Iterator<Item = String> {
        name_words(text).flat_map(|(_, word)| self.terms(&word))
    }

    /// Returns the index terms of a query with their weights: as [`of`](Self::of), but without
    /// words that only shape a question.
    pub fn of_query(&self, text: &str) -> impl Iterator<Item = (String, f32)> {
        let asked = name_words(text).filter(|(_, word)| !self.languages.is_question_word(word));
        asked.flat_map(|(_, word)| {
            let mut terms = Vec::new();
            for (_, word) in name_words(&word) {
                self.for_each_term(&word, &mut |term, weight| {
                    terms.push((term.to_owned(), weight))
                });
            }
            terms
        })
    }
}

/// Calls `each` with the n-grams of a stem or word, in order. Does nothing if the stem is too long,
/// not longer than one n-gram, or has characters other than letters.
pub fn grams(stem: &str, each: &mut dyn FnMut(&str)) {
    if is_too_long(stem) {
        return;
    }
    let places: Vec<usize> = stem.char_indices().map(|(at, _)| at).chain([stem.len()]).collect();
    if places.len() - 1 > GRAM_LETTERS && stem.chars().all(char::is_alphabetic) {
        places.windows(GRAM_LETTERS + 1).for_each(|gram| each(&stem[gram[0]..gram[GRAM_LETTERS]]));
    }
}

/// How an index normalizes the words that [`for_each_reference_word`] finds in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Analysis {
    /// Words are unchanged, as in the BM25 baseline of STaRK.
    Words,
    /// Words become index terms: stems in these languages, without accents, and their n-grams if
    /// the languages need them.
    Stems(Languages),
}

impl Analysis {
    /// Returns the analysis for the documents of a base: unchanged words if the only language is
    /// English, as in the baseline, otherwise stems.
    pub fn of_documents(languages: Languages) -> Self {
        match languages.is_english() {
            true => Self::Words,
            false => Self::Stems(languages),
        }
    }

    /// Calls `each` with the forms under which a word is indexed, and their weights in a query.
    pub fn for_each_form(self, stems: &Stems, word: &str, each: &mut dyn FnMut(&str, f32)) {
        match self {
            Self::Words => each(word, 1.0),
            Self::Stems(Languages::ENGLISH) => each(&stems.stem(&fold(word)), 1.0),
            Self::Stems(_) => stems.for_each_term(&fold(word), each),
        }
    }

    /// Encodes the analysis for an index file: byte 0 for words, byte 1 for stems. Byte 1 is
    /// followed by the number of each language (see [`Languages::places`]), unless English is the
    /// only language.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Words => vec![0],
            Self::Stems(Languages::ENGLISH) => vec![1],
            Self::Stems(languages) => [1].into_iter().chain(languages.places()).collect(),
        }
    }

    /// Decodes the bytes that [`to_bytes`](Self::to_bytes) returns; `None` if they are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0] => Some(Self::Words),
            [1] => Some(Self::Stems(Languages::ENGLISH)),
            [1, places @ ..] => Some(Self::Stems(Languages::from_places(places)?)),
            _ => None,
        }
    }

    /// Returns the stemmer to pass to [`for_each_form`](Self::for_each_form).
    pub fn stems(self) -> Stems {
        match self {
            Self::Words => Stems::default(),
            Self::Stems(languages) => Stems::new(languages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_words_are_no_words() {
        let text = "there's an X-linked vitamin D, can\u{2019}t O'Neill, d\u{2019}accueil, e-mail T cell alpha-2";
        let parts: Vec<&str> = name_words(text)
            .filter(|(range, _)| is_part(text, range))
            .map(|(range, _)| &text[range])
            .collect();
        assert_eq!(parts, ["s", "X", "t", "O", "d", "e"]);
    }

    #[test]
    fn names_are_lower_case_with_underscores() {
        for name in ["has_brand", "hasBrand", "has brand", "has-brand", "HAS_BRAND"] {
            assert_eq!(snake(name), "has_brand");
        }
    }

    #[test]
    fn word_lists_are_sorted_and_distinct() {
        assert!(STOP_WORDS.is_sorted_by(|a, b| a < b));
        assert!(STOP_WORDS.iter().all(|word| is_stop_word(word)));
        assert!(["", "thus", "aside", "elsewhere", "then_"].iter().all(|word| !is_stop_word(word)));
        assert!(QUESTION_WORDS.iter().all(|word| !is_stop_word(word)));
    }

    #[test]
    fn reference_words_follow_the_baseline_pattern() {
        let mut words = Vec::new();
        for_each_reference_word("The Köln-A1 x_y, a B 42 é ÉÉ (İsé) Ab", |word| {
            words.push(word.to_owned());
        });
        assert_eq!(words, ["köln", "a1", "x_y", "42", "éé", "sé", "ab"]);
    }

    #[test]
    fn symbols_like_letters_end_a_word_and_a_sigma_sees_beyond_it() {
        let words = |text| {
            let mut words = Vec::new();
            for_each_reference_word(text, |word| words.push(word.to_owned()));
            words
        };
        // As bm25s 0.3.16 splits them under Python 3.11.
        assert_eq!(words("ab\u{24d0}cd \u{24b6}\u{24b7} \u{1f130}\u{1f189}"), ["ab", "cd"]);
        assert_eq!(words("\u{2163}\u{2164} \u{2460}\u{2461} \u{2170}\u{2171}").len(), 3);
        assert_eq!(words("ΟΔΟΣ:ΟΔΟΣ, ΣΑΣ"), ["οδοσ", "οδος", "σας"]);
        let symbols = (0..=0x10ffff)
            .filter_map(char::from_u32)
            .filter(|&c| c.is_alphanumeric() && !is_combining_mark(c) && !is_reference_char(c));
        assert_eq!(symbols.count(), 130);
    }

    #[test]
    fn name_words_fold_accents_and_case_and_keep_their_place() {
        let words: Vec<_> = name_words("André's STL-SGD").collect();
        let expected: Vec<(Range<usize>, Cow<'_, str>)> = vec![
            (0..6, "andre".into()),
            (7..8, "s".into()),
            (9..12, "stl".into()),
            (13..16, "sgd".into()),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn composed_and_decomposed_letters_are_the_same() {
        let words = |text| name_words(text).map(|(_, word)| word.into_owned()).collect::<Vec<_>>();
        assert_eq!(words("E\u{301}cole"), words("\u{c9}cole"));
    }

    /// The stemmer rewrites the word at each of these vowels.
    #[test]
    fn a_run_too_long_for_a_word_is_its_own_stem() {
        let stems = Stems::default();
        let (longest, longer) = ("ay".repeat(30) + "ings", "ay".repeat(30) + "abings");
        assert_eq!((longest.len(), longer.len()), (MAX_WORD_LETTERS, MAX_WORD_LETTERS + 2));
        assert_eq!(stems.stem(&longest).len(), MAX_WORD_LETTERS - 4);
        assert_eq!(stems.stem(&longer), longer.as_str());
        assert!(!is_too_long(&longest) && is_too_long(&longer) && !is_too_long(&"é".repeat(64)));
    }

    #[test]
    fn stems_join_forms_of_a_word() {
        let stems = Stems::default();
        let forms = |analysis: Analysis, word: &str| {
            let mut forms = Vec::new();
            analysis.for_each_form(&stems, word, &mut |form, _| forms.push(form.to_owned()));
            forms
        };
        assert_eq!(forms(Analysis::Stems(Languages::ENGLISH), "plän\u{e8}s"), ["plane"]);
        assert_eq!(forms(Analysis::Words, "planes"), ["planes"]);
        assert!(stems.of("Graphs of the planning").eq(["graph", "plan"].map(String::from)));
    }

    /// Checks that the first index term of each form is the same.
    fn same(code: &str, forms: &[&str]) {
        let stems = Stems::new(code.parse().unwrap());
        let first = |form: &&str| stems.of(form).next().unwrap();
        let expected = first(&forms[0]);
        for form in forms {
            assert_eq!(first(form), expected, "{code}: {forms:?}");
        }
    }

    #[test]
    fn forms_of_a_word_have_one_stem_in_its_language() {
        same("de", &["Kühlschrank", "Kuehlschrank", "Kühlschränke", "Kuehlschraenken"]);
        same("de", &["Straße", "Strasse", "Straßen"]);
        same("de", &["Jürgen", "Juergen", "JURGEN"]);
        same("en,de", &["Köln", "Koeln"]);
        same("es", &["reparación", "reparaciones", "reparacion"]);
        same("fr", &["réparées", "reparee", "réparer"]);
        same("ru", &["новый", "новая", "новой"]);
        same("ru", &["чёрная", "черной"]);
        same("pt", &["informação", "informações", "informacao"]);
        same("none", &["Größe", "große"]);
    }

    #[test]
    fn compounds_share_terms_with_their_parts() {
        let stems = Stems::new("de".parse().unwrap());
        let terms: Vec<String> = stems.of("Lampe am Schreibtisch").collect();
        let compound: Vec<String> = stems.of("Schreibtischlampen").collect();
        assert_eq!(terms[0], "lamp");
        assert!(terms.iter().filter(|term| compound.contains(term)).count() > 6, "{compound:?}");
        assert_eq!(Stems::default().of("Schreibtischlampen").count(), 1);
    }

    #[test]
    fn words_without_spaces_are_found_inside_a_sentence() {
        for (code, name, text) in [
            ("zh", "静音键盘", "请问静音键盘的电池怎么换？"),
            ("ja", "携帯電話", "携帯電話の保証を延長したい"),
            ("ko", "휴대전화", "휴대전화에서 소음이 나면"),
        ] {
            let stems = Stems::new(code.parse().unwrap());
            let terms: Vec<String> = stems.of(text).collect();
            assert!(
                stems.of(name).count() == 3 && stems.of(name).all(|term| terms.contains(&term))
            );
        }
    }
}
