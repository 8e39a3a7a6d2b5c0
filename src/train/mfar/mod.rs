//! mFAR: field scores weighted by the query (Li et al. 2024, "Multi-Field Adaptive Retrieval"),
//! with lexical scorers.
//!
//! ```text
//! score(q, d) = sum over scorers j of  w_j(q) * gamma_j * s_j(q, d) / scale_j
//! w(q)        = softmax over j of (b_j + a_j . phi(q))
//! ```
//!
//! `s_j` is BM25 of one field, or of the whole document with the names of neighbours. It is 0 for a
//! node without any word of the query in the field; nodes that no scorer finds are not ranked.
//! Search is exact: every node that any scorer finds is scored.
//!
//! Differences from the paper, whose batch normalisation is `(s_j - mean_j) / std_j`:
//! - Means shift all nodes equally and change no ranking, so they are omitted. `scale_j` is the
//!   root mean square of the scores above 0: most candidates have no match in most fields, and a
//!   deviation that includes these would give the rarest field the largest weight.
//! - There is no encoder; `phi` consists of words or of the scorers' best scores
//!   ([`Conditioning`]).
//! - Scales are the same in training and in search. Training candidates are the first nodes of
//!   every scorer, not those of other queries in the batch.

mod examples;
mod fit;
mod model;
mod scorers;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::{
    fit::{CrossValidation, Progress, Settings, TrainedModel, train},
    model::{Contribution, Mfar, ModelInfo, SearchResult},
    scorers::{Mask, Scorers},
};

/// Set of scorers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// BM25 of every field.
    #[serde(rename = "lexical")]
    Lexical,
    /// BM25 of the whole document with the names of neighbours, and of every field.
    #[serde(rename = "1+n:lexical", alias = "1+n")]
    OnePlusN,
}

/// The features `phi` of a query that its weights depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Conditioning {
    /// No features: all queries have the same weights.
    None,
    /// The stems of the query that occur in enough training queries.
    Words,
    /// The best score of each scorer, divided by the largest of them.
    Responses,
}

impl Conditioning {
    /// All conditionings, simplest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Words, Self::Responses];

    /// Name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Words => "words",
            Self::Responses => "responses",
        }
    }
}

impl Variant {
    /// Name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::OnePlusN => "1+n:lexical",
        }
    }
}
