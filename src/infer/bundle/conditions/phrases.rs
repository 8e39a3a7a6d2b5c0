//! English words and phrases of conditions. The words of a list are separated by spaces, the
//! phrases by commas; if one phrase begins another, the longer one is first.

use agent_kb::filter::Operator;

pub(super) use agent_ground::words::has_word as has;

/// Words before a date that stands for its whole span, such as "in" before "March 2025".
pub(super) const IN: &str = "in during from of on dated";
/// Words between the first and the last date of a span.
pub(super) const TO: &str = "up to and including, up to, to, until, till, through, thru";
/// Phrases before a date that is a limit, such as "since", with the operator of the condition.
pub(super) const LIMITS: [(Operator, &str); 4] = [
    (Operator::Less, "earlier than, older than, prior to, before, pre, up to but not including"),
    (Operator::AtMost, "up to and including, up to, up until, until, till, through, by"),
    (Operator::More, "later than, newer than, post, after"),
    (Operator::AtLeast, "since, starting in, starting from, beginning in, as of"),
];
/// Phrase between a limit and a date that refers to the end of the date's span. The phrases in the
/// next constant refer to its start.
pub(super) const THE_END_OF: &str = "the end of";
pub(super) const THE_START_OF: &str = "the start of, the beginning of";
/// Words between a negation and the comparison or limit that the negation reverses, as in "doesn't
/// cost more than".
pub(super) const BEFORE_LIMITS: &str = "cost costs costing priced spend pay want to be been is was \
     were the have has having published released created written made come came out any anything \
     ones those with";
/// Phrases after a date that is a limit, with the operator of the condition.
pub(super) const AFTER_DATE: [(Operator, &str); 2] = [
    (
        Operator::AtLeast,
        "or later, and later, or newer, and newer, or after, and after, onwards, onward, and \
         onwards, and onward, and beyond, and up, or more recent",
    ),
    (Operator::AtMost, "or earlier, and earlier, or before, and before, or older, and older"),
];
/// Phrases that ask for the newest nodes (true) or the oldest (false).
pub(super) const ORDERS: [(bool, &str); 2] = [
    (true, "most recent, most recently, newest, latest, came out last, came out most recently"),
    (false, "oldest, earliest, came out first"),
];
/// Phrases before a number, such as "at least", with the operator of the condition.
pub(super) const COMPARISONS: [(Operator, &str); 4] = [
    (Operator::Less, "cheaper than, less than, fewer than, lower than, under, below"),
    (Operator::AtLeast, "upwards of, at least, minimum"),
    (Operator::More, "more than, greater than, higher than, over, above"),
    (Operator::AtMost, "at most, up to, maximum"),
];
/// Words after a number that multiply it; such numbers are not read.
pub(super) const MULTIPLIERS: &str = "hundred thousand million billion grand";
/// Words for a node of any type, as in "the last thing".
pub(super) const THINGS: &str = "thing one item work release publication";
/// Phrases after a number, such as "or more", with the operator of the condition.
pub(super) const AFTER_NUMBER: [(Operator, &str); 2] = [
    (Operator::AtLeast, "or more, or higher, or above, or better, and up, and above"),
    (Operator::AtMost, "or less, or fewer, or lower, or under, or cheaper"),
];
/// Words after a number that make it a price.
pub(super) const MONEY: &str = "dollars dollar bucks usd euros euro quid";
/// Words that precede a comparison of prices and belong to it.
pub(super) const PRICED: &str = "for at priced costing that";
/// Numbers in words, from one.
pub(super) const NUMBERS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];
/// Words that negate the words after them.
pub(super) const NEGATIONS: &str = "not without except excluding never lacking lack lacks none \
     nothing cannot dont doesnt isnt arent wont neither";
/// Words before a "not" or "n't" that negates a verb, so that nothing is excluded.
pub(super) const BEFORE_VERBS: &str = "do don does doesn did didn can could couldn will won would \
     wouldn should shouldn has hasn have haven had hadn";
/// Words that negate a verb by themselves.
pub(super) const NEGATED_VERBS: &str = "cannot dont doesnt wont never";
/// Words after a negation that the negation does not exclude, as in "not only".
pub(super) const NOT_NEGATED: &str = "only worth just sure know remember necessarily even too very much \
     but else matter longer idea doubt wonder";
/// Negations that occur in titles, so that word search keeps the words after them.
pub(super) const IN_TITLES: &str = "without no not never nothing none";
/// Words that join several things that one negation excludes.
pub(super) const OR: &str = "or nor";
/// Phrases that exclude the words after them.
pub(super) const EXCEPT: &str = "leaving out, leave out, leaving aside, exclude, excludes, omit, \
     omitting, minus the, minus those, minus any, skip the, skip those, skip any";
/// Words between a name and a negation after it, as in "Max Behr is not an author".
pub(super) const TO_BE: &str =
    "is isn are aren was wasn were weren does did didn doesn don has hasn have haven";
/// Words next to a type or field that is absent, as in "haven't been put in any category".
pub(super) const LACKING: &str =
    "a an the any been yet put in into have having assigned to given listed set at";
/// Words that may precede a negation and belong to its condition, as in "anything except".
pub(super) const ANYTHING: &str = "anything everything something all";
/// Phrases before the name of a single node that is excluded.
pub(super) const OTHER_THAN: &str = "other than, apart from, aside from, besides";
/// Words that join a condition to the rest of the question; meaningless without the condition.
pub(super) const JOINING: &str = "that which who whose is are was were be been being do does did \
     has have had can will but and with any yet";
/// Meaningless words between a negation and a name.
pub(super) const FILLERS: &str = "a an the any in of by from with to at on for be been being about \
     as have has having used yet those ones that which whatever anything things is are was were \
     found tied linked related associated connected sit sits belong belonging listed include filed \
     under coauthored among its their tagged co fall falls whose marked labelled";
/// Words in names of fields to which a date without a field refers, best first.
pub(super) const GENERAL_DATES: [&str; 10] = [
    "date",
    "datum",
    "fecha",
    "created",
    "published",
    "released",
    "issued",
    "opened",
    "time",
    "year",
];
/// Words by which questions refer to date fields: each entry holds a word in names of fields,
/// and the synonyms of this word.
pub(super) const DATE_WORDS: [(&str, &str); 6] = [
    ("created", "opened reported filed raised submitted logged made written"),
    ("updated", "changed modified edited revised"),
    ("closed", "resolved finished solved completed"),
    ("hired", "joined employed started"),
    ("released", "launched published out"),
    ("published", "released appeared written"),
];
