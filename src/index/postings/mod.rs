//! An inverted index: given words, the best of all nodes by BM25, exactly.
//!
//! Nodes fall into blocks of 8 consecutive ids. A word of many nodes keeps, for each block, a bound
//! of its score there; a query adds the bounds of its words and reads only blocks that can still
//! reach the best `k`, most promising first, after Mallia, Suel & Tonellotto 2024 (block-max
//! pruning). In such a block, a node is scored (exactly, from counts and lengths) only if the
//! bounds of its words can reach the best `k`. Words of few nodes have no bounds; all their
//! postings are scored.
//!
//! One file of arrays; `n` nodes, `m` words:
//!
//! | array | holds |
//! | --- | --- |
//! | `analysis` | [`Analysis`] of the words |
//! | `lengths` `[n]`, `tokens` `[1]` | words of each node's text, and of all |
//! | `bounds` `[m + 1]`, `words` | the vocabulary, sorted |
//! | `ids` `[m]` | number of each word, by first appearance |
//! | `counts` `[m]` | nodes with the word, by number |
//! | `starts` `[m + 1]` | ends of each word's part of `postings` after a leading zero, by number |
//! | `postings` | see below |
//!
//! A posting of a rare word, one of fewer than one node in 16, is the gap to the node before, less
//! one, doubled, plus one if the count follows less two. A frequent word has one byte a block, its
//! bound; then for each range of 64 nodes a mask of those with the word and a `u32`, how many come
//! before; then how many there are, a byte each for their counts, and the gaps of those with counts
//! of 255 or more.

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
    IndexError,
    arrays::{Array, Arrays, Strings},
    bm25::Bm25,
};
use agent_ground::words::{Analysis, Stems};

/// Nodes that share a bound.
const BLOCK: usize = 8;
/// Nodes that share a mask.
const RANGE: usize = 64;
/// A word in fewer than one of this many nodes is rare.
const RARE: usize = 16;
/// Maximum number of words of a query, repeated ones included; later ones are dropped.
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
    /// The setting for which bounds are kept.
    kept: Bm25,
    analysis: Analysis,
    stems: Stems,
}

impl Postings {
    /// Maps an index; costs the same whatever its size.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(path: &Path) -> Result<Self, IndexError> {
        Self::open_weighted(path, coding::KEPT)
    }

    /// The same of an index whose bounds are kept for another setting.
    ///
    /// # Errors
    /// As [`Postings::open`].
    pub(crate) fn open_weighted(path: &Path, kept: Bm25) -> Result<Self, IndexError> {
        let arrays = Arrays::open(path)?;
        let lengths: Array<u32> = arrays.get("lengths")?;
        let tokens: Array<u64> = arrays.get("tokens")?;
        let tokens = tokens.as_slice().first().copied().unwrap_or(0);
        let analysis: Array<u8> = arrays.get("analysis")?;
        let analysis = Analysis::from_bytes(analysis.as_slice())
            .ok_or_else(|| IndexError::damaged(path, "unknown analysis".to_owned()))?;
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

/// Whether a word of `count` nodes is rare among `n`.
fn is_rare(count: u32, n: usize) -> bool {
    (count as usize).saturating_mul(RARE) < n
}
