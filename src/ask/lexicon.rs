//! The words with which questions over many nodes are asked, in English: what is computed, what is
//! compared, what is supposed. Must not know: bases, tables.

/// What is computed of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Function {
    /// The mean.
    Mean,
    /// The sum.
    Sum,
    /// The middle.
    Median,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// The variance of a sample.
    Variance,
    /// The standard deviation of a sample.
    Deviation,
}

impl Function {
    /// All of them.
    pub const ALL: [Function; 7] =
        [Self::Mean, Self::Sum, Self::Median, Self::Min, Self::Max, Self::Variance, Self::Deviation];

    /// In SQL.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Mean => "avg",
            Self::Sum => "sum",
            Self::Median => "median",
            Self::Min => "min",
            Self::Max => "max",
            Self::Variance => "variance",
            Self::Deviation => "stddev",
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Sum => "total",
            Self::Median => "median",
            Self::Min => "lowest",
            Self::Max => "highest",
            Self::Variance => "variance",
            Self::Deviation => "standard deviation",
        }
    }
}

/// How a number bounds a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
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
    /// From this number to the next.
    Between,
}

impl Bound {
    /// In SQL; `BETWEEN` takes two numbers.
    pub fn sql(self) -> &'static str {
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
}

/// What a phrase says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cue {
    /// A function of many numbers.
    Of(Function),
    /// `how many`.
    HowMany,
    /// `number of`, before a type.
    NumberOf,
    /// `percentage of`.
    Share,
    /// The greatest.
    High,
    /// The least.
    Low,
    /// The greatest, or most often, of what is counted.
    Most,
    /// The least of what is counted.
    Fewest,
    /// The greatest or least of a property that the word itself names.
    Best(bool, &'static [&'static str]),
    /// A number of first ones follows.
    Top,
    /// A number follows that bounds a value; `true` if it is mostly a year or a date.
    Bound(Bound, bool),
    /// More than the other, or a number of what is counted above.
    More(bool),
    /// More or less of a property that the word itself names.
    Comparative(bool, &'static [&'static str]),
    /// One result for each value of what follows.
    Each,
    /// Stands between what is compared.
    Versus,
    /// That values follow a normal distribution.
    Normal,
    /// That values go together.
    Correlate,
    /// By their ranks.
    Ranks,
    /// That values spread by as much.
    Spread,
    /// That values stand in a relation.
    Relate,
    /// Whether two are as large.
    Differ,
    /// Something is supposed.
    Suppose,
    /// It is supposed that some are not there.
    LeaveOut,
    /// It is supposed that no others are there.
    Only,
    /// It is supposed that values are more, by what follows.
    Raise,
    /// Or less.
    Lower,
    /// Or so many times.
    Times(f64),
    /// That is what is asked for.
    Which,
    /// Says nothing beside.
    Filler,
}

const PRICE: &[&str] = &["price", "cost"];
const TIME: &[&str] = &["year", "date"];
const RATING: &[&str] = &["rating", "score", "stars"];
const CITED: &[&str] = &["citations", "citation"];

/// Phrases and what they say. Of several that begin at a word, the longest counts; of equals, the
/// first.
pub const PHRASES: &[(&str, Cue)] = &[
    ("on average", Cue::Of(Function::Mean)),
    ("average", Cue::Of(Function::Mean)),
    ("averages", Cue::Of(Function::Mean)),
    ("averaged", Cue::Of(Function::Mean)),
    ("avg", Cue::Of(Function::Mean)),
    ("mean", Cue::Of(Function::Mean)),
    ("typical", Cue::Of(Function::Median)),
    ("typically", Cue::Of(Function::Median)),
    ("median", Cue::Of(Function::Median)),
    ("middle", Cue::Of(Function::Median)),
    ("total number of", Cue::NumberOf),
    ("overall number of", Cue::NumberOf),
    ("number of", Cue::NumberOf),
    ("count of", Cue::NumberOf),
    ("amount of", Cue::NumberOf),
    ("numbers of", Cue::NumberOf),
    ("how many", Cue::HowMany),
    ("count", Cue::HowMany),
    ("how much", Cue::Filler),
    ("total", Cue::Of(Function::Sum)),
    ("in total", Cue::Of(Function::Sum)),
    ("sum", Cue::Of(Function::Sum)),
    ("sum of", Cue::Of(Function::Sum)),
    ("add up", Cue::Of(Function::Sum)),
    ("altogether", Cue::Of(Function::Sum)),
    ("combined", Cue::Of(Function::Sum)),
    ("all together", Cue::Of(Function::Sum)),
    ("standard deviation", Cue::Of(Function::Deviation)),
    ("variance", Cue::Of(Function::Variance)),
    ("percentage of", Cue::Share),
    ("percent of", Cue::Share),
    ("what percentage", Cue::Share),
    ("what percent", Cue::Share),
    ("what share", Cue::Share),
    ("what fraction", Cue::Share),
    ("what proportion", Cue::Share),
    ("share of", Cue::Share),
    ("fraction of", Cue::Share),
    ("proportion of", Cue::Share),
    ("highest", Cue::High),
    ("largest", Cue::High),
    ("biggest", Cue::High),
    ("greatest", Cue::High),
    ("maximum", Cue::High),
    ("maximal", Cue::High),
    ("max", Cue::High),
    ("best", Cue::High),
    ("longest", Cue::High),
    ("leads", Cue::High),
    ("lead", Cue::High),
    ("ranks first", Cue::High),
    ("comes first", Cue::High),
    ("comes out on top", Cue::High),
    ("lowest", Cue::Low),
    ("smallest", Cue::Low),
    ("minimum", Cue::Low),
    ("minimal", Cue::Low),
    ("min", Cue::Low),
    ("worst", Cue::Low),
    ("shortest", Cue::Low),
    ("ranks last", Cue::Low),
    ("comes last", Cue::Low),
    ("least", Cue::Fewest),
    ("most", Cue::Most),
    ("most often", Cue::Most),
    ("most frequently", Cue::Most),
    ("fewest", Cue::Fewest),
    ("most expensive", Cue::Best(true, PRICE)),
    ("priciest", Cue::Best(true, PRICE)),
    ("dearest", Cue::Best(true, PRICE)),
    ("costliest", Cue::Best(true, PRICE)),
    ("costs the most", Cue::Best(true, PRICE)),
    ("cost the most", Cue::Best(true, PRICE)),
    ("costs the least", Cue::Best(false, PRICE)),
    ("cheapest", Cue::Best(false, PRICE)),
    ("least expensive", Cue::Best(false, PRICE)),
    ("newest", Cue::Best(true, TIME)),
    ("latest", Cue::Best(true, TIME)),
    ("most recent", Cue::Best(true, TIME)),
    ("youngest", Cue::Best(true, TIME)),
    ("oldest", Cue::Best(false, TIME)),
    ("earliest", Cue::Best(false, TIME)),
    ("best rated", Cue::Best(true, RATING)),
    ("highest rated", Cue::Best(true, RATING)),
    ("top rated", Cue::Best(true, RATING)),
    ("worst rated", Cue::Best(false, RATING)),
    ("lowest rated", Cue::Best(false, RATING)),
    ("most cited", Cue::Best(true, CITED)),
    ("most highly cited", Cue::Best(true, CITED)),
    ("most often cited", Cue::Best(true, CITED)),
    ("least cited", Cue::Best(false, CITED)),
    ("top", Cue::Top),
    ("the first", Cue::Filler),
    ("more than", Cue::Bound(Bound::Above, false)),
    ("greater than", Cue::Bound(Bound::Above, false)),
    ("larger than", Cue::Bound(Bound::Above, false)),
    ("higher than", Cue::Bound(Bound::Above, false)),
    ("bigger than", Cue::Bound(Bound::Above, false)),
    ("over", Cue::Bound(Bound::Above, false)),
    ("above", Cue::Bound(Bound::Above, false)),
    ("exceeding", Cue::Bound(Bound::Above, false)),
    ("exceed", Cue::Bound(Bound::Above, false)),
    ("exceeds", Cue::Bound(Bound::Above, false)),
    ("beyond", Cue::Bound(Bound::Above, false)),
    ("at least", Cue::Bound(Bound::AtLeast, false)),
    ("no less than", Cue::Bound(Bound::AtLeast, false)),
    ("not less than", Cue::Bound(Bound::AtLeast, false)),
    ("no fewer than", Cue::Bound(Bound::AtLeast, false)),
    ("not fewer than", Cue::Bound(Bound::AtLeast, false)),
    ("a minimum of", Cue::Bound(Bound::AtLeast, false)),
    ("less than", Cue::Bound(Bound::Below, false)),
    ("fewer than", Cue::Bound(Bound::Below, false)),
    ("lower than", Cue::Bound(Bound::Below, false)),
    ("smaller than", Cue::Bound(Bound::Below, false)),
    ("under", Cue::Bound(Bound::Below, false)),
    ("below", Cue::Bound(Bound::Below, false)),
    ("at most", Cue::Bound(Bound::AtMost, false)),
    ("no more than", Cue::Bound(Bound::AtMost, false)),
    ("not more than", Cue::Bound(Bound::AtMost, false)),
    ("up to", Cue::Bound(Bound::AtMost, false)),
    ("a maximum of", Cue::Bound(Bound::AtMost, false)),
    ("not over", Cue::Bound(Bound::AtMost, false)),
    ("exactly", Cue::Bound(Bound::Equal, false)),
    ("equal to", Cue::Bound(Bound::Equal, false)),
    ("equals", Cue::Bound(Bound::Equal, false)),
    ("other than", Cue::Bound(Bound::Not, false)),
    ("between", Cue::Bound(Bound::Between, false)),
    ("from", Cue::Bound(Bound::Equal, true)),
    ("in", Cue::Bound(Bound::Equal, true)),
    ("of", Cue::Bound(Bound::Equal, true)),
    ("during", Cue::Bound(Bound::Equal, true)),
    ("for", Cue::Bound(Bound::Equal, true)),
    ("since", Cue::Bound(Bound::AtLeast, true)),
    ("from the year", Cue::Bound(Bound::Equal, true)),
    ("after", Cue::Bound(Bound::Above, true)),
    ("later than", Cue::Bound(Bound::Above, true)),
    ("newer than", Cue::Bound(Bound::Above, true)),
    ("before", Cue::Bound(Bound::Below, true)),
    ("earlier than", Cue::Bound(Bound::Below, true)),
    ("older than", Cue::Bound(Bound::Below, true)),
    ("prior to", Cue::Bound(Bound::Below, true)),
    ("until", Cue::Bound(Bound::AtMost, true)),
    ("higher", Cue::More(true)),
    ("more", Cue::More(true)),
    ("greater", Cue::More(true)),
    ("larger", Cue::More(true)),
    ("bigger", Cue::More(true)),
    ("better", Cue::More(true)),
    ("ahead", Cue::More(true)),
    ("lower", Cue::More(false)),
    ("fewer", Cue::More(false)),
    ("less", Cue::More(false)),
    ("smaller", Cue::More(false)),
    ("worse", Cue::More(false)),
    ("more expensive", Cue::Comparative(true, PRICE)),
    ("pricier", Cue::Comparative(true, PRICE)),
    ("dearer", Cue::Comparative(true, PRICE)),
    ("costlier", Cue::Comparative(true, PRICE)),
    ("cheaper", Cue::Comparative(false, PRICE)),
    ("less expensive", Cue::Comparative(false, PRICE)),
    ("newer", Cue::Comparative(true, TIME)),
    ("younger", Cue::Comparative(true, TIME)),
    ("more recent", Cue::Comparative(true, TIME)),
    ("older", Cue::Comparative(false, TIME)),
    ("better rated", Cue::Comparative(true, RATING)),
    ("more cited", Cue::Comparative(true, CITED)),
    ("more often cited", Cue::Comparative(true, CITED)),
    ("per", Cue::Each),
    ("each", Cue::Each),
    ("every", Cue::Each),
    ("for each", Cue::Each),
    ("for every", Cue::Each),
    ("by each", Cue::Each),
    ("broken down by", Cue::Each),
    ("grouped by", Cue::Each),
    ("or", Cue::Versus),
    ("than", Cue::Versus),
    ("versus", Cue::Versus),
    ("vs", Cue::Versus),
    ("compared to", Cue::Versus),
    ("compared with", Cue::Versus),
    ("compare to", Cue::Versus),
    ("compare with", Cue::Versus),
    ("compare", Cue::Versus),
    ("as opposed to", Cue::Versus),
    ("normal distribution", Cue::Normal),
    ("normally distributed", Cue::Normal),
    ("normal", Cue::Normal),
    ("normally", Cue::Normal),
    ("normality", Cue::Normal),
    ("gaussian", Cue::Normal),
    ("gaussian distribution", Cue::Normal),
    ("bell curve", Cue::Normal),
    ("bell shaped", Cue::Normal),
    ("correlation", Cue::Correlate),
    ("correlation coefficient", Cue::Correlate),
    ("correlations", Cue::Correlate),
    ("correlate", Cue::Correlate),
    ("correlates", Cue::Correlate),
    ("correlated", Cue::Correlate),
    ("linear relationship", Cue::Correlate),
    ("linear relation", Cue::Correlate),
    ("linear correlation", Cue::Correlate),
    ("linear association", Cue::Correlate),
    ("linearly related", Cue::Correlate),
    ("linearly correlated", Cue::Correlate),
    ("linearly", Cue::Correlate),
    ("tend to have higher", Cue::Correlate),
    ("tend to have more", Cue::Correlate),
    ("tend to get more", Cue::Correlate),
    ("tend to have lower", Cue::Correlate),
    ("tend to have a higher", Cue::Correlate),
    ("go hand in hand", Cue::Correlate),
    ("goes hand in hand", Cue::Correlate),
    ("rise with", Cue::Correlate),
    ("rises with", Cue::Correlate),
    ("increase with", Cue::Correlate),
    ("increases with", Cue::Correlate),
    ("grow with", Cue::Correlate),
    ("grows with", Cue::Correlate),
    ("move together", Cue::Correlate),
    ("spearman", Cue::Ranks),
    ("rank correlation", Cue::Ranks),
    ("monotonic", Cue::Ranks),
    ("monotonically", Cue::Ranks),
    ("monotonic relationship", Cue::Ranks),
    ("by rank", Cue::Ranks),
    ("ranks", Cue::Ranks),
    ("variances", Cue::Spread),
    ("equal variance", Cue::Spread),
    ("equal variances", Cue::Spread),
    ("same variance", Cue::Spread),
    ("variability", Cue::Spread),
    ("spread", Cue::Spread),
    ("spread out", Cue::Spread),
    ("dispersion", Cue::Spread),
    ("dispersed", Cue::Spread),
    ("scatter", Cue::Spread),
    ("scattered", Cue::Spread),
    ("vary", Cue::Spread),
    ("varies", Cue::Spread),
    ("vary more", Cue::Spread),
    ("homogeneous", Cue::Spread),
    ("homogeneity", Cue::Spread),
    ("related", Cue::Relate),
    ("relate", Cue::Relate),
    ("relates", Cue::Relate),
    ("relationship", Cue::Relate),
    ("relation", Cue::Relate),
    ("depend", Cue::Relate),
    ("depends", Cue::Relate),
    ("dependent", Cue::Relate),
    ("independent", Cue::Relate),
    ("associated", Cue::Relate),
    ("association", Cue::Relate),
    ("influence", Cue::Relate),
    ("influences", Cue::Relate),
    ("affect", Cue::Relate),
    ("affects", Cue::Relate),
    ("linked", Cue::Relate),
    ("link", Cue::Relate),
    ("connected", Cue::Relate),
    ("connection", Cue::Relate),
    ("tied", Cue::Relate),
    ("matter", Cue::Relate),
    ("matters", Cue::Relate),
    ("differ", Cue::Differ),
    ("differs", Cue::Differ),
    ("different", Cue::Differ),
    ("difference", Cue::Differ),
    ("equal", Cue::Differ),
    ("same", Cue::Differ),
    ("similar", Cue::Differ),
    ("significantly different", Cue::Differ),
    ("what if", Cue::Suppose),
    ("if", Cue::Suppose),
    ("suppose", Cue::Suppose),
    ("supposing", Cue::Suppose),
    ("assume", Cue::Suppose),
    ("assuming", Cue::Suppose),
    ("imagine", Cue::Suppose),
    ("in case", Cue::Suppose),
    ("without", Cue::LeaveOut),
    ("excluding", Cue::LeaveOut),
    ("excluded", Cue::LeaveOut),
    ("exclude", Cue::LeaveOut),
    ("left out", Cue::LeaveOut),
    ("leave out", Cue::LeaveOut),
    ("leaving out", Cue::LeaveOut),
    ("removed", Cue::LeaveOut),
    ("remove", Cue::LeaveOut),
    ("removing", Cue::LeaveOut),
    ("dropped", Cue::LeaveOut),
    ("ignored", Cue::LeaveOut),
    ("ignore", Cue::LeaveOut),
    ("ignoring", Cue::LeaveOut),
    ("disregarded", Cue::LeaveOut),
    ("did not exist", Cue::LeaveOut),
    ("didn t exist", Cue::LeaveOut),
    ("were not there", Cue::LeaveOut),
    ("were gone", Cue::LeaveOut),
    ("not counted", Cue::LeaveOut),
    ("were not counted", Cue::LeaveOut),
    ("taken out", Cue::LeaveOut),
    ("withdrawn", Cue::LeaveOut),
    ("only", Cue::Only),
    ("increase", Cue::Raise),
    ("increased", Cue::Raise),
    ("increased by", Cue::Raise),
    ("rose", Cue::Raise),
    ("rises", Cue::Raise),
    ("rise", Cue::Raise),
    ("raised", Cue::Raise),
    ("went up", Cue::Raise),
    ("go up", Cue::Raise),
    ("goes up", Cue::Raise),
    ("grew", Cue::Raise),
    ("added", Cue::Raise),
    ("gained", Cue::Raise),
    ("decrease", Cue::Lower),
    ("decreased", Cue::Lower),
    ("fell", Cue::Lower),
    ("falls", Cue::Lower),
    ("fall", Cue::Lower),
    ("dropped by", Cue::Lower),
    ("reduced", Cue::Lower),
    ("lowered", Cue::Lower),
    ("cut", Cue::Lower),
    ("went down", Cue::Lower),
    ("go down", Cue::Lower),
    ("lost", Cue::Lower),
    ("doubled", Cue::Times(2.0)),
    ("twice as high", Cue::Times(2.0)),
    ("twice as large", Cue::Times(2.0)),
    ("tripled", Cue::Times(3.0)),
    ("halved", Cue::Times(0.5)),
    ("which", Cue::Which),
    ("what", Cue::Which),
    ("who", Cue::Which),
    ("whose", Cue::Filler),
];

/// Words that say nothing beside what stands around them, sorted; those of every question are
/// known to `words::is_question_word`.
const FILLERS: &[&str] = &[
    "according", "across", "actually", "all", "along", "amid", "among", "amongst", "available", "base", "based",
    "be", "been", "being", "belong", "belonging", "belongs", "between", "both", "calculate", "carried", "carries",
    "carry", "carrying", "case", "change", "changed", "changes", "check", "coming", "comes", "come", "compute", "considered", "contain",
    "containing", "contains", "covered", "data", "database", "dataset", "describe", "described", "determine",
    "displayed", "distributed", "distribution", "each", "end", "entire", "equally", "evidence", "exist", "exists", "existing", "explain",
    "fall", "falling", "fetch", "fetched", "figure", "find", "follow", "followed", "follows", "found", "get", "gets", "given",
    "go", "goes", "happen", "held", "hold", "holding", "holds", "i", "identify", "if", "instead", "it", "items",
    "its", "kind", "know", "labelled", "least", "level", "list", "listed", "made", "make", "makes", "marked",
    "n", "named", "number", "numbers", "occur", "of", "on", "ones", "order", "our", "out", "over",
    "overall", "own", "owned", "owns", "part", "possess", "present", "produce", "produced", "put", "rather", "receive", "received", "recorded", "remain", "remained",
    "report", "reported", "result", "results", "roughly", "s", "sample", "say", "set", "shown", "significance", "significant",
    "significantly", "single", "sit", "sits", "sorted", "statistically", "still", "stand", "stands", "sort", "stay", "stayed", "taken", "tell",
    "tend", "test", "that", "their", "them", "there", "these", "they", "thing", "things", "those", "through", "together", "two", "three", "type",
    "under", "us", "value", "values", "was", "way", "were", "when", "where", "while", "whole", "with", "within",
    "would", "year", "yield",
];

/// Whether a folded word says nothing of what is asked for.
pub fn is_filler(word: &str) -> bool {
    FILLERS.contains(&word) || crate::words::is_question_word(word)
}

/// Whether a folded word is part of a phrase that has a meaning.
pub fn is_cue(word: &str) -> bool {
    PHRASES.iter().any(|(phrase, _)| phrase.split(' ').any(|own| own == word))
}

/// Small numbers in words.
pub fn number_word(word: &str) -> Option<f64> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    ];
    WORDS.iter().position(|known| *known == word).map(|number| number as f64)
}
