//! English phrases of conditions.

use agent_kb::filter::Operator;

/// Words before a date that stands for its whole span, such as "in" before "March 2025".
pub(super) const IN: [&str; 6] = ["in", "during", "from", "of", "on", "dated"];
/// Phrases before a date that is a limit, such as "since", with the operator of the condition.
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
/// Phrases before a number, such as "at least", with the operator of the condition.
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
/// Words after which "no" negates, as in "with no product".
pub(super) const HAVING: [&str; 5] = ["with", "has", "have", "having", "had"];
/// Phrases before the name of a single node that is excluded.
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
/// Words by which questions refer to fields of dates: for a word in the field's name, its synonyms.
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
