//! Words and phrases of English questions, with their meanings: functions, comparisons,
//! assumptions, synonyms, and words without meaning of their own. They are the rows of
//! `lexicon.tsv`. Uses neither a base nor a table.

use std::{collections::HashSet, sync::LazyLock};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use agent_ground::words::{is_question_word, singular};

/// An aggregate function over the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Function {
    /// The mean.
    Mean,
    /// The sum.
    Sum,
    /// The median.
    Median,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The sample variance.
    Variance,
    /// The sample standard deviation.
    Deviation,
    /// The number of distinct values.
    Distinct,
}

impl Function {
    /// Returns the names of the function: in SQL, in labels of columns, and for people.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Mean => ["avg", "mean", "mean"],
            Self::Sum => ["sum", "sum", "total"],
            Self::Median => ["median", "median", "median"],
            Self::Min => ["min", "min", "lowest"],
            Self::Max => ["max", "max", "highest"],
            Self::Variance => ["variance", "variance", "variance"],
            Self::Deviation => ["stddev", "deviation", "standard deviation"],
            Self::Distinct => ["count", "different", "number of different"],
        }
    }

    /// Returns the name of the function in SQL.
    pub(crate) fn sql(self) -> &'static str {
        self.names()[0]
    }

    /// Returns the function's name as written in labels of columns.
    pub(crate) fn label(self) -> &'static str {
        self.names()[1]
    }

    /// Returns the name of the function for people.
    pub(crate) fn name(self) -> &'static str {
        self.names()[2]
    }
}

/// A comparison of a value with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `<>`
    Not,
    /// Between this number and a second one, both included.
    Between,
}

impl Bound {
    /// Returns the comparison's operator in SQL; `BETWEEN` takes two numbers.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Equal => "=",
            Self::Not => "<>",
            Self::Between => "BETWEEN",
        }
    }

    /// Returns the opposite comparison, such as `<=` for `>`; `None` for `Between`, which has none.
    pub(crate) fn denied(self) -> Option<Self> {
        match self {
            Self::Above => Some(Self::AtMost),
            Self::AtLeast => Some(Self::Below),
            Self::Below => Some(Self::AtLeast),
            Self::AtMost => Some(Self::Above),
            Self::Equal => Some(Self::Not),
            Self::Not => Some(Self::Equal),
            Self::Between => None,
        }
    }
}

/// The meaning of a phrase. The examples are phrases with that meaning.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cue {
    /// An aggregate function: `on average`.
    #[serde(skip)]
    Of(Function),
    /// `how many`.
    HowMany,
    /// `number of`, before a type.
    NumberOf,
    /// `percentage of`.
    Share,
    /// The row with the largest value: `highest`.
    High,
    /// The row with the smallest value: `lowest`.
    Low,
    /// The row with the largest number of counted nodes (`most`), or the most frequent value (`most
    /// common`).
    Most,
    /// The row with the smallest number of counted nodes (`fewest`), or the least frequent value
    /// (`rarest`).
    Fewest,
    /// The row with the largest (true) or smallest (false) value of a property that the phrase
    /// implies: `cheapest`. The list holds names that the property's field may have.
    #[serde(skip)]
    Best(bool, &'static [&'static str]),
    /// The number of requested results follows: `top`.
    Top,
    /// A number that bounds a value follows: `more than`. The second item is true if the number is
    /// usually a year or a date: `since`.
    #[serde(skip)]
    Bound(Bound, bool),
    /// The preceding number is a lower bound (true, `or more`) or an upper bound (false, `or
    /// less`).
    #[serde(skip)]
    OrMore(bool),
    /// A value or a number of counted nodes is larger (true, `more`) or smaller (false, `fewer`)
    /// than another one.
    #[serde(skip)]
    More(bool),
    /// A property that the phrase implies has a larger (true, `newer`) or smaller (false, `older`)
    /// value. The list holds names that the property's field may have.
    #[serde(skip)]
    Comparative(bool, &'static [&'static str]),
    /// One result for each value of the following column: `per`.
    Each,
    /// Separates items that are compared: `versus`.
    Versus,
    /// Asks whether values follow a normal distribution: `normally distributed`.
    Normal,
    /// Asks whether values are correlated: `correlated`.
    Correlate,
    /// Asks for rank correlation: `spearman`.
    Ranks,
    /// Asks whether values have equal spread: `variability`.
    Spread,
    /// Asks whether values are related: `depends`.
    Relate,
    /// Asks whether two values are equal: `differ`.
    Differ,
    /// An assumption follows: `what if`.
    Suppose,
    /// Some rows are assumed to be absent: `without`.
    LeaveOut,
    /// Only some rows are assumed to remain: `only`.
    Only,
    /// Values are assumed to be larger, by an amount that the question names: `increased by`.
    Raise,
    /// Values are assumed to be smaller, by an amount that the question names: `dropped by`.
    Lower,
    /// Values are assumed to be multiplied by this factor: `doubled`.
    #[serde(skip)]
    Times(f64),
    /// Negates the following phrase: `not`.
    Not,
    /// The requested column follows: `which`.
    Which,
    /// A phrase without meaning of its own: `tend to be`.
    Filler,
}

impl Cue {
    /// Whether the phrase asks for a statistical test.
    pub(crate) fn is_test(self) -> bool {
        matches!(self, Self::Relate | Self::Correlate | Self::Ranks | Self::Spread | Self::Normal)
    }

    /// Whether the phrase asks for a maximum or minimum.
    pub(crate) fn is_extreme(self) -> bool {
        matches!(self, Self::High | Self::Low | Self::Best(..) | Self::Most | Self::Fewest)
    }

    /// Returns the cue that the lexicon calls `meaning`; `None` if there is no such cue.
    fn named(meaning: &str) -> Option<Self> {
        let (name, of) = meaning.split_once(' ').unwrap_or((meaning, ""));
        let names = property(of);
        let implied = !names.is_empty();
        Some(match name {
            "highest" => Self::Best(true, names),
            "lowest" => Self::Best(false, names),
            "higher" => Self::Comparative(true, names),
            "lower" if implied => Self::Comparative(false, names),
            "or_more" => Self::OrMore(true),
            "or_less" => Self::OrMore(false),
            "more" => Self::More(true),
            "fewer" => Self::More(false),
            "times" => Self::Times(of.parse().ok()?),
            "unequal" => Self::Bound(Bound::Not, implied),
            // `not` is a cue of its own.
            name => read(name)
                .or_else(|| read(name).map(Self::Of))
                .or_else(|| Some(Self::Bound(read(name)?, implied)))?,
        })
    }
}

/// Returns the cue, function or bound with this name; `None` if there is none.
fn read<T: DeserializeOwned>(name: &str) -> Option<T> {
    serde_json::from_value(name.into()).ok()
}

/// Returns the names that the field of a property may have, such as `price` and `cost` for `price`;
/// empty if the lexicon has no such property.
pub(crate) fn property(name: &str) -> &'static [&'static str] {
    static ALL: LazyLock<Vec<(&str, Vec<&str>)>> = LazyLock::new(|| rows("property").collect());
    ALL.iter().find(|(own, _)| *own == name).map_or(&[], |(_, names)| names)
}

/// Returns the rows of one kind in the lexicon: the meaning and the words or phrases of each row.
pub(crate) fn rows(kind: &str) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    const LEXICON: &str = include_str!("lexicon.tsv");
    LEXICON.lines().filter_map(move |line| match *line.split('\t').collect::<Vec<_>>() {
        [own, meaning, words] if own == kind => Some((meaning, words.split(", ").collect())),
        _ => None,
    })
}

/// All phrases with their meanings. Of several phrases that begin at the same word of a question,
/// the longest is used.
pub(crate) static PHRASES: LazyLock<Vec<(&str, Cue)>> = LazyLock::new(|| {
    let cues =
        rows("phrase").filter_map(|(meaning, phrases)| Some((Cue::named(meaning)?, phrases)));
    cues.flat_map(|(cue, phrases)| phrases.into_iter().map(move |phrase| (phrase, cue))).collect()
});

/// Whether a folded word occurs in one of [`PHRASES`].
pub(crate) fn is_cue(word: &str) -> bool {
    PHRASES.iter().any(|(phrase, _)| phrase.split(' ').any(|own| own == word))
}

/// Returns the meaning of the phrase that consists of one folded word; `None` if there is none.
pub(crate) fn cue_of(word: &str) -> Option<Cue> {
    PHRASES.iter().find(|(phrase, _)| *phrase == word).map(|(_, cue)| *cue)
}

/// Returns the words in field names that a folded word is a synonym of, such as `rating` for
/// `rated`; empty for most words.
pub(crate) fn synonyms(word: &str) -> &'static [&'static str] {
    static FIELDS: LazyLock<Vec<(Vec<&str>, Vec<&str>)>> = LazyLock::new(|| {
        rows("field").map(|(names, words)| (names.split(", ").collect(), words)).collect()
    });
    FIELDS.iter().find(|(_, own)| own.contains(&word)).map_or(&[], |(names, _)| names)
}

/// Endings of adjectives that are derived from nouns: `pricey`, `costly`, `colorful`.
const ADJECTIVE_ENDINGS: [&str; 7] = ["y", "ly", "ful", "less", "ish", "able", "ous"];
/// Nouns whose adjectives in `ly` do not express a degree: `yearly`.
const PERIODS: [&str; 5] = ["year", "quarter", "month", "week", "hour"];

/// Whether a folded word is an adjective derived from a noun, such as `pricey` from `price`.
pub(crate) fn is_adjective_of(word: &str, noun: &str) -> bool {
    let singular = noun.strip_suffix('s').unwrap_or(noun);
    let root = singular.strip_suffix('e').unwrap_or(singular);
    let ends = |own: &str| {
        let ending = word.strip_prefix(own);
        own.len() > 2 && ending.is_some_and(|ending| ADJECTIVE_ENDINGS.contains(&ending))
    };
    // `expiry` and `delivery` are nouns.
    let is_noun = word.ends_with("ry") || PERIODS.contains(&singular);
    !is_noun && [noun, singular, root].into_iter().any(ends)
}

/// Returns the words that can name the same type as a folded word, such as `film` for `movies`,
/// including its own singular; empty if the word is not in the lexicon.
pub(crate) fn same_sort(word: &str) -> impl Iterator<Item = &'static str> {
    static TYPES: LazyLock<Vec<Vec<&str>>> =
        LazyLock::new(|| rows("type").map(|(_, words)| words).collect());
    let one = singular(word);
    let is_own =
        move |own: &&str| *own == word || word.strip_suffix('s') == Some(own) || *own == one;
    TYPES.iter().filter(move |own| own.iter().any(&is_own)).flatten().copied()
}

/// Whether a phrase asks for a frequency, as `most often` does.
pub(crate) fn is_frequency(phrase: &str) -> bool {
    ["often", "frequen", "common", "widespread", "rare"].iter().any(|part| phrase.contains(part))
}

/// Whether a folded word is in a row of this kind in the lexicon, which must have single words.
fn is_of(kind: &'static str, word: &str) -> bool {
    type Known = HashSet<(&'static str, &'static str)>;
    static ALL: LazyLock<Known> = LazyLock::new(|| {
        let kinds = ["degree", "anything", "beginning", "filler"].into_iter();
        let words = |kind| rows(kind).flat_map(|(_, words)| words).map(move |word| (kind, word));
        kinds.flat_map(words).collect()
    });
    ALL.contains(&(kind, word))
}

/// Whether a folded word, such as `expensive`, names a degree of a field's value.
pub(crate) fn is_degree(word: &str) -> bool {
    is_of("degree", word)
}

/// Whether a folded word, such as `things`, can stand for nodes of any type.
pub(crate) fn is_anything(word: &str) -> bool {
    is_of("anything", word)
}

/// Whether a word in a field's name indicates that the field holds the time when something began.
pub(crate) fn is_beginning(word: &str) -> bool {
    is_of("beginning", word)
}

/// Whether a folded word has no meaning of its own, such as `located`.
pub(crate) fn is_filler(word: &str) -> bool {
    is_of("filler", word) || is_question_word(word)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_lexicon_has_a_meaning_and_no_phrase_has_two() {
        let kinds = [
            "polite",
            "written",
            "property",
            "phrase",
            "filler",
            "field",
            "degree",
            "type",
            "anything",
            "beginning",
        ];
        let lines = include_str!("lexicon.tsv").lines();
        let n = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        assert_eq!(kinds.into_iter().flat_map(rows).count(), n);
        for (meaning, _) in rows("phrase") {
            assert!(Cue::named(meaning).is_some(), "{meaning}");
        }
        let phrases: HashSet<&str> = PHRASES.iter().map(|(phrase, _)| *phrase).collect();
        assert_eq!(phrases.len(), PHRASES.len());
    }

    #[test]
    fn plurals_name_the_same_type() {
        for (many, other) in [("branches", "site"), ("movies", "film"), ("deliveries", "shipment")]
        {
            assert!(same_sort(many).any(|word| word == other), "{many}");
        }
    }
}
