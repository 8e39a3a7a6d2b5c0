//! Languages of texts: their names, stemmers and stop words, spelling variants, and scripts without
//! spaces.
//!
//! Words are looked up in folded form: lower case, without accents. Stemmers expect accents, so
//! [`Language::spelled`] restores the accents that the stemmer needs in word endings. It also
//! unifies the spellings of a German umlaut, such as `ä`, `ae` and `a`.

use std::{borrow::Cow, fmt, ops::Range, str::FromStr, sync::LazyLock};

use rust_stemmers::Algorithm;
use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use crate::words::{QUESTION_WORDS, is_stop_word};

/// A language in which texts are analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Language(u8);

/// How texts of a language are split into index terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Words are separated by spaces.
    Spaced,
    /// Words are separated by spaces, but the language has compounds, or more word forms than the
    /// stemmer unifies. Letter n-grams of the stems are terms too, to match parts of words.
    Parted,
    /// Words are not separated by spaces, or have particles attached. Pairs of adjacent characters
    /// are used instead of words.
    Unspaced,
}

/// Properties of one language.
struct Row {
    /// The two-letter code of ISO 639-1.
    code: &'static str,
    /// The three-letter code of ISO 639-3.
    long_code: &'static str,
    name: &'static str,
    stemmer: Option<Algorithm>,
    kind: Kind,
    /// Function words that carry no topic, in folded form, separated by spaces.
    stop_words: &'static str,
}

/// Makes a row of [`TABLE`].
const fn row(
    codes: (&'static str, &'static str),
    name: &'static str,
    stemmer: Option<Algorithm>,
    kind: Kind,
    stop_words: &'static str,
) -> Row {
    Row { code: codes.0, long_code: codes.1, name, stemmer, kind, stop_words }
}

/// All languages. Index files store a language by its position in this table, so new languages are
/// appended. The stop words of English are in [`STOP_WORDS`](crate::words::STOP_WORDS).
static TABLE: [Row; 22] = [
    row(("en", "eng"), "English", Some(Algorithm::English), Kind::Spaced, ""),
    row(("ar", "ara"), "Arabic", Some(Algorithm::Arabic), Kind::Spaced, ""),
    row(("da", "dan"), "Danish", Some(Algorithm::Danish), Kind::Parted, DANISH),
    row(("nl", "nld"), "Dutch", Some(Algorithm::Dutch), Kind::Parted, DUTCH),
    row(("fi", "fin"), "Finnish", Some(Algorithm::Finnish), Kind::Parted, FINNISH),
    row(("fr", "fra"), "French", Some(Algorithm::French), Kind::Spaced, FRENCH),
    row(("de", "deu"), "German", Some(Algorithm::German), Kind::Parted, GERMAN),
    row(("el", "ell"), "Greek", Some(Algorithm::Greek), Kind::Spaced, ""),
    row(("hu", "hun"), "Hungarian", Some(Algorithm::Hungarian), Kind::Parted, ""),
    row(("it", "ita"), "Italian", Some(Algorithm::Italian), Kind::Spaced, ITALIAN),
    row(("no", "nob"), "Norwegian", Some(Algorithm::Norwegian), Kind::Parted, NORWEGIAN),
    row(("pt", "por"), "Portuguese", Some(Algorithm::Portuguese), Kind::Spaced, PORTUGUESE),
    row(("ro", "ron"), "Romanian", Some(Algorithm::Romanian), Kind::Spaced, ""),
    row(("ru", "rus"), "Russian", Some(Algorithm::Russian), Kind::Parted, RUSSIAN),
    row(("es", "spa"), "Spanish", Some(Algorithm::Spanish), Kind::Spaced, SPANISH),
    row(("sv", "swe"), "Swedish", Some(Algorithm::Swedish), Kind::Parted, SWEDISH),
    row(("ta", "tam"), "Tamil", Some(Algorithm::Tamil), Kind::Spaced, ""),
    row(("tr", "tur"), "Turkish", Some(Algorithm::Turkish), Kind::Parted, ""),
    row(("zh", "cmn"), "Chinese", None, Kind::Unspaced, ""),
    row(("ja", "jpn"), "Japanese", None, Kind::Unspaced, ""),
    row(("ko", "kor"), "Korean", None, Kind::Unspaced, ""),
    row(("th", "tha"), "Thai", None, Kind::Unspaced, ""),
];

const GERMAN: &str = "aber als am an auch auf aus bei beim bin bis da damit das dass dem den denn der des die \
    dies diese diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er es fuer fur hat \
    haben hatte ich ihr im in ist ja kann kein keine konnen mein mit muss nach nicht noch nur ob oder sein sich \
    sie sind so uber um und uns unter vom von vor wann war warum was welche welchem welchen welcher welches wenn \
    wer werden wie wir wird wo zu zum zur";
const FRENCH: &str = "a ai au aux avec ce ces cet cette comme comment dans de des du elle elles en est et eu \
    il ils je la le les leur leurs lui ma mais me mes mon ne nos notre nous on ont ou par pas plus pour pourquoi \
    qu quand que quel quelle quelles quels qui sa sans se ses son sont sur ta te tes ton tu un une vos votre vous";
const SPANISH: &str = "a al algo ante como con cual cuales cuando de del desde donde el ella ellas ellos en \
    entre era es esa ese eso esta estan este esto ha han hasta hay la las le les lo los mas me mi mis muy no nos \
    o para pero por porque que quien quienes se ser si sin sobre son su sus te tu tus un una unas uno unos y ya yo";
const ITALIAN: &str = "a ai al alla alle anche che chi ci come con cosa da dal dalla dei del della delle di \
    dove e era gli ha hanno ho i il in io la le lei lo loro lui ma mi ne nei nel nella non o per perche piu \
    quale quali quando quello questa queste questi questo se si sono su sua sul sulla suo ti tra tu un una uno";
const PORTUGUESE: &str = "a ao aos as com como da das de dele do dos e ela elas ele eles em entre era essa esse \
    esta este eu foi ha isso ja lhe mais mas me meu minha na nao nas no nos num numa o onde os ou para pela pelo \
    por porque qual quais quando que quem se sem ser seu sua suas seus so tem um uma umas uns voce";
const DUTCH: &str = "aan al als bij dan dat de der die dit door een en er had heb heeft hem het hier hij hoe \
    hun ik in is ja je kan maar me met mijn naar niet nog nu of om ons onze ook op over te tot uit van veel voor \
    waar waarom wat we welk welke wel wie wij wordt ze zich zij zijn zo zonder";
const SWEDISH: &str = "alla att av den denna deras det dig din du ej eller en ett efter fran for ha han hade \
    har hon hur i inte jag kan med men mig min mot ni nu nar och om pa sa sig sin sina skulle som till under upp \
    ut vad var varfor vem vi vid vilka vilken vilket ar";
const DANISH: &str = "af at da de dem den denne der deres det dig din du efter eller en er et for fra ham han \
    har hun hvad hvem hvilke hvilken hvis hvor hvordan hvorfor i ikke jeg jer kan man med men mig min nar nu og \
    om op os pa sig sin som til ud var vi";
const NORWEGIAN: &str = "at av da de deg den denne der deres det din du eller en er et etter for fra ha han \
    har hun hva hvem hvilke hvilken hvis hvor hvordan hvorfor i ikke jeg kan man med meg men min nar na og om opp \
    oss pa seg sin som til ut var vi";
const FINNISH: &str = "ei eli en ettei etta han hanen he ja jo joka jos jotka kanssa koska kuin kuka kun me \
    mika miksi milloin missa mita mutta myos ne niin nyt ole oli olla on ovat se sen siella sina tai tama te vain";
const RUSSIAN: &str = "а без был была были было быть в вам вас весь во вот вы где да для до его ее если есть еще \
    же за и из или им их к как какая какие какои какую когда ко кто ли мне мои мы на над не нет но о об он она \
    они оно от по под почему при с со так там то тот ты у уже что чтобы чья эта эти это этот я";

/// The stop words of each language, in the order of [`TABLE`]; each list is sorted.
static STOP_LISTS: LazyLock<Vec<Vec<&'static str>>> = LazyLock::new(|| {
    let sorted = |row: &Row| {
        let mut words: Vec<&str> = row.stop_words.split_whitespace().collect();
        words.sort_unstable();
        words
    };
    TABLE.iter().map(sorted).collect()
});

impl Language {
    /// The English language.
    pub const ENGLISH: Self = Self(0);

    /// Returns all languages, in the order of the table that index files refer to.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..TABLE.len() as u8).map(Self)
    }

    fn row(self) -> &'static Row {
        &TABLE[usize::from(self.0)]
    }

    /// Returns the two-letter code of the language in ISO 639-1.
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// Returns the three-letter code of the language in ISO 639-3.
    pub fn long_code(self) -> &'static str {
        self.row().long_code
    }

    /// Returns the English name of the language.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether stop words of the language are known.
    pub fn has_stop_words(self) -> bool {
        self == Self::ENGLISH || !self.row().stop_words.is_empty()
    }

    /// Returns the stemming algorithm of the language; `None` if there is none.
    pub(super) fn stemmer(self) -> Option<Algorithm> {
        self.row().stemmer
    }

    /// Returns a folded word in the spelling that the language's stemmer expects.
    pub(super) fn spelled(self, word: &str) -> Cow<'_, str> {
        match self.code() {
            "de" => umlauts(word, &[("ß", "ss")]),
            "da" | "no" => umlauts(word, &[("ø", "o"), ("æ", "a"), ("aa", "a")]),
            "es" => ending(word, &[("cion", "ción"), ("sion", "sión")]),
            // The stemmer takes the plural endings of nouns for endings of verbs.
            "fr" => ending(word, &[("ee", "ée"), ("ees", "ées"), ("ons", "on"), ("ers", "er")]),
            "it" => ending(word, &[("ita", "ità")]),
            "pt" => ending(word, &[("cao", "ção"), ("coes", "ções")]),
            "ru" => ending(
                word,
                &[("ыи", "ый"), ("ои", "ой"), ("еи", "ей"), ("аи", "ай"), ("уи", "уй")],
            ),
            _ => Cow::Borrowed(word),
        }
    }
}

/// Replaces the ending of a word by the first of the pairs `(from, to)` that matches; without a
/// match, returns the word unchanged.
fn ending<'a>(word: &'a str, endings: &[(&str, &str)]) -> Cow<'a, str> {
    let replaced = |(from, to): &(&str, &str)| Some(format!("{}{to}", word.strip_suffix(from)?));
    endings.iter().find_map(replaced).map_or(Cow::Borrowed(word), Cow::Owned)
}

/// Applies the replacements `letters`, pairs `(from, to)`, to a word. Then replaces the umlaut
/// spellings `ae`, `oe` and `ue` by `a`, `o` and `u`, except after a vowel or `q`, where they are
/// two sounds.
fn umlauts<'a>(word: &'a str, letters: &[(&str, &str)]) -> Cow<'a, str> {
    let mut word = Cow::Borrowed(word);
    for (from, to) in letters {
        if word.contains(from) {
            word = Cow::Owned(word.replace(from, to));
        }
    }
    let is_spelling = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| word.as_bytes().get(before));
        !before.is_some_and(|byte| b"aeiouq".contains(byte))
    };
    let spellings = word.as_bytes().windows(2).enumerate();
    let dropped: Vec<usize> = spellings
        .filter(|(at, pair)| matches!(*pair, b"ae" | b"oe" | b"ue") && is_spelling(*at))
        .map(|(at, _)| at + 1)
        .collect();
    if dropped.is_empty() {
        return word;
    }
    let kept = word.char_indices().filter(|(at, _)| !dropped.contains(at));
    Cow::Owned(kept.map(|pair| pair.1).collect())
}

/// The set of languages in which the texts of a base are written. The default is English.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Codes", into = "Codes")]
pub struct Languages(u32);

/// Serialized form of [`Languages`]: one language code, or a list of codes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Codes {
    One(String),
    Some(Vec<String>),
}

impl TryFrom<Codes> for Languages {
    type Error = String;

    fn try_from(codes: Codes) -> Result<Self, String> {
        match codes {
            Codes::One(code) => code.parse(),
            Codes::Some(codes) => codes.join(",").parse(),
        }
    }
}

impl From<Languages> for Codes {
    fn from(languages: Languages) -> Self {
        match languages {
            Languages::NONE => Self::One(NONE.to_owned()),
            some => Self::Some(some.iter().map(|language| language.code().to_owned()).collect()),
        }
    }
}

/// Code that stands for [`Languages::NONE`].
const NONE: &str = "none";

impl FromStr for Languages {
    type Err = String;

    fn from_str(codes: &str) -> Result<Self, String> {
        if codes == NONE {
            return Ok(Self::NONE);
        }
        let language = |code: &str| {
            let known = Language::all().find(|language| language.code() == code.trim());
            known.ok_or_else(|| {
                let all: Vec<&str> = Language::all().map(Language::code).collect();
                format!(
                    "unknown language \"{}\"; use none, or one of {}",
                    code.trim(),
                    all.join(", ")
                )
            })
        };
        codes.split(',').map(language).collect()
    }
}

impl FromIterator<Language> for Languages {
    fn from_iter<I: IntoIterator<Item = Language>>(languages: I) -> Self {
        Self(languages.into_iter().fold(0, |set, language| set | 1 << language.0))
    }
}

impl fmt::Display for Languages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Language::name).collect();
        match names.as_slice() {
            [] => f.write_str(NONE),
            [one] => f.write_str(one),
            [some @ .., last] => write!(f, "{} and {last}", some.join(", ")),
        }
    }
}

impl Default for Languages {
    fn default() -> Self {
        Self::ENGLISH
    }
}

impl Languages {
    /// The set with English only.
    pub const ENGLISH: Self = Self(1);
    /// The empty set: words are compared without stemming, ignoring case and accents.
    pub const NONE: Self = Self(0);

    /// Returns the languages in the set, in the order of [`Language::all`].
    pub fn iter(self) -> impl Iterator<Item = Language> {
        Language::all().filter(move |&language| self.has(language))
    }

    /// Whether the set contains this language.
    pub fn has(self, language: Language) -> bool {
        self.0 >> language.0 & 1 == 1
    }

    /// Whether English is the only language in the set.
    pub fn is_english(&self) -> bool {
        *self == Self::ENGLISH
    }

    /// Returns the numbers of the languages (their positions in [`Language::all`], from 0),
    /// ascending. Index files store these numbers.
    pub fn places(self) -> impl Iterator<Item = u8> {
        self.iter().map(|language| language.0)
    }

    /// Returns the set of the languages with these numbers, as [`places`](Self::places) returns
    /// them; `None` if a number is unknown.
    pub fn from_places(places: &[u8]) -> Option<Self> {
        let language = |&place: &u8| (usize::from(place) < TABLE.len()).then_some(Language(place));
        places.iter().map(language).collect()
    }

    fn any(self, kind: Kind) -> bool {
        self.iter().any(|language| language.row().kind == kind)
    }

    /// Whether letter n-grams of stems are index terms too, because some language in the set needs
    /// them.
    pub fn have_grams(self) -> bool {
        self.any(Kind::Parted)
    }

    /// Whether runs of scripts without spaces are cut into pairs of characters, because some
    /// language in the set needs it.
    pub fn are_cut(self) -> bool {
        self.any(Kind::Unspaced)
    }

    /// Whether a folded word is a stop word in some language of the set.
    pub fn is_stop_word(self, word: &str) -> bool {
        if self.is_english() {
            return is_stop_word(word);
        }
        self.iter().any(|language| match language {
            Language::ENGLISH => is_stop_word(word),
            Language(place) => STOP_LISTS[usize::from(place)].binary_search(&word).is_ok(),
        })
    }

    /// Whether a folded word is a stop word or, if the set contains English, a word that only
    /// shapes a question.
    pub fn is_question_word(self, word: &str) -> bool {
        self.is_stop_word(word) || self.has(Language::ENGLISH) && QUESTION_WORDS.contains(&word)
    }

    /// Returns a folded word, with its Korean letters composed into syllables if the set cuts runs
    /// into pairs of characters.
    pub fn composed(self, word: &str) -> Cow<'_, str> {
        match self.are_cut() && word.contains(|c| matches!(c, '\u{1100}'..='\u{11ff}')) {
            true => Cow::Owned(word.nfc().collect()),
            false => Cow::Borrowed(word),
        }
    }

    /// Calls `each` with the parts of a folded and composed run, in order. If the set does not cut
    /// runs, the run is the only part. Otherwise each stretch of characters of scripts without
    /// spaces gives all its pairs of adjacent characters, or its single character. Each stretch
    /// of other characters is one part: `usb充电器` gives `usb`, `充电`, `电器`.
    pub fn for_each_part(self, run: &str, each: &mut dyn FnMut(&str)) {
        if !self.are_cut() || run.is_ascii() || !run.chars().any(is_unspaced) {
            return each(run);
        }
        let letters: Vec<(Range<usize>, bool)> = letters(run).collect();
        for (at, (range, unspaced)) in letters.iter().enumerate() {
            let beside =
                |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|it| it.1);
            if !unspaced {
                each(&run[range.clone()]);
            } else if let (true, Some(next)) = (beside(Some(at + 1)), letters.get(at + 1)) {
                each(&run[range.start..next.0.end]);
            } else if !beside(at.checked_sub(1)) {
                each(&run[range.clone()]);
            }
        }
    }
}

/// Whether a character belongs to a script without spaces between words, or to Korean, which
/// attaches particles to words.
pub fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9d}' | '\u{20000}'..='\u{3ffff}')
}

/// Splits a run of word characters into byte ranges: one for each character of a script without
/// spaces, with the combining marks that follow it, and one for each stretch between such
/// characters. The flag is true for a character of such a script.
pub fn letters(run: &str) -> impl Iterator<Item = (Range<usize>, bool)> {
    let mut chars = run.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.next()?;
        let unspaced = is_unspaced(first);
        let goes_on = |c: char| match unspaced {
            true => is_combining_mark(c),
            false => !is_unspaced(c),
        };
        while chars.next_if(|&(_, c)| goes_on(c)).is_some() {}
        let end = chars.peek().map_or(run.len(), |&(at, _)| at);
        Some((start..end, unspaced))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::fold;

    #[test]
    fn stop_words_are_folded_and_distinct() {
        for (row, words) in TABLE.iter().zip(STOP_LISTS.iter()) {
            assert!(words.is_sorted_by(|a, b| a < b), "{}: {words:?}", row.name);
            let folded = |word: &&str| fold(word) == **word;
            assert!(words.iter().all(folded), "{}", row.name);
        }
        assert!("de".parse::<Languages>().unwrap().is_stop_word("welche"));
        assert!(!Languages::ENGLISH.is_stop_word("welche"));
    }

    #[test]
    fn languages_are_read_and_written_as_codes() {
        let both: Languages = "de, en".parse().unwrap();
        assert_eq!(both.to_string(), "English and German");
        assert_eq!(serde_json::to_string(&both).unwrap(), r#"["en","de"]"#);
        assert_eq!(serde_json::from_str::<Languages>(r#""none""#).unwrap(), Languages::NONE);
        assert_eq!(Languages::from_places(&both.places().collect::<Vec<_>>()), Some(both));
        assert_eq!(Languages::from_places(&[99]), None);
        assert!("xx".parse::<Languages>().unwrap_err().starts_with("unknown language \"xx\""));
    }

    #[test]
    fn a_run_of_a_script_without_spaces_is_cut_into_pairs() {
        let parts = |codes: &str, run: &str| {
            let (languages, mut parts) = (codes.parse::<Languages>().unwrap(), Vec::new());
            languages.for_each_part(run, &mut |part| parts.push(part.to_owned()));
            parts
        };
        assert_eq!(parts("zh", "usb充电器a1"), ["usb", "充电", "电器", "a1"]);
        assert_eq!(parts("ja", "床"), ["床"]);
        assert_eq!(parts("zh", "2床x"), ["2", "床", "x"]);
        assert_eq!(parts("en", "充电器"), ["充电器"], "only where the base has such a language");
    }
}
