//! A graph network over the surroundings of a query: which of the nodes that words put forward are
//! joined to what the query names, and how.
//!
//! After QAGNN (Yasunaga et al. 2021, "QA-GNN: Reasoning with Language Models and Knowledge Graphs for
//! Question Answering"). The working graph of a query has the entities that it names, candidates,
//! nodes between them, and a context node joined to entities and candidates. Messages run along edges
//! of both directions:
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
//! Differences to the paper, which has a language model: relevance `rho` of a node is what links,
//! words and embeddings say of it; `phi(q)` is the hashed stems of the query, and relations are
//! conditioned on it.
//!
//! Must not know: command lines.

mod fit;
mod model;
mod net;
mod subgraph;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::{
    fit::train,
    model::{Described, GraphNetwork, Ranked},
};

/// What an ablation leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Without {
    /// Relations and types of nodes: all edges are alike.
    Relations,
    /// What links, words and embeddings say of nodes.
    Relevance,
    /// All messages.
    Graph,
}

impl Without {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Relations, Self::Relevance, Self::Graph];

    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relations => "relations",
            Self::Relevance => "relevance",
            Self::Graph => "graph",
        }
    }
}

/// How a network is learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is left out, if anything.
    pub without: Option<Without>,
    /// Draws first weights and batches.
    pub seed: u64,
    /// Looks at all queries, at most.
    pub epochs: usize,
    /// Epochs without a better look at validation queries after which it ends.
    pub patience: usize,
    /// Queries of a batch.
    pub batch: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// The share of a weight that goes with each step, times the step size.
    pub decay: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { without: None, seed: 1, epochs: 30, patience: 8, batch: 8, rate: 5e-3, decay: 1e-4 }
    }
}
