//! Where a node says what a query asks: a part of one of its fields, with the words that match marked.
//! Must not know who ranked the node.

use std::collections::{BTreeMap, BTreeSet};

use agent_ground::words::{Stems, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, answer::Explanation};

/// Words of a field that are looked at.
const MAX_WORDS: usize = 4_096;
/// Words of a part, and of those how many stand before the first that matches, or more at the end of
/// a text.
const PART_WORDS: usize = 16;
const BEFORE: usize = 2;

/// The part of a field that has the most different stems of the query, of equals the first: some words
/// with asterisks around those that match. None if no field has any. O(words of the fields).
pub(super) fn snippet(base: &IndexedBase, query: &str, node: NodeId) -> Option<Explanation> {
    let asked: BTreeSet<String> = base.stems.of(query).collect();
    let kb = &base.kb;
    let mut best: Option<(usize, &str, String)> = None;
    for (field, text) in kb.fields(node) {
        if let Some((matched, part)) = part(&base.stems, &asked, text)
            && best.as_ref().is_none_or(|known| matched > known.0)
        {
            best = Some((matched, kb.field_name(field), part));
        }
    }
    best.map(|(_, field, part)| Explanation::new(format!("in {field}"), format!("\"{part}\"")))
}

/// The best part of a text, with the number of different stems of the query in it.
fn part(stems: &Stems, asked: &BTreeSet<String>, text: &str) -> Option<(usize, String)> {
    let words: Vec<_> = name_words(text).take(MAX_WORDS).collect();
    let matches: BTreeMap<usize, String> = words
        .iter()
        .enumerate()
        .map(|(at, (_, word))| (at, stems.stem(word).into_owned()))
        .filter(|(_, stem)| asked.contains(stem))
        .collect();
    let window = |first: usize| {
        let last = words.len().saturating_sub(PART_WORDS);
        let start = first.saturating_sub(BEFORE).min(last);
        start..words.len().min(start + PART_WORDS)
    };
    let different = |first: usize| {
        matches.range(window(first)).map(|(_, stem)| stem).collect::<BTreeSet<_>>().len()
    };
    let better =
        |best: (usize, usize), one: (usize, usize)| if one.1 > best.1 { one } else { best };
    let (first, n) = matches.keys().map(|&first| (first, different(first))).reduce(better)?;
    let shown = window(first);
    let whole = shown.end == words.len() && words.len() < MAX_WORDS;
    let end = if whole { text.len() } else { words.get(shown.end - 1)?.0.end };
    let (mut part, mut at) = match shown.start {
        0 => (String::new(), 0),
        start => ("... ".to_owned(), words.get(start)?.0.start),
    };
    for (place, _) in matches.range(shown.clone()) {
        let range = words[*place].0.clone();
        part += &text[at..range.start];
        part += &format!("*{}*", &text[range.clone()]);
        at = range.end;
    }
    part += &text[at..end];
    if !whole {
        part += " ...";
    }
    Some((n, part.split_whitespace().collect::<Vec<_>>().join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_with_most_different_words_of_the_query_is_shown() {
        let stems = Stems::default();
        let of = |query: &str, text: &str| {
            let asked: BTreeSet<String> = stems.of(query).collect();
            part(&stems, &asked, text)
        };
        let rest = " and so on".repeat(6);
        let text = format!("Bottles, bottles.{rest} A bottle of\n steel, for hikers{rest}");
        let (n, shown) = of("steel bottles for hiking", &text).unwrap();
        assert_eq!(n, 2);
        assert!(shown.starts_with("... on A *bottle* of *steel*, for hikers and"), "{shown}");
        assert!(shown.ends_with(" ..."), "{shown}");
        assert_eq!(of("Steel", "(steel dart.)"), Some((1, "(*steel* dart.)".to_owned())));
        let short = of("hikers", "A bottle for two hikers").unwrap();
        assert_eq!(short.1, "A bottle for two *hikers*", "a short text is shown whole");
        assert_eq!(of("wood", "steel dart"), None);
        assert_eq!(of("wood", ""), None);
    }
}
