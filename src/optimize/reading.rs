//! Learns phrasings of plain questions, that is, which words express which metapaths, from training
//! questions that the graph alone answers.
//!
//! A reading of a question assigns one metapath to each name in the question. A reading is exact if
//! the nodes that all its metapaths reach, and that fulfil the question's conditions, are exactly
//! the question's answers. The words outside names then express these metapaths. A phrasing is
//! learned from at least two questions, because one question may match by chance. If a question has
//! several exact readings, the reading that most questions share is used. Ties go to the reading
//! with the fewest steps.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use rayon::prelude::*;

use agent_dataset::LabelledQuery;
use agent_index::{IndexError, IndexedBase};
use agent_infer::bundle::{
    conditions::Conditions,
    reading::{
        Metapath, Phrasing, Phrasings, Question, answers, metapath_in_words, metapaths_from,
        reached,
    },
};
use agent_kb::NodeId;

/// Minimum number of questions from which a phrasing is learned. Also the minimum number of these
/// questions that must contain a word for the word to be part of the phrasing.
const MIN_QUESTIONS: u32 = 2;
/// Maximum number of metapaths per name from which readings are built; the shortest are used.
const MAX_METAPATHS: usize = 24;

/// Exact readings of one training question, and its words outside names.
struct Lesson {
    /// Stems of the question's words that are not part of names.
    other_stems: Vec<String>,
    /// Each exact reading: its metapaths, written in words and sorted, and their total number of
    /// steps.
    readings: Vec<(Vec<String>, usize)>,
}

/// Learns phrasings from the queries that metapaths answer exactly. The result does not depend on
/// the number of threads.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set.
pub fn learn(
    base: &IndexedBase,
    queries: &[LabelledQuery],
    stop: &AtomicBool,
) -> Result<Phrasings, IndexError> {
    let lesson = |query: &LabelledQuery| match stop.load(Ordering::Relaxed) {
        true => Err(IndexError::Stopped),
        false => Ok(lesson(base, query)),
    };
    let lessons: Result<Vec<Option<Lesson>>, IndexError> = queries.par_iter().map(lesson).collect();
    let lessons: Vec<Lesson> = lessons?.into_iter().flatten().collect();
    let mut common: BTreeMap<&[String], usize> = BTreeMap::new();
    for (metapaths, _) in lessons.iter().flat_map(|lesson| &lesson.readings) {
        *common.entry(metapaths).or_default() += 1;
    }
    let mut phrasings: BTreeMap<&[String], Phrasing> = BTreeMap::new();
    for lesson in &lessons {
        let rank = |reading: &&(Vec<String>, usize)| {
            let n = common.get(reading.0.as_slice()).copied().unwrap_or(0);
            (std::cmp::Reverse(n), reading.1, reading.0.clone())
        };
        let Some((metapaths, _)) = lesson.readings.iter().min_by_key(rank) else { continue };
        let phrasing = phrasings.entry(metapaths).or_default();
        phrasing.metapaths.clone_from(metapaths);
        phrasing.n += 1;
        for stem in &lesson.other_stems {
            *phrasing.words.entry(stem.clone()).or_default() += 1;
        }
    }
    let mut phrasings: Vec<Phrasing> = phrasings.into_values().collect();
    phrasings.retain(|phrasing| phrasing.n >= MIN_QUESTIONS);
    for phrasing in &mut phrasings {
        phrasing.words.retain(|_, n| *n >= MIN_QUESTIONS);
    }
    Ok(Phrasings(phrasings))
}

/// Finds the exact readings of a training question; `None` if the question has none.
fn lesson(base: &IndexedBase, query: &LabelledQuery) -> Option<Lesson> {
    let conditions = Conditions::read(base, &query.text);
    let question = Question::new(base, &conditions.rest);
    let target = base.kb.node_type(*query.answers.first()?);
    if !question.may_be_plain() {
        return None;
    }
    let mut named: Vec<NodeId> = question.names.iter().flatten().copied().collect();
    named.sort_unstable();
    let mut combined: Vec<(Vec<Metapath>, Option<Vec<NodeId>>)> = vec![(Vec::new(), None)];
    for (nodes, types) in question.names.iter().zip(question.linked_types(base)) {
        let metapaths = types.iter().flat_map(|&kind| metapaths_from(base, kind, true));
        let reaches_all = |metapath: Metapath| {
            let found = reached(base, nodes, &metapath)?;
            let mut answers = query.answers.iter();
            answers.all(|node| found.binary_search(node).is_ok()).then_some((metapath, found))
        };
        let own = metapaths.filter(|metapath| metapath.target == target).filter_map(reaches_all);
        let mut own: Vec<(Metapath, Vec<NodeId>)> = own.collect();
        own.sort_by(|a, b| (a.0.steps.len(), &a.0).cmp(&(b.0.steps.len(), &b.0)));
        own.truncate(MAX_METAPATHS);
        combined = combined
            .iter()
            .flat_map(|(before, set)| {
                own.iter().map(move |(metapath, found)| {
                    let metapaths = before.iter().chain([metapath]).cloned().collect();
                    let both = match set {
                        Some(set) => answers(&[set.clone(), found.clone()], &[]),
                        None => found.clone(),
                    };
                    (metapaths, Some(both))
                })
            })
            .collect();
    }
    let exact = |(metapaths, set): (Vec<Metapath>, Option<Vec<NodeId>>)| {
        let set = conditions.fulfilled(base, answers(&[set?], &named));
        let mut words: Vec<String> =
            metapaths.iter().map(|metapath| metapath_in_words(base, metapath)).collect();
        words.sort();
        (set == query.answers)
            .then(|| (words, metapaths.iter().map(|metapath| metapath.steps.len()).sum::<usize>()))
    };
    let readings: Vec<(Vec<String>, usize)> = combined.into_iter().filter_map(exact).collect();
    (!readings.is_empty()).then_some(Lesson { other_stems: question.other_stems, readings })
}
