//! Splits a question into words and numbers. A number includes its unit.
//!
//! Does not decide what the words mean.

use std::ops::Range;

use crate::{
    lexicon::number_word,
    mentions::{MAX_WORDS, Token},
    schema::Schema,
};
use agent_ground::words::{long_form, name_words};
use agent_kb::table::value::quantity;

/// Codes of units, each with the words for the unit after a number.
const UNITS: [(&str, &[&str]); 4] = [
    ("%", &["%", "percent", "per cent"]),
    ("USD", &["dollars", "dollar", "bucks", "USD"]),
    ("EUR", &["euros", "euro", "EUR"]),
    ("GBP", &["pounds", "pound", "quid", "GBP"]),
];

/// Splits a text into words and numbers, at most one more than [`MAX_WORDS`]; a number includes its
/// unit.
pub(super) fn tokens(schema: &Schema, text: &str) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    for (range, word) in name_words(text) {
        let end = tokens.last().map_or(0, |last| last.range.end);
        if range.start < end || tokens.len() > MAX_WORDS {
            continue;
        }
        let written = text.get(range.clone()).unwrap_or_default();
        let begins = tokens.is_empty();
        let number = number_at(text, range.start).or_else(|| number_said(text, &range, &word));
        let range = number.as_ref().map_or(range.clone(), |(end, _)| range.start..*end);
        tokens.push(Token {
            marked: written.chars().any(|c| c.is_uppercase() && !begins || c.is_numeric()),
            stem: schema.base.stems.stem(long_form(&word).unwrap_or(&word)).into_owned(),
            word: word.into_owned(),
            number: number.map(|(_, number)| number),
            range,
        });
    }
    tokens
}

/// Reads a number word with the unit after it, as in `ten dollars`. Returns the byte position of
/// the unit's end, and the number with the unit's code; `None` without a unit.
fn number_said(
    text: &str,
    at: &Range<usize>,
    word: &str,
) -> Option<(usize, (f64, Option<String>))> {
    let number = number_word(word)?;
    let (length, unit) = unit_behind(text.get(at.end..)?)?;
    Some((at.end + length, (number, Some(unit.to_owned()))))
}

/// Reads a unit at the start of a text. Returns the byte position of the unit's end, and the unit's
/// code.
fn unit_behind(text: &str) -> Option<(usize, &'static str)> {
    let behind = text.trim_start();
    let ends = |word: &str| {
        let rest = behind.strip_prefix(word);
        rest.is_some_and(|rest| word == "%" || !rest.starts_with(char::is_alphanumeric))
    };
    let said = |words: &[&str]| words.iter().find(|word| ends(word)).map(|word| word.len());
    let (length, unit) = UNITS.iter().find_map(|(unit, words)| Some((said(words)?, *unit)))?;
    Some((text.len() - behind.len() + length, unit))
}

/// Reads the number in digits at a byte position. Returns the byte position of its end, including a
/// unit after it, and the number with the unit's code. A minus sign before the number and a
/// currency sign on either side are read too.
fn number_at(text: &str, start: usize) -> Option<(usize, (f64, Option<String>))> {
    let rest = text.get(start..)?;
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    // `05.2025` in `19.05.2025` is a part of a date.
    let ahead = text.get(..start)?.strip_suffix(['.', ',']).and_then(|text| text.chars().last());
    if !is_digit(rest.chars().next()) || is_digit(ahead) {
        return None;
    }
    let ends = |&(at, c): &(usize, char)| {
        !(c.is_ascii_digit() || matches!(c, '.' | ',') && is_digit(rest[at + 1..].chars().next()))
    };
    let mut end = rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at);
    let after = rest.get(end..)?;
    if after.starts_with(char::is_alphanumeric) {
        return None;
    }
    let mut number = quantity(&rest[..end])?;
    let before = text.get(..start)?.trim_end();
    for (sign, code) in [('$', "USD"), ('£', "GBP"), ('€', "EUR")] {
        if before.ends_with(sign) || after.trim_start().starts_with(sign) {
            number.unit = Some(code.to_owned());
        }
    }
    if let Some(minus) = before.strip_suffix('-')
        && minus.ends_with(' ')
    {
        number.number = -number.number;
    }
    if let Some((length, unit)) = unit_behind(after) {
        number.unit = Some(unit.to_owned());
        end += length;
    }
    Some((start + end, (number.number, number.unit)))
}
