//! Finds the call that ranks other nodes above the first correct answer, by decomposing the
//! ranking's scores into contributions of calls.
//!
//! Sums, differences, weights, normalization and fusion are decomposed; any other call is one
//! contribution.

use crate::explain::flow::Flow;
use agent_kb::{NodeId, Scores};
use agent_retrieve::Ranking;
use agent_tools::{NodeFlow, ToolCall, Value};

/// Maximum number of wrong nodes above the answer that are compared, best first.
const MAX_WRONG: usize = 50;
/// Maximum depth of nested sums.
const MAX_DEPTH: usize = 64;

/// Contribution of one call to the scores of the ranking.
struct Summand {
    call: usize,
    factor: f32,
    scores: Scores,
    /// The call whose result is this contribution; for a fusion, set only for its first ranking.
    /// `None` for values that the program computed itself.
    stands_for: Option<usize>,
}

/// A call whose scores favour wrong nodes.
pub(super) struct Bias {
    /// Index of the call.
    pub(super) call: usize,
    /// Mean contribution of the call to the wrong nodes minus its contribution to the answer, in
    /// scores of the ranking.
    pub(super) margin: f32,
}

/// Returns the call that most favours the nodes above `answer`, ties by the earlier call; `None` if
/// no call favours them, or if the program computed the ranking itself.
pub(super) fn strongest_bias(flow: &Flow<'_>, ranking: &Ranking, answer: NodeId) -> Option<Bias> {
    let above = ranking.iter().map(|pair| pair.0).take_while(|&node| node != answer);
    let wrong: Vec<NodeId> = above.take(MAX_WRONG).collect();
    let mut summands = Vec::new();
    take_apart(flow, flow.last?, 1.0, 0, &mut summands);
    let mut by_call: Vec<(usize, f32)> = Vec::new();
    for summand in &summands {
        let of = |node: NodeId| summand.factor * summand.scores.get(node).unwrap_or(0.0);
        let more: f32 = wrong.iter().map(|&node| of(node) - of(answer)).sum();
        let more = more / wrong.len().max(1) as f32;
        match by_call.iter_mut().find(|pair| pair.0 == summand.call) {
            Some(pair) => pair.1 += more,
            None => by_call.push((summand.call, more)),
        }
    }
    by_call.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let &(call, margin) = by_call.first()?;
    (margin > 0.0).then_some(Bias { call, margin })
}

/// Returns the calls whose results add up to the ranking, with their total factors, in the order of
/// the sum. A fusion is one summand.
pub(super) fn weights(flow: &Flow<'_>) -> Vec<(usize, f32)> {
    flow.last.map_or_else(Vec::new, |last| weights_in(flow, last))
}

/// Returns the calls whose results add up to the result of a call, as [`weights`] does.
pub(super) fn weights_in(flow: &Flow<'_>, call: usize) -> Vec<(usize, f32)> {
    let mut summands = Vec::new();
    take_apart(flow, call, 1.0, 0, &mut summands);
    let mut weights: Vec<(usize, f32)> = Vec::new();
    for (call, factor) in summands.iter().filter_map(|one| Some((one.stands_for?, one.factor))) {
        match weights.iter_mut().find(|pair| pair.0 == call) {
            Some(pair) => pair.1 += factor,
            None => weights.push((call, factor)),
        }
    }
    weights
}

fn number(value: Option<&Value>) -> Option<f32> {
    match value {
        Some(Value::Float(number)) => Some(*number as f32),
        Some(Value::Int(number)) => Some(*number as f32),
        _ => None,
    }
}

/// Appends the summands of a call's scores, times a factor, to `into`.
fn take_apart(flow: &Flow<'_>, at: usize, factor: f32, depth: usize, into: &mut Vec<Summand>) {
    let Some(call) = flow.calls.get(at) else { return };
    let parts = if depth < MAX_DEPTH { parts(call) } else { None };
    let operands = flow.operands(at);
    match parts {
        Some(factors) if !operands.is_empty() => {
            for (operand, of) in operands.iter().zip(factors) {
                match (operand.from, operand.value) {
                    (Some(from), _) => take_apart(flow, from, factor * of, depth + 1, into),
                    (None, Value::Scores(scores)) => into.push(Summand {
                        call: at,
                        factor: factor * of,
                        scores: (**scores).clone(),
                        stands_for: None,
                    }),
                    _ => {}
                }
            }
        }
        _ if call.flow == NodeFlow::Fuse => fused(flow, at, factor, into),
        _ => {
            if let Some(Value::Scores(scores)) = flow.result(at) {
                let scores = (**scores).clone();
                into.push(Summand { call: at, factor, scores, stands_for: Some(at) });
            }
        }
    }
}

/// Returns the factor of each operand that holds nodes; `None` if the call is not linear in its
/// operands.
fn parts(call: &ToolCall) -> Option<Vec<f32>> {
    let scores_at = |at: usize| matches!(call.args.get(at), Some(Value::Scores(_)));
    match call.flow {
        NodeFlow::Keep | NodeFlow::Cut | NodeFlow::Remove if scores_at(0) => Some(vec![1.0]),
        NodeFlow::Normalize => match call.args.first() {
            Some(Value::Scores(scores)) if scores.largest() > 0.0 => {
                Some(vec![1.0 / scores.largest()])
            }
            _ => None,
        },
        NodeFlow::Sum => Some(vec![1.0, 1.0]),
        NodeFlow::Difference => Some(vec![1.0, -1.0]),
        NodeFlow::Multiply => {
            number(call.args.first()).or_else(|| number(call.args.get(1))).map(|by| vec![by])
        }
        NodeFlow::Divide => {
            number(call.args.get(1)).filter(|by| *by != 0.0).map(|by| vec![1.0 / by])
        }
        _ => None,
    }
}

/// Appends the reciprocal ranks of each ranking of a fusion to `into`.
fn fused(flow: &Flow<'_>, at: usize, factor: f32, into: &mut Vec<Summand>) {
    let k = flow.calls.get(at).and_then(|call| number(call.args.get(1))).unwrap_or_default();
    let mut stands_for = Some(at);
    for operand in flow.operands(at) {
        if let Value::Scores(scores) = operand.value {
            let call = operand.from.unwrap_or(at);
            let scores = scores.reciprocal_ranks(k);
            into.push(Summand { call, factor, scores, stands_for: stands_for.take() });
        }
    }
}

/// Returns the best rank of an answer in the scores of any call whose nodes get into the ranking;
/// `None` if no scores hold an answer. Ranks count only nodes that may be answers.
pub(super) fn best_place(
    flow: &Flow<'_>,
    answers: &[NodeId],
    may_answer: impl Fn(NodeId) -> bool,
) -> Option<usize> {
    let leads = flow.leading_to(flow.last, flow.calls.len());
    let scored = leads.iter().enumerate().filter(|(_, leads)| **leads).filter_map(|(at, _)| {
        match flow.result(at) {
            Some(Value::Scores(scores)) => Some(scores),
            _ => None,
        }
    });
    scored
        .filter_map(|scores| {
            let held = answers.iter().filter_map(|&answer| Some((answer, scores.get(answer)?)));
            let best = held.min_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)))?;
            let above = |&&(node, score): &&(NodeId, f32)| {
                may_answer(node) && (score > best.1 || score == best.1 && node < best.0)
            };
            Some(1 + scores.as_slice().iter().filter(above).count())
        })
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::testing::{call, scores, scores_of};
    use agent_kb::{Combine, NodeSet};

    #[test]
    fn summands_add_up_to_the_ranking_and_the_one_that_favours_wrong_nodes_is_named() {
        let (a, b) = (scores(&[(1, 1.0), (2, 3.0)]), scores(&[(1, 8.0), (3, 4.0)]));
        let without = Value::nodes(NodeSet::new(vec![9]));
        let doubled = Value::scores(scores_of(&a).scale(2.0));
        let normal = Value::scores(scores_of(&b).normalized());
        let less = Value::scores(
            scores_of(&doubled).combine(&scores_of(&normal).scale(-1.0), Combine::Sum),
        );
        let kept = Value::scores(scores_of(&less).filter(|node, _| node != 9));
        let top = Value::scores(scores_of(&kept).top(3));
        let calls = [
            call("search", vec![Value::text("x")], &a),
            call("search", vec![Value::text("y")], &b),
            call("*", vec![a.clone(), Value::Float(2.0)], &doubled),
            call("normalize", vec![b.clone()], &normal),
            call("-", vec![doubled.clone(), normal.clone()], &less),
            call("without", vec![less.clone(), without], &kept),
            call("top", vec![kept.clone(), Value::Int(3)], &top),
        ];
        let ranking = scores_of(&top).ranking();
        let flow = Flow::new(&calls, &ranking);
        assert_eq!(flow.last, Some(6));
        let mut summands = Vec::new();
        take_apart(&flow, 6, 1.0, 0, &mut summands);
        assert_eq!(summands.iter().map(|one| one.call).collect::<Vec<_>>(), [0, 1]);
        for (node, score) in ranking.iter().copied() {
            let sum: f32 =
                summands.iter().map(|s| s.factor * s.scores.get(node).unwrap_or(0.0)).sum();
            assert!((sum - score).abs() < 1e-6, "node {node}: {sum}, not {score}");
        }
        // Node 2 leads with 6, node 1 has 1: the first search gives it 4 less, the second 1 less.
        let strongest_bias = strongest_bias(&flow, &ranking, 1).expect("a call favours node 2");
        assert_eq!((strongest_bias.call, strongest_bias.margin), (0, 4.0));
        assert_eq!(best_place(&flow, &[1], |_| true), Some(1), "second by x, first by y");
        assert_eq!(best_place(&flow, &[3], |node| node != 1), Some(1));
        assert_eq!(best_place(&flow, &[7], |_| true), None);
    }

    #[test]
    fn fusion_contributes_reciprocal_ranks() {
        let (a, b) = (scores(&[(1, 1.0), (2, 3.0)]), scores(&[(1, 8.0), (3, 4.0)]));
        let fused = scores_of(&a).reciprocal_ranks(60.0);
        let fused =
            Value::scores(fused.combine(&scores_of(&b).reciprocal_ranks(60.0), Combine::Sum));
        let list = Value::List(vec![a.clone(), b.clone()]);
        let calls = [
            call("search", vec![Value::text("x")], &a),
            call("search", vec![Value::text("y")], &b),
            call("fuse", vec![list, Value::Float(60.0)], &fused),
        ];
        let ranking = scores_of(&fused).ranking();
        let flow = Flow::new(&calls, &ranking);
        let strongest_bias = strongest_bias(&flow, &ranking, 2).expect("a call favours node 1");
        assert_eq!((ranking[0].0, strongest_bias.call), (1, 1));
    }
}
