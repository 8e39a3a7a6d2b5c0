//! Writes a question in its usual form before it is split into mentions.

use crate::lexicon::rows;
use agent_ground::words::quoted_ranges;

/// Drops polite phrases at the start, spells out `has it been` and a `%` without a number, and
/// replaces words by their usual form in the lexicon: `could you tell me what % of papers` becomes
/// `what percent of papers`.
pub(crate) fn spelled_out(question: &str) -> String {
    let mut text = question.trim_start();
    let behind = |text: &str, words: &str| -> Option<usize> {
        let begins = text.get(..words.len())?.eq_ignore_ascii_case(words);
        let rest = text.get(words.len()..).filter(|rest| begins && rest.starts_with([' ', ',']))?;
        Some(text.len() - rest.trim_start_matches([' ', ',']).len())
    };
    let polite: Vec<&str> = rows("polite").flat_map(|(_, phrases)| phrases).collect();
    while let Some(begin) = polite.iter().find_map(|phrase| behind(text, phrase)) {
        text = &text[begin..];
    }
    let mut written = text.to_owned();
    // `has it been paid` asks what `is it paid` asks.
    if let Some(begin) = behind(text, "has")
        && let Some((subject, state)) = text[begin..].split_once(" been ")
        && !is_quoted(text, begin + subject.len())
    {
        written = format!("is {subject} {state}");
    }
    for (usual, others) in rows("written") {
        for other in others {
            if let Some(at) = word_at(&written, other) {
                written.replace_range(at..at + other.len(), usual);
            }
        }
    }
    let is_bare = |(at, _): &(usize, &str)| {
        !written[..*at].trim_end().ends_with(|c: char| c.is_ascii_digit())
    };
    if let Some((at, sign)) = written.match_indices('%').find(is_bare) {
        written = format!("{} percent {}", &written[..at], &written[at + sign.len()..]);
    }
    written
}

/// Returns the byte position of whole words in a text, ignoring ASCII case; `None` if they do not
/// occur, or occur in a quotation.
fn word_at(text: &str, words: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let is_whole = |(at, _): &(usize, &str)| {
        !lower[..*at].ends_with(char::is_alphanumeric)
            && !lower[*at + words.len()..].starts_with(char::is_alphanumeric)
            && !is_quoted(&lower, *at)
    };
    lower.match_indices(words).find(is_whole).map(|(at, _)| at)
}

/// Whether a byte position of a text is in a quotation.
fn is_quoted(text: &str, at: usize) -> bool {
    quoted_ranges(text).iter().any(|range| range.contains(&at))
}
