//! Scores of candidates of labelled queries by all scorers: the data that weights are trained on.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::{
    TrainError, Watch,
    mfar::{Conditioning, Progress, Scorers},
};
use agent_dataset::LabelledQuery;
use agent_ground::words::{Stems, fold, for_each_reference_word};
use agent_kb::NodeId;

/// Number of candidates of each field.
const PER_FIELD: usize = 30;
/// Number of candidates of the scorer of the whole document.
const PER_DOCUMENT: usize = 300;
/// Minimum number of training queries with a stem that conditions weights.
const MIN_QUERIES: usize = 4;
/// Maximum number of stems that condition weights; the most frequent ones.
const MAX_STEMS: usize = 4_096;
/// Maximum number of stems of one query.
const MAX_QUERY_STEMS: usize = 256;

/// A positive score of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Response {
    pub(super) scorer: u32,
    pub(super) score: f32,
}

/// One query with its candidates and their scores.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Example {
    /// Bounds of each candidate's part of `responses`.
    pub(super) bounds: Vec<usize>,
    pub(super) responses: Vec<Response>,
    /// For each candidate, whether it is an answer.
    pub(super) answers: Vec<bool>,
    /// Number of candidates from scorers, nodes ascending; then come the remaining answers, for
    /// training only.
    pub(super) n_found: usize,
    /// Distinct stems of the query, sorted.
    pub(super) stems: Vec<String>,
    /// Best score of each scorer.
    pub(super) best: Vec<f32>,
}

/// The distinct stems of a query, sorted.
pub(super) fn stems_of(query: &str) -> Vec<String> {
    let (stems, mut found) = (Stems::default(), Vec::new());
    for_each_reference_word(query, |word| {
        if found.len() < MAX_QUERY_STEMS {
            found.push(stems.stem(&fold(word)).into_owned());
        }
    });
    found.sort_unstable();
    found.dedup();
    found
}

impl Example {
    /// The example of a query, by all scorers.
    fn new(query: &LabelledQuery, scorers: &Scorers) -> Self {
        let found: Vec<Vec<(NodeId, f32)>> = (0..scorers.len())
            .map(|scorer| scorers.search(scorer, &query.text, usize::MAX))
            .collect();
        let first = |(scorer, list): (usize, &Vec<(NodeId, f32)>)| {
            let n = if scorers.is_document(scorer) { PER_DOCUMENT } else { PER_FIELD };
            list.iter().take(n).map(|pair| pair.0).collect::<Vec<_>>()
        };
        let mut nodes: Vec<NodeId> = found.iter().enumerate().flat_map(first).collect();
        nodes.sort_unstable();
        nodes.dedup();
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
        Self {
            bounds,
            responses: rows.concat(),
            answers: nodes.iter().map(is_answer).collect(),
            n_found,
            stems: stems_of(&query.text),
            best: found.iter().map(|list| list.first().map_or(0.0, |pair| pair.1)).collect(),
        }
    }

    /// Scores of one candidate.
    pub(super) fn row(&self, candidate: usize) -> &[Response] {
        &self.responses[self.bounds[candidate]..self.bounds[candidate + 1]]
    }

    /// Number of candidates, including answers that no scorer found.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }
}

/// Examples of queries, in their order, without queries that have no answer among the candidates.
///
/// # Errors
/// [`TrainError::Stopped`] soon after the caller stops training.
pub(super) fn of_queries(
    queries: &[LabelledQuery],
    scorers: &Scorers,
    watch: &Watch<'_, Progress>,
) -> Result<Vec<Example>, TrainError> {
    let done = std::sync::atomic::AtomicUsize::new(0);
    let example = |query: &LabelledQuery| {
        watch.check_stop()?;
        let example = Example::new(query, scorers);
        let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        (watch.report)(Progress::Asking { done, total: queries.len() });
        Ok(example.answers.contains(&true).then_some(example))
    };
    let examples: Result<Vec<Option<Example>>, TrainError> =
        queries.par_iter().map(example).collect();
    Ok(examples?.into_iter().flatten().collect())
}

/// Stems that condition weights, sorted: those of at least [`MIN_QUERIES`] queries.
pub(super) fn vocabulary(examples: &[&Example]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for stem in examples.iter().flat_map(|example| &example.stems) {
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

/// `phi` of a query, as ascending indexes with positive values; the first value is always 1.
pub(super) fn conditions(
    conditioning: Conditioning,
    vocabulary: &[String],
    stems: &[String],
    best: &[f32],
) -> Vec<(u32, f32)> {
    let mut phi = vec![(0, 1.0)];
    match conditioning {
        Conditioning::None => {}
        Conditioning::Words => phi.extend(
            stems
                .iter()
                .filter_map(|stem| Some((vocabulary.binary_search(stem).ok()? as u32 + 1, 1.0))),
        ),
        Conditioning::Responses => {
            let largest = best.iter().copied().fold(0.0, f32::max);
            let above = (1..).zip(best).filter(|(_, score)| **score > 0.0);
            phi.extend(above.map(|(index, score)| (index, score / largest)));
        }
    }
    phi
}

/// Number of conditions.
pub(super) fn n_conditions(
    conditioning: Conditioning,
    vocabulary: &[String],
    n_scorers: usize,
) -> usize {
    1 + match conditioning {
        Conditioning::None => 0,
        Conditioning::Words => vocabulary.len(),
        Conditioning::Responses => n_scorers,
    }
}

/// Scale of each scorer: the root mean square of its positive scores over candidates of scorers; 0
/// without such scores.
pub(super) fn scales(examples: &[&Example], n_scorers: usize) -> Vec<f32> {
    let mut sums = vec![(0.0f64, 0u32); n_scorers];
    for example in examples {
        for response in &example.responses[..example.bounds[example.n_found]] {
            let score = f64::from(response.score);
            let (sum, n) = &mut sums[response.scorer as usize];
            *sum += score * score;
            *n += 1;
        }
    }
    sums.into_iter().map(|(sum, n)| (sum / f64::from(n.max(1))).sqrt() as f32).collect()
}
