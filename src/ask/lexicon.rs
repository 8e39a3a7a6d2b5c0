//! English phrases that occur in questions about many nodes, with their meanings (functions,
//! comparisons, assumptions), and single words: words without meaning of their own, synonyms, and
//! number words. Uses neither a base nor a table.

use std::{collections::HashSet, sync::LazyLock};

use serde::{Deserialize, Serialize};

use agent_ground::words::is_question_word;

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cue {
    /// An aggregate function: `on average`.
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
    Best(bool, &'static [&'static str]),
    /// The number of requested results follows: `top`.
    Top,
    /// A number that bounds a value follows: `more than`. The second item is true if the number is
    /// usually a year or a date: `since`.
    Bound(Bound, bool),
    /// The preceding number is a lower bound (true, `or more`) or an upper bound (false, `or
    /// less`).
    OrMore(bool),
    /// A value or a number of counted nodes is larger (true, `more`) or smaller (false, `fewer`)
    /// than another one.
    More(bool),
    /// A property that the phrase implies has a larger (true, `newer`) or smaller (false, `older`)
    /// value. The list holds names that the property's field may have.
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
}

pub(crate) const PRICE: &[&str] = &["price", "cost"];
pub(crate) const TIME: &[&str] = &["year", "date"];
/// Names of fields whose highest value is the best.
pub(crate) const RATING: &[&str] = &["rating", "score", "stars"];
const CITED: &[&str] = &["citations", "citation"];

/// Phrases by their meaning, separated by `, `; words are folded and separated by one space.
const MEANINGS: &[(Cue, &str)] = &[
    (Cue::Of(Function::Mean), "on average, average, averages, averaged, avg, mean"),
    (Cue::Of(Function::Mean), "average value of"),
    (Cue::Of(Function::Median), "typical, typically, median, middle"),
    (Cue::NumberOf, "total number of, overall number of, number of, count of, amount of"),
    (Cue::NumberOf, "numbers of"),
    (Cue::HowMany, "how many, how many different, how many distinct"),
    (Cue::NumberOf, "number of different, number of distinct"),
    (Cue::HowMany, "count, break down"),
    (Cue::NumberOf, "breakdown of"),
    (Cue::Filler, "how much"),
    (Cue::Of(Function::Sum), "total, in total, sum, sum of, add up, altogether, combined"),
    (Cue::Of(Function::Sum), "all together, together, put together, taken together"),
    (Cue::Of(Function::Deviation), "standard deviation"),
    (Cue::Of(Function::Variance), "variance"),
    (Cue::Share, "percentage of, percent of, what percentage, what percent, what share"),
    (Cue::Share, "what fraction, what proportion, share of, fraction of, proportion of"),
    (Cue::High, "highest, largest, biggest, greatest, maximum, maximal, max, best, longest, leads"),
    (Cue::High, "lead, ranks first, comes first, comes out on top"),
    (Cue::Low, "lowest, smallest, minimum, minimal, min, worst, shortest, ranks last, comes last"),
    (Cue::Fewest, "least"),
    (Cue::Most, "most, most different, most often, most frequently, most frequent, most common"),
    (Cue::Most, "most commonly, commonest, most widespread"),
    (Cue::Fewest, "least often, least frequent, least frequently, least common, rarest"),
    (Cue::More(true), "more often, more frequent, more frequently, more common, more widespread"),
    (Cue::More(false), "less often, less frequent, less common, rarer"),
    (Cue::Most, "widest range of, largest range of, biggest range of, widest selection of"),
    (Cue::Most, "largest selection of, biggest selection of, widest choice of, largest choice of"),
    (Cue::Most, "greatest variety of, largest variety of, largest assortment of"),
    (Cue::Fewest, "smallest range of, smallest selection of, fewest"),
    (Cue::Most, "most prolific, most productive"),
    (Cue::Fewest, "least prolific"),
    (Cue::More(true), "more prolific, more productive"),
    (Cue::Best(true, PRICE), "most expensive, priciest, dearest, costliest, costs the most"),
    (Cue::Best(true, PRICE), "cost the most"),
    (Cue::Best(false, PRICE), "costs the least, cheapest, least expensive"),
    (Cue::Best(true, TIME), "newest, latest, most recent, most recently, youngest"),
    (Cue::Best(false, TIME), "oldest, earliest"),
    (Cue::Best(true, RATING), "best rated, highest rated, top rated"),
    (Cue::Best(false, RATING), "worst rated, lowest rated"),
    (Cue::Best(true, CITED), "most cited, most highly cited, most often cited"),
    (Cue::Best(false, CITED), "least cited"),
    (Cue::Top, "top"),
    (Cue::Filler, "the first"),
    (Cue::Bound(Bound::Above, false), "more than, greater than, larger than, higher than"),
    (Cue::Bound(Bound::Above, false), "bigger than, over, above, exceeding, exceed, exceeds"),
    (Cue::Bound(Bound::Above, false), "beyond"),
    (Cue::Bound(Bound::AtLeast, false), "at least, no less than, not less than, no fewer than"),
    (Cue::Bound(Bound::AtLeast, false), "not fewer than, a minimum of"),
    (Cue::Bound(Bound::Below, false), "less than, fewer than, lower than, smaller than, under"),
    (Cue::Bound(Bound::Below, false), "below"),
    (Cue::Bound(Bound::AtMost, false), "at most, no more than, not more than, up to, a maximum of"),
    (Cue::Bound(Bound::AtMost, false), "not over"),
    (Cue::Bound(Bound::Equal, false), "exactly, equal to, equals"),
    (Cue::Bound(Bound::Not, false), "other than"),
    (Cue::Bound(Bound::Between, false), "between"),
    (Cue::Bound(Bound::Equal, true), "from, in, of, during, for"),
    (Cue::Bound(Bound::AtLeast, true), "since"),
    (Cue::Bound(Bound::Equal, true), "from the year"),
    (Cue::Bound(Bound::Above, true), "after, later than, newer than"),
    (Cue::Bound(Bound::Below, true), "before, earlier than, older than, prior to"),
    (Cue::Bound(Bound::AtMost, true), "until"),
    (Cue::Bound(Bound::Above, false), "longer than"),
    (Cue::Bound(Bound::Below, false), "shorter than"),
    (Cue::OrMore(true), "or more, and more, or later, and later, or newer, and newer, or higher"),
    (Cue::OrMore(true), "or greater, or larger, or bigger, or above, and above, or over, and over"),
    (Cue::OrMore(true), "or up, and up, upwards, onwards, onward"),
    (Cue::OrMore(false), "or less, or fewer, and less, or earlier, and earlier, or older"),
    (Cue::OrMore(false), "and older, or lower, or smaller, or below, and below, or under"),
    (Cue::OrMore(false), "and under"),
    (Cue::More(true), "higher, more, greater, larger, bigger, longer"),
    (Cue::More(false), "shorter"),
    (Cue::More(true), "better, ahead"),
    (Cue::More(false), "lower, fewer, less, smaller, worse"),
    (Cue::Comparative(true, PRICE), "more expensive, pricier, dearer, costlier"),
    (Cue::Comparative(false, PRICE), "cheaper, less expensive"),
    (Cue::Comparative(true, TIME), "newer, younger, more recent"),
    (Cue::Comparative(false, TIME), "older"),
    (Cue::Comparative(true, RATING), "better rated"),
    (Cue::Comparative(true, CITED), "more cited, more often cited"),
    (Cue::Each, "per, each, every, for each, for every, by each, broken down by, grouped by"),
    (Cue::Versus, "or, than, versus, vs, compared to, compared with, compare to, compare with"),
    (Cue::Versus, "compare, as opposed to"),
    (Cue::Normal, "normal distribution, normally distributed, normal, normally, normality"),
    (Cue::Normal, "gaussian, gaussian distribution, bell curve, bell shaped"),
    (Cue::Correlate, "correlation, correlation coefficient, correlations, correlate, correlates"),
    (Cue::Correlate, "correlated, linear relationship, linear relation, linear correlation"),
    (Cue::Correlate, "linear association, linearly related, linearly correlated, linearly"),
    (Cue::Correlate, "positively correlated, negatively correlated, inversely correlated"),
    (Cue::Correlate, "positive correlation, negative correlation, inverse correlation"),
    (Cue::Correlate, "correlate positively, correlate negatively, tend to have fewer"),
    (Cue::Correlate, "tend to have less, tend to have a lower"),
    (Cue::Filler, "tend to be"),
    (Cue::Correlate, "tend to have higher, tend to have more, tend to get more"),
    (Cue::Correlate, "tend to have lower, tend to have a higher, go hand in hand"),
    (Cue::Correlate, "goes hand in hand, rise with, rises with, increase with, increases with"),
    (Cue::Correlate, "grow with, grows with, move together, rise together, go up with"),
    (Cue::Correlate, "goes up with, go down with, goes down with, grow together"),
    (Cue::Correlate, "increase together, go together, decrease with, decreases with, fall with"),
    (Cue::Correlate, "falls with, drop with, drops with"),
    (Cue::Ranks, "spearman, rank correlation, monotonic, monotonically, monotonic relationship"),
    (Cue::Ranks, "by rank, ranks"),
    (Cue::Spread, "variances, equal variance, equal variances, same variance, variability, spread"),
    (Cue::Spread, "spread out, dispersion, dispersed, scatter, scattered, variable, more variable"),
    (Cue::Spread, "more scattered, more spread out, more dispersed, equally variable, vary"),
    (Cue::Spread, "varies, vary more, vary as much, varies as much, vary equally, homogeneous"),
    (Cue::Spread, "homogeneity"),
    (Cue::Relate, "related, relate, relates, relationship, relation, depend, depends, dependent"),
    (Cue::Relate, "independent, associated, association, influence, influences, affect, affects"),
    (Cue::Relate, "linked, link, connected, connection, tied, matter, matters"),
    (Cue::Relate, "anything to do with, something to do with, have an effect on, has an effect on"),
    (Cue::Relate, "have an influence on, has an influence on, have an impact on, has an impact on"),
    (Cue::Differ, "differ, differs, identical, comparable, different, difference, equal, same"),
    (Cue::Differ, "similar, significantly different"),
    (Cue::Suppose, "what if, if, suppose, supposing, assume, assuming, imagine, in case"),
    (Cue::Suppose, "let s say, let s assume, let us assume"),
    (Cue::Filler, "what happens to"),
    (Cue::LeaveOut, "without, excluding, excluded, exclude, left out, leave out, leaving out"),
    (Cue::LeaveOut, "stopped, stop, never existed, never taken place, been missing, were missing"),
    (Cue::LeaveOut, "removed, remove, removing, dropped, drop, discard, discarded, disregard"),
    (Cue::LeaveOut, "took out, take out, skip, skipped, leaving aside, left aside, vanished"),
    (Cue::LeaveOut, "disappeared, ignored, ignore, ignoring, disregarded, did not exist"),
    (Cue::LeaveOut, "didn t exist, were not there, were gone, not counted, were not counted"),
    (Cue::LeaveOut, "taken out, withdrawn, except, except for, apart from, aside from, all but"),
    (Cue::Not, "no, not, never, neither, nor, none, lack, lacks, lacking, don t, doesn t, didn t"),
    (Cue::Not, "isn t, aren t, wasn t, weren t, hasn t, haven t"),
    (Cue::Only, "only"),
    (Cue::Raise, "markup, surcharge, increase, increased, increased by, rose, rises, rise, raised"),
    (Cue::Raise, "went up, go up, goes up, grew, added, gained"),
    (Cue::Lower, "decrease, decreased, fell, falls, fall, dropped by, drop by, drops by, reduced"),
    (Cue::Lower, "lowered, discount, price cut, cut, went down, go down, lost"),
    (Cue::Times(2.0), "doubled, twice as high, twice as large"),
    (Cue::Times(3.0), "tripled"),
    (Cue::Times(0.5), "halved"),
    (Cue::Which, "which, what, who, which of the two, which of the three"),
    (Cue::Filler, "whose, would you call, would you say, we stock, you stock, sold for, sold by"),
    (Cue::Filler, "home to, rank the, in common, have in common, on record, even a single"),
];

/// All phrases with their meanings. Of several phrases that begin at the same word of a question,
/// the longest is used.
pub(crate) static PHRASES: LazyLock<Vec<(&str, Cue)>> = LazyLock::new(|| {
    let phrases = |&(cue, phrases): &(Cue, &'static str)| {
        phrases.split(", ").map(move |phrase| (phrase, cue))
    };
    MEANINGS.iter().flat_map(phrases).collect()
});

/// Whether a folded word occurs in one of [`PHRASES`].
pub(crate) fn is_cue(word: &str) -> bool {
    PHRASES.iter().any(|(phrase, _)| phrase.split(' ').any(|own| own == word))
}

/// Words without meaning of their own, in addition to the words of [`is_question_word`].
const FILLERS: &str = "\
    appear apiece cause causes deal deals keep keeps kept attract attracts came employ employs \
    issue issued publish published publishes release released sell selling sells use used uses \
    work worked works appeared appears left located offer offered offers remaining shared shows written \
    wrote according across actually all along amid among amongst base based been being belong \
    belonging belongs between both calculate called carried carries carry carrying case change \
    changed changes check collected collection coming comes come compute considered contain \
    containing contains covered data database dataset describe described determine displayed \
    distributed distribution each either end entire equally evidence exist exists existing \
    explain fall falling fetch fetched figure follow followed follows found gets given goes \
    happen held hold holding holds identify instead kind known labelled least level listed makes \
    marked month months n named number numbers occur order over overall own owned owns part \
    percent possess present produce produced put rather receive receives received recorded remain \
    remained report reported result results roughly s sample say set shown significance \
    significant significantly sit sits sorted statistically still stand stands sort stay stayed \
    take taken takes tend test through together two three type under value values way while whole \
    within year years yet yield";

/// Words in field names, with their synonyms.
const SYNONYMS: [(&[&str], &[&str]); 12] = [
    (PRICE, &["charge", "charges", "charged", "cost", "costs", "priced", "pricing", "expensive"]),
    (RATING, &["rated", "stars"]),
    (CITED, &["cited"]),
    (&["birth", "birthday", "birthdate"], &["born"]),
    (&["born"], &["birth"]),
    (&["phone", "telephone"], &["telephone", "phone", "tel", "mobile"]),
    (&["mail", "email"], &["mail", "email"]),
    (&["homepage", "website", "url", "web"], &["homepage", "website", "webpage", "url", "site"]),
    (&["title", "position", "job"], &["job", "position"]),
    (&["biography"], &["bio"]),
    (&["grade", "mark"], &["mark", "marks"]),
    (&["salary", "wage"], &["wage", "wages", "pay", "paid"]),
];

/// Returns the words in field names that a folded word is a synonym of, such as `rating` for
/// `rated`; empty for most words.
pub(crate) fn synonyms(word: &str) -> &'static [&'static str] {
    SYNONYMS.iter().find(|(_, own)| own.contains(&word)).map_or(&[], |(names, _)| names)
}

/// Whether a folded word, such as `expensive`, names a degree of a field's value.
pub(crate) fn is_degree(word: &str) -> bool {
    word == "expensive"
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
    &["drug", "medicine", "medication", "medicament", "med"],
    &["venue", "conference", "journal"],
    &["field", "topic", "subject", "discipline"],
    &["country", "nation"],
    &["movie", "film"],
    &["person", "people"],
    &["customer", "client", "buyer"],
    &["employee", "worker", "colleague"],
    &["supplier", "vendor"],
    &["student", "pupil"],
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

/// Words in field names that indicate when something began, so that its age is known.
const BEGINNINGS: &str = "\
    year date time born birth built created made opened founded established published released \
    issued launched introduced started start begin began joined hired added registered submitted \
    reported received ordered posted sent";

/// Whether a word in a field's name indicates that the field holds the time when something began.
pub(crate) fn is_beginning(word: &str) -> bool {
    BEGINNINGS.split(' ').any(|own| own == word)
}

/// Whether a phrase asks for a frequency, as `most often` does.
pub(crate) fn is_frequency(phrase: &str) -> bool {
    ["often", "frequen", "common", "widespread", "rare"].iter().any(|part| phrase.contains(part))
}

/// Whether a folded word has no meaning of its own, such as `located`.
pub(crate) fn is_filler(word: &str) -> bool {
    static ALL: LazyLock<HashSet<&str>> = LazyLock::new(|| FILLERS.split(' ').collect());
    ALL.contains(word) || is_question_word(word)
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
