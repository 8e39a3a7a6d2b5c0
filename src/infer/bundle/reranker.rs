//! The learned re-ranker: orders the nodes that several programs found.
//!
//! Scores of different programs cannot be compared, and each program knows only its own metapaths.
//! Here every candidate of a program, of text search or of a likely metapath has the same features:
//! its scores and ranks in the programs, the match of its document and its neighbours' names with
//! the query, and named nodes among its neighbours. A linear model over these features orders the
//! nodes (listwise learning to rank: Cao et al. 2007). Its weights are the same for all categories.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::bundle::conditions::Conditions;
use agent_ground::words::{is_question_word, name_words};
use agent_index::{FieldsQuery, IndexError, IndexedBase, terms::QueryTerms};
use agent_kb::{Direction, Kb, NodeId, Scores, TypeId};
use agent_retrieve::Feature;

/// Number of candidates from each program. Nodes that are not candidates follow in the order of the
/// fused ranking.
const PER_PROGRAM: usize = 40;
/// Number of candidates from each of text search, vector search and likely metapaths.
const FOUND: usize = 40;
/// Number of nodes from text search whose scores become features.
const COMPARED: usize = 400;
/// Number of nodes from text search that are checked against the conditions of a query.
const FILTERED: usize = 2_000;
/// Number of linked nodes per type that count as named by the query.
const LINKED: usize = 5;
/// Maximum number of neighbours of a named node that are considered, per relation.
const MAX_NEIGHBORS: usize = 20_000;
/// Minimum number of nodes per parallel task.
const MIN_PER_THREAD: usize = 32;
/// Upper limit of a program's raw score.
const STRONG_SCORE: f32 = 6.0;
/// Lower limit of the natural logarithm of a node's score.
const MIN_LOG: f32 = -60.0;

/// Names of the features of a node, in this order.
pub const FEATURES: [&str; 20] = [
    "scores of programs",
    "scores of programs, logarithm",
    "best score",
    "raw scores",
    "ranks",
    "ranks, logarithm",
    "type",
    "words of the document",
    "words of document and names",
    "share in the document",
    "share in names of neighbours",
    "share in either",
    "meaning",
    "found by words",
    "named itself",
    "strongest named neighbour",
    "second named neighbour",
    "likely metapaths",
    "number of neighbours",
    "length",
];

/// The learned re-ranker: a weight for each of the [`FEATURES`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Reranker {
    /// Weight by feature name; missing weights are 0.
    pub weights: BTreeMap<String, f32>,
}

/// Features of the candidates of one query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFeatures {
    /// The candidates, ascending.
    pub nodes: Vec<NodeId>,
    /// The values of [`FEATURES`] for each node, in the order of `nodes`.
    pub rows: Vec<[f32; FEATURES.len()]>,
}

impl Reranker {
    /// Returns the contribution of each feature to a node's score, relative to the mean of all
    /// candidates, largest absolute contribution first, ties in the order of [`FEATURES`]. Empty
    /// for a node without features.
    pub fn reasons(&self, features: &NodeFeatures, node: NodeId) -> Vec<Feature> {
        let row = features.nodes.binary_search(&node).ok().and_then(|at| features.rows.get(at));
        let Some(row) = row else { return Vec::new() };
        let n = features.rows.len() as f32;
        let reason = |(at, (&name, &value)): (usize, (&&'static str, &f32))| {
            let all = features.rows.iter().filter_map(|other| other.get(at)).sum::<f32>();
            let weight = self.weights.get(name).copied().unwrap_or(0.0);
            Feature { name: name.to_owned(), value, weight, gain: weight * (value - all / n) }
        };
        let mut reasons: Vec<Feature> = FEATURES.iter().zip(row).enumerate().map(reason).collect();
        reasons.sort_by(|a, b| b.gain.abs().total_cmp(&a.gain.abs()));
        reasons
    }

    /// Ranks the candidates by their features; nodes of `ranking` without features follow in their
    /// order. Scores are in `0..=1`, best first, ties by smaller id.
    pub fn apply(&self, features: &NodeFeatures, ranking: &[(NodeId, f32)]) -> Vec<(NodeId, f32)> {
        let weight = |name: &&str| self.weights.get(*name).copied().unwrap_or(0.0);
        let weights: Vec<f32> = FEATURES.iter().map(weight).collect();
        let sum = |row: &[f32; FEATURES.len()]| {
            row.iter().zip(&weights).map(|(value, weight)| value * weight).sum::<f32>()
        };
        let logs: Vec<f32> = features.rows.iter().map(sum).collect();
        let largest = logs.iter().copied().fold(f32::MIN, f32::max);
        let share = |log: &f32| (log - largest).max(MIN_LOG).exp();
        let ordered: Vec<(NodeId, f32)> =
            features.nodes.iter().copied().zip(logs.iter().map(share)).collect();
        let least = ordered.iter().map(|pair| pair.1).fold(1.0, f32::min);
        let top = ranking.iter().map(|pair| pair.1).fold(f32::MIN_POSITIVE, f32::max);
        let rest = ranking
            .iter()
            .filter(|(node, _)| features.nodes.binary_search(node).is_err())
            .map(|&(node, score)| (node, score.max(0.0) / top * least * 0.5));
        Scores::new(ordered.iter().copied().chain(rest).collect()).ranking()
    }
}

/// Returns at most [`COMPARED`] candidates from text search with their scores, best first. If text
/// search finds nodes of the types `asked`, returns only nodes of these types. With conditions,
/// text search finds up to [`FILTERED`] nodes, and nodes that fulfil the conditions come first.
pub(crate) fn search_words(
    base: &IndexedBase,
    conditions: &Conditions,
    asked: &[TypeId],
) -> Vec<(NodeId, f32)> {
    let k = if conditions.all.is_empty() { COMPARED } else { FILTERED };
    let of = |types: &[TypeId]| base.search_fields(&conditions.wanted, types, k);
    let found = if asked.is_empty() { Vec::new() } else { of(asked) };
    let found = if found.is_empty() { of(base.kb.candidate_types()) } else { found };
    let mut found = conditions.apply(base, found);
    found.truncate(COMPARED);
    found
}

/// Inputs of the features that depend only on the query.
pub struct QueryFeatures {
    /// Nodes from text search with their scores, best first.
    found: Vec<(NodeId, f32)>,
    /// Candidates from vector search.
    near: Vec<NodeId>,
    /// Nodes that the query names, with the strength of the link.
    linked: Scores,
    words: Words,
    fields: FieldsQuery,
    documents: QueryTerms,
    names: QueryTerms,
    meaning: Arc<[f32]>,
    /// Nodes that likely metapaths from the names reach, with probabilities.
    likely: Scores,
}

impl QueryFeatures {
    /// Computes the inputs for a query. `found` and `near` hold the nodes from text search and from
    /// vector search, best first; `near` is empty if nodes from vector search are not candidates.
    /// `likely` has the nodes that the query's likely metapaths reach, with probabilities.
    ///
    /// # Errors
    /// Errors of the embedder.
    pub fn new(
        base: &IndexedBase,
        query: &str,
        [found, near]: [&[(NodeId, f32)]; 2],
        likely: Scores,
    ) -> Result<Self, IndexError> {
        let corrected = base.corrected(query);
        Ok(Self {
            found: found.to_vec(),
            near: near.iter().take(FOUND).map(|pair| pair.0).collect(),
            linked: base.entities.link(&base.kb, query, &[], LINKED),
            words: Words::new(base, &corrected),
            fields: base.fields_query(query),
            documents: base.terms.query(&base.stems, &corrected),
            names: base.neighbor_names.query(&base.stems, &corrected),
            meaning: base.embed_query(query)?,
            likely,
        })
    }

    /// Matches a node with the words of the query: BM25 of its document, BM25F of its document and
    /// its neighbours' names, and the share of the query's words in its document, in these names,
    /// and in either.
    fn text_match(&self, base: &IndexedBase, node: NodeId) -> [f32; 5] {
        [
            base.terms.bm25(&self.documents, node),
            base.match_fields(&self.fields, node),
            base.terms.coverage(&self.documents, node),
            base.neighbor_names.coverage(&self.names, node),
            self.words.covered(base, node),
        ]
    }
}

/// Computes the features of all candidates: the first nodes of the programs' rankings (each given
/// with its probability), of text search, of likely metapaths, and of vector search.
///
/// # Errors
/// Errors of the vectors.
pub fn node_features(
    base: &IndexedBase,
    query: &QueryFeatures,
    rankings: &[(f32, &Vec<(NodeId, f32)>)],
) -> Result<NodeFeatures, IndexError> {
    let likely = query.likely.top(FOUND).ranking();
    let put_forward = rankings
        .iter()
        .flat_map(|(_, ranking)| ranking.iter().take(PER_PROGRAM))
        .chain(query.found.iter().take(FOUND))
        .chain(likely.iter().take(FOUND))
        .map(|pair| pair.0)
        .chain(query.near.iter().copied())
        .filter(|&node| base.kb.is_candidate(node));
    let nodes: Vec<NodeId> = put_forward.collect::<BTreeSet<_>>().into_iter().collect();
    let programs = Programs::new(base, &nodes, rankings);
    let beside = beside_named(&base.kb, &nodes, &query.linked);
    let similarities = base.vectors.score(&query.meaning, &nodes)?;
    let found = Scores::new(query.found.clone());
    let best_found = found.largest().max(f32::MIN_POSITIVE);
    let texts: Vec<[f32; 5]> = nodes
        .par_iter()
        .with_min_len(MIN_PER_THREAD)
        .map(|&node| query.text_match(base, node))
        .collect();
    let best = |at: usize| texts.iter().map(|text| text[at]).fold(f32::MIN_POSITIVE, f32::max);
    let (best_match, best_fields) = (best(0), best(1));
    let rows = nodes.iter().enumerate().map(|(at, &node)| {
        let [joined, best, raw, ranks, kind] = programs.features(base, at, node);
        let [first, second] = beside[at];
        let [matched, in_fields, covered, covered_by_names, covered_by_both] = texts[at];
        [
            joined,
            (joined + 0.01).ln(),
            best,
            raw,
            ranks,
            (ranks + 0.01).ln(),
            (kind + 0.02).ln(),
            matched / best_match,
            in_fields / best_fields,
            covered,
            covered_by_names,
            covered_by_both,
            similarities[at].max(0.0),
            found.get(node).unwrap_or(0.0) / best_found,
            query.linked.get(node).unwrap_or(0.0),
            first,
            second,
            query.likely.get(node).unwrap_or(0.0),
            (degree(&base.kb, node) as f32).ln_1p() / 5.0,
            (base.terms.length(node) as f32).ln_1p() / 5.0,
        ]
    });
    let rows = rows.collect();
    Ok(NodeFeatures { nodes, rows })
}

/// Scores by node over all programs: the sum of normalized scores, the maximum normalized score,
/// the sum of raw scores and the sum of reciprocal ranks. The sums are weighted by the programs'
/// probabilities.
struct Programs {
    scores: Vec<[f32; 4]>,
    /// For each type: the total probability of the programs that rank a node of this type first.
    kinds: Vec<f32>,
}

impl Programs {
    fn new(base: &IndexedBase, nodes: &[NodeId], rankings: &[(f32, &Vec<(NodeId, f32)>)]) -> Self {
        let mut scores = vec![[0.0; 4]; nodes.len()];
        let mut kinds = vec![0.0; base.kb.types().len()];
        for &(probability, ranking) in rankings {
            let Some(&(first, largest)) = ranking.first() else { continue };
            if let Some(kind) = kinds.get_mut(usize::from(base.kb.node_type(first).0)) {
                *kind += probability;
            }
            let largest = largest.max(f32::MIN_POSITIVE);
            for (rank, &(node, score)) in (1u16..).zip(ranking) {
                let Ok(at) = nodes.binary_search(&node) else { continue };
                let Some([joined, best, raw, ranks]) = scores.get_mut(at) else { continue };
                let score = score.max(0.0);
                *joined += probability * score / largest;
                *best = best.max(score / largest);
                *raw += probability * score.min(STRONG_SCORE) * 2.0 / STRONG_SCORE;
                *ranks += probability / f32::from(rank);
            }
        }
        Self { scores, kinds }
    }

    fn features(&self, base: &IndexedBase, at: usize, node: NodeId) -> [f32; 5] {
        let [joined, best, raw, ranks] = self.scores.get(at).copied().unwrap_or_default();
        let kind = self.kinds.get(usize::from(base.kb.node_type(node).0)).copied();
        [joined, best, raw, ranks, kind.unwrap_or(0.0)]
    }
}

/// Counts the neighbours of a node by all relations, in both directions.
fn degree(kb: &Kb, node: NodeId) -> usize {
    let relations = kb.relations_of(kb.node_type(node)).iter();
    relations.map(|&relation| kb.degree(node, relation, Direction::Any)).sum()
}

/// Returns, for each of `nodes`, the link strengths of its two strongest named neighbours, by any
/// relation; 0 where there is none.
fn beside_named(kb: &Kb, nodes: &[NodeId], linked: &Scores) -> Vec<[f32; 2]> {
    let mut beside = vec![[0.0f32; 2]; nodes.len()];
    for &(named, strength) in linked.as_slice() {
        let mut places = BTreeSet::new();
        for &relation in kb.relations_of(kb.node_type(named)) {
            let neighbors = kb.neighbors(named, relation, Direction::Any);
            let known = &neighbors[..neighbors.len().min(MAX_NEIGHBORS)];
            // Looks up the smaller set in the larger one.
            if known.len() < nodes.len() {
                places.extend(known.iter().filter_map(|node| nodes.binary_search(node).ok()));
            } else {
                let is_known = |at: &usize| known.binary_search(&nodes[*at]).is_ok();
                places.extend((0..nodes.len()).filter(is_known));
            }
        }
        for at in places {
            if let Some([first, second]) = beside.get_mut(at) {
                if strength > *first {
                    (*first, *second) = (strength, *first);
                } else {
                    *second = second.max(strength);
                }
            }
        }
    }
    beside
}

/// The query's stems, each with its ids in documents and in names, and the smaller of its two idfs.
struct Words {
    stems: Vec<(Option<u32>, Option<u32>, f32)>,
    total: f32,
}

impl Words {
    fn new(base: &IndexedBase, query: &str) -> Self {
        let stems: BTreeSet<String> = name_words(query)
            .filter(|(_, word)| !is_question_word(word))
            .map(|(_, word)| base.stems.stem(&word).into_owned())
            .collect();
        let known = |stem: &String| {
            let (document, name) = (base.terms.stem_id(stem), base.neighbor_names.stem_id(stem));
            let idfs =
                [document.map(|id| base.terms.idf(id)), name.map(|id| base.neighbor_names.idf(id))];
            let idf = idfs.into_iter().flatten().reduce(f32::min)?;
            Some((document, name, idf))
        };
        let stems: Vec<_> = stems.iter().filter_map(known).collect();
        let total = stems.iter().map(|stem| stem.2).sum::<f32>().max(f32::MIN_POSITIVE);
        Self { stems, total }
    }

    /// Returns the share of the query's stems, weighted by idf, that occur in a node's document or
    /// its neighbours' names, in `0..=1`.
    fn covered(&self, base: &IndexedBase, node: NodeId) -> f32 {
        let has = |&&(document, name, _): &&(Option<u32>, Option<u32>, f32)| {
            document.is_some_and(|stem| base.terms.has(node, stem))
                || name.is_some_and(|stem| base.neighbor_names.has(node, stem))
        };
        self.stems.iter().filter(has).map(|stem| stem.2).sum::<f32>() / self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_testing::example_base;

    fn features_of(
        base: &IndexedBase,
        query: &str,
        rankings: &[(f32, &Vec<(NodeId, f32)>)],
    ) -> NodeFeatures {
        {
            let found = search_words(base, &Conditions::read(base, query), &[]);
            let query = QueryFeatures::new(base, query, [&found, &[]], Scores::default()).unwrap();
            node_features(base, &query, rankings)
        }
        .unwrap()
    }

    /// Returns the value of one feature of a node; `None` if the node is not a candidate.
    fn value(features: &NodeFeatures, name: &str, node: NodeId) -> Option<f32> {
        let at = features.nodes.binary_search(&node).ok()?;
        let column = FEATURES.iter().position(|&other| other == name).unwrap();
        Some(features.rows[at][column])
    }

    #[test]
    fn features_tell_what_is_known_of_nodes_whoever_put_them_forward() {
        let base = example_base();
        let brand = base.kb.nodes_of_type(base.kb.type_id("brand").unwrap())[0];
        let relation = base.kb.relation_id("has_brand").unwrap();
        let beside = base.kb.neighbors(brand, relation, Direction::In)[0];
        let query = format!("{} wool", base.kb.name(brand));
        let (first, second) = (vec![(beside, 3.0), (1, 1.5)], vec![(brand, 2.0), (1, 0.5)]);
        let features = features_of(&base, &query, &[(0.8, &first), (0.2, &second)]);
        let value = |name, node| value(&features, name, node);
        assert_eq!(value("scores of programs", brand), None, "a brand cannot be an answer");
        let near = |name, node, expected: f32| {
            let value = value(name, node).unwrap();
            assert!((value - expected).abs() < 1e-6, "{name} of {node}: {value}");
        };
        near("scores of programs", beside, 0.8);
        near("scores of programs", 1, 0.8 * 0.5 + 0.2 * 0.25);
        near("ranks", 1, 0.5);
        let strength = base.entities.link(&base.kb, &query, &[], LINKED).get(brand).unwrap();
        assert!(strength > 0.0);
        assert_eq!(value("strongest named neighbour", beside), Some(strength));
        let shares = |node| {
            ["share in the document", "share in names of neighbours", "share in either"]
                .map(|name| value(name, node).unwrap())
        };
        for node in [beside, 1] {
            let [document, names, either] = shares(node);
            assert!(either >= document.max(names) * 0.5 && either <= 1.0, "{node}");
        }
        assert!(shares(beside)[1] > 0.0 && shares(1)[0] > 0.0);
    }

    #[test]
    fn reasons_add_up_to_what_a_node_has_over_the_mean() {
        let rows: Vec<[f32; FEATURES.len()]> = [(1.0, 0.5), (0.0, 2.0)]
            .map(|(joined, length)| {
                let mut row = [0.0; FEATURES.len()];
                (row[0], row[19]) = (joined, length);
                row
            })
            .to_vec();
        let features = NodeFeatures { nodes: vec![4, 9], rows };
        let weights = [("scores of programs", 3.0), ("length", -0.5)];
        let weights = weights.map(|(name, weight)| (name.to_owned(), weight)).into();
        let reranker = Reranker { weights };
        let reasons = reranker.reasons(&features, 9);
        assert_eq!(
            (&*reasons[0].name, reasons[0].value, reasons[0].gain),
            (FEATURES[0], 0.0, -1.5)
        );
        assert_eq!((&*reasons[1].name, reasons[1].value), ("length", 2.0));
        assert!((reasons[1].gain + 0.375).abs() < 1e-6 && reasons[2].gain == 0.0);
        assert!(reranker.reasons(&features, 5).is_empty(), "nothing is known of node 5");
    }

    #[test]
    fn without_weights_nodes_are_ordered_by_id_and_nothing_is_lost() {
        let base = example_base();
        let ranking = vec![(2, 1.0), (0, 0.5)];
        let features = features_of(&base, "steel", &[(1.0, &ranking)]);
        let ordered = Reranker::default().apply(&features, &ranking);
        let ids: Vec<NodeId> = ordered.iter().map(|pair| pair.0).collect();
        assert_eq!(ids, features.nodes);
        assert!(ids.contains(&0) && ids.contains(&2));
        let unknown = Reranker::default().apply(&NodeFeatures::default(), &ranking);
        assert_eq!(unknown.iter().map(|pair| pair.0).collect::<Vec<_>>(), [2, 0]);
    }
}
