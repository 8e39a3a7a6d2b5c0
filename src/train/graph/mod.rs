//! A graph network that ranks the candidates of a query by their connections to the query's linked
//! entities, and by lexical scores.
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
//! `h_v` is the state of node `v`, `z` the context node, `r_e` the vector of the edge kind `e`, and
//! `lexical_v` the `bm25+names` score. In the paper, a language model computes the relevance `rho`
//! of a node; here it consists of scores of entity linking, lexical search and embeddings. `phi(q)`
//! is a vector of the hashed stems of the query; the vectors of edge kinds depend on it.
//!
//! [`Variant::Qagnn`] follows the paper. Candidates are the nodes nearest to the query by the
//! embedder of the index, and neighbours of linked entities. `rho` is the similarity of a node's
//! name to the query, and whether the node is a candidate or an entity; `phi(q)` is the vector of
//! the query. Nothing depends on the words of documents. With `x_v = [type_v, rho_v]`:
//!
//! ```text
//! m_st = relu(M [h_s, x_s, r_e])
//! a_st = softmax over s of (Q [h_s, x_s]) . (K [h_t, x_t, r_e]) / sqrt(dim)
//! score(v) = o . relu(O [h_v, h_z, rho_v])
//! ```

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

/// Variant of the network: its relevance features and equations, and the system that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// Scores of entity linking, lexical search and embeddings of documents.
    Graph,
    /// Similarities of names by the embedder of the index, as in QA-GNN.
    Qagnn,
}

impl Variant {
    /// Returns the name of the system that uses the network.
    pub fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Qagnn => "qagnn",
        }
    }
}

/// Component of the network that an ablation removes, to measure its contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ablation {
    /// Relations and node types; all edges between nodes have the same kind.
    Relations,
    /// Relevance features of nodes: scores of entity linking, lexical search and embeddings.
    Relevance,
    /// Messages along edges; candidates are scored without their neighbours.
    Graph,
}

impl Ablation {
    /// All components that can be removed.
    pub const ALL: [Self; 3] = [Self::Relations, Self::Relevance, Self::Graph];

    /// Returns the name of the ablation on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relations => "relations",
            Self::Relevance => "relevance",
            Self::Graph => "graph",
        }
    }
}

/// Settings of training a graph network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Variant of the network.
    pub variant: Variant,
    /// Component to remove; `None` keeps the whole network.
    #[serde(rename = "without")]
    pub ablation: Option<Ablation>,
    /// Seed of the initial weights and of the order of queries.
    pub seed: u64,
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Maximum number of epochs without improvement on validation queries.
    pub patience: usize,
    /// Number of queries per batch.
    pub batch: usize,
    /// Step size of Adam.
    pub rate: f64,
    /// Weight decay: before each step, weights are multiplied by `1 - rate * decay`.
    pub decay: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            variant: Variant::Graph,
            ablation: None,
            seed: 1,
            epochs: 30,
            patience: 8,
            batch: 8,
            rate: 5e-3,
            decay: 1e-4,
        }
    }
}
