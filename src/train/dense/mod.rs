//! Dual encoders: queries and nodes as vectors that are learnt from labelled queries, so that a query
//! is near to what answers it.
//!
//! DPR (Karpukhin et al. 2020, "Dense Passage Retrieval") learns from the other documents of a batch
//! and from one that `bm25+names` finds and that does not answer; ANCE (Xiong et al. 2021,
//! "Approximate Nearest Neighbor Negative Contrastive Learning") draws the latter from what the
//! encoder itself finds, asked anew a few times. Both have two transformers; the encoder here is one
//! for queries and nodes: a table of word vectors, which takes seconds to train, or a sentence encoder
//! of the BERT family that is fine-tuned ([`tune()`]). The former is
//!
//! ```text
//! v(text) = u / |u|     u = sum over stems w of (1 + ln tf) idf_w E_w
//! ```
//!
//! `E` begins as the vectors that the built-in embedder gives the stems, and small random ones for
//! stems it does not know. A node's text is its document with the names of its neighbours.
//!
//! As labels are few, queries are made as well: some words of a node's document and the name of a
//! neighbour, which that node answers.

mod checkpoint;
mod fit;
mod loss;
mod model;
mod pairs;
mod table;
#[cfg(test)]
mod tests;
mod transformer;
pub mod tune;
mod words;

use serde::{Deserialize, Serialize};

pub use self::{
    fit::train,
    model::{Described, Encoder, fused},
    tune::tune,
};

/// What turns a text into a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderKind {
    /// The weighted mean of word vectors.
    Bag,
}

/// Where nodes come from that do not answer, beside the other documents of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Negatives {
    /// The first of `bm25+names`: DPR.
    Bm25,
    /// At first these, then the first of the encoder itself: ANCE.
    #[serde(rename = "self")]
    Own,
}

/// How an encoder is learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What turns a text into a vector.
    pub encoder: EncoderKind,
    /// Where negatives come from.
    pub negatives: Negatives,
    /// How often the encoder itself is asked for negatives, evenly over the epochs.
    pub refresh: usize,
    /// Draws made queries, batches and negatives.
    pub seed: u64,
    /// Numbers of a vector, unless the built-in embedder has fewer.
    pub dim: usize,
    /// Queries that are made.
    pub made: usize,
    /// Looks at all pairs, at most.
    pub epochs: usize,
    /// Epochs without a better look at validation queries after which it ends.
    pub patience: usize,
    /// Pairs of a batch.
    pub batch: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// Divides cosines in the softmax.
    pub temperature: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            encoder: EncoderKind::Bag,
            negatives: Negatives::Bm25,
            refresh: 3,
            seed: 1,
            dim: 256,
            made: 8_000,
            epochs: 12,
            patience: 4,
            batch: 64,
            rate: 1e-3,
            temperature: 0.05,
        }
    }
}

impl EncoderKind {
    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bag => "bag",
        }
    }
}

impl Negatives {
    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Own => "self",
        }
    }
}
