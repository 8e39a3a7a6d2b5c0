//! A trained network in files, and the rankings it gives. Must not know how it was learnt.

use std::path::Path;

use safetensors::Dtype;
use serde::{Deserialize, Serialize};

use crate::{
    Look, Record, Source, TrainError,
    graph::{
        Settings,
        net::{Kinds, Precision, n_weights, scores},
        subgraph::{FEATURES, WorkingGraph, n_kinds},
    },
};
use agent_index::{IndexedBase, TextPart, arrays::Arrays};
use agent_kb::{NodeId, best};

/// The system that answers with such models.
pub(super) const SYSTEM: &str = "graph";
const WEIGHTS: &str = "weights";

/// How a network was learnt, and what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// How it was learnt.
    pub settings: Settings,
    /// Kinds of nodes and of edges, those of the context node included.
    pub kinds: [usize; 2],
    /// Training queries with an answer among their candidates: those that teach.
    pub taught: usize,
    /// Validation queries with an answer among their candidates, and all of them.
    pub reached: [usize; 2],
}

/// The kinds of nodes and edges over a base.
pub(super) fn kinds_of(base: &IndexedBase) -> Kinds {
    Kinds { nodes: base.kb.types().len() + 1, edges: n_kinds(base) }
}

/// Writes a network into its directory, replacing one that is there in one step.
pub(super) fn save(
    dir: &Path,
    source: &Source,
    described: Described,
    weights: &[f64],
    curve: Vec<Look>,
) -> Result<Record<Described>, TrainError> {
    Record::new(SYSTEM, source, described, curve).save(dir, &[WEIGHTS], |staging| {
        let weights: Vec<f32> = weights.iter().map(|&weight| weight as f32).collect();
        let arrays = [(WEIGHTS, Dtype::F32, bytemuck::cast_slice(&weights))];
        Ok(Arrays::write(&staging.join(WEIGHTS), &arrays)?)
    })
}

/// A trained network.
pub struct GraphNetwork {
    weights: Vec<f64>,
    kinds: Kinds,
    settings: Settings,
}

/// A ranking by the network.
pub struct Ranked {
    /// The nodes, best first: the candidates of the working graph, then what else `bm25+names` finds.
    pub ranking: Vec<(NodeId, f32)>,
    /// Of each candidate what is known of it, by [`GraphNetwork::FEATURES`].
    pub features: Vec<(NodeId, [f32; FEATURES])>,
    /// Nodes and edges of the working graph.
    pub size: [usize; 2],
}

impl GraphNetwork {
    /// What the numbers of a candidate are.
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

    /// Opens the model in a directory over the base that it was trained on.
    ///
    /// # Errors
    /// That it cannot be read, is of another system, or was trained over another base.
    pub fn open(base: &IndexedBase, dir: &Path) -> Result<(Self, Record<Described>), TrainError> {
        let record = Record::<Described>::read(dir, SYSTEM)?;
        record.check_base(base.kb.fingerprint(), dir)?;
        let kinds = kinds_of(base);
        let arrays = Arrays::open(&dir.join(WEIGHTS))?;
        let weights: Vec<f64> =
            arrays.get::<f32>(WEIGHTS)?.as_slice().iter().map(|&weight| weight.into()).collect();
        if weights.len() != n_weights(kinds) || weights.iter().any(|weight| !weight.is_finite()) {
            return Err(TrainError::damaged(dir, "its weights do not fit the base"));
        }
        Ok((Self { weights, kinds, settings: record.model.settings.clone() }, record))
    }

    /// The `k` best nodes for a query. O(edges of the working graph).
    ///
    /// # Errors
    /// Those of the index; [`TrainError::Network`].
    pub fn rank(&self, base: &IndexedBase, query: &str, k: usize) -> Result<Ranked, TrainError> {
        let graph = WorkingGraph::new(base, query)?;
        let candidates = graph.candidates();
        let scores = match candidates.is_empty() {
            true => Vec::new(),
            false => {
                let without = self.settings.without;
                scores(&self.weights, self.kinds, &graph, without, Precision::Single)?
            }
        };
        let scores = scores.into_iter().map(|score| score as f32);
        let mut ranking = best(candidates.iter().copied().zip(scores).collect(), k);
        if ranking.len() < k {
            let types = base.kb.candidate_types();
            let types = if types.len() == base.kb.types().len() { &[] } else { types };
            let more = base.text.search(query, TextPart::DocumentWithNames, types, k);
            let least = ranking.last().map_or(0.0, |pair| pair.1);
            let more = more.iter().filter(|pair| !candidates.contains(&pair.0));
            let more = more.take(k - ranking.len()).enumerate();
            // In the order of words, behind all candidates.
            let more: Vec<_> = more.map(|(at, pair)| (pair.0, least - (at + 1) as f32)).collect();
            ranking.extend(more);
        }
        let features = candidates.iter().copied().zip(graph.features.iter().copied()).collect();
        Ok(Ranked { ranking, features, size: [graph.nodes.len(), graph.edges.len()] })
    }
}
