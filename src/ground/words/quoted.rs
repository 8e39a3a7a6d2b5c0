//! Finds the quoted parts of a text, which are often names and titles.

use std::ops::Range;

/// Maximum number of quoted parts of a text; further parts are ignored.
const MAX_SPANS: usize = 32;

/// A quotation mark in a text.
struct Mark {
    /// Byte position at which the mark starts; `end` is the position after the mark.
    start: usize,
    end: usize,
    opens: bool,
    closes: bool,
    /// Whether the mark is straight and follows a digit, so that it may be the sign for inches.
    may_be_inches: bool,
}

/// Returns the parts of a text between quotation marks (`"`, `“”`, `«»`), in order, trimmed and
/// without the marks. Empty parts, and parts after the 32nd, are left out. A straight mark can open
/// a part if a non-blank follows it and no letter or digit precedes it; it can close a part if a
/// non-blank precedes it and no letter or digit follows it. A straight mark after a digit is taken
/// as the sign for inches if the next mark can only close. Takes time linear in the text.
pub fn quoted(text: &str) -> Vec<&str> {
    quoted_ranges(text).into_iter().filter_map(|range| text.get(range)).map(str::trim).collect()
}

/// Returns the byte ranges of the parts that [`quoted`] returns, before they are trimmed.
pub fn quoted_ranges(text: &str) -> Vec<Range<usize>> {
    let marks = marks(text);
    let mut spans = Vec::new();
    let mut at = 0;
    while let Some(open) = marks.get(at)
        && spans.len() < MAX_SPANS
    {
        at += 1;
        if !open.opens {
            continue;
        }
        let Some(close) = (at..marks.len()).find(|&close| ends(&marks, close)) else { break };
        let inside = open.end..marks[close].start;
        if text.get(inside.clone()).is_some_and(|part| !part.trim().is_empty()) {
            spans.push(inside);
        }
        at = close + 1;
    }
    spans
}

fn marks(text: &str) -> Vec<Mark> {
    let mut before: Option<char> = None;
    let mut chars = text.char_indices().peekable();
    let mut marks = Vec::new();
    while let Some((start, c)) = chars.next() {
        let after = chars.peek().map(|pair| pair.1);
        let is_word = |side: Option<char>| side.is_some_and(char::is_alphanumeric);
        let is_blank = |side: Option<char>| side.is_none_or(char::is_whitespace);
        let (opens, closes) = match c {
            '"' => (!is_word(before) && !is_blank(after), !is_word(after) && !is_blank(before)),
            '\u{201c}' | '\u{ab}' => (true, false),
            '\u{201d}' | '\u{bb}' => (false, true),
            _ => (false, false),
        };
        if opens || closes {
            let may_be_inches = c == '"' && before.is_some_and(|c| c.is_ascii_digit());
            marks.push(Mark { start, end: start + c.len_utf8(), opens, closes, may_be_inches });
        }
        before = Some(c);
    }
    marks
}

/// Whether the mark with index `at` closes a part that an earlier mark opened.
fn ends(marks: &[Mark], at: usize) -> bool {
    let only_closes = |mark: &Mark| mark.closes && !mark.opens;
    marks.get(at).is_some_and(|mark| {
        mark.closes && !(mark.may_be_inches && marks.get(at + 1).is_some_and(only_closes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_quotation_marks_is_found_in_order() {
        for (text, expected) in [
            ("products like \"Steel Dart\", by \"Dart World\".", &["Steel Dart", "Dart World"][..]),
            ("the \u{201c}red  kite\u{201d} and \u{ab} blau \u{bb}", &["red  kite", "blau"]),
            ("(\"a\")", &["a"]),
            ("\"4' USB A-to-C Cable - Black\" cables", &["4' USB A-to-C Cable - Black"]),
        ] {
            assert_eq!(quoted(text), expected, "{text}");
        }
    }

    #[test]
    fn inches_and_apostrophes_and_single_marks_quote_nothing() {
        for text in
            ["a 15\" laptop", "it's the dog's", "", "\"", "\"\"", "\" \"", "5\" or 6\" pipe"]
        {
            assert_eq!(quoted(text), [""; 0], "{text}");
        }
        assert_eq!(quoted("like \"Bag for a 15\" laptop\""), ["Bag for a 15\" laptop"]);
        assert_eq!(quoted("\"Windows 10\" and \"Office\""), ["Windows 10", "Office"]);
    }

    #[test]
    fn spans_are_bounded() {
        assert_eq!(quoted(&"\"a\" ".repeat(100)).len(), MAX_SPANS);
    }
}
