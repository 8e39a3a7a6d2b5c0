//! The stems of a knowledge base with their table rows, and bags of rows for nodes and queries.

use std::collections::{BTreeMap, HashMap};

use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, distinct};

/// Maximum number of stems with a row in the table, in addition to the stems of training queries;
/// if there are more, the stems that occur in the most candidates are kept.
const MAX_STEMS: usize = 1 << 16;
/// Minimum number of candidates with a stem, in the document or neighbours' names, for the stem to
/// get a row.
const MIN_NODES: u32 = 2;
/// Maximum number of stems that are read from a query.
const MAX_TEXT_STEMS: usize = 4_096;
/// Value in place of a row number for a stem without a row.
const NONE: u32 = u32::MAX;

/// A text as a bag of stems: pairs of a stem's row in the table and the stem's weight
/// `(1 + ln tf) idf`, by ascending row.
pub(super) type Bag = Vec<(u32, f32)>;

/// The stems that have a row in the table, in ascending order; row `i` belongs to stem `i`.
pub(super) struct Words {
    pub(super) stems: Vec<String>,
    /// Inverse document frequency of each stem: `ln(1 + candidates / candidates with the stem)`.
    pub(super) idf: Vec<f32>,
    /// Table row of each stem of the document index, or [`NONE`].
    of_text: Vec<u32>,
    /// Table row of each stem of the index of neighbours' names, or [`NONE`].
    of_names: Vec<u32>,
}

/// Returns the distinct stems of a query, without question words, with their counts.
pub(super) fn query_stems(base: &IndexedBase, query: &str) -> BTreeMap<String, u32> {
    let words = name_words(query).filter(|(_, word)| !is_question_word(word));
    let stems = words.flat_map(|(_, word)| base.stems.of(&word).collect::<Vec<_>>());
    let mut counts = BTreeMap::new();
    for stem in stems.take(MAX_TEXT_STEMS) {
        *counts.entry(stem).or_default() += 1;
    }
    counts
}

/// Returns the weight of a stem with the inverse document frequency `idf` in a text in which it
/// occurs `count` times.
pub(super) fn weight(count: u32, idf: f32) -> f32 {
    (1.0 + (count as f32).ln()) * idf
}

/// Returns the table row of the stem with the number `stem` in an index, or [`NONE`].
fn row_of(rows: &[u32], stem: u32) -> u32 {
    rows.get(stem as usize).copied().unwrap_or(NONE)
}

impl Words {
    /// Collects the stems that occur in enough candidates, and all stems of `queries`. O(entries of
    /// the forward indexes).
    pub(super) fn of_base<'a>(base: &IndexedBase, queries: impl Iterator<Item = &'a str>) -> Self {
        let vocabularies = [&base.terms, &base.neighbor_names].map(|index| index.vocabulary());
        let [mut text, mut names] = vocabularies.map(Iterator::collect::<Vec<&str>>);
        let all: Vec<&str> = distinct(text.iter().chain(&names).copied().collect());
        let index_of = |stem: &&str| all.binary_search(stem).map_or(NONE, |index| index as u32);
        let indexes =
            [&mut text, &mut names].map(|stems| stems.iter().map(index_of).collect::<Vec<u32>>());
        let candidates = base.kb.candidates();
        let mut nodes_with = vec![(0u32, NodeId::MAX); all.len()];
        for &node in candidates {
            let stems = base.terms.stems_of(node).map(|(stem, _)| row_of(&indexes[0], stem));
            let of_names = base.neighbor_names.stems_of(node);
            for index in stems.chain(of_names.map(|(stem, _)| row_of(&indexes[1], stem))) {
                match nodes_with.get_mut(index as usize) {
                    Some((n, last)) if *last != node => (*n, *last) = (*n + 1, node),
                    _ => {}
                }
            }
        }
        let mut kept: Vec<usize> =
            (0..all.len()).filter(|&index| nodes_with[index].0 >= MIN_NODES).collect();
        // Stable: ties by ascending stem.
        kept.sort_by_key(|&index| std::cmp::Reverse(nodes_with[index].0));
        kept.truncate(MAX_STEMS);
        let mut frequencies: BTreeMap<String, u32> =
            kept.into_iter().map(|index| (all[index].to_owned(), nodes_with[index].0)).collect();
        for query in queries {
            for stem in query_stems(base, query).into_keys() {
                let known = all.binary_search(&&*stem).map_or(0, |index| nodes_with[index].0);
                frequencies.entry(stem).or_insert(known);
            }
        }
        let rows: HashMap<&str, u32> = frequencies.keys().map(String::as_str).zip(0..).collect();
        let row = |index: &u32| {
            all.get(*index as usize).and_then(|stem| rows.get(stem)).copied().unwrap_or(NONE)
        };
        let [of_text, of_names] = indexes.map(|stems| stems.iter().map(row).collect());
        let n = candidates.len() as f32;
        let idf = frequencies.values().map(|&count| (1.0 + n / count.max(1) as f32).ln()).collect();
        Self { stems: frequencies.into_keys().collect(), idf, of_text, of_names }
    }

    /// Returns the bag of a node's text: its document and the names of its neighbours.
    pub(super) fn of_node(&self, base: &IndexedBase, node: NodeId) -> Bag {
        let text = base.terms.stems_of(node).map(|(stem, n)| (row_of(&self.of_text, stem), n));
        let names = base.neighbor_names.stems_of(node);
        let names = names.map(|(stem, n)| (row_of(&self.of_names, stem), n));
        self.bag(text.chain(names))
    }

    /// Returns the table rows of the distinct stems of a node's document.
    pub(super) fn rows_of_text(&self, base: &IndexedBase, node: NodeId) -> Vec<u32> {
        let rows = base.terms.stems_of(node).map(|(stem, _)| row_of(&self.of_text, stem));
        rows.filter(|&row| row != NONE).collect()
    }

    /// Returns the bag of a query.
    pub(super) fn of_query(&self, base: &IndexedBase, query: &str) -> Bag {
        let row = |stem: &str| {
            self.stems.binary_search_by(|known| known.as_str().cmp(stem)).ok().map(|row| row as u32)
        };
        let counts = query_stems(base, query);
        self.bag(counts.iter().filter_map(|(stem, n)| Some((row(stem)?, *n))))
    }

    /// Builds a bag from pairs of a table row and a count, in any order; counts of the same row are
    /// added, and pairs with [`NONE`] are ignored.
    pub(super) fn bag(&self, counts: impl Iterator<Item = (u32, u32)>) -> Bag {
        let mut counts: Vec<(u32, u32)> = counts.filter(|pair| pair.0 != NONE).collect();
        counts.sort_unstable();
        counts.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 = kept.1.saturating_add(next.1);
            }
            same
        });
        counts.into_iter().map(|(row, n)| (row, weight(n, self.idf[row as usize]))).collect()
    }
}
