//! A trained graph network: writes and opens its files, and ranks nodes.

use std::path::Path;

use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::{
    Record, Result, Source, TrainError, ValidationPoint,
    graph::{
        Settings, Variant,
        net::{DType, Kinds, n_weights, scores},
        subgraph::{FEATURES, WorkingGraph, found, n_kinds, phi_dim},
    },
};
use agent_index::{IndexedBase, arrays::Arrays};
use agent_kb::{NodeId, best};

const WEIGHTS: &str = "weights";

/// Settings and size of a trained graph network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Fingerprint of the embedder that [`Variant::Qagnn`] uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embedder: Option<String>,
    /// Settings of training.
    pub settings: Settings,
    /// Number of node types, and number of edge kinds, including those of the context node.
    pub kinds: [usize; 2],
    /// Number of training queries with an answer in their working graph; training uses only these.
    pub taught: usize,
    /// Number of validation queries with an answer in their working graph, and number of queries
    /// with an answer among all candidates of the knowledge base.
    pub reached: [usize; 2],
}

/// Returns the sizes of a network over a knowledge base.
pub(super) fn kinds_of(base: &IndexedBase, variant: Variant) -> Kinds {
    let (nodes, phi) = (base.kb.types().len() + 1, phi_dim(base, variant));
    Kinds { nodes, edges: n_kinds(base), phi, variant }
}

/// Writes a network with these weights into the directory `dir`; replaces an existing directory
/// atomically.
pub(super) fn save(
    dir: &Path,
    source: &Source,
    info: ModelInfo,
    weights: &[f64],
    curve: Vec<ValidationPoint>,
) -> Result<Record<ModelInfo>> {
    let record = Record::new(info.settings.variant.name(), source, info, curve);
    record.save(dir, |staging| {
        let weights: Vec<f32> = weights.iter().map(|&weight| weight as f32).collect();
        let arrays = [(WEIGHTS, Dtype::F32, bytemuck::cast_slice(&weights))];
        Arrays::write(&staging.join(WEIGHTS), &arrays)?;
        Ok(vec![WEIGHTS.to_owned()])
    })
}

/// A trained graph network.
pub struct GraphNetwork {
    weights: Vec<f64>,
    kinds: Kinds,
    settings: Settings,
}

/// Ranking of nodes for a query by a graph network.
pub struct GraphRanking {
    /// Nodes with their scores, best first: the candidates of the working graph, then, with lower
    /// scores, further nodes that `bm25+names` or, for [`Variant::Qagnn`], embeddings find.
    pub ranking: Vec<(NodeId, f32)>,
    /// Features of each candidate, named by [`GraphNetwork::FEATURES`] or, for
    /// [`Variant::Qagnn`], [`GraphNetwork::NAME_FEATURES`].
    pub features: Vec<(NodeId, [f32; FEATURES])>,
    /// Number of nodes, without the context node, and number of edges of the working graph.
    pub size: [usize; 2],
}

impl GraphNetwork {
    /// Names of the features of a candidate, in the order of [`GraphRanking::features`].
    pub const FEATURES: [&str; FEATURES] = [
        "link",
        "bm25",
        "names",
        "cosine",
        "cover",
        "bm25+names",
        "candidate",
        "entity",
        "log degree / 10",
    ];
    /// Names of the features of [`Variant::Qagnn`], in the same order; empty for those it lacks.
    pub const NAME_FEATURES: [&str; FEATURES] =
        ["", "", "", "name", "", "", "candidate", "entity", ""];

    /// Opens the model in `dir`; `base` must be the knowledge base that the model was trained on.
    ///
    /// # Errors
    /// [`TrainError`] if the model cannot be read, belongs to the system of another variant or was
    /// trained on another knowledge base or with another embedder.
    pub fn open(
        base: &IndexedBase,
        dir: &Path,
        variant: Variant,
    ) -> Result<(Self, Record<ModelInfo>)> {
        let record = Record::<ModelInfo>::read(dir, variant.name())?;
        record.check_base(base.kb.fingerprint(), dir)?;
        let embedder = record.model.embedder.as_deref();
        if embedder.is_some_and(|embedder| embedder != base.embedder().fingerprint()) {
            return Err(TrainError::OtherEmbedder(dir.display().to_string()));
        }
        let kinds = kinds_of(base, variant);
        let arrays = Arrays::open(&dir.join(WEIGHTS))?;
        let weights: Vec<f64> =
            arrays.get::<f32>(WEIGHTS)?.as_slice().iter().map(|&weight| weight.into()).collect();
        if weights.len() != n_weights(kinds) || weights.iter().any(|weight| !weight.is_finite()) {
            return Err(TrainError::damaged(dir, "its weights do not match the base"));
        }
        Ok((Self { weights, kinds, settings: record.model.settings.clone() }, record))
    }

    /// Returns the `k` best nodes for a query, with the features of the candidates. O(edges of the
    /// working graph).
    ///
    /// # Errors
    /// [`TrainError::Index`] if the index fails; [`TrainError::Network`] if the computation fails.
    pub fn rank(&self, base: &IndexedBase, query: &str, k: usize) -> Result<GraphRanking> {
        let variant = self.settings.variant;
        let graph = WorkingGraph::new(base, query, variant)?;
        let candidates = graph.candidates();
        let scores = match candidates.is_empty() {
            true => Vec::new(),
            false => {
                let ablation = self.settings.ablation;
                scores(&self.weights, self.kinds, &graph, ablation, DType::F32)?
            }
        };
        let scores = scores.into_iter().map(|score| score as f32);
        let mut ranking = best(candidates.iter().copied().zip(scores).collect(), k);
        if ranking.len() < k {
            let more = found(base, query, k, variant)?;
            let lowest = ranking.last().map_or(0.0, |pair| pair.1);
            let more = more.iter().filter(|pair| !candidates.contains(&pair.0));
            let more = more.take(k - ranking.len()).enumerate();
            // Further nodes follow the candidates in the order in which they are found.
            let more: Vec<_> = more.map(|(i, pair)| (pair.0, lowest - (i + 1) as f32)).collect();
            ranking.extend(more);
        }
        let features = candidates.iter().copied().zip(graph.features.iter().copied()).collect();
        Ok(GraphRanking { ranking, features, size: [graph.nodes.len(), graph.edges.len()] })
    }
}
