//! Advice of the comparator that led to an accepted program. Prompts for other categories show this
//! advice.

use serde_json::{Value, json};

use crate::actor::execution_trace::cut;
use agent_ground::words::one_line;

/// Maximum number of pieces of advice from other categories in a prompt.
const MAX_PIECES: usize = 2;
/// Maximum length in characters of a piece of advice; longer advice is cut at the end of a
/// sentence.
const ADVICE_CHARS: usize = 600;

/// A piece of the comparator's advice that led to an accepted program.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AcceptedAdvice {
    /// Name of the category whose program followed the advice.
    pub(super) category: String,
    /// Text of the advice.
    pub(super) advice: String,
    /// Mean reciprocal rank on the category's training queries before the program was changed by
    /// this advice; `after` holds the mean after this change.
    pub(super) before: f64,
    pub(super) after: f64,
}

/// Returns the advice with the largest gain from each category other than `category`, largest gain
/// first, for a prompt. Advice with equal gains is in order of acceptance. Returns at most
/// [`MAX_PIECES`] pieces.
pub(super) fn advice_from_others(accepted: &[AcceptedAdvice], category: &str) -> Value {
    let mut best: Vec<&AcceptedAdvice> = Vec::new();
    for piece in accepted.iter().filter(|piece| piece.category != category) {
        match best.iter_mut().find(|other| other.category == piece.category) {
            Some(other) if piece.gain() > other.gain() => *other = piece,
            Some(_) => {}
            None => best.push(piece),
        }
    }
    best.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
    let value = |piece: &&AcceptedAdvice| {
        json!({
            "category": piece.category,
            "before": piece.before,
            "after": piece.after,
            "advice": sentences(instructions(&piece.advice), ADVICE_CHARS),
        })
    };
    best.iter().take(MAX_PIECES).map(value).collect()
}

/// Returns the part of the advice that begins with the first numbered instruction. The text before
/// this instruction is about queries of the advice's own category.
fn instructions(advice: &str) -> &str {
    advice.find("1. ").and_then(|at| advice.get(at..)).unwrap_or(advice)
}

/// Cuts a text to the whole sentences that fit into `max_chars` characters; if not even the first
/// sentence fits, cuts this sentence.
fn sentences(text: &str, max_chars: usize) -> String {
    let line = one_line(text);
    let Some((limit, _)) = line.char_indices().nth(max_chars) else { return line };
    // The period after an instruction's number does not end a sentence.
    let ends = |&(at, _): &(usize, &str)| {
        at < limit && !line[..at].ends_with(|before: char| before.is_ascii_digit())
    };
    let last = line.match_indices(". ").filter(ends).last();
    last.map_or_else(|| cut(&line, max_chars), |(at, _)| line[..=at].to_owned())
}

impl AcceptedAdvice {
    fn gain(&self) -> f64 {
        self.after - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_cut_to_whole_sentences() {
        let advice = "1. Link less text. 2. Count names twice.\nThen rank by words.";
        assert_eq!(sentences(advice, 100), advice.replace('\n', " "));
        assert_eq!(sentences(advice, 40), "1. Link less text. 2. Count names twice.");
        assert_eq!(sentences(advice, 39), "1. Link less text.");
        assert_eq!(sentences(advice, 12), cut(advice, 12), "the first sentence is longer");
    }

    #[test]
    fn the_best_advice_of_other_categories_is_shown() {
        let accepted = |category: &str, after: f64| AcceptedAdvice {
            category: category.to_owned(),
            advice: format!("to {after}\nby care"),
            before: 0.5,
            after,
        };
        let all = [accepted("a", 0.6), accepted("b", 0.9), accepted("c", 0.55), accepted("a", 0.7)];
        let shown = advice_from_others(&all, "b");
        let advice: Vec<&str> =
            shown.as_array().unwrap().iter().map(|one| one["advice"].as_str().unwrap()).collect();
        assert_eq!(advice, ["to 0.7 by care", "to 0.55 by care"]);
        assert_eq!(advice_from_others(&all[1..2], "b"), json!([]));
        let long = "The bad queries name two.\n\n1. Link less.\n2. Unite.";
        assert_eq!(instructions(long), "1. Link less.\n2. Unite.");
        assert_eq!(instructions("link less"), "link less");
    }
}
