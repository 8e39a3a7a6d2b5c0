//! A graph network over the neighbourhood of a query. It ranks candidates by their connections to
//! the linked entities, and by lexical scores.
//!
//! The design follows QA-GNN (Yasunaga et al. 2021, "QA-GNN: Reasoning with Language Models and
//! Knowledge Graphs for Question Answering"). The working graph of a query contains its linked
//! entities, candidates, nodes between them, and a context node connected to entities and
//! candidates. Messages pass along edges in both directions:
//!
//! ```text
//! h_v  = W [type_v, rho_v]                       h_z = B phi(q)
//! r_e  = R_e + G_e * C phi(q)
//! m_st = relu(M [h_s, r_e])
//! a_st = softmax over s of (Q h_s) . (K [h_t, r_e]) / sqrt(dim)
//! h_t += W2 relu(W1 sum over s of a_st m_st)
//! score(v) = o . relu(O [h_v, h_z, rho_v]) + c * lexical_v
//! ```
//!
//! The paper uses a language model; here the relevance `rho` of a node consists of scores of entity
//! linking, lexical search and embeddings. `phi(q)` is a vector of hashed stems of the query, and
//! relations are conditioned on it.

mod fit;
mod model;
mod net;
mod subgraph;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::{
    fit::train,
    model::{GraphNetwork, GraphRanking, ModelInfo},
};

/// Component that an ablation removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ablation {
    /// Relations and node types; all edges between nodes have the same kind.
    Relations,
    /// Relevance features of nodes.
    Relevance,
    /// Messages.
    Graph,
}

impl Ablation {
    /// All ablations.
    pub const ALL: [Self; 3] = [Self::Relations, Self::Relevance, Self::Graph];

    /// Name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relations => "relations",
            Self::Relevance => "relevance",
            Self::Graph => "graph",
        }
    }
}

/// Settings of training a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Removed component, if any.
    #[serde(rename = "without")]
    pub ablation: Option<Ablation>,
    /// Seed of initial weights and batches.
    pub seed: u64,
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Maximum number of epochs without improvement on validation queries.
    pub patience: usize,
    /// Number of queries per batch.
    pub batch: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// Weight decay per step, relative to the step size.
    pub decay: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ablation: None, seed: 1, epochs: 30, patience: 8, batch: 8, rate: 5e-3, decay: 1e-4 }
    }
}
