//! English phrases of conditions.

use agent_kb::filter::Operator;

/// Words before a date that stands for its whole span, such as "in" before "March 2025".
pub(super) const IN: [&str; 6] = ["in", "during", "from", "of", "on", "dated"];
/// Words between the first and the last date of a span.
pub(super) const TO: [&[&str]; 7] = [
    &["up", "to", "and", "including"],
    &["up", "to"],
    &["to"],
    &["until"],
    &["till"],
    &["through"],
    &["thru"],
];
/// Phrases before a date that is a limit, such as "since", with the operator of the condition.
pub(super) const LIMITS: [(&[&str], Operator); 22] = [
    (&["earlier", "than"], Operator::Less),
    (&["older", "than"], Operator::Less),
    (&["prior", "to"], Operator::Less),
    (&["before"], Operator::Less),
    (&["pre"], Operator::Less),
    (&["up", "to", "and", "including"], Operator::AtMost),
    (&["up", "to", "but", "not", "including"], Operator::Less),
    (&["up", "to"], Operator::AtMost),
    (&["up", "until"], Operator::AtMost),
    (&["until"], Operator::AtMost),
    (&["till"], Operator::AtMost),
    (&["through"], Operator::AtMost),
    (&["by"], Operator::AtMost),
    (&["later", "than"], Operator::More),
    (&["newer", "than"], Operator::More),
    (&["post"], Operator::More),
    (&["after"], Operator::More),
    (&["since"], Operator::AtLeast),
    (&["starting", "in"], Operator::AtLeast),
    (&["starting", "from"], Operator::AtLeast),
    (&["beginning", "in"], Operator::AtLeast),
    (&["as", "of"], Operator::AtLeast),
];
/// Phrase between a limit and a date that refers to the end of the date's span. The phrases in the
/// next constant refer to its start.
pub(super) const THE_END_OF: [&str; 3] = ["the", "end", "of"];
pub(super) const THE_START_OF: [&[&str]; 2] =
    [&["the", "start", "of"], &["the", "beginning", "of"]];
/// Words between a negation and the comparison or limit that the negation reverses, as in "doesn't
/// cost more than".
pub(super) const BEFORE_LIMITS: [&str; 30] = [
    "cost",
    "costs",
    "costing",
    "priced",
    "spend",
    "pay",
    "want",
    "to",
    "be",
    "been",
    "is",
    "was",
    "were",
    "the",
    "have",
    "has",
    "having",
    "published",
    "released",
    "created",
    "written",
    "made",
    "come",
    "came",
    "out",
    "any",
    "anything",
    "ones",
    "those",
    "with",
];
/// Phrases after a date that is a limit, with the operator of the condition.
pub(super) const AFTER_DATE: [(&[&str], Operator); 19] = [
    (&["or", "later"], Operator::AtLeast),
    (&["and", "later"], Operator::AtLeast),
    (&["or", "newer"], Operator::AtLeast),
    (&["and", "newer"], Operator::AtLeast),
    (&["or", "after"], Operator::AtLeast),
    (&["and", "after"], Operator::AtLeast),
    (&["onwards"], Operator::AtLeast),
    (&["onward"], Operator::AtLeast),
    (&["and", "onwards"], Operator::AtLeast),
    (&["and", "onward"], Operator::AtLeast),
    (&["and", "beyond"], Operator::AtLeast),
    (&["and", "up"], Operator::AtLeast),
    (&["or", "more", "recent"], Operator::AtLeast),
    (&["or", "earlier"], Operator::AtMost),
    (&["and", "earlier"], Operator::AtMost),
    (&["or", "before"], Operator::AtMost),
    (&["and", "before"], Operator::AtMost),
    (&["or", "older"], Operator::AtMost),
    (&["and", "older"], Operator::AtMost),
];
/// Phrases that ask for the newest nodes (true) or the oldest (false).
pub(super) const ORDERS: [(&[&str], bool); 9] = [
    (&["most", "recent"], true),
    (&["most", "recently"], true),
    (&["newest"], true),
    (&["latest"], true),
    (&["came", "out", "last"], true),
    (&["came", "out", "most", "recently"], true),
    (&["oldest"], false),
    (&["earliest"], false),
    (&["came", "out", "first"], false),
];
/// Phrases before a number, such as "at least", with the operator of the condition.
pub(super) const COMPARISONS: [(&[&str], Operator); 15] = [
    (&["cheaper", "than"], Operator::Less),
    (&["upwards", "of"], Operator::AtLeast),
    (&["more", "than"], Operator::More),
    (&["greater", "than"], Operator::More),
    (&["higher", "than"], Operator::More),
    (&["less", "than"], Operator::Less),
    (&["fewer", "than"], Operator::Less),
    (&["lower", "than"], Operator::Less),
    (&["at", "least"], Operator::AtLeast),
    (&["at", "most"], Operator::AtMost),
    (&["up", "to"], Operator::AtMost),
    (&["over"], Operator::More),
    (&["above"], Operator::More),
    (&["under"], Operator::Less),
    (&["below"], Operator::Less),
];
/// Words after a number that multiply it; such numbers are not read.
pub(super) const MULTIPLIERS: [&str; 5] = ["hundred", "thousand", "million", "billion", "grand"];
/// Words for a node of any type, as in "the last thing".
pub(super) const THINGS: [&str; 6] = ["thing", "one", "item", "work", "release", "publication"];
/// Phrases after a number, such as "or more", with the operator of the condition.
pub(super) const AFTER_NUMBER: [(&[&str], Operator); 11] = [
    (&["or", "more"], Operator::AtLeast),
    (&["or", "higher"], Operator::AtLeast),
    (&["or", "above"], Operator::AtLeast),
    (&["or", "better"], Operator::AtLeast),
    (&["and", "up"], Operator::AtLeast),
    (&["and", "above"], Operator::AtLeast),
    (&["or", "less"], Operator::AtMost),
    (&["or", "fewer"], Operator::AtMost),
    (&["or", "lower"], Operator::AtMost),
    (&["or", "under"], Operator::AtMost),
    (&["or", "cheaper"], Operator::AtMost),
];
/// Words after a number that make it a price.
pub(super) const MONEY: [&str; 7] = ["dollars", "dollar", "bucks", "usd", "euros", "euro", "quid"];
/// Words before a comparison of prices that belong to it.
pub(super) const PRICED: [&str; 5] = ["for", "at", "priced", "costing", "that"];
/// Numbers in words, from one.
pub(super) const NUMBERS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];
/// Words that negate the words after them.
pub(super) const NEGATIONS: [&str; 17] = [
    "not",
    "without",
    "except",
    "excluding",
    "never",
    "lacking",
    "lack",
    "lacks",
    "none",
    "nothing",
    "cannot",
    "dont",
    "doesnt",
    "isnt",
    "arent",
    "wont",
    "neither",
];
/// Words before a "not" or "n't" that negates a verb, so that nothing is excluded.
pub(super) const BEFORE_VERBS: [&str; 21] = [
    "do", "don", "does", "doesn", "did", "didn", "can", "could", "couldn", "will", "won", "would",
    "wouldn", "should", "shouldn", "has", "hasn", "have", "haven", "had", "hadn",
];
/// Words that negate a verb by themselves.
pub(super) const NEGATED_VERBS: [&str; 5] = ["cannot", "dont", "doesnt", "wont", "never"];
/// Words after a negation that the negation does not exclude, as in "not only".
pub(super) const NOT_NEGATED: [&str; 17] = [
    "only",
    "just",
    "sure",
    "know",
    "remember",
    "necessarily",
    "even",
    "too",
    "very",
    "much",
    "but",
    "else",
    "matter",
    "longer",
    "idea",
    "doubt",
    "wonder",
];
/// Negations that occur in titles, so that word search keeps the words after them.
pub(super) const IN_TITLES: [&str; 6] = ["without", "no", "not", "never", "nothing", "none"];
/// Words that join several things that one negation excludes.
pub(super) const OR: [&str; 2] = ["or", "nor"];
/// Phrases that exclude the words after them.
pub(super) const EXCEPT: [&[&str]; 13] = [
    &["leaving", "out"],
    &["leave", "out"],
    &["leaving", "aside"],
    &["exclude"],
    &["excludes"],
    &["omit"],
    &["omitting"],
    &["minus", "the"],
    &["minus", "those"],
    &["minus", "any"],
    &["skip", "the"],
    &["skip", "those"],
    &["skip", "any"],
];
/// Words between a name and a negation after it, as in "Max Behr is not an author".
pub(super) const TO_BE: [&str; 17] = [
    "is", "isn", "are", "aren", "was", "wasn", "were", "weren", "does", "did", "didn", "doesn",
    "don", "has", "hasn", "have", "haven",
];
/// Words beside a type or field that is lacking, as in "haven't been put in any category".
pub(super) const LACKING: [&str; 17] = [
    "a", "an", "the", "any", "been", "yet", "put", "in", "into", "have", "having", "assigned",
    "to", "given", "listed", "set", "at",
];
/// Words that may precede a negation and belong to its condition, as in "anything except".
pub(super) const ANYTHING: [&str; 4] = ["anything", "everything", "something", "all"];
/// Phrases before the name of a single node that is excluded.
pub(super) const OTHER_THAN: [&[&str]; 4] =
    [&["other", "than"], &["apart", "from"], &["aside", "from"], &["besides"]];
/// Words that join a condition to the rest of the question; meaningless without it.
pub(super) const JOINING: [&str; 24] = [
    "that", "which", "who", "whose", "is", "are", "was", "were", "be", "been", "being", "do",
    "does", "did", "has", "have", "had", "can", "will", "but", "and", "with", "any", "yet",
];
/// Meaningless words between a negation and a name.
pub(super) const FILLERS: [&str; 59] = [
    "a",
    "an",
    "the",
    "any",
    "in",
    "of",
    "by",
    "from",
    "with",
    "to",
    "at",
    "on",
    "for",
    "be",
    "been",
    "being",
    "about",
    "as",
    "have",
    "has",
    "having",
    "used",
    "yet",
    "those",
    "ones",
    "that",
    "which",
    "whatever",
    "anything",
    "things",
    "is",
    "are",
    "was",
    "were",
    "found",
    "tied",
    "linked",
    "related",
    "associated",
    "connected",
    "sit",
    "sits",
    "belong",
    "belonging",
    "listed",
    "include",
    "filed",
    "under",
    "coauthored",
    "among",
    "its",
    "their",
    "tagged",
    "co",
    "fall",
    "falls",
    "whose",
    "marked",
    "labelled",
];
/// Words in names of fields to which a date without a field refers, best first.
pub(super) const GENERAL_DATES: [&str; 8] =
    ["date", "created", "published", "released", "issued", "opened", "time", "year"];
/// Words by which questions refer to fields of dates: each entry holds a word in names of fields,
/// and the synonyms of this word.
pub(super) const DATE_WORDS: [(&str, &[&str]); 6] = [
    (
        "created",
        &["opened", "reported", "filed", "raised", "submitted", "logged", "made", "written"],
    ),
    ("updated", &["changed", "modified", "edited", "revised"]),
    ("closed", &["resolved", "finished", "solved", "completed"]),
    ("hired", &["joined", "employed", "started"]),
    ("released", &["launched", "published", "out"]),
    ("published", &["released", "appeared", "written"]),
];
