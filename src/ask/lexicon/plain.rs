//! Single English words of questions: words without meaning of their own, synonyms, and number
//! words. Reads no base and no table.

use std::{collections::HashSet, sync::LazyLock};

use crate::lexicon::{CITED, PRICE, RATING};

/// Words without meaning of their own, in addition to those of
/// `agent_ground::words::is_question_word`.
const FILLERS: &str = "\
    appear apiece cause causes deal deals keep keeps kept attract attracts came employ employs \
    issue issued publish published publishes release released sell selling sells use used uses \
    work worked works appeared appears left located offer offers remaining shared show shows \
    written wrote according across actually all along already amid among amongst base based be \
    been being belong belonging belongs between both calculate called carried carries carry \
    carrying case change changed changes check collected collection coming comes come compute \
    considered contain containing contains covered data database dataset describe described \
    determine displayed distributed distribution each either end entire equally evidence exist \
    exists existing explain fall falling fetch fetched figure find follow followed follows found \
    get gets given go goes happen held hold holding holds i identify if instead it its kind know \
    known labelled least level list listed made make makes marked month months n named number \
    numbers occur of on ones order other our out over overall own owned owns part percent possess \
    present produce produced put rather receive receives received recorded remain remained report \
    reported result results roughly s sample say set shown significance significant significantly \
    sit sits sorted statistically still stand stands sort stay stayed take taken takes tell tend \
    test that their them there these they those through together two three type under us value \
    values was way were when where while whole with within would year years yet yield";

/// Words, each with the words in field names that it is a synonym of.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("charge", PRICE),
    ("charges", PRICE),
    ("charged", PRICE),
    ("cost", PRICE),
    ("costs", PRICE),
    ("priced", PRICE),
    ("pricing", PRICE),
    ("expensive", PRICE),
    ("rated", RATING),
    ("stars", RATING),
    ("cited", CITED),
];

/// Returns the words in field names that a folded word is a synonym of, such as `rating` for
/// `rated`; empty for most words.
pub(crate) fn synonyms(word: &str) -> &'static [&'static str] {
    SYNONYMS.iter().find(|(own, _)| *own == word).map_or(&[], |(_, names)| names)
}

/// Synonyms for common node types in bases on many subjects, one list for each type; each list
/// begins with the words that usually name the type.
const SORTS: &[&[&str]] = &[
    &["author", "writer", "researcher", "scientist", "scholar"],
    &["institution", "organization", "organisation", "university", "affiliation"],
    &["paper", "article", "publication"],
    &["product", "item", "article"],
    &["brand", "manufacturer", "maker", "producer", "company", "label"],
    &["color", "colour", "shade"],
    &["disease", "illness", "disorder"],
    &["drug", "medicine", "medication", "medicament"],
    &["venue", "conference", "journal"],
    &["field", "topic", "subject", "discipline"],
    &["country", "nation"],
    &["movie", "film"],
    &["person", "people"],
];

/// Returns the synonyms of a folded word that names nodes of a type, such as `film` for `movies`,
/// including its own singular; empty if the word is not in the lists of synonyms.
pub(crate) fn same_sort(word: &str) -> impl Iterator<Item = &'static str> {
    let is_own = move |own: &&str| {
        *own == word
            || word.strip_suffix('s') == Some(own)
            || own.strip_suffix('y').is_some_and(|own| word.strip_suffix("ies") == Some(own))
    };
    SORTS.iter().filter(move |sort| sort.iter().any(is_own)).flat_map(|sort| *sort).copied()
}

/// Words that can stand for nodes of any type.
const ANYTHING: [&str; 7] = ["item", "items", "thing", "things", "stuff", "everything", "entries"];

/// Whether a folded word, such as `things`, can stand for nodes of any type.
pub(crate) fn is_anything(word: &str) -> bool {
    ANYTHING.contains(&word)
}

/// Words in the names of types whose nodes are people, so that `who` can refer to them.
const PEOPLE: &str = "\
    author person people user customer employee director actor artist member student scientist \
    researcher player patient inventor";

/// Whether a word in the name of a type indicates that its nodes are people.
pub(crate) fn is_person(word: &str) -> bool {
    PEOPLE.split(' ').any(|own| own == word)
}

/// Whether a phrase asks how frequent something is, as `most often` does.
pub(crate) fn is_frequency(phrase: &str) -> bool {
    ["often", "frequen", "common", "widespread", "rare"].iter().any(|part| phrase.contains(part))
}

/// Whether a folded word has no meaning of its own, such as `located`.
pub(crate) fn is_filler(word: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| FILLERS.split(' ').collect());
    ALL.contains(word) || agent_ground::words::is_question_word(word)
}

/// Returns the value of a number word: `zero` to `twenty`, the tens up to `ninety`, `hundred`, or
/// `single` (1). `None` for other words.
pub(crate) fn number_word(word: &str) -> Option<f64> {
    const WORDS: &str = "zero one two three four five six seven eight nine ten eleven twelve \
                         thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty";
    const TENS: &str = "thirty forty fifty sixty seventy eighty ninety hundred";
    let place = |words: &str, word: &str| words.split(' ').position(|known| known == word);
    let word = if word == "single" { "one" } else { word };
    let tens = || place(TENS, word).map(|at| 10 * (at + 3));
    place(WORDS, word).or_else(tens).map(|number| number as f64)
}
