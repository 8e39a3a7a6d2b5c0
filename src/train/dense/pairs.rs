//! What a dual encoder is taught: queries with a node each that answers, and nodes that do not. Must
//! not know vectors.

use std::collections::BTreeSet;

use rand::{
    RngExt, SeedableRng,
    seq::{IndexedRandom, SliceRandom},
};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::dense::{
    Negatives,
    words::{Bag, Words},
};
use agent_dataset::LabelledQuery;
use agent_ground::words::{is_stop_word, name_words};
use agent_index::{IndexedBase, TextPart};
use agent_kb::{Direction, NodeId, RelationId};

/// Answers of one query that are taught.
const MAX_ANSWERS: usize = 10;
/// The first nodes of `bm25+names` that negatives are drawn from, answers left out.
const HARD: usize = 60;
/// Words of a document that may be in a made query, in their order.
const MAX_TEXT_WORDS: usize = 4_096;
/// Words of a node's document in a made query.
const MADE_WORDS: std::ops::RangeInclusive<usize> = 3..=6;

/// A query in the form in which it is embedded, with what answers it.
pub(super) struct Taught<Q> {
    pub(super) query: Q,
    /// Sorted ascending.
    pub(super) answers: Vec<NodeId>,
}

/// Queries and pairs of them with answers.
pub(super) struct Pairs<Q> {
    pub(super) queries: Vec<Taught<Q>>,
    /// So many of the queries, the first, are labelled ones.
    pub(super) n_labelled: usize,
    /// A query by its place, and one of its answers.
    pub(super) all: Vec<(usize, NodeId)>,
}

impl Pairs<Bag> {
    /// Labelled queries with at most ten answers each, and `n_made` queries that are made of words, as
    /// bags.
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
            let n = random.random_range(MADE_WORDS);
            let mut rows: Vec<u32> = of_text.sample(random, n).copied().collect();
            if let Some(name) = name_of_neighbor(base, node, random) {
                rows.extend(bag(name).into_iter().map(|pair| pair.0));
            }
            let query = words.bag(rows.into_iter().map(|row| (row, 1)));
            (!query.is_empty()).then(|| Taught { query, answers: vec![node] })
        };
        Self::new(base, labelled, bag, made, n_made, seed)
    }
}

impl Pairs<String> {
    /// The same as texts.
    pub(super) fn of_texts(
        base: &IndexedBase,
        labelled: &[LabelledQuery],
        n_made: usize,
        seed: u64,
    ) -> Self {
        let made = |random: &mut ChaCha8Rng| {
            let node = *base.kb.candidates().choose(random)?;
            let words = name_words(base.kb.text(node)).map(|(_, word)| word.into_owned());
            let mut words: Vec<String> = words.take(MAX_TEXT_WORDS).collect();
            words.sort_unstable();
            words.dedup();
            words.retain(|word| !is_stop_word(word));
            let n = random.random_range(MADE_WORDS);
            let mut query: Vec<String> = words.sample(random, n).cloned().collect();
            query.extend(name_of_neighbor(base, node, random).map(str::to_owned));
            (!query.is_empty()).then(|| Taught { query: query.join(" "), answers: vec![node] })
        };
        Self::new(base, labelled, str::to_owned, made, n_made, seed)
    }
}

impl<Q: Send> Pairs<Q> {
    fn new(
        base: &IndexedBase,
        labelled: &[LabelledQuery],
        query: impl Fn(&str) -> Q + Sync,
        made: impl Fn(&mut ChaCha8Rng) -> Option<Taught<Q>>,
        n_made: usize,
        seed: u64,
    ) -> Self {
        let taught = |labelled: &LabelledQuery| {
            let may = |node: &NodeId| base.kb.is_candidate(*node);
            let answers = labelled.answers.iter().copied().filter(may).collect();
            Taught { query: query(&labelled.text), answers }
        };
        let mut queries: Vec<Taught<Q>> = labelled.par_iter().map(taught).collect();
        let n_labelled = queries.len();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        queries.extend((0..n_made).filter_map(|_| made(&mut random)));
        let of = |(at, query): (usize, &Taught<Q>)| {
            let answers = query.answers.iter().take(MAX_ANSWERS);
            answers.map(|&node| (at, node)).collect::<Vec<_>>()
        };
        let all = queries.iter().enumerate().flat_map(of).collect();
        Self { queries, n_labelled, all }
    }

    /// A batch of an epoch, `size` pairs in an order drawn for the epoch, the last batch may have
    /// fewer: the places of its queries, and nodes, first those that answer them, then a negative
    /// for each query that has any. O(pairs).
    pub(super) fn batch(
        &self,
        negatives: &[Vec<NodeId>],
        seed: u64,
        size: usize,
        (epoch, batch): (usize, usize),
    ) -> (Vec<usize>, Vec<NodeId>) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.shuffle(&mut drawn(seed, epoch, 0));
        let end = order.len().min((batch + 1) * size);
        let pairs = order[batch * size..end].iter().map(|&at| self.all[at]);
        let (queries, mut nodes): (Vec<usize>, Vec<NodeId>) = pairs.unzip();
        let mut random = drawn(seed, epoch, batch as u64 + 1);
        let of = |query: &usize| negatives.get(*query)?.choose(&mut random).copied();
        nodes.extend(queries.iter().filter_map(of).collect::<Vec<_>>());
        (queries, nodes)
    }
}

/// Random numbers of their own for each batch, from 1, and for the order of an epoch.
fn drawn(seed: u64, epoch: usize, at: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((epoch as u64 + 1) << 32 | at);
    random
}

/// The name of a neighbour, over a relation drawn at random.
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
    Some(kb.name(*neighbors.as_slice().choose(random)?))
}

/// Nodes among which queries are ranked where all candidates would be too many, at most `most`: their
/// answers, what `bm25+names` finds first for each by turns, then candidates drawn at random.
/// Ascending.
pub(super) fn pool(
    base: &IndexedBase,
    queries: &[LabelledQuery],
    most: usize,
    seed: u64,
) -> Vec<NodeId> {
    let candidates = base.kb.candidates();
    if candidates.len() <= most {
        return candidates.to_vec();
    }
    let answers = queries.iter().flat_map(|query| query.answers.iter().take(MAX_ANSWERS).copied());
    let answers = answers.filter(|&node| base.kb.is_candidate(node));
    let found = lexical_negatives(base, queries);
    let by_turns = (0..HARD).flat_map(|at| found.iter().filter_map(move |of| of.get(at).copied()));
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let others = candidates.sample(random, most).copied();
    let mut pool = BTreeSet::new();
    for node in answers.chain(by_turns).chain(others) {
        if pool.len() >= most {
            break;
        }
        pool.insert(node);
    }
    pool.into_iter().collect()
}

/// The epochs before which the encoder itself is asked for negatives.
pub(super) fn is_refreshed(
    epoch: usize,
    negatives: Negatives,
    refresh: usize,
    epochs: usize,
) -> bool {
    let due = |at: usize| (at * epochs).div_ceil(refresh + 1) == epoch;
    negatives == Negatives::Own && (1..=refresh).any(due)
}

/// For each labelled query the first nodes of `bm25+names` that do not answer it.
pub(super) fn lexical_negatives(
    base: &IndexedBase,
    labelled: &[LabelledQuery],
) -> Vec<Vec<NodeId>> {
    let kb = &base.kb;
    let all = kb.candidate_types().len() == kb.types().len();
    let types = if all { &[] } else { kb.candidate_types() };
    let of = |query: &LabelledQuery| {
        let k = HARD + query.answers.len();
        let found = base.text.search(&query.text, TextPart::DocumentWithNames, types, k);
        without_answers(found.into_iter().map(|pair| pair.0), &query.answers, HARD)
    };
    labelled.par_iter().map(of).collect()
}

/// The first nodes that do not answer.
pub(super) fn without_answers(
    nodes: impl Iterator<Item = NodeId>,
    answers: &[NodeId],
    n: usize,
) -> Vec<NodeId> {
    nodes.filter(|node| answers.binary_search(node).is_err()).take(n).collect()
}
