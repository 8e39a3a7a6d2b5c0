//! mFAR: field scores weighted by the query (Li et al. 2024, "Multi-Field Adaptive Retrieval").
//!
//! ```text
//! score(q, d) = sum over scorers j of  w_j(q) * gamma_j * (s_j(q, d) - mean_j) / scale_j
//! w(q)        = softmax over j of (b_j + a_j . phi(q))
//! ```
//!
//! A scorer `s_j` compares one field, or the whole document, of a node with the query, by BM25 or
//! by the dot product of vectors ([`Variant`]); vectors come from the embedder of the index.
//! `phi(q)` are features of the query; in the paper, its vector ([`Conditioning::Encoder`]).
//! `gamma_j`, `b_j` and `a_j` are trained. A scorer adds 0 to the score of a node that lacks the
//! field or, for BM25, has no word of the query in it. Search is exact: it scores every node that
//! any scorer finds, and ranks no other nodes.
//!
//! Differences from the paper, whose batch normalisation is `(s_j - mean_j) / std_j`:
//! - For BM25, `mean_j` is 0 and `scale_j` is the root mean square of the scores above 0. Most
//!   candidates have no match in most fields; a standard deviation that includes their zeros would
//!   give the rarest field the largest weight.
//! - The encoder is not trained together with the weights; `agent train dense` can train an encoder
//!   beforehand.
//! - Means and scales are the same in training and in search.
//! - Training candidates are the best nodes of every scorer, not nodes of other queries in the
//!   batch.

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

use self::scorers::Measure;

/// Set of scorers that a model uses: one of five sets of the paper, or
/// [`Variant::OnePlusNLexical`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// BM25 of every field.
    #[serde(rename = "lexical")]
    Lexical,
    /// Dot product of vectors of every field.
    #[serde(rename = "dense")]
    Dense,
    /// BM25 of the whole document with the names of neighbours, and dot product of vectors of the
    /// document.
    #[serde(rename = "2")]
    Two,
    /// BM25 and dot product of vectors of every field.
    #[serde(rename = "all")]
    All,
    /// BM25 of the whole document with the names of neighbours, and dot product of vectors of every
    /// field.
    #[serde(rename = "1+n")]
    OnePlusN,
    /// BM25 of the whole document with the names of neighbours, and BM25 of every field.
    #[serde(rename = "1+n:lexical")]
    OnePlusNLexical,
}

/// Features `phi` of a query that the weights of the scorers depend on (the conditioning).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Conditioning {
    /// No features: all queries have the same weights.
    None,
    /// The stems of the query that occur in enough training queries.
    Words,
    /// The best standardized score that each scorer gives to a node, divided by the largest of
    /// these scores.
    Responses,
    /// The vector of the query, as in the paper.
    Encoder,
}

impl Conditioning {
    /// All kinds of features, simplest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Words, Self::Responses, Self::Encoder];

    /// Returns the name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Words => "words",
            Self::Responses => "responses",
            Self::Encoder => "encoder",
        }
    }
}

impl Variant {
    /// Returns the name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Dense => "dense",
            Self::Two => "2",
            Self::All => "all",
            Self::OnePlusN => "1+n",
            Self::OnePlusNLexical => "1+n:lexical",
        }
    }

    /// Returns the measures that compare the whole document with a query, then the measures that
    /// compare every field.
    fn measures(self) -> (&'static [Measure], &'static [Measure]) {
        use Measure::{Dense, Lexical};
        match self {
            Self::Lexical => (&[], &[Lexical]),
            Self::Dense => (&[], &[Dense]),
            Self::Two => (&[Lexical, Dense], &[]),
            Self::All => (&[], &[Lexical, Dense]),
            Self::OnePlusN => (&[Lexical], &[Dense]),
            Self::OnePlusNLexical => (&[Lexical], &[Lexical]),
        }
    }
}
