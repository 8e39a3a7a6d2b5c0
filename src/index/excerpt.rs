//! Excerpts of long texts: the start, and those chunks that share the rarest words with a query.

use std::collections::BTreeSet;

use crate::{IndexedBase, chunks::chunk_text};
use agent_kb::NodeId;

/// Maximum number of characters of a text that are searched for relevant chunks; later text is
/// never shown.
const MAX_SEARCHED_CHARS: usize = 200_000;
/// Maximum length of a chunk, in characters.
const CHUNK_CHARS: usize = 400;

/// Shortens the document of a node to about `max_chars` characters, as [`relevant`] does. The
/// document does not include the node's relations.
pub fn text_about(base: &IndexedBase, node: NodeId, wanted: &str, max_chars: usize) -> String {
    relevant(base, &base.document(node), wanted, max_chars)
}

/// Shortens a text to about `max_chars` characters. A longer text is cut to its start and the
/// chunks that share the rarest words with `wanted`, in the order of the text; `[...]` marks
/// omitted parts.
pub fn relevant(base: &IndexedBase, text: &str, wanted: &str, max_chars: usize) -> String {
    if text.chars().count() <= max_chars {
        return text.trim().to_owned();
    }
    let searched = head(text, MAX_SEARCHED_CHARS);
    let stems_of = |text: &str| -> BTreeSet<u32> {
        base.stems.of(text).filter_map(|stem| base.terms.stem_id(&stem)).collect()
    };
    let stems = stems_of(wanted);
    let chunks = chunk_text(searched, CHUNK_CHARS, 0);
    let weight = |chunk: &str| {
        stems_of(chunk).intersection(&stems).map(|&stem| base.terms.idf(stem)).sum::<f32>()
    };
    let weights: Vec<f32> = chunks.iter().map(|chunk| weight(chunk)).collect();
    let mut order: Vec<usize> = (1..chunks.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    let mut room = max_chars;
    let mut shown = BTreeSet::new();
    for at in chunks.first().map(|_| 0).into_iter().chain(order) {
        let n_chars = chunks[at].chars().count() + 1;
        if n_chars <= room {
            room -= n_chars;
            shown.insert(at);
        }
    }
    let mut cut = String::new();
    for at in shown.iter().copied() {
        if at > 0 {
            let follows = shown.contains(&(at - 1));
            cut.push_str(if follows { "\n" } else { "\n[...]\n" });
        }
        cut.push_str(chunks[at]);
    }
    cut
}

/// Returns the first `n_chars` characters of a text, or all of a shorter text.
pub fn head(text: &str, n_chars: usize) -> &str {
    text.char_indices().nth(n_chars).map_or(text, |(at, _)| &text[..at])
}
