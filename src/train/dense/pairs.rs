//! Training data of a dual encoder: pairs of a query and an answer, and negatives.

use std::collections::BTreeSet;

use rand::{
    RngExt, SeedableRng,
    seq::{IndexedRandom, SliceRandom},
};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::{
    Result, Task, TrainError,
    dense::{
        Negatives,
        words::{Bag, Words},
    },
};
use agent_dataset::LabelledQuery;
use agent_ground::words::{is_stop_word, name_words};
use agent_index::{IndexedBase, TextPart};
use agent_kb::{Direction, NodeId, RelationId, distinct};

/// Maximum number of answers to one query that training uses.
const MAX_ANSWERS: usize = 10;
/// Number of non-answers that `bm25+names` ranks highest for a query; the query's negatives are
/// drawn from them.
const HARD: usize = 60;
/// Number of words at the beginning of a document from which the words of a synthetic query are
/// drawn.
const MAX_TEXT_WORDS: usize = 4_096;
/// Range of the number of words that a synthetic query takes from a node's document.
const SYNTHETIC_WORDS: std::ops::RangeInclusive<usize> = 3..=6;

/// A query, in the form that the encoder embeds, with its answers.
pub(super) struct TrainingQuery<Q> {
    pub(super) query: Q,
    /// Ids of the answers, ascending.
    pub(super) answers: Vec<NodeId>,
}

/// Training queries, and their pairs with answers.
pub(super) struct Pairs<Q> {
    pub(super) queries: Vec<TrainingQuery<Q>>,
    /// Number of labelled queries; they come first in `queries`, synthetic queries after them.
    pub(super) n_labelled: usize,
    /// Pairs of the index of a query in `queries` and one of the query's answers.
    pub(super) all: Vec<(usize, NodeId)>,
}

impl Pairs<Bag> {
    /// Builds pairs from labelled queries, at most [`MAX_ANSWERS`] per query, and from up to
    /// `n_made` synthetic queries. Each query is a bag of stems.
    pub(super) fn of_bags(
        base: &IndexedBase,
        words: &Words,
        labelled: &[LabelledQuery],
        n_made: usize,
        seed: u64,
    ) -> Self {
        let bag = |text: &str| words.of_query(base, text);
        let made = |random: &mut ChaCha8Rng| {
            let node = *base.kb.candidates().choose(random)?;
            let of_text = words.rows_of_text(base, node);
            let n = random.random_range(SYNTHETIC_WORDS);
            let mut rows: Vec<u32> = of_text.sample(random, n).copied().collect();
            if let Some(name) = name_of_neighbor(base, node, random) {
                rows.extend(bag(name).into_iter().map(|pair| pair.0));
            }
            let query = words.bag(rows.into_iter().map(|row| (row, 1)));
            (!query.is_empty()).then(|| TrainingQuery { query, answers: vec![node] })
        };
        Self::new(base, labelled, bag, made, n_made, seed)
    }
}

impl Pairs<String> {
    /// Builds pairs as [`Pairs::of_bags`] does; here each query is a text.
    pub(super) fn of_texts(
        base: &IndexedBase,
        labelled: &[LabelledQuery],
        n_made: usize,
        seed: u64,
    ) -> Self {
        let made = |random: &mut ChaCha8Rng| {
            let node = *base.kb.candidates().choose(random)?;
            let words = name_words(base.kb.text(node)).map(|(_, word)| word.into_owned());
            let mut words: Vec<String> = distinct(words.take(MAX_TEXT_WORDS).collect());
            words.retain(|word| !is_stop_word(word));
            let n = random.random_range(SYNTHETIC_WORDS);
            let mut query: Vec<String> = words.sample(random, n).cloned().collect();
            query.extend(name_of_neighbor(base, node, random).map(str::to_owned));
            (!query.is_empty())
                .then(|| TrainingQuery { query: query.join(" "), answers: vec![node] })
        };
        Self::new(base, labelled, str::to_owned, made, n_made, seed)
    }
}

impl<Q: Send> Pairs<Q> {
    fn new(
        base: &IndexedBase,
        labelled: &[LabelledQuery],
        query: impl Fn(&str) -> Q + Sync,
        made: impl Fn(&mut ChaCha8Rng) -> Option<TrainingQuery<Q>>,
        n_made: usize,
        seed: u64,
    ) -> Self {
        let labelled_query = |labelled: &LabelledQuery| {
            let is_candidate = |node: &NodeId| base.kb.is_candidate(*node);
            let answers = labelled.answers.iter().copied().filter(is_candidate).collect();
            TrainingQuery { query: query(&labelled.text), answers }
        };
        let mut queries: Vec<TrainingQuery<Q>> = labelled.par_iter().map(labelled_query).collect();
        let n_labelled = queries.len();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        queries.extend((0..n_made).filter_map(|_| made(&mut random)));
        let pairs = |(index, query): (usize, &TrainingQuery<Q>)| {
            let answers = query.answers.iter().take(MAX_ANSWERS);
            answers.map(|&node| (index, node)).collect::<Vec<_>>()
        };
        let all = queries.iter().enumerate().flat_map(pairs).collect();
        Self { queries, n_labelled, all }
    }

    /// Returns a batch of an epoch: at most `size` pairs, in an order that is drawn anew for each
    /// epoch. The first part of the result holds the indexes of the queries. The second part holds
    /// nodes: the answer to each query, in the order of the queries, then one random negative of
    /// each query that has negatives. `negatives` holds the negatives of each labelled query.
    /// O(pairs).
    pub(super) fn batch(
        &self,
        negatives: &[Vec<NodeId>],
        seed: u64,
        size: usize,
        (epoch, batch): (usize, usize),
    ) -> (Vec<usize>, Vec<NodeId>) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.shuffle(&mut random_stream(seed, epoch, 0));
        let end = order.len().min((batch + 1) * size);
        let pairs = order[batch * size..end].iter().map(|&index| self.all[index]);
        let (queries, mut nodes): (Vec<usize>, Vec<NodeId>) = pairs.unzip();
        let mut random = random_stream(seed, epoch, batch as u64 + 1);
        let negative = |query: &usize| negatives.get(*query)?.choose(&mut random).copied();
        nodes.extend(queries.iter().filter_map(negative).collect::<Vec<_>>());
        (queries, nodes)
    }
}

/// Returns a random generator for an epoch: stream 0 orders the pairs, and stream `b + 1` draws the
/// negatives of batch `b`.
fn random_stream(seed: u64, epoch: usize, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((epoch as u64 + 1) << 32 | stream);
    random
}

/// Draws a relation by which `node` has neighbours, then one of these neighbours, and returns the
/// neighbour's name; `None` if the node has no neighbours.
fn name_of_neighbor<'a>(
    base: &'a IndexedBase,
    node: NodeId,
    random: &mut ChaCha8Rng,
) -> Option<&'a str> {
    let kb = &base.kb;
    let relations = (0..kb.relations().len() as u16).map(RelationId);
    let joined: Vec<RelationId> =
        relations.filter(|&relation| kb.degree(node, relation, Direction::Any) > 0).collect();
    let neighbors = kb.neighbors(node, *joined.choose(random)?, Direction::Any);
    Some(kb.name(*neighbors.choose(random)?))
}

/// Returns the validation queries that have an answer among the candidates.
///
/// # Errors
/// [`TrainError::NoQueries`] if no training query or no validation query has such an answer.
pub(super) fn validation_queries<'a, S>(task: &Task<'a, S>) -> Result<Vec<&'a LabelledQuery>> {
    let has_candidate =
        |query: &&LabelledQuery| query.answers.iter().any(|&node| task.base.kb.is_candidate(node));
    if !task.train.iter().any(|query| has_candidate(&query)) {
        return Err(TrainError::NoQueries("train"));
    }
    let found: Vec<&LabelledQuery> = task.val.iter().filter(has_candidate).collect();
    if found.is_empty() {
        return Err(TrainError::NoQueries("val"));
    }
    Ok(found)
}

/// Returns the nodes to rank for `queries`: at most `max_nodes` candidates, in ascending order. If
/// there are more candidates, answers are chosen first, then the best non-answers of `bm25+names`
/// for each query in turn, then random candidates.
pub(super) fn pool(
    base: &IndexedBase,
    queries: &[LabelledQuery],
    max_nodes: usize,
    seed: u64,
) -> Vec<NodeId> {
    let candidates = base.kb.candidates();
    if candidates.len() <= max_nodes {
        return candidates.to_vec();
    }
    let answers = queries.iter().flat_map(|query| query.answers.iter().take(MAX_ANSWERS).copied());
    let answers = answers.filter(|&node| base.kb.is_candidate(node));
    let found = lexical_negatives(base, queries);
    let by_turns =
        (0..HARD).flat_map(|rank| found.iter().filter_map(move |list| list.get(rank).copied()));
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let others = candidates.sample(random, max_nodes).copied();
    let mut pool = BTreeSet::new();
    for node in answers.chain(by_turns).chain(others) {
        if pool.len() >= max_nodes {
            break;
        }
        pool.insert(node);
    }
    pool.into_iter().collect()
}

/// Whether the encoder's own negatives are recomputed before an epoch (from 0).
pub(super) fn is_refreshed(
    epoch: usize,
    negatives: Negatives,
    refresh: usize,
    epochs: usize,
) -> bool {
    let due = |n: usize| (n * epochs).div_ceil(refresh + 1) == epoch;
    negatives == Negatives::Own && (1..=refresh).any(due)
}

/// Returns, for each labelled query, the nodes that `bm25+names` ranks highest among those that are
/// not answers, best first; at most [`HARD`].
pub(super) fn lexical_negatives(
    base: &IndexedBase,
    labelled: &[LabelledQuery],
) -> Vec<Vec<NodeId>> {
    let types = base.kb.searched_types();
    let negatives = |query: &LabelledQuery| {
        let k = HARD + query.answers.len();
        let found = base.text.search(&query.text, TextPart::DocumentWithNames, types, k);
        without_answers(found.into_iter().map(|pair| pair.0), &query.answers, HARD)
    };
    labelled.par_iter().map(negatives).collect()
}

/// Returns the first `n` of `nodes` that are not among `answers`, which ascend.
pub(super) fn without_answers(
    nodes: impl Iterator<Item = NodeId>,
    answers: &[NodeId],
    n: usize,
) -> Vec<NodeId> {
    nodes.filter(|node| answers.binary_search(node).is_err()).take(n).collect()
}
