//! SQL text functions that replace those of SQLite, which take time proportional to the product of
//! the lengths of two texts. All functions but `like` are linear, and each checks the limits of the
//! statement before it starts.

use std::sync::Arc;

use rusqlite::{
    Connection, Error, Result,
    functions::Context,
    types::{Value, ValueRef},
};

use crate::{
    distinct,
    table::{
        database::{FLAGS, MAX_PATTERN, MAX_TEXT},
        watch::Watch,
    },
};

/// Implementation of a function; its arguments are texts. Called only if no argument is null.
type Function = fn(&[&str]) -> Result<Value>;

/// Names of the functions that this module replaces.
pub(super) const NAMES: [&str; 6] = ["instr", "like", "ltrim", "replace", "rtrim", "trim"];

/// Registers the functions of this module with a connection, whose limits `watch` checks.
pub(super) fn register(connection: &Connection, watch: &Arc<Watch>) -> Result<()> {
    let texts: [(&str, i32, Function); 10] = [
        ("instr", 2, |of| Ok(instr(of[0], of[1]).into())),
        ("like", 2, |of| like(of[0], of[1], None)),
        ("like", 3, |of| like(of[0], of[1], Some(of[2]))),
        ("replace", 3, |of| replace(of[0], of[1], of[2]).map(Value::from)),
        ("trim", 1, |of| Ok(of[0].trim_matches(' ').to_owned().into())),
        ("trim", 2, |of| Ok(of[0].trim_matches(among(of[1])).to_owned().into())),
        ("ltrim", 1, |of| Ok(of[0].trim_start_matches(' ').to_owned().into())),
        ("ltrim", 2, |of| Ok(of[0].trim_start_matches(among(of[1])).to_owned().into())),
        ("rtrim", 1, |of| Ok(of[0].trim_end_matches(' ').to_owned().into())),
        ("rtrim", 2, |of| Ok(of[0].trim_end_matches(among(of[1])).to_owned().into())),
    ];
    for (name, n, function) in texts {
        let watch = watch.clone();
        connection.create_scalar_function(name, n, FLAGS, move |context| {
            if watch.is_to_stop() {
                return Err(failure("it is stopped"));
            }
            let given: Option<Vec<String>> =
                (0..context.len()).map(|at| text(context, at)).collect();
            let Some(given) = given else { return Ok(None) };
            function(&given.iter().map(String::as_str).collect::<Vec<_>>()).map(Some)
        })?;
    }
    Ok(())
}

fn failure(why: &str) -> Error {
    Error::UserFunctionError(why.into())
}

/// Returns the argument at `at`, from 0, as text; `None` for null. Real numbers get 15 significant
/// digits.
fn text(context: &Context<'_>, at: usize) -> Option<String> {
    match context.get_raw(at) {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => {
            let rounded = format!("{number:.14e}").parse().unwrap_or(number);
            Some(format!("{rounded:?}"))
        }
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            Some(String::from_utf8_lossy(text).into_owned())
        }
    }
}

/// Returns the position, in characters from 1, of the first occurrence of `part` in `text`; 0 if
/// there is none.
fn instr(text: &str, part: &str) -> i64 {
    text.find(part).map_or(0, |at| text[..at].chars().count() as i64 + 1)
}

fn replace(text: &str, part: &str, by: &str) -> Result<String> {
    if part.is_empty() {
        return Ok(text.to_owned());
    }
    let grown = text.matches(part).count() * by.len().saturating_sub(part.len());
    if text.len() + grown > MAX_TEXT as usize {
        return Err(failure("string or blob too big"));
    }
    Ok(text.replace(part, by))
}

/// Returns a function that checks whether a character is one of `these`.
fn among(these: &str) -> impl Fn(char) -> bool {
    let these: Vec<char> = distinct(these.chars().collect());
    move |c| these.binary_search(&c).is_ok()
}

/// A part of a `LIKE` pattern.
#[derive(Clone, Copy)]
enum Part {
    /// `%`: any number of characters.
    Any,
    /// `_`: any one character.
    One,
    /// This character; an ASCII letter in either case.
    This(char),
}

fn like(pattern: &str, text: &str, escape: Option<&str>) -> Result<Value> {
    if pattern.len() > MAX_PATTERN as usize {
        return Err(failure("LIKE or GLOB pattern too complex"));
    }
    let mut escapes = escape.unwrap_or_default().chars();
    let escape = match (escape, escapes.next(), escapes.next()) {
        (None, ..) => None,
        (Some(_), Some(c), None) => Some(c),
        _ => return Err(failure("ESCAPE expression must be a single character")),
    };
    let (mut parts, mut chars) = (Vec::with_capacity(pattern.len()), pattern.chars());
    while let Some(c) = chars.next() {
        parts.push(match c {
            c if Some(c) == escape => match chars.next() {
                Some(next) => Part::This(next),
                None => return Ok(Value::Integer(0)),
            },
            '%' => Part::Any,
            '_' => Part::One,
            c => Part::This(c),
        });
    }
    Ok(Value::Integer(matches(&parts, text).into()))
}

/// Whether a text matches a `LIKE` pattern. Time: at most the product of their lengths.
fn matches(parts: &[Part], mut text: &str) -> bool {
    let mut at = 0;
    // Backtracking point: the part after the last `Any`, and the text it was tried on.
    let mut again: Option<(usize, &str)> = None;
    loop {
        let mut chars = text.chars();
        match (parts.get(at), chars.next()) {
            (None, None) => return true,
            (Some(Part::Any), _) => {
                at += 1;
                if at == parts.len() {
                    return true;
                }
                again = Some((at, text));
            }
            (Some(Part::One), Some(_)) => (at, text) = (at + 1, chars.as_str()),
            (Some(Part::This(c)), Some(d)) if c.eq_ignore_ascii_case(&d) => {
                (at, text) = (at + 1, chars.as_str());
            }
            // The text is used up, so a later start cannot match either.
            (_, None) => return false,
            _ => {
                let Some((from, start)) = again else { return false };
                let mut chars = start.chars();
                chars.next();
                (at, text) = (from, chars.as_str());
                again = Some((at, text));
            }
        }
    }
}
