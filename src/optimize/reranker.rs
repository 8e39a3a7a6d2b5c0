//! Trains the re-ranker of answers by listwise learning to rank.
//!
//! The candidate nodes of a training query are a list. The model gives each node a probability, by
//! a softmax over the nodes' sums of weighted features. The objective is the mean over queries of
//! the log probability of all answers together, minus a penalty on the squared distance of the
//! weights to the prior, which are weights learned on other bases. The objective is ListNet's
//! top-one likelihood (Cao et al. 2007), with several correct answers as in marginal likelihood and
//! the prior as in hierarchical models. The objective is maximised by full-batch Adam (Kingma & Ba
//! 2015) from the prior. Gradients are summed in the order of queries, so that the result does not
//! depend on the number of threads.
//!
//! The features of a training query must come from a router that was trained without this query;
//! otherwise the weights rely on the router too much.

use rayon::prelude::*;

use agent_infer::bundle::reranker::{FEATURES, NodeFeatures, Reranker};
use agent_kb::NodeId;
use agent_train::Adam;

/// Number of gradient steps of Adam when the weights are trained.
const STEPS: usize = 300;
/// Step size of Adam when the weights are trained.
const RATE: f64 = 0.05;
/// Strength of the prior, in queries: half of this number times the squared distance to the prior
/// is subtracted from the sum of the queries' log probabilities. The more queries there are, the
/// further the weights move from the prior.
const PRIOR_STRENGTH: f64 = 1.0;
/// Prior weights of [`FEATURES`]: means of weights that were trained without a prior on the
/// training queries of three bases (products, papers, biomedicine). No feature is specific to a
/// base.
const PRIOR: Row = [
    1.2, 0.8, 1.8, 1.4, 0.1, 0.9, -0.1, 0.7, 0.8, -0.2, 0.3, 1.8, 0.1, -0.3, -2.3, 2.1, 1.9, 2.0,
    1.0, -0.5,
];

/// One value per feature of a node, in the order of [`FEATURES`].
type Row = [f64; FEATURES.len()];

/// Returns the gradient of the log probability of one query's answers: the expected features of the
/// answers minus those of all candidate nodes. `None` if no candidate is an answer.
fn gradient_of(features: &NodeFeatures, answers: &[NodeId], weights: &Row) -> Option<Row> {
    let sum = |row: &[f32; FEATURES.len()]| -> f64 {
        row.iter().zip(weights).map(|(value, weight)| f64::from(*value) * weight).sum()
    };
    let logs: Vec<f64> = features.rows.iter().map(sum).collect();
    let largest = logs.iter().copied().fold(f64::MIN, f64::max);
    let powers: Vec<f64> = logs.into_iter().map(|log| (log - largest).exp()).collect();
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
        for (part, value) in gradient.iter_mut().zip(row) {
            *part += share * f64::from(*value);
        }
    }
    Some(gradient)
}

/// Trains a re-ranker on training queries, each given as the features of its candidate nodes and
/// its answers, sorted ascending. Queries without an answer among the candidates are ignored; if no
/// other query is left, the weights are the prior.
pub fn train(queries: &[(NodeFeatures, &[NodeId])]) -> Reranker {
    let n = queries.len().max(1) as f64;
    let ridge = PRIOR_STRENGTH / n;
    let mut weights: Row = PRIOR;
    let mut adam = Adam::new(weights.len(), RATE);
    for _ in 0..STEPS {
        let gradients: Vec<Option<Row>> = queries
            .par_iter()
            .map(|(features, answers)| gradient_of(features, answers, &weights))
            .collect();
        let mut gradient: Row = std::array::from_fn(|at| -ridge * (weights[at] - PRIOR[at]));
        for one in gradients.into_iter().flatten() {
            for (sum, part) in gradient.iter_mut().zip(one) {
                *sum += part / n;
            }
        }
        adam.ascend(&mut weights, &gradient);
    }
    let named = FEATURES.iter().zip(weights);
    Reranker { weights: named.map(|(name, weight)| ((*name).to_owned(), weight as f32)).collect() }
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
    fn without_an_answer_that_was_put_forward_the_prior_stays() {
        let none: &[NodeId] = &[4];
        let of_one = train(&[(query(1), none)]);
        assert_eq!(of_one, train(&[]));
        assert_eq!(of_one.weights["best score"], PRIOR[2] as f32);
    }
}
