//! Forward index: the stems of each node's text, for BM25 scores of single nodes.
//!
//! Programs rank small sets of nodes, not the whole base, so a node is scored from its own entries:
//! O(length of its document), without reading postings. The file has these arrays: `bounds`
//! `[n + 1]` holds the range of each node in `entries`. An entry is
//! `stem id << 8 | min(count, 255)`; the entries of a node ascend. `lengths` `[n]` is the number of
//! stems of each text and `mean_length` their mean. `vocabulary` and `vocabulary_bounds` hold all
//! stems, ascending, and `frequencies` the number of texts with each stem.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::{Path, PathBuf},
};

use rustc_hash::FxHashMap;
use safetensors::Dtype;

use crate::{
    IndexError, Result,
    arrays::{Array, Arrays, Strings, named},
    bm25::{Bm25, idf},
    stream::{self, failed, invalid_data},
};
use agent_ground::words::{Languages, Stems, name_words};
use agent_kb::NodeId;

/// Number of low bits of an entry that hold the count of the stem.
const COUNT_BITS: u32 = 8;
/// Maximum number of distinct stems, limited by the bits of an entry that hold the id.
const MAX_STEMS: usize = 1 << (32 - COUNT_BITS);
/// Maximum number of words whose stems are cached during a build; a full cache is cleared.
const MAX_KEPT_WORDS: usize = 1 << 20;
/// Size in bytes of the buffer for writing and reading the temporary file of entries.
const SPOOL_BUFFER: usize = 256 << 10;

/// The forward index of one text per node.
pub struct TermIndex {
    bounds: Array<u64>,
    entries: Array<u32>,
    lengths: Array<u32>,
    frequencies: Array<u32>,
    vocabulary: Strings,
    mean_length: f32,
}

/// Builds a [`TermIndex`]; takes the texts of all nodes in id order. Entries are kept in a
/// temporary file. Memory holds the vocabulary, 12 bytes per node, and the stems of at most 2^20
/// words.
pub struct TermIndexBuilder {
    path: PathBuf,
    stems: Stems,
    ids: FxHashMap<String, u32>,
    /// The stem numbers of each cached word.
    words: FxHashMap<String, Box<[u32]>>,
    bounds: Vec<u64>,
    lengths: Vec<u32>,
    /// Number of texts with each stem, by stem number; stems are numbered by first appearance.
    frequencies: Vec<u32>,
    /// Temporary file of entries, which uses the same stem numbers.
    entries: BufWriter<File>,
    n_entries: u64,
}

/// The distinct stems of a query that an index contains, as pairs (stem id, weight times inverse
/// document frequency), ascending by id.
#[derive(Clone, Debug, Default)]
pub struct QueryTerms(Vec<(u32, f32)>);

impl QueryTerms {
    /// Number of stems of the query that the index contains.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the query has no stem that the index contains.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TermIndexBuilder {
    /// Starts an index in the file `path`; a temporary file in the same directory holds the
    /// entries.
    ///
    /// # Errors
    /// [`IndexError::Io`], with the directory, if the temporary file cannot be created.
    pub fn create(path: &Path, languages: Languages) -> Result<Self> {
        let dir = path.parent().unwrap_or(Path::new("."));
        let spool = tempfile::tempfile_in(dir).map_err(IndexError::io(dir))?;
        Ok(Self {
            path: path.to_owned(),
            stems: Stems::new(languages),
            ids: FxHashMap::default(),
            words: FxHashMap::default(),
            bounds: Vec::new(),
            lengths: Vec::new(),
            frequencies: Vec::new(),
            entries: BufWriter::with_capacity(SPOOL_BUFFER, spool),
            n_entries: 0,
        })
    }

    /// Adds the text of the next node, in id order.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`] above 16.7 million distinct stems; [`IndexError::Io`] if the disk
    /// is full.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let mut found: Vec<u32> = Vec::new();
        for (_, word) in name_words(text) {
            if let Some(ids) = self.words.get(word.as_ref()) {
                found.extend_from_slice(ids);
                continue;
            }
            if self.words.len() >= MAX_KEPT_WORDS {
                self.words.clear();
            }
            let Self { stems, ids, .. } = self;
            // In English a word has one stem, even if folding yields two words ("1½").
            let n = if stems.languages().is_english() { 1 } else { usize::MAX };
            let own: Box<[u32]> = stems.of(&word).take(n).map(|stem| number(ids, stem)).collect();
            found.extend_from_slice(&own);
            self.words.insert(word.into_owned(), own);
        }
        self.count_stems()?;
        self.lengths.push(found.len() as u32);
        self.bounds.push(self.n_entries);
        found.sort_unstable();
        for same in found.chunk_by(|a, b| a == b) {
            self.push(same[0], same.len().min(255) as u32)?;
        }
        Ok(())
    }

    /// Extends the frequencies by a zero for each new stem; fails if there are too many stems.
    fn count_stems(&mut self) -> Result<()> {
        if self.ids.len() > MAX_STEMS {
            return Err(IndexError::TooLarge(
                "distinct stems in the base's text",
                MAX_STEMS as u64,
            ));
        }
        self.frequencies.resize(self.ids.len(), 0);
        Ok(())
    }

    /// Writes an entry for the node that was added last.
    fn push(&mut self, stem: u32, count: u32) -> Result<()> {
        self.frequencies[stem as usize] += 1;
        self.n_entries += 1;
        let written = self.entries.write_all(&((stem << COUNT_BITS) | count).to_le_bytes());
        written.map_err(IndexError::io(&self.path))
    }

    /// Writes the stems and entries of the added texts to `out`, for [`take`](Self::take) of
    /// another builder.
    ///
    /// # Errors
    /// Errors of `out` and of the temporary file.
    pub fn give(mut self, out: &mut dyn Write) -> io::Result<()> {
        self.bounds.push(self.n_entries);
        let mut stems: Vec<(u32, String)> =
            self.ids.into_iter().map(|(stem, id)| (id, stem)).collect();
        stems.sort_unstable();
        stream::write_words(out, stems.iter().map(|(_, stem)| stem.as_bytes()))?;
        stream::write(out, &self.lengths)?;
        stream::write(out, &self.bounds)?;
        let mut spool = self.entries.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        io::copy(&mut BufReader::with_capacity(SPOOL_BUFFER, spool), out).map(drop)
    }

    /// Appends the entries that [`give`](Self::give) of another builder wrote, for at most `n`
    /// nodes; returns the number of these nodes.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the input is malformed; otherwise as [`Self::add`].
    pub fn take(&mut self, input: &mut dyn Read, n: usize) -> Result<usize> {
        let other = || failed(invalid_data("entries do not match the nodes and stems"));
        let stems = stream::read_words(input).map_err(failed)?;
        let stem = |stem| number(&mut self.ids, String::from_utf8_lossy(stem).into_owned());
        let ids: Vec<u32> = stems.iter().map(stem).collect();
        self.count_stems()?;
        let lengths: Vec<u32> = stream::read(input).map_err(failed)?;
        let bounds: Vec<u64> = stream::read(input).map_err(failed)?;
        let of_nodes = bounds.first() == Some(&0)
            && bounds.is_sorted()
            && bounds.len() == lengths.len() + 1
            && lengths.len() <= n;
        if !of_nodes {
            return Err(other());
        }
        let mut entry = [0; 4];
        for (&length, ends) in lengths.iter().zip(bounds.windows(2)) {
            self.lengths.push(length);
            self.bounds.push(self.n_entries);
            for _ in ends[0]..ends[1] {
                input.read_exact(&mut entry).map_err(failed)?;
                let entry = u32::from_le_bytes(entry);
                let id = ids.get((entry >> COUNT_BITS) as usize).ok_or_else(other)?;
                self.push(*id, entry & ((1 << COUNT_BITS) - 1))?;
            }
        }
        Ok(lengths.len())
    }

    /// Number of nodes added so far.
    pub fn n_nodes(&self) -> usize {
        self.lengths.len()
    }

    /// Writes the index. Stems are renumbered in alphabetical order, so that equal texts give equal
    /// bytes.
    ///
    /// # Errors
    /// [`IndexError::Io`], with the path of the file.
    pub fn finish(self) -> Result<()> {
        let path = self.path.clone();
        self.write().map_err(IndexError::io(&path))
    }

    fn write(mut self) -> io::Result<()> {
        drop(self.words);
        self.bounds.push(self.n_entries);
        let mut vocabulary: Vec<(String, u32)> = self.ids.into_iter().collect();
        vocabulary.sort_unstable();
        let mut renumbered = vec![0; vocabulary.len()];
        let mut frequencies = vec![0u32; vocabulary.len()];
        for (new, (_, old)) in vocabulary.iter().enumerate() {
            renumbered[*old as usize] = new as u32;
            frequencies[new] = self.frequencies[*old as usize];
        }
        let (word_bounds, words) =
            Strings::layout(vocabulary.iter().map(|(stem, _)| stem.as_str()));
        drop(vocabulary);
        let mut spool = self.entries.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        let mut spool = BufReader::with_capacity(SPOOL_BUFFER, spool);
        // The same order as in `Arrays::write`.
        Arrays::write_with(
            &self.path,
            &[
                named("bounds", &self.bounds),
                named("vocabulary_bounds", &word_bounds),
                named("mean_length", &[mean(&self.lengths)]),
            ],
            ("entries", Dtype::U32, self.n_entries * size_of::<u32>() as u64),
            &[
                named("frequencies", &frequencies),
                named("lengths", &self.lengths),
                named("vocabulary", &words),
            ],
            |file| {
                let mut entries: Vec<u32> = Vec::new();
                for bounds in self.bounds.windows(2) {
                    entries.resize((bounds[1] - bounds[0]) as usize, 0);
                    spool.read_exact(bytemuck::cast_slice_mut(&mut entries))?;
                    for entry in &mut entries {
                        let stem = renumbered[(*entry >> COUNT_BITS) as usize];
                        *entry = (stem << COUNT_BITS) | (*entry & ((1 << COUNT_BITS) - 1));
                    }
                    entries.sort_unstable();
                    file.write_all(bytemuck::cast_slice(&entries))?;
                }
                Ok(())
            },
        )
    }
}

/// Returns the number of a stem; gives a new stem the next number.
fn number(ids: &mut FxHashMap<String, u32>, stem: String) -> u32 {
    let next = ids.len() as u32;
    *ids.entry(stem).or_insert(next)
}

/// Returns the mean length of all texts, in stems; empty texts count too, as in bm25s.
fn mean(lengths: &[u32]) -> f32 {
    let total: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    (total as f64 / lengths.len().max(1) as f64) as f32
}

impl TermIndex {
    /// Opens an index; the file is mapped, not read. Constant time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(path: &Path) -> Result<Self> {
        let arrays = Arrays::open(path)?;
        Ok(Self {
            bounds: arrays.get("bounds")?,
            entries: arrays.get("entries")?,
            lengths: arrays.get("lengths")?,
            frequencies: arrays.get("frequencies")?,
            vocabulary: Strings::new(arrays.get("vocabulary_bounds")?, arrays.get("vocabulary")?),
            mean_length: arrays.number("mean_length")?,
        })
    }

    /// Iterates over the stems of a node's text: pairs (stem id, number of occurrences, at most
    /// 255), ascending by id.
    pub fn stems_of(&self, node: NodeId) -> impl Iterator<Item = (u32, u32)> + '_ {
        let entries = self.entries.part(&self.bounds, node as usize);
        entries.iter().map(|entry| (entry >> COUNT_BITS, entry & ((1 << COUNT_BITS) - 1)))
    }

    /// Whether a node's text contains the stem with this id.
    pub fn has(&self, node: NodeId, stem: u32) -> bool {
        self.count(node, stem) > 0
    }

    /// Number of occurrences of a stem in a node's text, at most 255; 0 if there are none.
    pub fn count(&self, node: NodeId, stem: u32) -> u32 {
        let entries = self.entries.part(&self.bounds, node as usize);
        let at = entries.binary_search_by_key(&stem, |entry| entry >> COUNT_BITS);
        at.map_or(0, |at| entries[at] & ((1 << COUNT_BITS) - 1))
    }

    /// Length of a node's text, in stems; 0 for an unknown node.
    pub fn length(&self, node: NodeId) -> u32 {
        self.lengths.as_slice().get(node as usize).copied().unwrap_or(0)
    }

    /// Mean length of all texts, in stems.
    pub fn mean_length(&self) -> f32 {
        self.mean_length
    }

    /// Iterates over all stems, ascending; the position of a stem is its id.
    pub fn vocabulary(&self) -> impl Iterator<Item = &str> {
        let stem = |at| std::str::from_utf8(self.vocabulary.get(at)).unwrap_or_default();
        (0..self.vocabulary.len()).map(stem)
    }

    /// Finds the id of a stem; `None` if no text contains the stem.
    pub fn stem_id(&self, stem: &str) -> Option<u32> {
        self.vocabulary.find(stem).map(|at| at as u32)
    }

    /// Returns the inverse document frequency of the stem with this id.
    pub fn idf(&self, stem: u32) -> f32 {
        let df = self.frequencies.as_slice().get(stem as usize).copied().unwrap_or(0);
        idf(self.lengths.as_slice().len(), df)
    }

    /// Returns the stems of a query that occur in the index, each weighted by its inverse document
    /// frequency; question words are left out.
    pub fn query(&self, stems: &Stems, text: &str) -> QueryTerms {
        let known = |(stem, weight): (String, f32)| Some((self.stem_id(&stem)?, weight));
        let mut terms: Vec<(u32, f32)> = stems.of_query(text).filter_map(known).collect();
        // Keeps the largest weight of each stem.
        terms.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        terms.dedup_by_key(|term| term.0);
        QueryTerms(terms.into_iter().map(|(id, weight)| (id, weight * self.idf(id))).collect())
    }

    /// Returns the BM25 score of a node's text; 0 if the text has no stem of the query.
    pub fn bm25(&self, query: &QueryTerms, node: NodeId) -> f32 {
        let (weights, length) = (Bm25::default().lengths(self.mean_length), self.length(node));
        let mut score = 0.0;
        self.for_common(query, node, |idf, count| score += idf * weights.share(count, length));
        score
    }

    /// Returns the share of the query's total weight that belongs to stems in a node's text, in
    /// `0..=1`; 0 for a query without known stems.
    pub fn coverage(&self, query: &QueryTerms, node: NodeId) -> f32 {
        let total: f32 = query.0.iter().map(|term| term.1).sum();
        let mut found = 0.0;
        self.for_common(query, node, |idf, _| found += idf);
        if total > 0.0 { found / total } else { 0.0 }
    }

    /// Calls `common` with the weight in the query and the count in the node's text, for every stem
    /// that both contain.
    fn for_common(&self, query: &QueryTerms, node: NodeId, mut common: impl FnMut(f32, u32)) {
        let mut entries = self.entries.part(&self.bounds, node as usize);
        for &(stem, idf) in &query.0 {
            let skip = entries.partition_point(|&entry| entry >> COUNT_BITS < stem);
            entries = entries.get(skip..).unwrap_or(&[]);
            match entries.first() {
                Some(entry) if entry >> COUNT_BITS == stem => {
                    common(idf, entry & ((1 << COUNT_BITS) - 1));
                }
                Some(_) => {}
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings;
    use agent_ground::words::{Analysis, Languages};

    fn index(texts: &[&str]) -> TermIndex {
        let dir = tempfile::tempdir().unwrap();
        let mut builder =
            TermIndexBuilder::create(&dir.path().join("terms"), Languages::ENGLISH).unwrap();
        texts.iter().for_each(|text| builder.add(text).unwrap());
        builder.finish().unwrap();
        TermIndex::open(&dir.path().join("terms")).unwrap()
    }

    #[test]
    fn bm25_prefers_rare_words_and_short_texts() {
        let index =
            index(&["red cotton shirt", "red wool hat with a very long brim", "red shoes", ""]);
        let query = index.query(&Stems::default(), "Which red hats?");
        let scores: Vec<f32> = (0..5).map(|node| index.bm25(&query, node)).collect();
        assert!(scores[1] > scores[2] && scores[2] > scores[0] && scores[0] > 0.0, "{scores:?}");
        assert_eq!(scores[3..], [0.0, 0.0]);
    }

    /// A search over all nodes gives a node the same score.
    #[test]
    fn scores_are_those_of_the_inverted_index() {
        let texts = ["planes plane beta", "beta gamma", "", "plane gamma deltas delta"];
        let dir = tempfile::tempdir().unwrap();
        postings::build(&dir.path().join("postings"), Analysis::Stems(Languages::ENGLISH), texts)
            .unwrap();
        let inverted = postings::Postings::open(&dir.path().join("postings")).unwrap();
        let forward = index(&texts);
        let query = forward.query(&Stems::default(), "planes delta");
        let found = inverted.search("planes delta", Bm25::default(), None, 4);
        assert_eq!(found.len(), 2);
        for (node, score) in found {
            assert!((forward.bm25(&query, node) - score).abs() < 1e-6);
        }
    }

    #[test]
    fn coverage_is_the_share_of_known_idf_mass() {
        let index = index(&["red hat", "red"]);
        let query = index.query(&Stems::default(), "red hats unknownword");
        assert_eq!(index.coverage(&query, 0), 1.0);
        assert!(index.coverage(&query, 1) < 0.5);
        assert_eq!(index.coverage(&QueryTerms::default(), 0), 0.0);
    }

    /// The streamed file equals one written from arrays in memory.
    #[test]
    fn the_file_is_that_of_arrays_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("terms");
        let mut builder = TermIndexBuilder::create(&path, Languages::ENGLISH).unwrap();
        for text in ["zeta alpha zeta", "", "alpha beta", "beta beta beta"] {
            builder.add(text).unwrap();
        }
        builder.finish().unwrap();
        let arrays = Arrays::open(&path).unwrap();
        let u64s = |name| arrays.get::<u64>(name).unwrap();
        let u32s = |name| arrays.get::<u32>(name).unwrap();
        let (bounds, words) = (u64s("bounds"), u64s("vocabulary_bounds"));
        let (entries, lengths) = (u32s("entries"), u32s("lengths"));
        let (frequencies, vocabulary) =
            (u32s("frequencies"), arrays.get::<u8>("vocabulary").unwrap());
        assert_eq!(vocabulary.as_slice(), b"alphabetazeta");
        assert_eq!(bounds.as_slice(), [0, 2, 2, 4, 5]);
        assert_eq!(lengths.as_slice(), [3, 0, 2, 3]);
        assert_eq!(frequencies.as_slice(), [2, 2, 1]);
        assert_eq!(entries.as_slice(), [1, 2 << 8 | 2, 1, 1 << 8 | 1, 1 << 8 | 3]);
        let whole = dir.path().join("whole");
        Arrays::write(
            &whole,
            &[
                ("bounds", Dtype::U64, bytemuck::cast_slice(bounds.as_slice())),
                ("vocabulary_bounds", Dtype::U64, bytemuck::cast_slice(words.as_slice())),
                ("entries", Dtype::U32, bytemuck::cast_slice(entries.as_slice())),
                ("lengths", Dtype::U32, bytemuck::cast_slice(lengths.as_slice())),
                ("frequencies", Dtype::U32, bytemuck::cast_slice(frequencies.as_slice())),
                ("mean_length", Dtype::F32, bytemuck::cast_slice(&[2.0f32])),
                ("vocabulary", Dtype::U8, vocabulary.as_slice()),
            ],
        )
        .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&whole).unwrap());
    }

    /// The file does not depend on the distribution of nodes between builders.
    #[test]
    fn what_builders_give_each_other_makes_the_same_file() {
        let texts = ["zeta alpha zeta", "", "alpha beta", "beta gamma beta", "alpha"];
        let dir = tempfile::tempdir().unwrap();
        let created = |name: &str| {
            TermIndexBuilder::create(&dir.path().join(name), Languages::ENGLISH).unwrap()
        };
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        let given = |texts: &[&str]| {
            let (mut builder, mut bytes) = (created("part"), Vec::new());
            texts.iter().for_each(|text| builder.add(text).unwrap());
            builder.give(&mut bytes).unwrap();
            bytes
        };
        let mut whole = created("whole");
        texts.iter().for_each(|text| whole.add(text).unwrap());
        whole.finish().unwrap();
        for cut in 0..=texts.len() {
            let mut parted = created("parted");
            let (first, second) = texts.split_at(cut);
            for part in [first, second] {
                let bytes = given(part);
                assert_eq!(parted.take(&mut bytes.as_slice(), 5).unwrap(), part.len());
            }
            assert_eq!(parted.n_nodes(), 5);
            parted.finish().unwrap();
            assert!(read("parted") == read("whole"), "cut at {cut}");
        }
        let bytes = given(&texts);
        for length in [0, 7, 40, bytes.len() - 1] {
            let short = created("short").take(&mut &bytes[..length], 5);
            assert!(
                short.is_err_and(|error| error.to_string().contains("another process analysed"))
            );
        }
        assert!(created("few").take(&mut bytes.as_slice(), 4).is_err(), "more nodes than expected");
        let mut other = bytes.clone();
        *other.last_mut().unwrap() = 0xff;
        assert!(created("other").take(&mut other.as_slice(), 5).is_err(), "an unknown stem");
    }

    #[test]
    fn scores_equal_the_formula() {
        let index = index(&["alpha alpha beta", "beta gamma"]);
        let query = index.query(&Stems::default(), "alpha");
        let idf = (1.0f32 + (2.0 - 1.0 + 0.5) / 1.5).ln();
        let expected = idf * 2.0 / (2.0 + 1.2 * (0.25 + 0.75 * 3.0 / 2.5));
        assert!((index.bm25(&query, 0) - expected).abs() < 1e-6);
    }
}
