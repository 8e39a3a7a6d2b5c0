//! English phrases of conditions.

use agent_kb::filter::Operator;

/// Words before a date that is a whole span.
pub(super) const IN: [&str; 6] = ["in", "during", "from", "of", "on", "dated"];
/// Words before a date that begins or ends a span.
pub(super) const LIMITS: [(&[&str], Operator); 13] = [
    (&["earlier", "than"], Operator::Less),
    (&["older", "than"], Operator::Less),
    (&["prior", "to"], Operator::Less),
    (&["before"], Operator::Less),
    (&["not", "after"], Operator::AtMost),
    (&["up", "to"], Operator::AtMost),
    (&["until"], Operator::AtMost),
    (&["till"], Operator::AtMost),
    (&["later", "than"], Operator::More),
    (&["newer", "than"], Operator::More),
    (&["not", "before"], Operator::AtLeast),
    (&["after"], Operator::More),
    (&["since"], Operator::AtLeast),
];
/// Words before a number.
pub(super) const COMPARISONS: [(&[&str], Operator); 17] = [
    (&["no", "more", "than"], Operator::AtMost),
    (&["not", "more", "than"], Operator::AtMost),
    (&["no", "less", "than"], Operator::AtLeast),
    (&["no", "fewer", "than"], Operator::AtLeast),
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
/// Words that negate what follows.
pub(super) const NEGATIONS: [&str; 7] =
    ["not", "without", "except", "excluding", "never", "lacking", "nor"];
/// Words before which "no" negates.
pub(super) const HAVING: [&str; 5] = ["with", "has", "have", "having", "had"];
/// Phrases before a single node that is excluded.
pub(super) const OTHER_THAN: [&[&str]; 4] =
    [&["other", "than"], &["apart", "from"], &["aside", "from"], &["besides"]];
/// Words that join a condition to the rest of the question; meaningless without it.
pub(super) const JOINING: [&str; 24] = [
    "that", "which", "who", "whose", "is", "are", "was", "were", "be", "been", "being", "do",
    "does", "did", "has", "have", "had", "can", "will", "but", "and", "with", "any", "yet",
];
/// Meaningless words between a negation and a name.
pub(super) const FILLERS: [&str; 22] = [
    "a", "an", "the", "any", "in", "of", "by", "from", "with", "to", "at", "on", "for", "be",
    "been", "being", "about", "as", "have", "has", "used", "yet",
];
/// Words in names of fields to which a date without a field refers, best first.
pub(super) const GENERAL_DATES: [&str; 8] =
    ["date", "created", "published", "released", "issued", "opened", "time", "year"];
/// Synonyms for fields of dates.
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
