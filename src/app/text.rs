//! Numbers and text as messages write them, and how much of a list they show.

use std::fmt::Display;

use agent_retrieve::eval::Interval;

/// Nodes of an answer at most.
pub const MAX_K: u64 = 10_000;
/// Characters of a name in a message, and names in a list, at most.
pub const MAX_SHOWN: usize = 80;
/// Values of p below this one are not shown in digits.
const LEAST_P: f64 = 0.0001;

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

/// A p-value as statisticians write it: `p 0.0123`, or below what its digits show, `p < 0.0001`.
pub fn p_value(p: f64) -> String {
    if p < LEAST_P { format!("p < {LEAST_P}") } else { format!("p {p:.4}") }
}

/// A p-value in a cell of a column that is called `p`.
pub fn p_cell(p: f64) -> String {
    p_value(p).trim_start_matches("p ").to_owned()
}

/// A mean with its interval, both in percent.
pub fn percent(mean: f64, interval: Interval) -> String {
    format!("{:.1} [{:.1}, {:.1}]", 100.0 * mean, 100.0 * interval.low, 100.0 * interval.high)
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

    #[test]
    fn small_p_values_are_not_nothing() {
        let told = [0.0, 0.000_099, 0.0001, 0.0123, 1.0].map(p_value);
        assert_eq!(told, ["p < 0.0001", "p < 0.0001", "p 0.0001", "p 0.0123", "p 1.0000"]);
        assert_eq!([0.0, 0.5].map(p_cell), ["< 0.0001", "0.5000"]);
    }
}
