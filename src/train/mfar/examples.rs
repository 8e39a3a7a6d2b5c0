//! Training data of mFAR: for each labelled query, its candidates with their scores by all scorers,
//! and the features of the query.

use std::{collections::BTreeMap, sync::Arc};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{
    Result, Watch,
    mfar::{Conditioning, Progress, Scorers, scorers::Scores},
};
use agent_dataset::LabelledQuery;
use agent_ground::words::{Stems, fold, for_each_reference_word};
use agent_kb::{NodeId, best, distinct};

/// Maximum number of candidates that each scorer contributes.
const PER_SCORER: usize = 30;
/// Maximum number of candidates that BM25 of the whole document contributes.
const PER_DOCUMENT: usize = 300;
/// Approximate maximum number of candidates that all scorers together contribute if some scorers
/// compare vectors, because nearly every scorer then scores each candidate. BM25 of the whole
/// document is not counted. The paper takes 100 candidates per scorer in search; in training, it
/// takes one negative per query and the negatives of the other queries.
const MAX_CANDIDATES: usize = 1_200;
/// Norm to which a query vector is scaled when weights depend on the vector. The vector `phi` of a
/// query of 10 stems has about this norm.
const VECTOR_LENGTH: f32 = 3.0;
/// Minimum number of training queries with a stem for weights to depend on the stem.
const MIN_QUERIES: usize = 4;
/// Maximum number of stems that weights depend on; if there are more, those in the most training
/// queries are kept.
const MAX_STEMS: usize = 4_096;
/// Maximum number of stems of one query.
const MAX_QUERY_STEMS: usize = 256;

/// Score of one candidate by one scorer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Response {
    pub(super) scorer: u32,
    pub(super) score: f32,
}

/// A labelled query with its candidates and their scores.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Example {
    /// Index in `responses` at which the scores of each candidate start, then the length of
    /// `responses`.
    pub(super) bounds: Vec<usize>,
    pub(super) responses: Vec<Response>,
    /// Whether each candidate is an answer.
    pub(super) answers: Vec<bool>,
    /// Number of candidates that scorers found; they come first, by ascending node. Answers that no
    /// scorer found follow; they are used in training but not ranked.
    pub(super) n_found: usize,
    /// Features of the query that the weights of scorers may depend on.
    pub(super) features: Features,
}

/// Features of a query that the weights of scorers may depend on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Features {
    /// Distinct stems of the query, sorted.
    pub(super) stems: Vec<String>,
    /// Best score that each scorer gives to a node, in the order of the scorers.
    pub(super) best: Vec<f32>,
    /// Vector of the query; empty if the model uses no vectors.
    pub(super) vector: Arc<[f32]>,
}

/// Mean and scale of each scorer's scores, by which they are standardized. A scorer without scores
/// has the scale 0 and is ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Standard {
    pub(super) means: Vec<f32>,
    pub(super) scales: Vec<f32>,
}

/// Returns the distinct stems of a query, sorted.
pub(super) fn stems_of(query: &str) -> Vec<String> {
    let (stems, mut found) = (Stems::default(), Vec::new());
    for_each_reference_word(query, |word| {
        if found.len() < MAX_QUERY_STEMS {
            found.push(stems.stem(&fold(word)).into_owned());
        }
    });
    distinct(found)
}

impl Example {
    /// Builds the example of a query: finds its candidates and scores them by all scorers.
    ///
    /// # Errors
    /// [`TrainError::Index`] if a scorer or the embedder fails.
    fn new(query: &LabelledQuery, scorers: &Scorers, needs_vector: bool) -> Result<Self> {
        let found = scorers.scores(&query.text)?;
        let per_scorer = match scorers.has_dense() {
            true => (MAX_CANDIDATES / scorers.len()).clamp(1, PER_SCORER),
            false => PER_SCORER,
        };
        let first = |(scorer, list): (usize, &Scores)| {
            let n = if scorers.is_text_of_document(scorer) { PER_DOCUMENT } else { per_scorer };
            best(list.clone(), n).into_iter().map(|pair| pair.0)
        };
        let mut nodes: Vec<NodeId> = distinct(found.iter().enumerate().flat_map(first).collect());
        let n_found = nodes.len();
        let kb = &scorers.base().kb;
        let missed = query.answers.iter().filter(|&&node| {
            kb.is_candidate(node) && nodes[..n_found].binary_search(&node).is_err()
        });
        let missed: Vec<NodeId> = missed.copied().collect();
        nodes.extend(missed);
        let index_of = |node: NodeId| {
            let missed = || Some(n_found + nodes[n_found..].binary_search(&node).ok()?);
            nodes[..n_found].binary_search(&node).ok().or_else(missed)
        };
        let mut rows: Vec<Vec<Response>> = vec![Vec::new(); nodes.len()];
        for (scorer, list) in (0..).zip(&found) {
            for &(node, score) in list {
                if let Some(index) = index_of(node) {
                    rows[index].push(Response { scorer, score });
                }
            }
        }
        let mut bounds = vec![0];
        for row in &rows {
            bounds.push(bounds.last().copied().unwrap_or(0) + row.len());
        }
        let is_answer = |node: &NodeId| query.answers.binary_search(node).is_ok();
        let vector = if needs_vector { scorers.vector(&query.text)? } else { [].into() };
        Ok(Self {
            bounds,
            responses: rows.concat(),
            answers: nodes.iter().map(is_answer).collect(),
            n_found,
            features: Features { stems: stems_of(&query.text), best: best_scores(&found), vector },
        })
    }

    /// Returns the scores of the candidate with this index.
    pub(super) fn row(&self, candidate: usize) -> &[Response] {
        &self.responses[self.bounds[candidate]..self.bounds[candidate + 1]]
    }

    /// Returns the number of candidates, including answers that no scorer found.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }
}

/// Returns the examples of `queries`, in the order of the queries; queries without an answer among
/// the candidates of the knowledge base are left out.
///
/// # Errors
/// [`TrainError::Stopped`] soon after the caller stops training; [`TrainError::Index`] if a scorer
/// fails.
pub(super) fn of_queries(
    queries: &[LabelledQuery],
    scorers: &Scorers,
    needs_vector: bool,
    watch: &Watch<'_, Progress>,
) -> Result<Vec<Example>> {
    let done = std::sync::atomic::AtomicUsize::new(0);
    let example = |query: &LabelledQuery| {
        watch.check_stop()?;
        let example = Example::new(query, scorers, needs_vector)?;
        let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        (watch.report)(Progress::Asking { done, total: queries.len() });
        Ok(example.answers.contains(&true).then_some(example))
    };
    let examples: Result<Vec<Option<Example>>> = queries.par_iter().map(example).collect();
    Ok(examples?.into_iter().flatten().collect())
}

/// Returns the stems that weights may depend on, sorted. These are the stems in at least
/// [`MIN_QUERIES`] queries, at most [`MAX_STEMS`]; stems in more queries take precedence.
pub(super) fn vocabulary(examples: &[&Example]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for stem in examples.iter().flat_map(|example| &example.features.stems) {
        *counts.entry(stem).or_default() += 1;
    }
    let mut frequent: Vec<(&str, usize)> =
        counts.into_iter().filter(|&(_, n)| n >= MIN_QUERIES).collect();
    // Stable: ties by ascending stem.
    frequent.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    frequent.truncate(MAX_STEMS);
    let mut stems: Vec<String> = frequent.into_iter().map(|pair| pair.0.to_owned()).collect();
    stems.sort_unstable();
    stems
}

/// Returns the best score that each scorer gives to a node; 0 for a scorer without scores above 0.
pub(super) fn best_scores(found: &[Scores]) -> Vec<f32> {
    found.iter().map(|list| list.iter().map(|pair| pair.1).fold(0.0, f32::max)).collect()
}

/// Returns the features `phi` of a query, as pairs of index and value by ascending index; features
/// with the value 0 may be left out. Index 0 always has the value 1.
pub(super) fn conditions(
    conditioning: Conditioning,
    vocabulary: &[String],
    features: &Features,
    standard: &Standard,
) -> Vec<(u32, f32)> {
    let mut phi = vec![(0, 1.0)];
    match conditioning {
        Conditioning::None => {}
        Conditioning::Words => {
            let index = |stem| Some(vocabulary.binary_search(stem).ok()? as u32 + 1);
            phi.extend(features.stems.iter().filter_map(index).map(|index| (index, 1.0)));
        }
        Conditioning::Responses => {
            let best = (0..).zip(&features.best);
            let best: Vec<f32> =
                best.map(|(scorer, &score)| standard.of(scorer, score).max(0.0)).collect();
            let largest = best.iter().copied().fold(0.0, f32::max);
            let above = (1..).zip(&best).filter(|(_, score)| **score > 0.0);
            phi.extend(above.map(|(index, score)| (index, score / largest)));
        }
        Conditioning::Encoder => {
            let values = (1..).zip(features.vector.iter());
            phi.extend(values.map(|(index, value)| (index, VECTOR_LENGTH * value)));
        }
    }
    phi
}

/// Returns the number of features in `phi`, including the constant feature; `dim` is the length of
/// a query vector.
pub(super) fn n_conditions(
    conditioning: Conditioning,
    vocabulary: &[String],
    n_scorers: usize,
    dim: usize,
) -> usize {
    1 + match conditioning {
        Conditioning::None => 0,
        Conditioning::Words => vocabulary.len(),
        Conditioning::Responses => n_scorers,
        Conditioning::Encoder => dim,
    }
}

impl Standard {
    /// Computes the mean and scale of each scorer's scores over the candidates that scorers found.
    /// For scorers that compare vectors, the scale is the standard deviation. For BM25, the mean is
    /// 0 and the scale is the root mean square of the scores.
    pub(super) fn of_examples(examples: &[&Example], scorers: &Scorers) -> Self {
        let mut sums = vec![(0.0f64, 0.0f64, 0u32); scorers.len()];
        for example in examples {
            for response in &example.responses[..example.bounds[example.n_found]] {
                let score = f64::from(response.score);
                let (sum, squares, n) = &mut sums[response.scorer as usize];
                *sum += score;
                *squares += score * score;
                *n += 1;
            }
        }
        let mut standard = Self::default();
        for (scorer, (sum, squares, n)) in sums.into_iter().enumerate() {
            let n = f64::from(n.max(1));
            let mean = if scorers.is_dense(scorer) { sum / n } else { 0.0 };
            standard.means.push(mean as f32);
            standard.scales.push((squares / n - mean * mean).max(0.0).sqrt() as f32);
        }
        standard
    }

    /// Returns the standardized value of a score by a scorer: `(score - mean) / scale`; 0 for an
    /// ignored scorer.
    pub(super) fn of(&self, scorer: usize, score: f32) -> f32 {
        match (self.means.get(scorer), self.scales.get(scorer)) {
            (Some(mean), Some(&scale)) if scale > 0.0 => (score - mean) / scale,
            _ => 0.0,
        }
    }

    /// Replaces all scores of an example by their standardized values.
    pub(super) fn apply(&self, example: &mut Example) {
        for response in &mut example.responses {
            response.score = self.of(response.scorer as usize, response.score);
        }
    }
}
