//! Trains the re-ranker of answers by listwise learning to rank.
//!
//! The candidate nodes of a training query are a list. The model gives each node a probability, by
//! a softmax over the nodes' sums of weighted features. The objective is the mean over queries of
//! the log probability of all answers together. A penalty on the squared distance of the weights to
//! the prior (weights learned on other bases) is subtracted. The objective is ListNet's top-one
//! likelihood (Cao et al. 2007), with several correct answers as in marginal likelihood and the
//! prior as in hierarchical models. The weights start at the prior.
//!
//! The features of a training query must come from a router that was trained without this query;
//! otherwise the weights rely on the router too much.

use crate::softmax::{add, dot, fit, powers};
use agent_infer::bundle::reranker::{FEATURES, NodeFeatures, Reranker};
use agent_kb::NodeId;

/// Strength of the prior, in queries: half of this number times the squared distance to the prior
/// is subtracted from the sum of the queries' log probabilities. The more queries there are, the
/// further the weights move from the prior.
const PRIOR_STRENGTH: f64 = 1.0;
/// Prior weights of [`FEATURES`]: means of weights that were trained without a prior on the
/// training queries of three bases (products, papers, biomedicine), and 0 where the mean was
/// negative for a feature that counts in a node's favour. No feature is specific to a base.
const PRIOR: Row = [
    1.2, 0.8, 1.8, 1.4, 0.1, 0.9, 0.0, 0.7, 0.8, 0.0, 0.3, 1.8, 0.1, 0.0, -2.3, 2.1, 1.9, 2.0, 1.0,
    -0.5,
];

/// Features that may count against a node. The others count in its favour, so their weights are not
/// negative: with few training queries, a node could otherwise be rewarded for matching less.
const EITHER: [&str; 3] = ["named itself", "number of neighbours", "length"];

/// One value per feature of a node, in the order of [`FEATURES`].
type Row = [f64; FEATURES.len()];

/// Returns the gradient of the log probability of one query's answers: the expected features of the
/// answers minus those of all candidate nodes. `None` if no candidate is an answer.
fn gradient_of(features: &NodeFeatures, answers: &[NodeId], weights: &Row) -> Option<Row> {
    let logs = features.rows.iter().map(|row| dot(row, weights));
    let powers = powers(&logs.collect::<Vec<_>>());
    let is_answer = |at: usize| answers.binary_search(&features.nodes[at]).is_ok();
    let all: f64 = powers.iter().sum();
    let right: f64 =
        powers.iter().enumerate().filter(|&(at, _)| is_answer(at)).map(|pair| pair.1).sum();
    if right <= 0.0 {
        return None;
    }
    let mut gradient = [0.0; FEATURES.len()];
    for (at, (row, power)) in features.rows.iter().zip(&powers).enumerate() {
        let share = if is_answer(at) { power / right } else { 0.0 } - power / all;
        add(&mut gradient, row, share);
    }
    Some(gradient)
}

/// Trains a re-ranker on training queries, each given as the features of its candidate nodes and
/// its answers, sorted ascending. Queries without an answer among the candidates are ignored; if no
/// query is left, the weights are the prior.
pub fn train(queries: &[(NodeFeatures, &[NodeId])]) -> Reranker {
    let ridge = PRIOR_STRENGTH / queries.len().max(1) as f64;
    let gradient = |(features, answers): &(NodeFeatures, &[NodeId]), weights: &Row| {
        gradient_of(features, answers, weights)
    };
    let least = FEATURES.map(|name| if EITHER.contains(&name) { f64::NEG_INFINITY } else { 0.0 });
    Reranker { weights: fit(&FEATURES, PRIOR, least, ridge, queries, gradient) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the features of three nodes. Two features differ between the nodes; the second one
    /// marks `answer`.
    fn query(answer: usize) -> NodeFeatures {
        let rows = (0..3).map(|at| {
            let mut row = [0.0; FEATURES.len()];
            row[0] = if at == 0 { 1.0 } else { 0.0 };
            row[10] = if at == answer { 0.9 } else { 0.2 };
            row
        });
        NodeFeatures { nodes: vec![3, 5, 8], rows: rows.collect() }
    }

    #[test]
    fn the_features_that_tells_answers_apart_decides() {
        let answers: [&[NodeId]; 3] = [&[5], &[8], &[3]];
        let queries: Vec<_> =
            [1, 2, 0].into_iter().zip(answers).map(|(at, answer)| (query(at), answer)).collect();
        let reranker = train(&queries);
        let ranking = vec![(3, 0.9), (5, 0.5), (1, 0.4), (8, 0.1)];
        for (features, answers) in &queries {
            let ranked = reranker.apply(features, &ranking);
            assert_eq!(ranked[0].0, answers[0]);
            assert_eq!(ranked[3].0, 1, "a node without features comes last");
            assert!(ranked.iter().all(|pair| (0.0..=1.0).contains(&pair.1)), "{ranked:?}");
        }
        assert_eq!(reranker, train(&queries));
    }

    #[test]
    fn a_node_is_never_rewarded_for_matching_less() {
        assert!(EITHER.iter().all(|name| FEATURES.contains(name)));
        // The answers have less of the first feature than the other nodes.
        let answers: [&[NodeId]; 2] = [&[5], &[8]];
        let queries: Vec<_> =
            [1, 2].into_iter().zip(answers).map(|(at, answer)| (query(at), answer)).collect();
        let many: Vec<_> = queries.iter().cycle().take(60).cloned().collect();
        assert_eq!(train(&many).weights[FEATURES[0]], 0.0);
    }

    #[test]
    fn without_an_answer_that_was_put_forward_the_prior_stays() {
        let none: &[NodeId] = &[4];
        let of_one = train(&[(query(1), none)]);
        assert_eq!(of_one, train(&[]));
        assert_eq!(of_one.weights["best score"], PRIOR[2] as f32);
    }
}
