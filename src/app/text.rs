//! Formats numbers and text for messages, and sets the maximum lengths of lists and names.

use std::fmt::Display;

use agent_retrieve::eval::Interval;

/// Maximum number of nodes that a request may ask for.
pub const MAX_K: u64 = 10_000;
/// Maximum length in characters of a name in a message; also the maximum number of names that a
/// message lists.
pub const MAX_SHOWN: usize = 80;
/// Smallest p-value that is shown as a number.
const LEAST_P: f64 = 0.0001;

/// Formats a count with commas between thousands: `12,345`.
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

/// Formats a count with its noun: `1 node`, `12,345 nodes`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Formats a p-value with four digits: `p 0.0123`; below 0.0001: `p < 0.0001`.
pub fn p_value(p: f64) -> String {
    if p < LEAST_P { format!("p < {LEAST_P}") } else { format!("p {p:.4}") }
}

/// Formats a p-value like [`p_value`], without the leading `p`, for a table column of this name:
/// `0.0123` or `< 0.0001`.
pub fn p_cell(p: f64) -> String {
    p_value(p).trim_start_matches("p ").to_owned()
}

/// Formats a mean and its interval, both from 0 to 1, in percent: `41.2 [38.0, 44.4]`.
pub fn percent(mean: f64, interval: Interval) -> String {
    format!("{:.1} [{:.1}, {:.1}]", 100.0 * mean, 100.0 * interval.low, 100.0 * interval.high)
}

/// Whether a character must not be printed: one that controls the terminal, breaks a line or
/// changes the direction of text. Joiners and non-joiners may be printed: some scripts need them.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Formats text in one line of at most `limit` characters. Replaces characters for which
/// [`is_hidden`] is true by spaces, and ends shortened text with an ellipsis.
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

    #[test]
    fn small_p_values_are_not_nothing() {
        let told = [0.0, 0.000_099, 0.0001, 0.0123, 1.0].map(p_value);
        assert_eq!(told, ["p < 0.0001", "p < 0.0001", "p 0.0001", "p 0.0123", "p 1.0000"]);
        assert_eq!([0.0, 0.5].map(p_cell), ["< 0.0001", "0.5000"]);
    }
}
