//! Writes a question in its usual form before it is split into mentions.

use std::borrow::Cow;

use crate::{lexicon::rows, schema::Schema};
use agent_ground::words::quoted_ranges;

/// Polite phrases at the start of a question; they have no meaning of their own.
const POLITE: [&str; 8] = [
    "could you",
    "can you",
    "would you",
    "please",
    "tell me",
    "i want to know",
    "i'd like to know",
    "do you know",
];

/// Spells out `has it been` and a `%` without a number, drops polite phrases at the start,
/// and replaces words by their usual form in the lexicon: `could you tell me what % of papers`
/// becomes `what percent of papers`.
pub(crate) fn spelled_out<'a>(schema: &Schema, question: &'a str) -> Cow<'a, str> {
    let mut rest = question.trim_start();
    let without = |text: &'_ str, polite: &str| -> Option<usize> {
        let begins = text.get(..polite.len()).is_some_and(|own| own.eq_ignore_ascii_case(polite));
        let behind = text.get(polite.len()..).filter(|_| begins)?;
        behind
            .starts_with([' ', ','])
            .then(|| text.len() - behind.trim_start_matches([' ', ',']).len())
    };
    while let Some(length) = POLITE.iter().find_map(|polite| without(rest, polite)) {
        rest = &rest[length..];
    }
    let mut text = Cow::Borrowed(rest);
    // `has it been paid` asks what `is it paid` asks.
    if let Some(length) = without(rest, "has")
        && let Some((subject, state)) = rest[length..].split_once(" been ")
        && !is_quoted(rest, length + subject.len())
    {
        text = Cow::Owned(format!("is {subject} {state}"));
    }
    for (common, others) in rows("written") {
        for other in others {
            if let Some(at) = word_at(&text, other) {
                text = Cow::Owned(format!("{}{common}{}", &text[..at], &text[at + other.len()..]));
            }
        }
    }
    // `loan_no L-7` is the loan L-7, since ids are no fields.
    for end in ["_no", "_id", "_nr", "_code"] {
        let is_code = |text: &str, at: usize| {
            let start = text[..at].rfind(' ').map_or(0, |space| space + 1);
            let behind = at + end.len();
            !text[behind..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
                && !is_quoted(text, at)
                && schema.base.kb.field_id(&text[start..behind]).is_none()
        };
        let place = |text: &str| {
            let mut places = text.match_indices(end).map(|(at, _)| at);
            places.find(|at| is_code(text, *at))
        };
        while let Some(at) = place(&text) {
            text = Cow::Owned(format!("{}{}", &text[..at], &text[at + end.len()..]));
        }
    }
    let is_bare =
        |(at, _): &(usize, &str)| !text[..*at].trim_end().ends_with(|c: char| c.is_ascii_digit());
    if let Some((at, sign)) = text.match_indices('%').find(is_bare) {
        text = Cow::Owned(format!("{} percent {}", &text[..at], &text[at + sign.len()..]));
    }
    text
}

/// Returns the byte position of whole words in a text, ignoring ASCII case; `None` if they do not
/// occur, or occur in a quotation.
fn word_at(text: &str, words: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let is_whole = |(at, _): &(usize, &str)| {
        !lower[..*at].ends_with(char::is_alphanumeric)
            && !lower[*at + words.len()..].starts_with(char::is_alphanumeric)
            && !is_quoted(&lower, *at)
    };
    lower.match_indices(words).find(is_whole).map(|(at, _)| at)
}

/// Whether a byte position of a text is in a quotation.
fn is_quoted(text: &str, at: usize) -> bool {
    quoted_ranges(text).iter().any(|range| range.contains(&at))
}
