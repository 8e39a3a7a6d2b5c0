//! Exact mentions: names that occur in a text as consecutive words, in the same form.
//!
//! Linking favours recall; exact mentions favour precision: no typos, no initials, no partial
//! names, and only the longest of overlapping names.

use std::ops::Range;

use crate::entities::{ACRONYM, EntityIndex, MAX_EXACT_WORDS, SYMBOL, forms::Key};
use agent_ground::words::{is_part, is_question_word, name_words};
use agent_kb::{NodeId, distinct};

/// Maximum number of words of a text that are searched for names; later words are ignored.
const MAX_WORDS: usize = 256;

/// A name that occurs in a text word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExactMention {
    /// Positions of the mention's words among the [`name_words`] of the text.
    pub words: Range<usize>,
    /// The nodes that have this name, ascending; at least one.
    pub nodes: Vec<NodeId>,
    /// Whether the mention stands out: it is in quotation marks, has several words, or has a word
    /// with a digit or with a capital that does not merely begin the text.
    pub marked: bool,
    /// Whether the mention is in quotation marks.
    pub quoted: bool,
}

/// A word of the text that is searched.
struct Word {
    range: Range<usize>,
    folded: String,
    asks: bool,
    /// Whether the word has a digit, or a capital other than the first letter of the text.
    marked: bool,
}

impl EntityIndex {
    /// Finds the exact mentions in a text, in order and without overlap. Where mentions overlap,
    /// the longest is kept; of equally long mentions, the first. A mention that consists only of
    /// question words counts only in quotation marks.
    pub fn exact_mentions(&self, text: &str) -> Vec<ExactMention> {
        let word = |(at, (range, folded)): (usize, (Range<usize>, std::borrow::Cow<'_, str>))| {
            let written = &text[range.clone()];
            // Texts usually begin with a capital, so a capital first letter does not count.
            let capital = written.chars().skip(usize::from(at == 0)).any(char::is_uppercase);
            let marked = capital || written.chars().any(char::is_numeric);
            Word { asks: is_question_word(&folded), marked, folded: folded.into_owned(), range }
        };
        let words: Vec<Word> = name_words(text).take(MAX_WORDS).enumerate().map(word).collect();
        let mut found: Vec<ExactMention> =
            (0..words.len()).flat_map(|start| self.mentions_from(text, &words, start)).collect();
        found.sort_by_key(|mention| (std::cmp::Reverse(mention.words.len()), mention.words.start));
        let mut kept: Vec<ExactMention> = Vec::new();
        for mention in found {
            let apart = |other: &ExactMention| {
                other.words.end <= mention.words.start || mention.words.end <= other.words.start
            };
            if kept.iter().all(apart) {
                kept.push(mention);
            }
        }
        kept.sort_by_key(|mention| mention.words.start);
        kept
    }

    /// Finds the mentions that start at the word `start`, shortest first.
    fn mentions_from(&self, text: &str, words: &[Word], start: usize) -> Vec<ExactMention> {
        let mut found = Vec::new();
        let mut key = Key::of_words();
        for (n, word) in (1..=MAX_EXACT_WORDS).zip(words.iter().skip(start)) {
            key = key.then(&word.folded);
            let span = start..start + n;
            let span_words = &words[span.clone()];
            let quoted = is_quoted(text, words[start].range.start, word.range.end);
            let asks = span_words.iter().all(|word| word.asks);
            let is_part = n == 1 && is_part(text, &word.range);
            if (asks || is_part) && !quoted {
                continue;
            }
            let marked = quoted || n > 1 || span_words.iter().any(|word| word.marked);
            let entries = self.entries_with(key).iter();
            let nodes: Vec<NodeId> = distinct(
                entries
                    .filter(|&&entry| self.is_exact(entry, n, span_words, quoted))
                    .filter_map(|&entry| self.entry_node.as_slice().get(entry as usize).copied())
                    .collect(),
            );
            if !nodes.is_empty() {
                found.push(ExactMention { words: span, nodes, marked, quoted });
            }
        }
        found
    }

    /// Whether a mention of `n` words, whose hash is that of an entry, matches the entry exactly.
    /// The entry must have `n` words and must not be the initials of a name. If the entry is a
    /// symbol of one word, the mention must also be in quotation marks or contain a capital or a
    /// digit.
    fn is_exact(&self, entry: u32, n: usize, words: &[Word], quoted: bool) -> bool {
        let flags = self.entry_flags.as_slice().get(entry as usize).copied().unwrap_or(0);
        let n_words = self.entry_words.as_slice().get(entry as usize).copied().unwrap_or(0);
        let own_case = quoted || flags & SYMBOL == 0 || n > 1 || words.iter().any(|w| w.marked);
        flags & ACRONYM == 0 && usize::from(n_words) == n && own_case
    }
}

/// Whether `text[start..end]` is in quotation marks, possibly with other punctuation between.
fn is_quoted(text: &str, start: usize, end: usize) -> bool {
    let is_mark = |c: &char| matches!(c, '"' | '\u{201c}' | '\u{201d}' | '\u{ab}' | '\u{bb}');
    let beside = |c: &char| !c.is_alphanumeric() && !c.is_whitespace();
    let before = text.get(..start).unwrap_or_default().chars().rev().take_while(beside);
    let after = text.get(end..).unwrap_or_default().chars().take_while(beside);
    before.clone().any(|c| is_mark(&c)) && after.clone().any(|c| is_mark(&c))
}
