//! Postings of a chunk of texts, word by word, in memory and as bytes. Threads and builders
//! exchange chunks during a build.

use std::{
    io::{self, Read, Write},
    ops::Range,
};

use crate::{
    postings::coding::{Gaps, put, put_gaps, take},
    stream::{self, Words, invalid_data},
};
use agent_kb::NodeId;

/// Postings of some consecutive texts, word by word. Each word has a part of `bytes`, which starts
/// with the number of nodes that have the word. For each node, `2 * gap + flag` follows, where
/// `gap` is the id minus the previous id minus 1 (for the first node, the id). If `flag` is 1,
/// `count - 2` follows; otherwise the count is 1.
#[derive(Default)]
pub(super) struct Chunk {
    /// For each word of the chunk, its number in the vocabulary of the builder.
    pub(super) words: Vec<u32>,
    /// Pairs (node, number of words of its text), nodes ascending.
    pub(super) lengths: Vec<(NodeId, u32)>,
    /// For each word, the end of its part of `bytes`.
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Chunk {
    /// Creates a chunk of texts with these lengths, in words, and without postings.
    pub(super) fn new(lengths: Vec<(NodeId, u32)>) -> Self {
        Self { lengths, ..Self::default() }
    }

    /// Appends the postings of the next word: the nodes that have the word, ascending, each with
    /// its number of occurrences.
    pub(super) fn push(&mut self, postings: &[(NodeId, u32)]) {
        put(&mut self.bytes, postings.len() as u64);
        put_gaps(&mut self.bytes, postings);
        self.ends.push(self.bytes.len());
    }

    /// Frees memory that is reserved but not used.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Returns the coded postings of the word at this position in the chunk, from 0.
    pub(super) fn part(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    /// Approximate size of the postings in memory, in bytes.
    pub(super) fn held(&self) -> usize {
        self.words.len() * 12 + self.bytes.len()
    }

    /// Writes the chunk to `out`; `words` are the texts of its words, in order.
    pub(super) fn write<'a>(
        &self,
        words: impl Iterator<Item = &'a [u8]>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        stream::write_words(out, words)?;
        let (nodes, lengths): (Vec<NodeId>, Vec<u32>) = self.lengths.iter().copied().unzip();
        stream::write(out, &nodes)?;
        stream::write(out, &lengths)?;
        let ends: Vec<u64> = self.ends.iter().map(|&end| end as u64).collect();
        stream::write(out, &ends)?;
        stream::write(out, &self.bytes)
    }

    /// Reads a chunk that [`Self::write`] wrote, whose texts must belong to `nodes`. Returns the
    /// texts of its words, and the chunk without the numbers of the words.
    ///
    /// # Errors
    /// Errors of `input`; `InvalidData` for malformed input.
    pub(super) fn read(input: &mut dyn Read, nodes: Range<NodeId>) -> io::Result<(Words, Self)> {
        let words = stream::read_words(input)?;
        let (ids, lengths) = (stream::read::<NodeId>(input)?, stream::read::<u32>(input)?);
        let ends = stream::read::<u64>(input)?.into_iter().map(|end| end as usize).collect();
        let bytes = stream::read(input)?;
        let of_nodes = ids.iter().all(|node| nodes.contains(node))
            && ids.is_sorted_by(|a, b| a < b)
            && ids.len() == lengths.len();
        let lengths = ids.into_iter().zip(lengths).collect();
        let chunk = Self { words: Vec::new(), lengths, ends, bytes };
        match of_nodes && chunk.ends.len() == words.len() && chunk.is_whole() {
            true => Ok((words, chunk)),
            false => Err(invalid_data("postings do not match the nodes and words")),
        }
    }

    /// Whether the postings of every word are complete and hold only nodes of the chunk.
    fn is_whole(&self) -> bool {
        let is_cut =
            self.ends.is_sorted() && self.ends.last().map_or(0, |&end| end) == self.bytes.len();
        let has =
            |node: NodeId| self.lengths.binary_search_by_key(&node, |length| length.0).is_ok();
        let is_part = |at: usize| {
            let mut part = self.part(at);
            let n = take(&mut part).unwrap_or(0) as usize;
            let known = Gaps::new(&mut part).take(n).filter(|&(node, _)| has(node)).count();
            n > 0 && known == n && part.is_empty()
        };
        is_cut && (0..self.ends.len()).all(is_part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> Chunk {
        let mut chunk = Chunk::new(vec![(4, 3), (5, 0), (9, 2)]);
        chunk.push(&[(4, 3), (9, 1)]);
        chunk.push(&[(9, 1)]);
        chunk
    }

    fn bytes(chunk: &Chunk, words: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        chunk.write(words.iter().map(|word| word.as_bytes()), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (there, written) = (chunk(), bytes(&chunk(), &["a", "b"]));
        let (words, read) = Chunk::read(&mut written.as_slice(), 4..10).unwrap();
        assert_eq!(words.iter().collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((read.lengths.clone(), read.ends.clone()), (there.lengths, there.ends));
        assert_eq!(bytes(&read, &["a", "b"]), written);
    }

    #[test]
    fn what_would_not_fit_the_index_is_refused() {
        let refused = |chunk: &Chunk, words: &[&str], nodes: Range<NodeId>| {
            Chunk::read(&mut bytes(chunk, words).as_slice(), nodes).is_err()
        };
        assert!(!refused(&chunk(), &["a", "b"], 0..10));
        assert!(refused(&chunk(), &["a", "b"], 0..9), "a node above the range");
        assert!(refused(&chunk(), &["a", "b"], 5..10), "a node below the range");
        assert!(refused(&chunk(), &["a"], 0..10), "more parts than words");
        let changed = |change: fn(&mut Chunk)| {
            let mut chunk = chunk();
            change(&mut chunk);
            chunk
        };
        for (at, change) in [
            |chunk: &mut Chunk| chunk.lengths.swap(0, 1),
            |chunk: &mut Chunk| chunk.lengths.truncate(2),
            |chunk: &mut Chunk| chunk.ends[0] += 1,
            |chunk: &mut Chunk| chunk.ends.swap(0, 1),
            |chunk: &mut Chunk| chunk.bytes.push(0),
            |chunk: &mut Chunk| chunk.bytes[0] = 3,
            |chunk: &mut Chunk| chunk.bytes[0] = 0,
        ]
        .into_iter()
        .enumerate()
        {
            assert!(refused(&changed(change), &["a", "b"], 0..10), "change {at}");
        }
    }
}
