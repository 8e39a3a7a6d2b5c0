//! An inverted index with exact top-`k` search by BM25.
//!
//! Nodes fall into blocks of 8 consecutive ids. A frequent word has, for each block, an upper bound
//! on its score there. For each block a query sums the bounds of its words, and reads only blocks
//! whose sum can still reach the best `k` scores, largest sum first (block-max pruning: Mallia,
//! Suel & Tonellotto 2024). In such a block, a node is scored exactly, from counts and lengths, if
//! the bounds of its words can reach the best `k`. Rare words have no bounds; all their postings
//! are scored.
//!
//! The index is one file of arrays, for `n` nodes and `m` words:
//!
//! | array | content |
//! | --- | --- |
//! | `analysis` | [`Analysis`] of the words |
//! | `lengths` `[n]`, `tokens` `[1]` | number of words of each node's text, and of all texts |
//! | `bounds` `[m + 1]`, `words` | the vocabulary, sorted |
//! | `ids` `[m]` | for each word of the vocabulary, its number, by first appearance |
//! | `counts` `[m]` | number of nodes with a word, by word number |
//! | `starts` `[m + 1]` | a zero, then the end of each word's part of `postings`, by word number |
//! | `postings` | see below |
//!
//! A word is rare if fewer than one node in 16 has it. A posting of a rare word is `2 * gap +
//! flag`, where `gap` is the id minus the previous id minus 1 (for the first node, the id). If
//! `flag` is 1, `count - 2` follows, else the count is 1. The part of a frequent word holds, in
//! this order:
//!
//! - for each block a byte: its bound;
//! - for each range of 64 nodes: the mask of the nodes with the word, then the number of postings
//!   before the range (`u32`);
//! - the number of postings (`u32`), then their counts, one byte each, at most 255;
//! - the postings with counts of 255 or more, coded as those of a rare word.

mod build;
mod chunk;
mod coding;
mod search;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::path::Path;

pub use build::{PostingsBuilder, build, is_much, make_room, settle};
pub use search::Collection;

use crate::{
    IndexError, Result,
    arrays::{Array, Arrays, Strings},
    bm25::Bm25,
};
use agent_ground::words::{Analysis, Stems};

/// Number of consecutive nodes that share a bound on their scores for a word.
const BLOCK: usize = 8;
/// Number of consecutive nodes that share a mask.
const RANGE: usize = 64;
/// A word is rare if fewer than `n / RARE` of `n` nodes have it.
const RARE: usize = 16;
/// Maximum number of words of a query, repeated words included; later words are ignored.
pub const MAX_QUERY_WORDS: usize = 256;

/// The inverted index of one text per node.
pub struct Postings {
    lengths: Array<u32>,
    vocabulary: Strings,
    ids: Array<u32>,
    counts: Array<u32>,
    starts: Array<u64>,
    postings: Array<u8>,
    mean: f32,
    /// The BM25 setting for which the stored bounds were computed.
    kept: Bm25,
    analysis: Analysis,
    stems: Stems,
}

impl Postings {
    /// Opens an index; the file is mapped, not read. Constant time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_weighted(path, coding::KEPT)
    }

    /// As [`Postings::open`], for an index whose bounds were computed for the setting `kept`.
    ///
    /// # Errors
    /// As [`Postings::open`].
    pub(crate) fn open_weighted(path: &Path, kept: Bm25) -> Result<Self> {
        let arrays = Arrays::open(path)?;
        let lengths: Array<u32> = arrays.get("lengths")?;
        let tokens: u64 = arrays.number("tokens")?;
        let analysis: Array<u8> = arrays.get("analysis")?;
        let analysis = Analysis::from_bytes(analysis.as_slice())
            .ok_or_else(|| IndexError::damaged(path, "unknown analysis"))?;
        let mean = tokens as f64 / lengths.as_slice().len().max(1) as f64;
        Ok(Self {
            lengths,
            vocabulary: Strings::new(arrays.get("bounds")?, arrays.get("words")?),
            ids: arrays.get("ids")?,
            counts: arrays.get("counts")?,
            starts: arrays.get("starts")?,
            postings: arrays.get("postings")?,
            mean: mean as f32,
            kept,
            analysis,
            stems: analysis.stems(),
        })
    }
}

/// Whether a word that occurs in `count` of `n` texts is rare.
fn is_rare(count: u32, n: usize) -> bool {
    (count as usize).saturating_mul(RARE) < n
}
