//! What a dual encoder is taught: queries with a node each that answers, and nodes that do not. Must
//! not know vectors.

use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::{
    dataset::LabelledQuery,
    index::{IndexedBase, TextPart},
    kb::{Direction, NodeId, RelationId},
    train::dense::words::{Bag, Words},
};

/// Answers of one query that are taught.
const MAX_ANSWERS: usize = 10;
/// The first nodes of `bm25+names` that negatives are drawn from, answers left out.
const HARD: usize = 60;
/// Words of a node's document in a made query.
const MADE_WORDS: std::ops::RangeInclusive<usize> = 3..=6;

/// A query, with what answers it.
pub(super) struct Taught {
    pub(super) bag: Bag,
    /// Sorted ascending.
    pub(super) answers: Vec<NodeId>,
}

/// Queries and pairs of them with answers.
pub(super) struct Pairs {
    pub(super) queries: Vec<Taught>,
    /// So many of the queries, the first, are labelled ones.
    pub(super) n_labelled: usize,
    /// A query by its place, and one of its answers.
    pub(super) all: Vec<(usize, NodeId)>,
}

impl Pairs {
    /// Labelled queries with at most ten answers each, and `n_made` queries that are made of words.
    pub(super) fn new(
        base: &IndexedBase,
        words: &Words,
        labelled: &[LabelledQuery],
        n_made: usize,
        seed: u64,
    ) -> Self {
        let taught = |query: &LabelledQuery| {
            let may = |node: &NodeId| base.kb.is_candidate(*node);
            let answers = query.answers.iter().copied().filter(may).collect();
            Taught { bag: words.of_query(base, &query.text), answers }
        };
        let mut queries: Vec<Taught> = labelled.par_iter().map(taught).collect();
        let n_labelled = queries.len();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        queries.extend((0..n_made).filter_map(|_| made(base, words, &mut random)));
        let of = |(at, query): (usize, &Taught)| {
            let answers = query.answers.iter().take(MAX_ANSWERS);
            answers.map(|&node| (at, node)).collect::<Vec<_>>()
        };
        let all = queries.iter().enumerate().flat_map(of).collect();
        Self { queries, n_labelled, all }
    }
}

/// A query for a node drawn at random: some words of its document, and the name of a neighbour.
fn made(base: &IndexedBase, words: &Words, random: &mut ChaCha8Rng) -> Option<Taught> {
    let kb = &base.kb;
    let node = *kb.candidates().choose(random)?;
    let of_text = words.rows_of_text(base, node);
    let n = random.random_range(MADE_WORDS);
    let mut rows: Vec<u32> = of_text.sample(random, n).copied().collect();
    let relations = (0..kb.relations().len() as u16).map(RelationId);
    let joined: Vec<RelationId> =
        relations.filter(|&relation| kb.degree(node, relation, Direction::Any) > 0).collect();
    if let Some(&relation) = joined.choose(random) {
        let neighbors = kb.neighbors(node, relation, Direction::Any);
        if let Some(&neighbor) = neighbors.as_slice().choose(random) {
            rows.extend(words.of_query(base, kb.name(neighbor)).into_iter().map(|pair| pair.0));
        }
    }
    let bag = words.bag(rows.into_iter().map(|row| (row, 1)));
    (!bag.is_empty()).then(|| Taught { bag, answers: vec![node] })
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
