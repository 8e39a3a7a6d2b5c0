//! Snippets: the part of a node's fields that best matches a query, with matching words marked.

use std::collections::{BTreeMap, BTreeSet};

use agent_ground::words::{Stems, name_words, one_line};
use agent_index::IndexedBase;
use agent_kb::{NodeId, answer::Explanation};

/// Maximum number of words of a field that are examined, from its beginning.
const MAX_WORDS: usize = 4_096;
/// Maximum number of words of a snippet.
const PART_WORDS: usize = 16;
/// Maximum number of words before the first match in a snippet, unless the snippet reaches the end
/// of the text.
const BEFORE: usize = 2;

/// Finds the part of a node's fields with the most distinct stems of the query (of several such
/// parts, the first), and puts asterisks around matching words. Returns `None` if nothing matches.
/// O(words of the fields).
pub(super) fn snippet(base: &IndexedBase, query: &str, node: NodeId) -> Option<Explanation> {
    let query_stems: BTreeSet<String> = base.stems.of(query).collect();
    let kb = &base.kb;
    let parts = kb.fields(node).filter_map(|(field, text)| {
        Some((kb.field_name(field), part(&base.stems, &query_stems, text)?))
    });
    let best = parts.reduce(|best, next| if next.1.0 > best.1.0 { next } else { best });
    best.map(|(field, (_, part))| Explanation::new(format!("in {field}"), format!("\"{part}\"")))
}

/// Returns the first term of a word if the query contains more than half of the word's terms, else
/// `None`. A compound word has several terms.
fn matched(stems: &Stems, query_stems: &BTreeSet<String>, word: &str) -> Option<String> {
    let terms = stems.terms(word);
    let n = terms.iter().filter(|term| query_stems.contains(*term)).count();
    (n * 2 > terms.len()).then(|| terms.into_iter().next()).flatten()
}

/// Returns the number of distinct matches in the best part of a text, and that part with matches
/// marked; `None` without a match.
fn part(stems: &Stems, query_stems: &BTreeSet<String>, text: &str) -> Option<(usize, String)> {
    let words: Vec<_> = name_words(text).take(MAX_WORDS).collect();
    let matches: BTreeMap<usize, String> = words
        .iter()
        .enumerate()
        .filter_map(|(index, (_, word))| Some((index, matched(stems, query_stems, word)?)))
        .collect();
    let window = |first: usize| {
        let last = words.len().saturating_sub(PART_WORDS);
        let start = first.saturating_sub(BEFORE).min(last);
        start..words.len().min(start + PART_WORDS)
    };
    let distinct = |first: usize| {
        matches.range(window(first)).map(|(_, stem)| stem).collect::<BTreeSet<_>>().len()
    };
    let better =
        |best: (usize, usize), next: (usize, usize)| if next.1 > best.1 { next } else { best };
    let (first, n) = matches.keys().map(|&first| (first, distinct(first))).reduce(better)?;
    let shown = window(first);
    let whole = shown.end == words.len() && words.len() < MAX_WORDS;
    let end = if whole { text.len() } else { words.get(shown.end - 1)?.0.end };
    let (mut part, mut offset) = match shown.start {
        0 => (String::new(), 0),
        start => ("... ".to_owned(), words.get(start)?.0.start),
    };
    for (index, _) in matches.range(shown.clone()) {
        let range = words[*index].0.clone();
        part += &text[offset..range.start];
        part += &format!("*{}*", &text[range.clone()]);
        offset = range.end;
    }
    part += &text[offset..end];
    if !whole {
        part += " ...";
    }
    Some((n, one_line(&part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_with_most_different_words_of_the_query_is_shown() {
        let stems = Stems::default();
        let snippet = |query: &str, text: &str| {
            let query_stems: BTreeSet<String> = stems.of(query).collect();
            part(&stems, &query_stems, text)
        };
        let rest = " and so on".repeat(6);
        let text = format!("Bottles, bottles.{rest} A bottle of\n steel, for hikers{rest}");
        let (n, shown) = snippet("steel bottles for hiking", &text).unwrap();
        assert_eq!(n, 2);
        assert!(shown.starts_with("... on A *bottle* of *steel*, for hikers and"), "{shown}");
        assert!(shown.ends_with(" ..."), "{shown}");
        assert_eq!(snippet("Steel", "(steel dart.)"), Some((1, "(*steel* dart.)".to_owned())));
        let short = snippet("hikers", "A bottle for two hikers").unwrap();
        assert_eq!(short.1, "A bottle for two *hikers*", "a short text is shown whole");
        assert_eq!(snippet("wood", "steel dart"), None);
        assert_eq!(snippet("wood", ""), None);
    }
}
