//! A trained mFAR model: writes and reads its files (the weights are in `weights.json`), and
//! searches.

use std::{collections::HashMap, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Record, Result, Source, TrainError, ValidationPoint,
    mfar::{
        Conditioning, Mask, Scorers, Variant,
        examples::{Features, Standard, best_scores, conditions, n_conditions, stems_of},
        fit::{CrossValidation, Settings, Weights},
        scorers::Scores,
    },
    store::write_file,
};
use agent_ground::files;
use agent_index::{IndexError, IndexedBase};
use agent_kb::{NodeId, best};

/// Name of the retrieval system that uses these models.
const SYSTEM: &str = "mfar";
const WEIGHTS: &str = "weights.json";
/// Maximum size in bytes of a file of weights.
const MAX_WEIGHTS_BYTES: u64 = 256 << 20;

/// A trained mFAR model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mfar {
    variant: Variant,
    conditioning: Conditioning,
    /// Names of the scorers, in the order of their indexes.
    scorers: Vec<String>,
    /// Stems that weights depend on, sorted.
    stems: Vec<String>,
    /// Mean and scale of each scorer's scores.
    standard: Standard,
    /// Fingerprint of the embedder; empty if the model uses no vectors.
    embedder: String,
    /// `gamma` of each scorer, a factor of the scorer's weight.
    gammas: Vec<f32>,
    /// For each feature of `phi`, a weight for each scorer: `[features, scorers]`, row-major. The
    /// first row holds the `b_j`, the other rows hold the `a_j`.
    weights: Vec<f32>,
}

/// Settings of a trained mFAR model, and the cross-validation that chose its conditioning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelInfo {
    /// Settings of training.
    pub settings: Settings,
    /// Variant: the set of scorers that the model uses.
    pub variant: Variant,
    /// Features of a query that weights depend on.
    pub conditioning: Conditioning,
    /// Results of cross-validation over training queries, one for each conditioning; empty if the
    /// settings give a conditioning.
    pub cross_validation: Vec<CrossValidation>,
}

/// Contribution of one scorer to a node's score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contribution {
    /// Index of the scorer among the scorers of the model.
    pub scorer: usize,
    /// Score that the scorer gives to the node, not standardized.
    pub score: f32,
    /// Standardized score times the scorer's weight: the term in the node's total score.
    pub contribution: f32,
}

impl Mfar {
    pub(super) fn new(
        scorers: &Scorers,
        conditioning: Conditioning,
        stems: Vec<String>,
        standard: Standard,
        weights: &Weights,
    ) -> Self {
        let has_vectors = scorers.has_dense() || conditioning == Conditioning::Encoder;
        let embedder = if has_vectors { scorers.base().embedder().fingerprint() } else { "" };
        let gammas = weights.gammas();
        let rows = &weights.all[..weights.all.len() - gammas.len()];
        let short = |numbers: &[f64]| numbers.iter().map(|&number| number as f32).collect();
        Self {
            variant: scorers.variant(),
            conditioning,
            scorers: scorers.names(),
            stems,
            standard,
            embedder: embedder.to_owned(),
            gammas: short(gammas),
            weights: short(rows),
        }
    }

    /// Returns the variant: the set of scorers that the model uses.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// Returns the features of a query that weights depend on.
    pub fn conditioning(&self) -> Conditioning {
        self.conditioning
    }

    /// Returns the weight of each scorer for a query: positive numbers that sum to 1. `found` holds
    /// the scores of each scorer for the query.
    pub(super) fn weights_of(
        &self,
        scorers: &Scorers,
        query: &str,
        found: &[Scores],
    ) -> Result<Vec<f32>, IndexError> {
        let mut features = Features::default();
        match self.conditioning {
            Conditioning::Words => features.stems = stems_of(query),
            Conditioning::Encoder => features.vector = scorers.vector(query)?,
            Conditioning::Responses => features.best = best_scores(found),
            Conditioning::None => {}
        }
        let all = self.weights.iter().chain(&self.gammas).map(|&weight| f64::from(weight));
        let weights = Weights { n_scorers: self.scorers.len(), all: all.collect() };
        let phi = conditions(self.conditioning, &self.stems, &features, &self.standard);
        Ok(weights.of_query(&phi).into_iter().map(|weight| weight as f32).collect())
    }

    /// Finds the `k` best nodes for a query by exact search, without the masked scorers. Also
    /// returns the weight of each scorer for the query, and each scorer's contribution to the
    /// scores of the first `explained_count` nodes. O(nodes found by each scorer).
    ///
    /// # Errors
    /// [`IndexError`] if the embedder fails or an index cannot be read.
    pub fn search(
        &self,
        scorers: &Scorers,
        mask: &Mask,
        query: &str,
        k: usize,
        explained_count: usize,
    ) -> Result<SearchResult, IndexError> {
        let found = scorers.scores(query)?;
        let mut weights = self.weights_of(scorers, query, &found)?;
        let hidden = |scorer: usize| mask.hides(scorer);
        for (_, weight) in weights.iter_mut().enumerate().filter(|(scorer, _)| hidden(*scorer)) {
            *weight = 0.0;
        }
        let gains: Vec<f32> =
            weights.iter().zip(&self.gammas).map(|(weight, gamma)| weight * gamma).collect();
        let mut scores = vec![0.0f32; scorers.base().kb.n_nodes() as usize];
        let mut is_found = vec![false; scores.len()];
        let mut nodes: Vec<NodeId> = Vec::new();
        for (scorer, (list, gain)) in found.iter().zip(&gains).enumerate() {
            // Nodes that only masked scorers find are not ranked.
            for &(node, score) in list.iter().filter(|_| !hidden(scorer)) {
                let index = node as usize;
                scores[index] += gain * self.standard.of(scorer, score);
                if !std::mem::replace(&mut is_found[index], true) {
                    nodes.push(node);
                }
            }
        }
        let pairs = nodes.into_iter().map(|node| (node, scores[node as usize])).collect();
        let ranking = best(pairs, k);
        let first = ranking.iter().take(explained_count).map(|pair| pair.0);
        let mut parts: HashMap<NodeId, Vec<Contribution>> =
            first.map(|node| (node, Vec::new())).collect();
        for (scorer, (list, gain)) in found.iter().zip(&gains).enumerate() {
            if parts.is_empty() || hidden(scorer) {
                continue;
            }
            for &(node, score) in list {
                if let Some(parts) = parts.get_mut(&node) {
                    let contribution = gain * self.standard.of(scorer, score);
                    parts.push(Contribution { scorer, score, contribution });
                }
            }
        }
        Ok(SearchResult { ranking, weights, parts })
    }

    /// Whether the lengths of the arrays match the scorers and conditions, all numbers are finite,
    /// and the stems are sorted.
    fn is_valid(&self) -> bool {
        let n = self.scorers.len();
        // With `Conditioning::Encoder`, the number of rows determines the length of a vector.
        let dim = (self.weights.len() / n.max(1)).saturating_sub(1);
        let rows = n_conditions(self.conditioning, &self.stems, n, dim);
        let Standard { means, scales } = &self.standard;
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        [means.len(), scales.len(), self.gammas.len()] == [n; 3]
            && Some(self.weights.len()) == rows.checked_mul(n)
            && [means, scales, &self.gammas, &self.weights].into_iter().all(|all| finite(all))
            && self.stems.is_sorted()
    }

    /// Writes the model into the directory `dir`; replaces an existing directory atomically.
    ///
    /// # Errors
    /// [`TrainError::Io`] with the path; the directory is then unchanged.
    pub fn save(
        &self,
        dir: &Path,
        source: &Source,
        settings: &Settings,
        cross_validation: Vec<CrossValidation>,
        curve: Vec<ValidationPoint>,
    ) -> Result<Record<ModelInfo>> {
        let (variant, conditioning) = (self.variant, self.conditioning);
        let settings = settings.clone();
        let info = ModelInfo { settings, variant, conditioning, cross_validation };
        Record::new(SYSTEM, source, info, curve).save(dir, |staging| {
            let path = staging.join(WEIGHTS);
            let json =
                serde_json::to_vec(self).map_err(|error| TrainError::io(&path, error.into()))?;
            write_file(&path, &json)?;
            Ok(vec![WEIGHTS.to_owned()])
        })
    }

    /// Reads the model in the directory `dir`.
    ///
    /// # Errors
    /// [`TrainError::Io`]; [`TrainError::Damaged`] if a file is invalid;
    /// [`TrainError::OtherSystem`] if it is a model of another system.
    pub fn read(dir: &Path) -> Result<(Self, Record<ModelInfo>)> {
        let record = Record::read(dir, SYSTEM)?;
        let path = dir.join(WEIGHTS);
        let bytes =
            files::read(&path, MAX_WEIGHTS_BYTES).map_err(|error| TrainError::io(&path, error))?;
        let damaged = |error: serde_json::Error| TrainError::damaged(&path, error.to_string());
        let model: Self = serde_json::from_slice(&bytes).map_err(damaged)?;
        if !model.is_valid() {
            return Err(TrainError::damaged(&path, "its numbers are inconsistent"));
        }
        Ok((model, record))
    }

    /// Opens the scorers of the model; `base` must be the knowledge base that the model was trained
    /// on, and `dir` the directory of the model, for messages.
    ///
    /// # Errors
    /// [`TrainError::OtherBase`] for another knowledge base; [`TrainError::OtherEmbedder`] for
    /// another embedder; errors of [`Scorers::open`].
    pub fn scorers(
        &self,
        record: &Record<ModelInfo>,
        base: &Arc<IndexedBase>,
        dir: &Path,
    ) -> Result<Scorers> {
        record.check_base(base.kb.fingerprint(), dir)?;
        if !self.embedder.is_empty() && self.embedder != base.embedder().fingerprint() {
            return Err(TrainError::OtherEmbedder(dir.display().to_string()));
        }
        let scorers = Scorers::open(base.clone(), self.variant)?;
        match scorers.names() == self.scorers {
            true => Ok(scorers),
            false => Err(TrainError::OtherBase(dir.display().to_string())),
        }
    }
}

/// Result of a search with an mFAR model.
pub struct SearchResult {
    /// Best nodes with their scores, best first; of equal scores, the smaller node first.
    pub ranking: Vec<(NodeId, f32)>,
    /// Weight of each scorer for the query; 0 for masked scorers.
    pub weights: Vec<f32>,
    /// Contributions of the scorers to the score of each of the first nodes, in the order of the
    /// scorers. Scorers that did not find the node are left out.
    pub parts: HashMap<NodeId, Vec<Contribution>>,
}
