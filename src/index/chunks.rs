//! Vectors of chunks of documents, because a single vector represents a long document poorly.
//!
//! Documents of candidates are split into overlapping chunks of at most [`CHUNK_CHARS`] characters;
//! each chunk has a vector. Row `i` of the matrix is the vector of chunk `i`; chunks are ordered by
//! node, then by position in the text. The texts of chunks are not stored; documents are split
//! again when needed.

use std::path::Path;

use crate::{
    IndexError, Result,
    arrays::{Array, Arrays, named},
    build::Watch,
    parts::Materials,
    vectors::{Precision, VectorIndex, VectorWriter},
};
use agent_kb::{NodeId, distinct};

/// Maximum length of a chunk, in characters; the same as in STaRK's multi-vector baseline.
pub const CHUNK_CHARS: usize = 256;
/// Maximum number of characters that two consecutive chunks share.
const OVERLAP_CHARS: usize = CHUNK_CHARS / 5;
/// Maximum number of chunks of one document that get a vector; the rest of the document is ignored.
pub const MAX_CHUNKS: usize = 64;
/// Separators at which a text is split; those of larger units, such as paragraphs, come first.
const SEPARATORS: [&str; 3] = ["\n\n", "\n", " "];
/// Number of nodes whose chunks are embedded at a time.
const BLOCK_NODES: usize = 256;
/// Name of the file of vectors.
const VECTORS: &str = "vectors";
/// Name of the file that records which chunks belong to which node.
const PLACES: &str = "places";
/// Name of the stage in progress reports.
const STAGE: &str = "multi";

/// Splits a text into chunks of at most `size` characters, each trimmed and not empty, in order.
///
/// A text is split at the first of `"\n\n"`, `"\n"`, `" "` that it contains; parts that are too
/// long are split recursively at the next separator, finally between characters. A separator
/// belongs to the part after it. Parts are joined greedily while they fit. A chunk repeats the last
/// complete parts of the previous chunk, up to `overlap` characters.
pub fn chunk_text(text: &str, size: usize, overlap: usize) -> Vec<&str> {
    let mut splitter = Splitter { text, size: size.max(1), overlap, chunks: Vec::new() };
    splitter.split(0, text.len(), &SEPARATORS);
    splitter.chunks
}

/// State of splitting one text into chunks.
struct Splitter<'a> {
    text: &'a str,
    size: usize,
    overlap: usize,
    chunks: Vec<&'a str>,
}

impl Splitter<'_> {
    /// Splits `text[start..end]` at the first of `separators` that it contains, or between
    /// characters, and appends its chunks.
    fn split(&mut self, start: usize, end: usize, separators: &[&str]) {
        let part = &self.text[start..end];
        let separator = separators.iter().position(|separator| part.contains(separator));
        let (bounds, rest) = match separator {
            Some(index) => {
                let found = part.match_indices(separators[index]).map(|(found, _)| start + found);
                (found.filter(|&found| found > start).collect(), &separators[index + 1..])
            }
            None => {
                let chars = part.char_indices().skip(1).map(|(found, _)| start + found);
                (chars.collect::<Vec<usize>>(), &[][..])
            }
        };
        // Consecutive parts that fit, before joining: (start, end, characters).
        let mut fitting: Vec<(usize, usize, usize)> = Vec::new();
        let mut part_start = start;
        for part_end in bounds.into_iter().chain([end]) {
            let n_chars = self.text[part_start..part_end].chars().count();
            if n_chars < self.size || separator.is_none() {
                fitting.push((part_start, part_end, n_chars));
            } else {
                self.join(&fitting);
                fitting.clear();
                self.split(part_start, part_end, rest);
            }
            part_start = part_end;
        }
        self.join(&fitting);
    }

    /// Joins consecutive parts greedily while they fit, and appends the chunks. A part is (start,
    /// end, number of characters).
    fn join(&mut self, parts: &[(usize, usize, usize)]) {
        let (mut first, mut total) = (0, 0);
        let mut push_chunk = |first: usize, last: usize| {
            let chunk = self.text[parts[first].0..parts[last].1].trim();
            if !chunk.is_empty() {
                self.chunks.push(chunk);
            }
        };
        for (index, part) in parts.iter().enumerate() {
            if total + part.2 > self.size && index > first {
                push_chunk(first, index - 1);
                while total > self.overlap || (total + part.2 > self.size && total > 0) {
                    total -= parts[first].2;
                    first += 1;
                }
            }
            total += part.2;
        }
        if first < parts.len() {
            push_chunk(first, parts.len() - 1);
        }
    }
}

/// Returns the chunks of a document that get a vector: the first [`MAX_CHUNKS`].
pub fn chunks_of(text: &str) -> Vec<&str> {
    // A character has at most four bytes, so the omitted text is after the last chunk.
    let text = &text[..text.floor_char_boundary(4 * (MAX_CHUNKS + 1) * CHUNK_CHARS)];
    let mut chunks = chunk_text(text, CHUNK_CHARS, OVERLAP_CHARS);
    chunks.truncate(MAX_CHUNKS);
    chunks
}

/// The opened vectors of the chunks of all candidates.
pub struct ChunkIndex {
    arrays: Arrays,
    vectors: VectorIndex,
    /// The candidates, ascending.
    nodes: Array<u32>,
    /// The `i`-th candidate has the chunks `bounds[i]..bounds[i + 1]`.
    bounds: Array<u64>,
}

/// Splits the documents of all candidates into chunks, embeds these and writes their vectors to the
/// directory `dir`.
pub(super) fn build(materials: &Materials<'_>, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let nodes = materials.kb.candidates();
    let (dim, model) = (materials.embedder.dim(), materials.embedder.fingerprint());
    let mut writer = VectorWriter::create(&dir.join(VECTORS), dim, Precision::F16, model)?;
    let mut bounds = vec![0u64];
    for (at, block) in nodes.chunks(BLOCK_NODES).enumerate() {
        watch.progress(STAGE, (at * BLOCK_NODES) as u64, nodes.len() as u64)?;
        let mut chunks = Vec::new();
        for &node in block {
            chunks.extend(chunks_of(materials.kb.text(node)));
            bounds.push(bounds[at * BLOCK_NODES] + chunks.len() as u64);
        }
        writer.append(&materials.embedder.embed_documents(&chunks)?)?;
    }
    writer.finish()?;
    let arrays = [named("bounds", &bounds), named("nodes", nodes)];
    Arrays::write_sealed(&dir.join(PLACES), &arrays)?;
    watch.progress(STAGE, nodes.len() as u64, nodes.len() as u64)
}

impl ChunkIndex {
    /// Opens the chunks in the directory `dir`; its files are mapped, not read. Constant time.
    ///
    /// # Errors
    /// [`IndexError::Io`]; [`IndexError::Damaged`] if the files are malformed or do not match each
    /// other.
    pub fn open(dir: &Path) -> Result<Self> {
        let arrays = Arrays::open(&dir.join(PLACES))?;
        let vectors = VectorIndex::open(&dir.join(VECTORS))?;
        let bounds: Array<u64> = arrays.get("bounds")?;
        if bounds.as_slice().last() != Some(&(vectors.n() as u64)) {
            return Err(IndexError::damaged(dir, "its vectors do not match its nodes"));
        }
        Ok(Self { nodes: arrays.get("nodes")?, bounds, vectors, arrays })
    }

    /// Reads all files and compares them with their recorded checksums.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a checksum differs.
    pub fn verify(&self) -> Result<()> {
        self.arrays.verify()?;
        Ok(self.vectors.verify()?)
    }

    /// Returns a one-line summary for display.
    pub fn describe(&self) -> String {
        let (chunks, nodes) = (self.vectors.n(), self.nodes.as_slice().len());
        format!("vectors of {chunks} chunks of {nodes} documents")
    }

    /// Returns the nodes of the `n` chunks most similar to `query` (`[dim]`), ascending and without
    /// duplicates, so at most `n` nodes. Exact; O(chunks).
    ///
    /// # Errors
    /// As [`VectorIndex::top_k`].
    pub fn nodes_near(&self, query: &[f32], n: usize) -> Result<Vec<NodeId>> {
        let bounds = self.bounds.as_slice();
        let places = self.vectors.top_k(query, n, None)?.into_iter().map(|(chunk, _)| {
            bounds.partition_point(|&bound| bound <= u64::from(chunk)).saturating_sub(1)
        });
        let nodes = places.filter_map(|place| self.nodes.as_slice().get(place).copied());
        Ok(distinct(nodes.collect()))
    }

    /// Returns the dot product of `query` (`[dim]`) with each chunk of a node, in the order of the
    /// text; empty for a node without chunks.
    ///
    /// # Errors
    /// As [`VectorIndex::score`].
    pub fn scores(&self, query: &[f32], node: NodeId) -> Result<Vec<f32>> {
        let Ok(place) = self.nodes.as_slice().binary_search(&node) else { return Ok(Vec::new()) };
        let bound = |at: usize| self.bounds.as_slice().get(at).copied().unwrap_or(0) as u32;
        let chunks: Vec<u32> = (bound(place)..bound(place + 1)).take(MAX_CHUNKS).collect();
        Ok(self.vectors.score(query, &chunks)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text with its chunks by LangChain's `RecursiveCharacterTextSplitter` 1.x, with an overlap
    /// of a fifth of `size`.
    #[derive(serde::Deserialize)]
    struct Golden {
        text: String,
        size: usize,
        chunks: Vec<String>,
    }

    #[test]
    fn texts_are_cut_as_the_reference_cuts_them() {
        let golden: Vec<Golden> =
            serde_json::from_str(include_str!("../../tests/data/chunks.json")).unwrap();
        for Golden { text, size, chunks } in golden {
            assert_eq!(chunk_text(&text, size, size / 5), chunks, "{size} {text:?}");
        }
    }

    #[test]
    fn a_document_has_a_bounded_number_of_chunks() {
        let text = "word ".repeat(1 << 16);
        assert_eq!(chunks_of(&text).len(), MAX_CHUNKS);
        assert_eq!(chunks_of(&text)[..5], chunk_text(&text, CHUNK_CHARS, OVERLAP_CHARS)[..5]);
    }

    proptest! {
        #[test]
        fn chunks_fit_and_hold_every_word(text in "[a-zé\n ]{0,300}", size in 4usize..40) {
            let chunks = chunk_text(&text, size, size / 5);
            let fits = |chunk: &&str| !chunk.is_empty() && chunk.chars().count() <= size;
            prop_assert!(chunks.iter().all(fits));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
            let held: usize = chunks.iter().map(|chunk| letters(chunk)).sum();
            prop_assert!(held >= letters(&text));
        }
    }
}
