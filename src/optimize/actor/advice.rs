//! Advice that gained: what a comparator said of one category, and the program that followed was
//! kept, is told in the prompts of the others.
//!
//! Must not know: programs, queries.

use serde_json::{Value, json};

use crate::actor::execution_trace::cut;

/// Pieces of advice that are told.
const TOLD: usize = 2;
/// Characters of each, up to the end of a sentence.
const ADVICE_CHARS: usize = 600;

/// Advice whose program was kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gained {
    /// The category.
    pub(super) category: String,
    /// The advice.
    pub(super) advice: String,
    /// Mean reciprocal rank on the category's training queries, before and after.
    pub(super) before: f64,
    pub(super) after: f64,
}

/// What gained most in other categories than this, best first, ties the earlier first; of each
/// category its best.
pub(super) fn elsewhere(gained: &[Gained], category: &str) -> Value {
    let mut best: Vec<&Gained> = Vec::new();
    for one in gained.iter().filter(|one| one.category != category) {
        match best.iter_mut().find(|other| other.category == one.category) {
            Some(other) if one.gain() > other.gain() => *other = one,
            Some(_) => {}
            None => best.push(one),
        }
    }
    best.sort_by(|a, b| b.gain().total_cmp(&a.gain()));
    let told = |one: &&Gained| {
        json!({
            "category": one.category,
            "before": one.before,
            "after": one.after,
            "advice": sentences(instructions(&one.advice), ADVICE_CHARS),
        })
    };
    best.iter().take(TOLD).map(told).collect()
}

/// Advice without what comes before its first numbered instruction: that speaks of queries of its own
/// category.
fn instructions(advice: &str) -> &str {
    advice.find("1. ").and_then(|at| advice.get(at..)).unwrap_or(advice)
}

/// The sentences of a text that have so many characters together; where the first alone has more, its
/// beginning.
fn sentences(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some((limit, _)) = line.char_indices().nth(most) else { return line };
    // The number of an instruction ends no sentence.
    let ends = |&(at, _): &(usize, &str)| {
        at < limit && !line[..at].ends_with(|before: char| before.is_ascii_digit())
    };
    let last = line.match_indices(". ").filter(ends).last();
    last.map_or_else(|| cut(&line, most), |(at, _)| line[..=at].to_owned())
}

impl Gained {
    fn gain(&self) -> f64 {
        self.after - self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_told_in_whole_sentences() {
        let advice = "1. Link less text. 2. Count names twice.\nThen rank by words.";
        assert_eq!(sentences(advice, 100), advice.replace('\n', " "));
        assert_eq!(sentences(advice, 40), "1. Link less text. 2. Count names twice.");
        assert_eq!(sentences(advice, 39), "1. Link less text.");
        assert_eq!(sentences(advice, 12), cut(advice, 12), "the first sentence is longer");
    }

    #[test]
    fn the_best_advice_of_other_categories_is_told() {
        let gained = |category: &str, after: f64| Gained {
            category: category.to_owned(),
            advice: format!("to {after}\nby care"),
            before: 0.5,
            after,
        };
        let all = [gained("a", 0.6), gained("b", 0.9), gained("c", 0.55), gained("a", 0.7)];
        let told = elsewhere(&all, "b");
        let advice: Vec<&str> =
            told.as_array().unwrap().iter().map(|one| one["advice"].as_str().unwrap()).collect();
        assert_eq!(advice, ["to 0.7 by care", "to 0.55 by care"]);
        assert_eq!(elsewhere(&all[1..2], "b"), json!([]));
        let long = "The bad queries name two.\n\n1. Link less.\n2. Unite.";
        assert_eq!(instructions(long), "1. Link less.\n2. Unite.");
        assert_eq!(instructions("link less"), "link less");
    }
}
