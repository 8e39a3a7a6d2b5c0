//! Writes foreign text into the source of a program: as a string literal that reads back as the
//! same text, or as part of a comment that it cannot end. The text may come from a dataset, a
//! question or a model.

use std::fmt::Write;

use agent_ground::words::is_control;

/// Formats a text as a string literal of Rhai, quotes included. Escapes quotes, backslashes and
/// [control characters](is_control) only; letters of all scripts, combining marks and joiners stay.
/// O(text).
///
/// Rust's `{:?}` also escapes marks and joiners, as `\u{301}`, which Rhai does not read.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        push_visible(&mut out, c);
    }
    out.push('"');
    out
}

/// Formats texts as an array literal of Rhai.
pub fn literals<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(literal).collect();
    format!("[{}]", texts.join(", "))
}

/// Formats a text for a line comment of a program: [control characters](is_control) are escaped as
/// in a literal, so that the text cannot end the line.
pub fn comment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_visible(&mut out, c));
    out
}

/// Appends a character, or its escape if it is a control character.
fn push_visible(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        // All have four digits; writing to a string cannot fail.
        c if is_control(c) => drop(write!(out, "\\u{:04x}", u32::from(c))),
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::{comment, literal, literals};

    #[test]
    fn only_what_reads_as_something_else_is_escaped() {
        for (text, written) in [
            ("plain", r#""plain""#),
            ("a \"b\" \\ c", r#""a \"b\" \\ c""#),
            ("a\nb\r\tc\u{1b}\u{2028}\u{202e}", r#""a\nb\r\tc\u001b\u2028\u202e""#),
            (
                "e\u{301} \u{e01}\u{e33} \u{ad}\u{200d}\u{200f}",
                "\"e\u{301} \u{e01}\u{e33} \u{ad}\u{200d}\u{200f}\"",
            ),
            ("`${x}`", "\"`${x}`\""),
        ] {
            assert_eq!(literal(text), written);
        }
        assert_eq!(literals(["a", "\""]), r#"["a", "\""]"#);
        assert_eq!(literals([]), "[]");
        assert_eq!(
            comment("\"a\"\nfn retrieve\r\u{85}\u{2029}"),
            r#""a"\nfn retrieve\r\u0085\u2029"#
        );
    }
}
