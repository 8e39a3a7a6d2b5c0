//! Cuts the parts of replies to their maximum size: texts between characters, lists between items.
//! Does not depend on the content of replies.

use serde_json::Value;

/// Maximum size of a reply as JSON, in bytes.
pub(crate) const REPLY_BYTES: usize = 8 << 10;
/// Maximum size in bytes of an error text as JSON.
pub(crate) const ERROR_BYTES: usize = 2 << 10;
/// Maximum length of a name in a reply, in characters.
pub(crate) const NAME_CHARS: usize = 120;

/// Returns a name, cut after [`NAME_CHARS`] characters and ended with `...` if it is longer.
pub(super) fn short(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// Returns the number of bytes that a character takes in a JSON string.
fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        control if u32::from(control) < 0x20 => 6,
        other => other.len_utf8(),
    }
}

/// Returns the longest part of a text that begins at byte `from` and takes at most `bytes` bytes as
/// JSON. Also returns the byte where the next part begins; `None` if the part reaches the end of
/// the text. If `from` is within a character, the part begins after that character.
pub(super) fn part(text: &str, from: usize, bytes: usize) -> (&str, Option<usize>) {
    let from = (from..=text.len()).find(|&at| text.is_char_boundary(at)).unwrap_or(text.len());
    let rest = text.get(from..).unwrap_or_default();
    let mut used = 0;
    for (at, character) in rest.char_indices() {
        used += json_bytes(character);
        if used > bytes {
            return (rest.get(..at).unwrap_or_default(), Some(from + at));
        }
    }
    (rest, None)
}

/// Returns the text of an error. Leaves out the middle of a text that takes more than
/// [`ERROR_BYTES`] bytes: such a text repeats a long argument, and ends with a remedy.
pub(super) fn cut_error(text: String) -> String {
    if part(&text, 0, ERROR_BYTES).1.is_none() {
        return text;
    }
    // A character takes up to 6 bytes as JSON, and `...` takes 3.
    let last = ERROR_BYTES / 8;
    let (end, _) = part(&text, text.len().saturating_sub(last), ERROR_BYTES);
    let (begin, _) = part(&text, 0, ERROR_BYTES - 6 * last - 3);
    format!("{begin}...{end}")
}

/// Returns the first items, as many as fit into `bytes` bytes as JSON; at least the first item, if
/// there is one.
pub(super) fn items(all: impl Iterator<Item = Value>, bytes: usize) -> Vec<Value> {
    let mut used = 0;
    let mut fitting = Vec::new();
    for item in all {
        used += item.to_string().len() + 1;
        if used > bytes && !fitting.is_empty() {
            break;
        }
        fitting.push(item);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_text_join_to_the_whole_and_each_fits() {
        let text = "Bücher \"über\"\n\u{1}日本 ".repeat(30);
        let (mut whole, mut next) = (String::new(), Some(0));
        while let Some(from) = next {
            let (piece, behind) = part(&text, from, 40);
            assert!(serde_json::to_string(piece).unwrap().len() <= 42, "{piece:?}");
            whole += piece;
            next = behind;
        }
        assert_eq!(whole, text);
        assert_eq!(part("日本", 1, 10), ("本", None), "within a character");
        assert_eq!(part("ab", 9, 10), ("", None));
    }

    #[test]
    fn an_error_keeps_its_beginning_and_its_remedy() {
        let long = |c: &str| format!("unknown {}: see the schema", c.repeat(30_000));
        for text in [long("x"), long("\u{1}"), long("\""), long("日")] {
            let cut = cut_error(text);
            assert!(serde_json::to_string(&cut).unwrap().len() <= ERROR_BYTES + 2, "{cut}");
            assert!(cut.starts_with("unknown ") && cut.ends_with(": see the schema"), "{cut}");
            assert!(cut.contains("..."), "{cut}");
        }
        assert_eq!(cut_error("unknown".to_owned()), "unknown");
    }

    #[test]
    fn items_are_taken_while_they_fit_and_never_none() {
        let all = || (0..10).map(Value::from);
        assert_eq!(items(all(), 6).len(), 3);
        assert_eq!(items(all(), 0).len(), 1);
        assert_eq!(items(all(), 1_000).len(), 10);
    }
}
