//! Formats values like Python's `str` and `repr`, because documents of the benchmark contain texts
//! in that form.
//!
//! Numpy numbers are formatted like plain numbers, as in numpy before version 2. Python escapes
//! characters that are newer than its version of Unicode (14 for Python 3.11); this module does
//! not.

use unicode_normalization::UnicodeNormalization;

use crate::stark::pickle::{
    Value,
    printed::{float, single},
};

/// Formats a value like `str(value)`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::Printed(printed) => printed.text.to_string(),
        // `str` of a numpy.float32 alone first converts it to double precision.
        Value::Single(number) => float((*number).into()),
        other => {
            let mut out = String::new();
            push_repr(&mut out, other);
            out
        }
    }
}

/// Appends the output of `repr(value)` to `out`. The items of a set keep the order of the file.
fn push_repr(out: &mut String, value: &Value) {
    match value {
        Value::None => out.push_str("None"),
        Value::Bool(value) => out.push_str(if *value { "True" } else { "False" }),
        Value::Int(number) => *out += &number.to_string(),
        Value::Float(number) => *out += &float(*number),
        Value::Single(number) => *out += &single(*number),
        Value::Printed(printed) => out.push_str(&printed.repr),
        Value::Str(text) => push_quoted(out, text.chars().map(|c| (c, is_printable(c)))),
        Value::Bytes(bytes) => {
            out.push('b');
            push_quoted(out, bytes.iter().map(|byte| (char::from(*byte), byte.is_ascii())));
        }
        Value::List(items) => push_items(out, ["[", "]"], items, push_repr),
        Value::Tuple(items) if items.len() == 1 => push_items(out, ["(", ",)"], items, push_repr),
        Value::Tuple(items) => push_items(out, ["(", ")"], items, push_repr),
        Value::Set(items) if items.is_empty() => out.push_str("set()"),
        Value::Set(items) => push_items(out, ["{", "}"], items, push_repr),
        Value::Dict(items) => push_items(out, ["{", "}"], items, |out, (key, value)| {
            push_repr(out, key);
            out.push_str(": ");
            push_repr(out, value);
        }),
        Value::Call(call) => out.push_str(&call.name),
    }
}

/// Appends items between `ends`, separated by commas; `push` appends one item.
fn push_items<T>(out: &mut String, ends: [&str; 2], items: &[T], push: fn(&mut String, &T)) {
    out.push_str(ends[0]);
    for (at, item) in items.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        push(out, item);
    }
    out.push_str(ends[1]);
}

/// Appends characters in quotes; the flag of each character is true if the character is printable.
/// Double quotes are used if the text has single quotes but no double quotes, otherwise single
/// quotes.
fn push_quoted(out: &mut String, chars: impl Iterator<Item = (char, bool)> + Clone) {
    let has = |sought| chars.clone().any(|(c, _)| c == sought);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    out.push(quote);
    for (c, is_printable) in chars {
        let code = u32::from(c);
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote || c == '\\' => out.extend(['\\', c]),
            c if is_printable && !c.is_control() => out.push(c),
            _ if code < 0x100 => *out += &format!("\\x{code:02x}"),
            _ if code < 0x10000 => *out += &format!("\\u{code:04x}"),
            _ => *out += &format!("\\U{code:08x}"),
        }
    }
    out.push(quote);
}

/// Whether Python's `str.isprintable` is true for a character: all except controls, formats,
/// separators other than the space, surrogates, and private and unassigned characters. Rust's debug
/// format escapes the same characters.
fn is_printable(c: char) -> bool {
    c.is_ascii() || String::from_iter(['a', c]).escape_debug().count() == 2
}

/// Whether Python's `str.isspace` is true for a character; `\s` matches the same characters.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Parses an integer of at most 64 bits like Python's `int(text)`: surrounding space, a sign,
/// single underscores between digits, and full-width digits are allowed. `None` for any other text.
pub(super) fn int(text: &str) -> Option<i64> {
    let text: String = text.trim_matches(is_space).nfkc().collect();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    digits.split('_').all(is_number).then(|| text.replace('_', "").parse().ok())?
}

/// Returns `bool(value)` of Python: false for empty, zero and `None` values.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::None => false,
        Value::Bool(value) => *value,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::Single(number) => *number != 0.0,
        Value::Str(text) => !text.is_empty(),
        Value::Bytes(bytes) => !bytes.is_empty(),
        Value::List(items) | Value::Tuple(items) | Value::Set(items) => !items.is_empty(),
        Value::Dict(items) => !items.is_empty(),
        // In Python, an empty range and a complex zero are false; no base has them here.
        Value::Printed(_) | Value::Call(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// Output of Python 3.11, written by `scripts/stark-fixtures.py`, with which the tests compare.
    #[derive(Deserialize)]
    struct Python {
        /// Bits of a float in hexadecimal, and the text that Python prints for it.
        floats: Vec<(String, String)>,
        strings: Vec<(String, String)>,
        /// First and last code point of each range of printable characters.
        printed: Vec<(u32, u32)>,
        /// First and last code point of each range of assigned characters that Python escapes.
        escaped: Vec<(u32, u32)>,
    }

    fn python() -> Python {
        serde_json::from_str(include_str!("../../../tests/data/stark/python.json")).unwrap()
    }

    #[test]
    fn floats_and_strings_are_written_as_python_writes_them() {
        let python = python();
        for (bits, expected) in &python.floats {
            let number = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
            assert_eq!(text(&Value::Float(number)), *expected, "{bits}");
        }
        for (string, expected) in &python.strings {
            let value = Value::List([Value::Str(string.as_str().into())].into());
            assert_eq!(text(&value), format!("[{expected}]"));
        }
        assert!(python.floats.len() > 300 && python.strings.len() == 200);
    }

    #[test]
    fn the_same_characters_are_escaped() {
        let python = python();
        for (ranges, is_printed) in [(python.printed, true), (python.escaped, false)] {
            assert!(!ranges.is_empty());
            for (first, last) in ranges {
                for c in (first..=last).filter_map(char::from_u32) {
                    let printed = text(&Value::Tuple([Value::Str(c.to_string().into())].into()));
                    assert_eq!(!printed.contains('\\') || c == '\\', is_printed, "{c:?}");
                }
            }
        }
    }

    #[test]
    fn whole_numbers_are_read_as_python_reads_them() {
        for (text, number) in [
            (" 12\n", Some(12)),
            ("1_000", Some(1000)),
            ("\u{ff11}\u{ff12}", Some(12)),
            ("-3", Some(-3)),
            ("1__0", None),
            ("_1", None),
            ("", None),
            ("1.5", None),
        ] {
            assert_eq!(int(text), number, "{text}");
        }
    }

    #[test]
    fn narrow_floats_show_their_own_digits_within_containers_only() {
        let number = Value::Single(0.1);
        assert_eq!(text(&number), "0.10000000149011612");
        assert_eq!(text(&Value::List([number].into())), "[0.1]");
    }

    #[test]
    fn containers_nest() {
        let number = Value::Int(-1);
        let key = Value::Str("it's".into());
        let list = Value::List([number.clone(), Value::None, Value::Bool(true)].into());
        let value = Value::Dict([(key, list), (number.clone(), Value::Tuple([].into()))].into());
        assert_eq!(text(&value), r#"{"it's": [-1, None, True], -1: ()}"#);
        assert_eq!(text(&Value::Tuple([number.clone()].into())), "(-1,)");
        assert_eq!(text(&Value::Bytes((*b"a'\xff\n").into())), r#"b"a'\xff\n""#);
        assert_eq!(text(&Value::Set([].into())), "set()");
        assert_eq!(text(&Value::Set([number].into())), "{-1}");
    }
}
