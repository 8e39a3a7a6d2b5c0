//! Dual encoders: map queries and nodes to vectors, and are trained on labelled queries so that the
//! vector of a query is near those of its answers.
//!
//! DPR (Karpukhin et al. 2020, "Dense Passage Retrieval") uses two kinds of negatives: the other
//! documents of a batch, and one non-answer from BM25. ANCE (Xiong et al. 2021, "Approximate
//! Nearest Neighbor Negative Contrastive Learning") draws the non-answer from the encoder's own
//! results, which are refreshed a few times. Here lexical non-answers come from `bm25+names`.
//!
//! One encoder serves queries and nodes: a table of word vectors, which takes seconds to train, or
//! a fine-tuned sentence encoder of the BERT family ([`tune()`]). The table computes
//!
//! ```text
//! v(text) = u / |u|     u = sum over stems w of (1 + ln tf) idf_w E_w
//! ```
//!
//! `E` is the table; its rows start as the built-in embedder's vectors of the stems, or as small
//! random vectors for stems that this embedder does not know. A node's text is its document with
//! the names of its neighbours.
//!
//! Because labelled queries are few, synthetic queries are added. A synthetic query has some words
//! of a node's document and the name of a neighbour; the node is its answer.

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
    model::{Encoder, ModelInfo, fuse},
    tune::tune,
};

/// Kind of dual encoder to train.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EncoderKind {
    /// A table of word vectors; the vector of a text is the weighted sum of its words' vectors,
    /// scaled to norm 1.
    Bag,
}

/// Where the negatives of a query (non-answers to train against) come from, in addition to the
/// other documents of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Negatives {
    /// The non-answers that `bm25+names` ranks highest (DPR).
    Bm25,
    /// At first the non-answers that `bm25+names` ranks highest, later the non-answers that the
    /// encoder itself ranks highest (ANCE).
    #[serde(rename = "self")]
    Own,
}

/// Settings of training a table of word vectors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Kind of dual encoder to train.
    pub encoder: EncoderKind,
    /// Where negatives come from.
    pub negatives: Negatives,
    /// Number of times that the encoder's own negatives are recomputed, evenly over the epochs.
    pub refresh: usize,
    /// Seed of synthetic queries, batches and negatives.
    pub seed: u64,
    /// Number of dimensions of a vector; reduced if the vectors of the built-in embedder have fewer
    /// dimensions.
    pub dim: usize,
    /// Number of synthetic queries to make; empty ones are dropped, so the actual number may be
    /// lower.
    pub made: usize,
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Maximum number of epochs without improvement on validation queries.
    pub patience: usize,
    /// Number of pairs of a query and an answer per batch.
    pub batch: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// Temperature of the softmax over cosines.
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
    /// Returns the name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bag => "bag",
        }
    }
}

impl Negatives {
    /// Returns the name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Own => "self",
        }
    }
}
