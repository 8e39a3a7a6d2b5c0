//! The weights of mFAR as a model: scores of nodes, and the files it is kept in.
//!
//! `weights.json` has what scores need. Must not know how weights are learnt.

use std::{collections::HashMap, path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    Look, Record, Source, TrainError,
    mfar::{
        Conditioning, Mask, Scorers, Variant,
        examples::{conditions, n_conditions, stems_of},
        fit::{Settings, Validated, Weights},
    },
    store::write_file,
};
use agent_ground::files;
use agent_index::IndexedBase;
use agent_kb::{NodeId, best};

/// The system that answers with such models.
const SYSTEM: &str = "mfar";
const WEIGHTS: &str = "weights.json";
/// Longest file of weights, bytes.
const MAX_WEIGHTS_BYTES: u64 = 256 << 20;

/// Learnt weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mfar {
    variant: Variant,
    conditioning: Conditioning,
    /// The names of the scorers, in order.
    scorers: Vec<String>,
    /// The stems that condition weights, sorted.
    stems: Vec<String>,
    /// The scale of each scorer; 0 for one that found nothing in training and counts nothing.
    scales: Vec<f32>,
    /// `gamma` of each scorer.
    gammas: Vec<f32>,
    /// For each condition a row with a weight of each scorer: `b` first, then `a`.
    weights: Vec<f32>,
}

/// How weights were learnt, and what they weigh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// How weights were learnt.
    pub settings: Settings,
    /// Which scorers there are.
    pub variant: Variant,
    /// What weights depend on.
    pub conditioning: Conditioning,
    /// What cross-validation over training queries says of each conditioning.
    pub cross_validation: Vec<Validated>,
}

/// Why a node has its score: what each scorer adds, in the order of scorers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Its place among the scorers.
    pub scorer: usize,
    /// What it says of the node.
    pub score: f32,
    /// What that adds to the score of the node.
    pub adds: f32,
}

impl Mfar {
    pub(super) fn new(
        scorers: &Scorers,
        conditioning: Conditioning,
        stems: Vec<String>,
        scales: &[f32],
        weights: &Weights,
    ) -> Self {
        let gammas = weights.gammas();
        let rows = &weights.all[..weights.all.len() - gammas.len()];
        let short = |numbers: &[f64]| numbers.iter().map(|&number| number as f32).collect();
        Self {
            variant: scorers.variant(),
            conditioning,
            scorers: scorers.names(),
            stems,
            scales: scales.to_vec(),
            gammas: short(gammas),
            weights: short(rows),
        }
    }

    /// Which scorers there are.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// What weights depend on.
    pub fn conditioning(&self) -> Conditioning {
        self.conditioning
    }

    /// The weight of each scorer for a query, given the best score of each: above 0, 1 in sum.
    pub fn weights_of(&self, query: &str, best: &[f32]) -> Vec<f32> {
        let stems = match self.conditioning {
            Conditioning::Words => stems_of(query),
            Conditioning::None | Conditioning::Responses => Vec::new(),
        };
        let n = self.scorers.len();
        let all = self.weights.iter().chain(&self.gammas).map(|&weight| f64::from(weight));
        let weights = Weights { n_scorers: n, all: all.collect() };
        let phi = conditions(self.conditioning, &self.stems, &stems, best);
        weights.of_query(&phi).into_iter().map(|weight| weight as f32).collect()
    }

    /// Ranks the nodes that any scorer finds, `k` at most, and says of the first `explained` what
    /// each scorer adds; with the weights of the query, 0 for masked scorers. Exact.
    ///
    /// O(nodes that any scorer finds, for each scorer).
    pub fn search(
        &self,
        scorers: &Scorers,
        mask: &Mask,
        query: &str,
        k: usize,
        explained: usize,
    ) -> Found {
        let found: Vec<Vec<(NodeId, f32)>> =
            (0..scorers.len()).map(|at| scorers.search(at, query, usize::MAX)).collect();
        let bests: Vec<f32> =
            found.iter().map(|list| list.first().map_or(0.0, |pair| pair.1)).collect();
        let mut weights = self.weights_of(query, &bests);
        let hidden = |at: usize| mask.hides(at);
        weights.iter_mut().enumerate().filter(|(at, _)| hidden(*at)).for_each(|(_, w)| *w = 0.0);
        let gains: Vec<f32> = (0..found.len()).map(|at| self.gain(at, &weights)).collect();
        let mut scores = vec![0.0f32; scorers.base().kb.n_nodes() as usize];
        let mut is_found = vec![false; scores.len()];
        let mut nodes: Vec<NodeId> = Vec::new();
        for (at, (list, gain)) in found.iter().zip(&gains).enumerate() {
            // What a mask hides finds nothing.
            for &(node, score) in list.iter().filter(|_| !hidden(at)) {
                let place = node as usize;
                scores[place] += gain * score;
                if !std::mem::replace(&mut is_found[place], true) {
                    nodes.push(node);
                }
            }
        }
        let pairs = nodes.into_iter().map(|node| (node, scores[node as usize])).collect();
        let ranking = best(pairs, k);
        let first = ranking.iter().take(explained).map(|pair| pair.0);
        let mut parts: HashMap<NodeId, Vec<Part>> = first.map(|node| (node, Vec::new())).collect();
        for (scorer, (list, gain)) in found.iter().zip(&gains).enumerate() {
            if parts.is_empty() || hidden(scorer) {
                continue;
            }
            for &(node, score) in list {
                if let Some(parts) = parts.get_mut(&node) {
                    parts.push(Part { scorer, score, adds: gain * score });
                }
            }
        }
        Found { ranking, weights, parts }
    }

    /// What a score of 1 by a scorer adds.
    fn gain(&self, at: usize, weights: &[f32]) -> f32 {
        let numbers = (weights.get(at), self.gammas.get(at), self.scales.get(at));
        let (Some(weight), Some(gamma), Some(&scale)) = numbers else { return 0.0 };
        if scale > 0.0 { weight * gamma / scale } else { 0.0 }
    }

    /// Whether its numbers are as many as its scorers and conditions need, and finite.
    fn is_whole(&self) -> bool {
        let n = self.scorers.len();
        let rows = n_conditions(self.conditioning, &self.stems, n);
        let finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
        [self.scales.len(), self.gammas.len()] == [n, n]
            && Some(self.weights.len()) == rows.checked_mul(n)
            && [&self.scales, &self.gammas, &self.weights].into_iter().all(|of| finite(of))
            && self.stems.is_sorted()
    }

    /// Writes a model into its directory, replacing one that is there in one step.
    ///
    /// # Errors
    /// [`TrainError::Io`] names the path; then the directory is what it was before.
    pub fn save(
        &self,
        dir: &Path,
        source: &Source,
        settings: &Settings,
        cross_validation: Vec<Validated>,
        curve: Vec<Look>,
    ) -> Result<Record<Described>, TrainError> {
        let (variant, conditioning) = (self.variant, self.conditioning);
        let settings = settings.clone();
        let described = Described { settings, variant, conditioning, cross_validation };
        Record::new(SYSTEM, source, described, curve).save(dir, &[WEIGHTS], |staging| {
            let path = staging.join(WEIGHTS);
            let json =
                serde_json::to_vec(self).map_err(|error| TrainError::io(&path, error.into()))?;
            write_file(&path, &json)
        })
    }

    /// Reads the model in a directory.
    ///
    /// # Errors
    /// [`TrainError::Io`], [`TrainError::Damaged`], [`TrainError::OtherSystem`].
    pub fn read(dir: &Path) -> Result<(Self, Record<Described>), TrainError> {
        let record = Record::read(dir, SYSTEM)?;
        let path = dir.join(WEIGHTS);
        let bytes =
            files::read(&path, MAX_WEIGHTS_BYTES).map_err(|error| TrainError::io(&path, error))?;
        let damaged = |error: serde_json::Error| TrainError::damaged(&path, error.to_string());
        let model: Self = serde_json::from_slice(&bytes).map_err(damaged)?;
        if !model.is_whole() {
            return Err(TrainError::damaged(&path, "its numbers do not fit together"));
        }
        Ok((model, record))
    }

    /// The scorers that the model weighs, over the base it was trained on.
    ///
    /// # Errors
    /// [`TrainError::OtherBase`]; those of [`Scorers::open`].
    pub fn scorers(
        &self,
        record: &Record<Described>,
        base: &Arc<IndexedBase>,
        dir: &Path,
    ) -> Result<Scorers, TrainError> {
        record.check_base(base.kb.fingerprint(), dir)?;
        let scorers = Scorers::open(base.clone(), self.variant)?;
        match scorers.names() == self.scorers {
            true => Ok(scorers),
            false => Err(TrainError::OtherBase { path: dir.display().to_string() }),
        }
    }
}

/// What a search gave.
pub struct Found {
    /// The best nodes.
    pub ranking: Vec<(NodeId, f32)>,
    /// The weight of each scorer.
    pub weights: Vec<f32>,
    /// What each scorer adds to the scores of the first nodes.
    pub parts: HashMap<NodeId, Vec<Part>>,
}
