//! BM25F (Robertson, Zaragoza & Taylor 2004): one score over two fields of a node, its document and
//! the names of its neighbours, by stems.
//!
//! The count of a stem in a field is divided by the field's length relative to the mean, weighted,
//! and summed over the fields before it saturates: `tf = Σ weight * count / (1 - b + b * length /
//! mean)`. The score is the sum of `idf * tf / (tf + k1)` over the words of the query, without
//! question words. The weights are fixed when an index is built; docs/lab/2026-11-24-bm25f.md
//! compares other weights. Weighted counts are stored as whole sixteenths in place of word counts,
//! so that a search over the [postings](crate::postings) can skip blocks as usual.

use std::path::Path;

use rayon::prelude::*;

use crate::{
    Result,
    bm25::Bm25,
    postings::{MAX_QUERY_WORDS, PostingsBuilder, make_room},
    terms::TermIndex,
};
use agent_ground::words::{Analysis, Languages};
use agent_kb::{NodeId, distinct};

/// Scale of stored counts: a weighted count `c` is stored as `c` times this number, rounded.
const PARTS: f32 = 16.0;
/// Saturation parameter `k1` of BM25F, for weighted counts that are not yet scaled by [`PARTS`].
const K1: f32 = 1.2;
/// BM25 setting of the postings with weighted counts. The counts already include length
/// normalisation, hence `b` is 0.
pub(crate) const SETTING: Bm25 = Bm25 { k1: K1 * PARTS, b: 0.0 };
/// Weights and length normalisation of the two fields, in this order: documents, names of
/// neighbours.
const FIELDS: [Field; 2] = [Field { weight: 1.0, b: 0.5 }, Field { weight: 4.0, b: 0.4 }];
/// Number of nodes whose postings are sorted together.
const BATCH: usize = 4_096;

/// Weight and length normalisation (`b`, in `0..=1`) of a field.
struct Field {
    weight: f32,
    b: f32,
}

/// The forward indexes of the two fields, with a common numbering of their stems.
struct Fields<'a> {
    indexes: [&'a TermIndex; 2],
    /// The stems of both fields, ascending; the position of a stem is its number.
    stems: Vec<&'a str>,
    /// For each field, the positions of its stems in `stems`, by stem id.
    numbers: [Vec<u32>; 2],
}

/// The weighted stems of a query, to score single nodes by BM25F.
#[derive(Clone, Debug, Default)]
pub struct FieldsQuery(Vec<QueryStem>);

#[derive(Clone, Debug)]
struct QueryStem {
    /// Stem id in each field; `None` if the field lacks the stem.
    ids: [Option<u32>; 2],
    weight: f32,
}

impl FieldsQuery {
    /// Creates a query from weighted stems. The weight of each stem is multiplied by `idf` of the
    /// stem; stems for which `idf` is `None` are dropped.
    pub(crate) fn new(
        indexes: [&TermIndex; 2],
        asked: &[(String, f32)],
        idf: impl Fn(&str) -> Option<f32>,
    ) -> Self {
        let known = asked.iter().take(MAX_QUERY_WORDS).filter_map(|(stem, weight)| {
            let ids = indexes.map(|index| index.stem_id(stem));
            Some(QueryStem { ids, weight: idf(stem)? * weight })
        });
        Self(known.collect())
    }

    /// Number of stems in the query.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the query has no stems.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the BM25F score of a node, equal to that in a search over all nodes. O(stems of the
    /// query).
    pub(crate) fn score(&self, indexes: [&TermIndex; 2], node: NodeId) -> f32 {
        let [documents, names] = indexes;
        let per_count = [FIELDS[0].per_count(documents, node), FIELDS[1].per_count(names, node)];
        let lengths = SETTING.lengths(1.0);
        let score = |stem: &QueryStem| {
            let field = |at: usize| {
                let count = stem.ids[at].map_or(0, |id| indexes[at].count(node, id));
                per_count[at] * count as f32
            };
            match field(0) + field(1) {
                0.0 => 0.0,
                sum => stem.weight * lengths.share(in_parts(sum), 1),
            }
        };
        self.0.iter().map(score).sum()
    }
}

/// Multiplies a weighted count by [`PARTS`] and rounds the product to a whole number, at least 1.
fn in_parts(weighted: f32) -> u32 {
    (weighted * PARTS).round().max(1.0) as u32
}

/// Writes the BM25F index of the nodes `0..n` to the file `path`, from the forward indexes of
/// documents and of the names of neighbours. Memory is bounded as in [`PostingsBuilder`]. O(entries
/// of both indexes).
///
/// # Errors
/// [`crate::IndexError::Io`] if the disk is full.
pub(crate) fn build(
    path: &Path,
    languages: Languages,
    indexes: [&TermIndex; 2],
    n: usize,
) -> Result<()> {
    let fields = Fields::new(indexes);
    let mut builder = [PostingsBuilder::weighted(path, Analysis::Stems(languages), SETTING)];
    let starts: Vec<usize> = (0..n).step_by(BATCH).collect();
    for starts in starts.chunks(rayon::current_num_threads()) {
        let nodes = |start: usize| start as NodeId..(start + BATCH).min(n) as NodeId;
        let sorted: Vec<_> =
            starts.par_iter().map(|&start| fields.postings(nodes(start))).collect();
        for (&start, postings) in starts.iter().zip(&sorted) {
            let stem = |number: u32| fields.stems[number as usize].as_bytes();
            builder[0].add_postings(nodes(start), postings, &stem)?;
            make_room(&mut builder)?;
        }
    }
    let [builder] = builder;
    builder.finish(n)
}

impl<'a> Fields<'a> {
    fn new(indexes: [&'a TermIndex; 2]) -> Self {
        let stems = distinct(indexes.iter().flat_map(|index| index.vocabulary()).collect());
        let numbers = indexes.map(|index| {
            let number = |stem: &str| stems.binary_search(&stem).unwrap_or_default() as u32;
            index.vocabulary().map(number).collect()
        });
        Self { indexes, stems, numbers }
    }

    /// Returns the postings of nodes: triples (stem number, node, scaled count), ascending.
    fn postings(&self, nodes: std::ops::Range<NodeId>) -> Vec<(u32, NodeId, u32)> {
        let mut postings = Vec::new();
        let mut counts: Vec<(u32, f32)> = Vec::new();
        for node in nodes {
            for ((index, numbers), field) in self.indexes.iter().zip(&self.numbers).zip(&FIELDS) {
                let per_count = field.per_count(index, node);
                let weighted = |(stem, count)| (numbers[stem as usize], per_count * count as f32);
                counts.extend(index.stems_of(node).map(weighted));
            }
            counts.sort_by_key(|pair| pair.0);
            postings.extend(counts.chunk_by(|a, b| a.0 == b.0).map(|same| {
                let sum: f32 = same.iter().map(|pair| pair.1).sum();
                (same[0].0, node, in_parts(sum))
            }));
            counts.clear();
        }
        postings.sort_unstable();
        postings
    }
}

impl Field {
    /// Returns the amount that one occurrence of a stem in a node's text adds to the weighted
    /// count.
    fn per_count(&self, index: &TermIndex, node: NodeId) -> f32 {
        let relative = index.length(node) as f32 / index.mean_length().max(f32::MIN_POSITIVE);
        self.weight / (1.0 - self.b + self.b * relative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bm25::idf, postings::Postings, terms::TermIndexBuilder};
    use agent_ground::words::Stems;

    fn terms(path: &Path, texts: &[String]) -> TermIndex {
        let mut builder = TermIndexBuilder::create(path, Languages::ENGLISH).unwrap();
        texts.iter().for_each(|text| builder.add(text).unwrap());
        builder.finish().unwrap();
        TermIndex::open(path).unwrap()
    }

    #[test]
    fn scores_equal_the_formula() {
        let dir = tempfile::tempdir().unwrap();
        let documents: Vec<String> = (0..400)
            .map(|at| format!("shirts number{at} {}", "red cotton ".repeat(at % 4)))
            .collect();
        let names: Vec<String> =
            (0..400).map(|at| format!("brand{} red", at % 7).repeat(at % 3)).collect();
        let (documents, names) = (
            terms(&dir.path().join("documents"), &documents),
            terms(&dir.path().join("names"), &names),
        );
        let path = dir.path().join("bm25f");
        build(&path, Languages::ENGLISH, [&documents, &names], 400).unwrap();
        let index = Postings::open_weighted(&path, SETTING).unwrap();
        let stems = Stems::default();
        let query = stems.of_query("Which red shirts by brand3?");
        let weighted: Vec<(String, f32)> = query.collect();
        let asked: Vec<String> = weighted.iter().map(|pair| pair.0.clone()).collect();
        assert_eq!(asked, ["red", "shirt", "brand3"]);
        let of = |index: &TermIndex, stem: &str, node: NodeId| {
            let id = index.stem_id(stem)?;
            index.stems_of(node).find(|pair| pair.0 == id).map(|pair| pair.1)
        };
        let tf = |stem: &str, node: NodeId| {
            let field = |(index, weight, b): (&TermIndex, f32, f32)| {
                let count = of(index, stem, node).unwrap_or(0) as f32;
                let relative = index.length(node) as f32 / index.mean_length();
                weight * count / (1.0 - b + b * relative)
            };
            field((&documents, 1.0, 0.5)) + field((&names, 4.0, 0.4))
        };
        let score = |node: NodeId| {
            let word = |stem: &String| {
                let df = (0..400).filter(|&node| tf(stem, node) > 0.0).count() as u32;
                idf(400, df) * tf(stem, node) / (tf(stem, node) + 1.2)
            };
            asked.iter().map(word).sum::<f32>()
        };
        let mut expected: Vec<(NodeId, f32)> = (0..400).map(|node| (node, score(node))).collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found = index.search_forms(&weighted, SETTING, None, 30);
        assert_eq!(found.len(), 30);
        for ((node, got), (_, best)) in found.iter().zip(&expected) {
            // Counts are kept in sixteenths.
            assert!((got - score(*node)).abs() < 0.03 * got, "{node} {got} {}", score(*node));
            assert!((got - best).abs() < 0.03 * best);
            let query = FieldsQuery::new([&documents, &names], &weighted, |stem| index.idf(stem));
            assert!((query.score([&documents, &names], *node) - got).abs() < 1e-5);
        }
    }
}
