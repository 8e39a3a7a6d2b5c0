//! The words of a base, each with a row, and nodes and queries as bags of them. Must not know what
//! the rows hold.

use std::collections::{BTreeMap, HashMap};

use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::NodeId;

/// Most stems with a row, beside those of training queries: the most frequent.
const MAX_STEMS: usize = 1 << 16;
/// Candidates whose document or neighbours' names must have a stem.
const MIN_NODES: u32 = 2;
/// Stems of one text that are looked at.
const MAX_TEXT_STEMS: usize = 4_096;
/// No row.
const NONE: u32 = u32::MAX;

/// A text as rows with what each weighs, `(1 + ln tf) idf`; rows ascending, distinct.
pub(super) type Bag = Vec<(u32, f32)>;

/// The stems that have rows, ascending.
pub(super) struct Words {
    pub(super) stems: Vec<String>,
    /// `ln(1 + candidates / candidates with the stem)`.
    pub(super) idf: Vec<f32>,
    /// The row of each stem of documents, and of each of neighbours' names.
    of_text: Vec<u32>,
    of_names: Vec<u32>,
}

/// The distinct stems of a query with their counts.
pub(super) fn query_stems(base: &IndexedBase, query: &str) -> BTreeMap<String, u32> {
    let words = name_words(query).filter(|(_, word)| !is_question_word(word));
    let stems = words.flat_map(|(_, word)| base.stems.of(&word).collect::<Vec<_>>());
    let mut counts = BTreeMap::new();
    for stem in stems.take(MAX_TEXT_STEMS) {
        *counts.entry(stem).or_default() += 1;
    }
    counts
}

/// What a stem weighs in a text that has it so often.
pub(super) fn weight(count: u32, idf: f32) -> f32 {
    (1.0 + (count as f32).ln()) * idf
}

/// The row of a stem of an index; none for one that it does not have.
fn of(rows: &[u32], stem: u32) -> u32 {
    rows.get(stem as usize).copied().unwrap_or(NONE)
}

impl Words {
    /// The stems of candidates, and those of queries whether or not any candidate has them.
    /// O(entries of the forward indexes).
    pub(super) fn of_base<'a>(base: &IndexedBase, queries: impl Iterator<Item = &'a str>) -> Self {
        let vocabularies = [&base.terms, &base.neighbor_names].map(|index| index.vocabulary());
        let [mut text, mut names] = vocabularies.map(Iterator::collect::<Vec<&str>>);
        let mut all: Vec<&str> = text.iter().chain(&names).copied().collect();
        all.sort_unstable();
        all.dedup();
        let place = |stem: &&str| all.binary_search(stem).map_or(NONE, |at| at as u32);
        let places = [&mut text, &mut names].map(|of| of.iter().map(place).collect::<Vec<u32>>());
        let candidates = base.kb.candidates();
        let mut nodes_with = vec![(0u32, NodeId::MAX); all.len()];
        for &node in candidates {
            let stems = base.terms.stems_of(node).map(|(stem, _)| of(&places[0], stem));
            let of_names = base.neighbor_names.stems_of(node);
            for at in stems.chain(of_names.map(|(stem, _)| of(&places[1], stem))) {
                match nodes_with.get_mut(at as usize) {
                    Some((n, last)) if *last != node => (*n, *last) = (*n + 1, node),
                    _ => {}
                }
            }
        }
        let mut kept: Vec<usize> =
            (0..all.len()).filter(|&at| nodes_with[at].0 >= MIN_NODES).collect();
        // Stable, of stems in order.
        kept.sort_by_key(|&at| std::cmp::Reverse(nodes_with[at].0));
        kept.truncate(MAX_STEMS);
        let mut frequencies: BTreeMap<String, u32> =
            kept.into_iter().map(|at| (all[at].to_owned(), nodes_with[at].0)).collect();
        for query in queries {
            for stem in query_stems(base, query).into_keys() {
                let known = all.binary_search(&&*stem).map_or(0, |at| nodes_with[at].0);
                frequencies.entry(stem).or_insert(known);
            }
        }
        let rows: HashMap<&str, u32> = frequencies.keys().map(String::as_str).zip(0..).collect();
        let row = |at: &u32| {
            all.get(*at as usize).and_then(|stem| rows.get(stem)).copied().unwrap_or(NONE)
        };
        let [of_text, of_names] = places.map(|of| of.iter().map(row).collect());
        let n = candidates.len() as f32;
        let idf = frequencies.values().map(|&with| (1.0 + n / with.max(1) as f32).ln()).collect();
        Self { stems: frequencies.into_keys().collect(), idf, of_text, of_names }
    }

    /// The document of a node with the names of its neighbours.
    pub(super) fn of_node(&self, base: &IndexedBase, node: NodeId) -> Bag {
        let text = base.terms.stems_of(node).map(|(stem, n)| (of(&self.of_text, stem), n));
        let names = base.neighbor_names.stems_of(node);
        let names = names.map(|(stem, n)| (of(&self.of_names, stem), n));
        self.bag(text.chain(names))
    }

    /// The rows of the stems of a node's document, distinct.
    pub(super) fn rows_of_text(&self, base: &IndexedBase, node: NodeId) -> Vec<u32> {
        let rows = base.terms.stems_of(node).map(|(stem, _)| of(&self.of_text, stem));
        rows.filter(|&row| row != NONE).collect()
    }

    /// A query, or any other text.
    pub(super) fn of_query(&self, base: &IndexedBase, query: &str) -> Bag {
        let row = |stem: &str| {
            self.stems.binary_search_by(|known| known.as_str().cmp(stem)).ok().map(|at| at as u32)
        };
        let counts = query_stems(base, query);
        self.bag(counts.iter().filter_map(|(stem, n)| Some((row(stem)?, *n))))
    }

    /// Rows that occur so often, in any order, as a bag.
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
