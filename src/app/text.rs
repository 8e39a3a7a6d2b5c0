//! Numbers and texts as messages write them, and how much of a list they show.

use std::fmt::Display;

/// Nodes of an answer at most.
pub const MAX_K: u64 = 10_000;
/// Characters of a name in a message, and names in a list, at most.
pub const MAX_SHOWN: usize = 80;

/// A count with a comma between thousands.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun, which takes an s.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Whether a character steers a terminal, ends a line where nobody looks for it, or turns the
/// direction of text. Those that join or part letters are needed to write, and stay.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text on one line, of `limit` characters at most, without hidden characters.
pub fn plain(text: impl Display, limit: usize) -> String {
    let text = text.to_string();
    let mut chars = text.chars().map(|c| if is_hidden(c) { ' ' } else { c });
    let mut shown: String = chars.by_ref().take(limit).collect();
    if chars.next().is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
