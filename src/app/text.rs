//! Numbers as messages write them, and how much of a list they show.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_read_well() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
