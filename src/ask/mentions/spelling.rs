//! Writes a question in its usual form before it is split into mentions.

use crate::lexicon::rows;
use agent_ground::words::quoted_ranges;

const MONTHS: &str = "january february march april may june july august september october november \
                      december";
/// Words between the two months of a range.
const RANGES: [&str; 7] = ["and", "to", "through", "until", "till", "-", "\u{2013}"];

/// Drops polite phrases at the start, spells out `has it been`, years and a `%` without a number,
/// and replaces words by their usual form in the lexicon: `could you tell me what % of papers` becomes
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
    written = with_years(&written);
    let is_bare = |(at, _): &(usize, &str)| {
        !written[..*at].trim_end().ends_with(|c: char| c.is_ascii_digit())
    };
    if let Some((at, sign)) = written.match_indices('%').find(is_bare) {
        written = format!("{} percent {}", &written[..at], &written[at + sign.len()..]);
    }
    written
}

/// Writes the year of the second month of a range after the first one too: `1 January 2025 to 30
/// June 2025`.
fn with_years(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let bare = |word: &str| word.trim_matches([',', '.', '?', '(', ')']).to_lowercase();
    let is_month = |word: &str| {
        MONTHS.split(' ').any(|month| {
            let begins = |n: usize| month.get(..n) == Some(bare(word).as_str());
            begins(month.len()) || begins(3)
        })
    };
    let is_year = |word: &&&str| bare(word).len() == 4 && bare(word).parse::<u16>().is_ok();
    let is_day = |word: &str| bare(word).len() < 3 && bare(word).parse::<u8>().is_ok();
    let mut written: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    for at in 0..words.len() {
        let behind = words.get(at + 1..).unwrap_or_default();
        let days = behind.iter().take_while(|word| is_day(word)).count();
        let [joins, rest @ ..] = &behind[days..] else { continue };
        let month = rest.iter().take(2).position(|word| is_month(word));
        if is_month(words[at])
            && RANGES.contains(&&*bare(joins))
            && let Some(month) = month
            && let Some(year) = rest[month + 1..].iter().take(2).find(is_year)
        {
            written[at + days] += &format!(" {}", bare(year));
        }
    }
    written.join(" ")
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
