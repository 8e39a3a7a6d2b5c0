//! Answers one question for the command line and the server: runs a system, falls back to
//! [`STAND_IN`] if its program fails, and adds paths, matching words and timings.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Instant};

use crate::{bundle::understood::understand, run_both};
use agent_ground::words::{is_question_word, name_words};
use agent_index::IndexedBase;
use agent_kb::{NodeId, PathBounds, RelationId, shortest_paths};
use agent_retrieve::{
    Answer, Baseline, Detail, Filtered, QueryAnalysis, RetrieveError, Retriever, StandIn, System,
    check_query,
};

/// The system that answers if a program of the requested system fails.
pub const STAND_IN: System = System::Hybrid;
/// Bounds of the search for paths from the entities that a question names to a node. Longer paths
/// are not informative: over more than two edges, almost all nodes are connected.
const PATH_BOUNDS: PathBounds = PathBounds { hops: 2, nodes: 20_000, edges: 500_000 };

/// Answers a query with at most `k` nodes in the requested detail. The answer also holds the
/// analysis of the question and the duration in milliseconds of each stage. If a program of the
/// system fails or exceeds its time limit, [`STAND_IN`] answers, and [`Answer::stand_in`] holds the
/// reason.
///
/// # Errors
/// Errors of the system other than the failure of a program, and errors of the stand-in.
pub fn answer(
    base: &Arc<IndexedBase>,
    system: &dyn Retriever,
    query: &str,
    k: usize,
    detail: Detail,
) -> Result<Answer, RetrieveError> {
    let query = check_query(query)?;
    let ((answered, answer_ms), (understood, understand_ms)) = run_both(
        || timed(|| answer_or_stand_in(base, system, query, k, detail)),
        || timed(|| understand(base, query)),
    );
    let answered = answered?;
    // The words of conditions are left out of the analysis.
    let (analysis, rest_ms) = timed(|| match &answered.conditions {
        Some(applied) => understand(base, &applied.rest),
        None => understood,
    });
    let mut answer = Answer { analysis, ..answered };
    let ((), detail_ms) = timed(|| {
        if detail.paths {
            add_words(base, query, &mut answer);
            add_paths(base, &mut answer);
            keep_followed(&mut answer);
        }
    });
    answer.timings.insert("answer_ms", answer_ms);
    answer.timings.insert("understand_ms", understand_ms + rest_ms + detail_ms);
    Ok(answer)
}

/// Answers with `retriever`, or with [`STAND_IN`] if a program of `retriever` fails or exceeds its
/// time limit.
fn answer_or_stand_in(
    base: &Arc<IndexedBase>,
    retriever: &dyn Retriever,
    query: &str,
    k: usize,
    detail: Detail,
) -> Result<Answer, RetrieveError> {
    match retriever.answer(query, k, detail) {
        Err(error @ (RetrieveError::Program(_) | RetrieveError::Late(_))) => {
            let stand_in = Baseline::new(base.clone(), STAND_IN);
            let (system, reason) = (stand_in.name(), error.to_string());
            let stand_in: Box<dyn Retriever> = match retriever.limited_to() {
                Some(nodes) => {
                    Box::new(Filtered::new(Box::new(stand_in), base.clone(), nodes.clone()))
                }
                None => Box::new(stand_in),
            };
            let is_late = matches!(error, RetrieveError::Late(_));
            let stood_in = Some(StandIn { system, reason, is_late });
            Ok(Answer { stand_in: stood_in, ..stand_in.answer(query, k, detail)? })
        }
        answered => answered,
    }
}

/// Runs `work`; returns its result and its duration in milliseconds.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    (work(), start.elapsed().as_secs_f64() * 1e3)
}

/// Of the relations that a word of the question excludes, keeps only those that a path of the
/// answer follows.
fn keep_followed(answer: &mut Answer) {
    let hops = answer.paths.iter().flatten().flat_map(|path| &path.hops);
    let followed: BTreeSet<RelationId> = hops.map(|hop| hop.relation).collect();
    answer.analysis.contrary.retain(|relation| followed.contains(relation));
}

/// Adds the shortest paths from the entities that the question names to the nodes of the answer
/// that have no path yet.
fn add_paths(base: &IndexedBase, answer: &mut Answer) {
    let nodes: Vec<NodeId> = answer.ranking().iter().map(|pair| pair.0).collect();
    answer.paths.resize(nodes.len(), Vec::new());
    let lacking: Vec<NodeId> = nodes
        .iter()
        .zip(&answer.paths)
        .filter_map(|(&node, paths)| paths.is_empty().then_some(node))
        .collect();
    let from = answer.analysis.named();
    if from.is_empty() || lacking.is_empty() {
        return;
    }
    let follow = &mut |_| Ok::<(), Infallible>(());
    let Ok(found) = shortest_paths(&base.kb, &from, &lacking, PATH_BOUNDS, follow);
    for (paths, path) in answer.paths.iter_mut().filter(|paths| paths.is_empty()).zip(found) {
        paths.extend(path);
    }
}

/// Sets, for each node of the answer, the words of the question that occur in the node's document
/// or in its neighbours' names. Also sets the corrected words of the analysis, and its unused
/// words: those that name nothing and match no node.
fn add_words(base: &IndexedBase, query: &str, answer: &mut Answer) {
    let corrections = base.corrections(query);
    let mut known: Vec<(String, [Option<u32>; 2])> = Vec::new();
    for (range, word) in name_words(query) {
        let correction = corrections.iter().find(|correction| correction.0 == range);
        let stem = base.stems.stem(correction.map_or(&word, |correction| &correction.1));
        let stems = [base.terms.stem_id(&stem), base.neighbor_names.stem_id(&stem)];
        let is_new = stems == [None; 2] || known.iter().all(|other| other.1 != stems);
        if is_new && !is_question_word(&word) {
            known.push((query.get(range).unwrap_or_default().to_owned(), stems));
        }
    }
    let mut used = BTreeSet::new();
    let words = answer.ranking().iter().map(|&(node, _)| {
        let has = |(word, [in_document, in_names]): &(String, [Option<u32>; 2])| {
            let has_it = in_document.is_some_and(|stem| base.terms.has(node, stem))
                || in_names.is_some_and(|stem| base.neighbor_names.has(node, stem));
            has_it.then(|| word.clone())
        };
        let own: Vec<String> = known.iter().filter_map(has).collect();
        used.extend(own.iter().cloned());
        own
    });
    answer.words = words.collect();
    let QueryAnalysis { others, unused, corrected, .. } = &mut answer.analysis;
    *corrected = corrections
        .into_iter()
        .map(|(range, word)| (query.get(range).unwrap_or_default().to_owned(), word))
        .collect();
    *unused = others.iter().filter(|word| !used.contains(*word)).cloned().collect();
}
