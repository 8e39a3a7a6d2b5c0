//! Collects the signals of one run: the scores that its calls give the best correct answer and the
//! wrong nodes above that answer, most decisive first. Also collects the start nodes of metapaths.
//!
//! A signal is a call whose scores get into the ranking. Calls that only pass scores on (weights,
//! sums, cuts, filters) are omitted, because the weights of the other calls include them.

use std::sync::Arc;

use crate::explain::{
    Loss, ProgramLoss,
    flow::{Flow, NodeSource, node_set},
    lost::starts,
    order::{weights, weights_in},
};
use agent_ground::words::cut;
use agent_index::IndexedBase;
use agent_kb::{NodeId, NodeSet};
use agent_retrieve::Ranking;
use agent_tools::{NodeFlow, ToolCall, Value, source::literal};

/// Maximum number of metapaths followed back from the end of a run.
const MAX_METAPATHS: usize = 16;
/// Number of best start nodes shown per call.
const SHOWN_STARTS: usize = 3;
/// Maximum length in characters of a text in the label of a call.
const TEXT_CHARS: usize = 28;
/// Maximum depth of nested calls in a label.
const LABEL_DEPTH: usize = 2;
/// Maximum number of items of a list or sum in a label.
const LABEL_ITEMS: usize = 6;

/// A node in the table of signals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShownNode {
    /// Id of the node.
    pub node: NodeId,
    /// Whether the node is a correct answer.
    pub is_answer: bool,
    /// Rank of the node among the nodes that may be answers, from 1; `None` if the node is not
    /// ranked.
    pub rank: Option<usize>,
    /// Score of the node in the ranking; `None` if the node is not ranked.
    pub score: Option<f32>,
}

/// The scores that one call gives the nodes of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Signal {
    /// Short form of the call: untrusted text, one line.
    pub label: String,
    /// Line of the program, from 1, if known.
    pub line: Option<usize>,
    /// Whether the call is an operator, such as `+`.
    pub combines: bool,
    /// Factor by which the call's scores count in the ranking; `None` if it is not a single number.
    pub weight: Option<f32>,
    /// The call's score of each node in [`Signals::shown`], in that order; `None` if the call does
    /// not score the node.
    pub values: Vec<Option<f32>>,
}

/// A start node of a metapath.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Id of the node.
    pub node: NodeId,
    /// Score of the node in the call's result; `None` if the result is a set.
    pub strength: Option<f32>,
    /// Whether the metapath reaches a correct answer from this node.
    pub leads: bool,
}

/// A call whose result holds the start nodes of metapaths.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCall {
    /// Short form of the call: untrusted text, one line.
    pub label: String,
    /// The three best nodes of the result and, if none of them leads to an answer, the best node
    /// that does.
    pub starts: Vec<Start>,
    /// Number of nodes that the call found.
    pub n: usize,
    /// Whether the call links entities of the query.
    pub names: bool,
}

/// A step along relations.
#[derive(Clone, Debug, PartialEq)]
pub struct Traversal {
    /// Short form of the call: untrusted text, one line.
    pub label: String,
    /// Line of the program, from 1, if known.
    pub line: Option<usize>,
    /// Number of nodes that the step reaches.
    pub n: usize,
    /// Number of correct answers among the reached nodes; if another step follows, number of
    /// reached nodes from which that step reaches an answer.
    pub n_sought: usize,
    /// Whether this is the last step before the ranking.
    pub ends: bool,
}

/// The signals of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Signals {
    /// The best correct answer, then the wrong nodes above it, best first. If the answer is at rank
    /// 1 or not ranked, the best wrong nodes of the whole ranking follow it.
    pub shown: Vec<ShownNode>,
    /// Calls that score the shown nodes differently: first the summands of the ranking, largest
    /// spread first; then the other calls, latest first.
    pub rows: Vec<Signal>,
    /// Labels of calls that score all shown nodes equally, latest first.
    pub same: Vec<String>,
    /// Distinct calls whose results are start nodes of metapaths, in the order of the run.
    pub linked: Vec<LinkCall>,
    /// Distinct steps along relations on the way to the ranking, in the order of the run.
    pub walked: Vec<Traversal>,
    /// The loss, if no correct answer is at rank 1.
    pub loss: Option<Loss>,
}

/// Collects the signals of a run on a query with known answers, with at most `n_wrong` wrong nodes.
/// Deterministic; quadratic in the number of calls, at most 200 in a trace.
pub fn signals(
    base: &Arc<IndexedBase>,
    calls: &[ToolCall],
    ranking: &Ranking,
    (query, answers): (&str, &[NodeId]),
    n_wrong: usize,
) -> Signals {
    let flow = Flow::new(calls, ranking);
    let ranked: Ranking =
        ranking.iter().filter(|pair| base.kb.is_candidate(pair.0)).copied().collect();
    let place = ranked.iter().position(|pair| answers.contains(&pair.0));
    let now = place.map_or(0.0, |at| 1.0 / (at + 1) as f32);
    let loss = (place != Some(0)).then(|| ProgramLoss { base, calls, now }.loss(ranking, answers));
    let reader = Reader { flow: &flow, query };
    let shown = shown(&ranked, answers, place, n_wrong);
    let (rows, same) = reader.rows(&shown);
    let sought = Sought::new(base, &flow, answers);
    let (linked, walked) = (reader.linked(&sought), reader.walked(&sought));
    Signals { shown, rows, same, linked, walked, loss }
}

/// Returns the nodes of [`Signals::shown`].
fn shown(
    ranked: &Ranking,
    answers: &[NodeId],
    place: Option<usize>,
    n_wrong: usize,
) -> Vec<ShownNode> {
    let at = |at: usize, is_answer| {
        ranked.get(at).map(|&(node, score)| ShownNode {
            node,
            is_answer,
            rank: Some(at + 1),
            score: Some(score),
        })
    };
    let unranked = || {
        let node = answers.iter().min().copied()?;
        Some(ShownNode { node, is_answer: true, rank: None, score: None })
    };
    let answer = place.map_or_else(unranked, |place| at(place, true));
    let is_wrong = |at: &usize| ranked.get(*at).is_some_and(|pair| !answers.contains(&pair.0));
    // For an answer at rank 1, shows the nodes below it.
    let end = place.filter(|&place| place > 0).unwrap_or(ranked.len());
    let wrong = (0..end).filter(is_wrong).take(n_wrong).filter_map(|place| at(place, false));
    answer.into_iter().chain(wrong).collect()
}

/// For each call: the nodes of its result from which an answer gets into the ranking.
struct Sought {
    /// For each call: answers or, before a step along relations, nodes from which the step reaches
    /// a sought node.
    nodes: Vec<NodeSet>,
    /// For each call: whether its nodes get into the ranking without a further step along
    /// relations.
    ends: Vec<bool>,
    /// For each call: whether its nodes are the start of a step along relations on the way to the
    /// ranking.
    starts: Vec<bool>,
}

impl Sought {
    fn new(base: &Arc<IndexedBase>, flow: &Flow<'_>, answers: &[NodeId]) -> Sought {
        let n = flow.calls.len();
        let ends = flow.leading_to(flow.last, n);
        let mut all = Sought {
            nodes: vec![NodeSet::default(); n],
            starts: vec![false; n],
            ends: ends.clone(),
        };
        all.add(&ends, &answers.iter().copied().collect());
        let leads = |all: &Sought, at: &usize| all.ends[*at] || all.starts[*at];
        let mut followed = 0;
        for at in (0..n).rev() {
            if flow.way(at) != NodeSource::Metapath
                || !leads(&all, &at)
                || followed == MAX_METAPATHS
            {
                continue;
            }
            followed += 1;
            let from = flow.calls.get(at).and_then(|call| starts(base, call, &all.nodes[at]));
            let operand = flow.operands(at).first().and_then(|operand| operand.from);
            let before = flow.leading_to(operand, at);
            for (starts, leads) in all.starts.iter_mut().zip(&before) {
                *starts |= leads;
            }
            all.add(&before, &from.unwrap_or_default());
        }
        all
    }

    fn add(&mut self, calls: &[bool], more: &NodeSet) {
        let led = self.nodes.iter_mut().zip(calls).filter(|pair| *pair.1);
        led.for_each(|(nodes, _)| *nodes = nodes.union(more));
    }
}

/// Extracts the signals from the calls of a run.
struct Reader<'a> {
    flow: &'a Flow<'a>,
    query: &'a str,
}

impl Reader<'_> {
    /// Returns [`Signals::rows`] and [`Signals::same`].
    fn rows(&self, shown: &[ShownNode]) -> (Vec<Signal>, Vec<String>) {
        let leads = self.flow.leading_to(self.flow.last, self.flow.calls.len());
        let weights = weights(self.flow);
        let (mut rows, mut same) = (Vec::new(), Vec::new());
        for (at, call) in self.flow.calls.iter().enumerate().rev() {
            let weight = weights.iter().find(|pair| pair.0 == at).map(|pair| pair.1);
            let Some(Value::Scores(scores)) = self.flow.result(at) else { continue };
            if !leads[at] || (weight.is_none() && passes_on(call)) {
                continue;
            }
            let values: Vec<Option<f32>> = shown.iter().map(|one| scores.get(one.node)).collect();
            let (label, line) = (self.label(at, 0), call.line);
            let tells = values.iter().any(|value| *value != values[0]);
            if tells {
                let combines = is_operator(call);
                let row = Signal { label, line, combines, weight, values };
                if !rows.contains(&row) {
                    rows.push(row);
                }
            } else if values.iter().any(Option::is_some) && !same.contains(&label) {
                same.push(label);
            }
        }
        // Stable: calls without a spread keep their order.
        rows.sort_by(|a, b| spread(b).total_cmp(&spread(a)));
        (rows, same)
    }

    /// Returns [`Signals::linked`].
    fn linked(&self, sought: &Sought) -> Vec<LinkCall> {
        let mut linked: Vec<LinkCall> = Vec::new();
        for at in 0..self.flow.calls.len() {
            if !sought.starts[at] || self.flow.way(at) != NodeSource::Find {
                continue;
            }
            let Some(found) = self.flow.result(at) else { continue };
            let start = |node: NodeId, strength| Start {
                node,
                strength,
                leads: sought.nodes[at].contains(node),
            };
            let all: Vec<Start> = match found {
                Value::Scores(scores) => {
                    scores.ranking().iter().map(|pair| start(pair.0, Some(pair.1))).collect()
                }
                other => {
                    // Other results, such as texts, hold no nodes.
                    let Some(nodes) = node_set(other) else { continue };
                    nodes.as_slice().iter().map(|&node| start(node, None)).collect()
                }
            };
            let mut starts: Vec<Start> = all.iter().take(SHOWN_STARTS).copied().collect();
            if !starts.iter().any(|start| start.leads) {
                starts.extend(all.iter().find(|start| start.leads));
            }
            let names = self.flow.calls.get(at).is_some_and(|call| call.flow == NodeFlow::Link);
            let one = LinkCall { label: self.label(at, 0), starts, n: all.len(), names };
            if !linked.contains(&one) {
                linked.push(one);
            }
        }
        linked
    }

    /// Returns [`Signals::walked`].
    fn walked(&self, sought: &Sought) -> Vec<Traversal> {
        let mut walked: Vec<Traversal> = Vec::new();
        for at in 0..self.flow.calls.len() {
            let on_the_way = sought.ends[at] || sought.starts[at];
            if !on_the_way || self.flow.way(at) != NodeSource::Metapath {
                continue;
            }
            let Some(reached) = self.flow.result(at).and_then(node_set) else { continue };
            let one = Traversal {
                label: self.label(at, 0),
                line: self.flow.calls.get(at).and_then(|call| call.line),
                n: reached.len(),
                n_sought: reached.intersection(&sought.nodes[at]).len(),
                ends: sought.ends[at],
            };
            if !walked.contains(&one) {
                walked.push(one);
            }
        }
        walked
    }

    /// Formats a sum in short: the summed calls with their weights; `None` for fewer than two
    /// summed calls.
    fn sum(&self, at: usize) -> Option<String> {
        let summed = weights_in(self.flow, at);
        let of = |&(call, weight): &(usize, f32)| {
            let name = self.label(call, LABEL_DEPTH + 1);
            if weight == 1.0 { name } else { format!("{} {name}", rounded(f64::from(weight))) }
        };
        let shown: Vec<String> = summed.iter().take(LABEL_ITEMS).map(of).collect();
        let more = if summed.len() > LABEL_ITEMS { " + .." } else { "" };
        (summed.len() > 1).then(|| format!("({}{more})", shown.join(" + ")))
    }

    /// Formats a call in short: operands by the calls that returned them, sums with weights.
    fn label(&self, at: usize, depth: usize) -> String {
        let Some(call) = self.flow.calls.get(at) else { return String::new() };
        if depth > LABEL_DEPTH {
            return format!("{}(..)", call.name);
        }
        let is_sum = matches!(call.flow, NodeFlow::Sum | NodeFlow::Difference);
        if let Some(sum) = is_sum.then(|| self.sum(at)).flatten() {
            return sum;
        }
        // In a comparison with a text, the set of nodes is not informative.
        let compares = call.flow == NodeFlow::Carry
            && call.args.iter().any(|arg| matches!(arg, Value::Text(_)));
        let tells = |arg: &&Value| !(compares && node_set(arg).is_some());
        let args: Vec<String> = call
            .args
            .iter()
            .filter(tells)
            .filter_map(|arg| self.argument(at, arg, depth))
            .collect();
        match is_operator(call) {
            true => args.join(&format!(" {} ", call.name)),
            false => format!("{}({})", call.name, args.join(", ")),
        }
    }

    /// Formats an argument in short; `None` for an empty list.
    fn argument(&self, at: usize, arg: &Value, depth: usize) -> Option<String> {
        let from = |value: &Value| {
            let operands = self.flow.operands(at).iter();
            operands.filter(|operand| std::ptr::eq(operand.value, value)).find_map(|one| one.from)
        };
        let of = |value: &Value| match from(value) {
            Some(from) => self.label(self.source(from), depth + 1),
            None => node_set(value).map_or_else(String::new, |set| format!("{} nodes", set.len())),
        };
        Some(match arg {
            Value::Text(text) if **text == *self.query => "query".to_owned(),
            Value::Text(text) => literal(&cut(text, TEXT_CHARS, "..")),
            Value::Int(number) => number.to_string(),
            Value::Float(number) => rounded(*number),
            Value::Bool(truth) => truth.to_string(),
            Value::Scores(_) | Value::Nodes(_) => of(arg),
            Value::List(items) if items.is_empty() => return None,
            Value::List(items) if items.iter().all(|item| matches!(item, Value::Int(_))) => {
                format!("{} nodes", items.len())
            }
            Value::List(items) => {
                let item = |item: &Value| match item {
                    Value::Text(text) => literal(&cut(text, TEXT_CHARS, "..")),
                    Value::Int(number) => number.to_string(),
                    other => of(other),
                };
                let shown: Vec<String> = items.iter().take(LABEL_ITEMS).map(item).collect();
                let more = if items.len() > LABEL_ITEMS { ", .." } else { "" };
                format!("[{}{more}]", shown.join(", "))
            }
            other => other.describe().to_owned(),
        })
    }

    /// Follows a chain of calls that only pass nodes on, back to its first call.
    fn source(&self, mut at: usize) -> usize {
        while let Some(call) = self.flow.calls.get(at)
            && passes_on(call)
            && let [operand, rest @ ..] = self.flow.carried(at)
            && rest.is_empty()
            && let Some(from) = operand.from
        {
            at = from;
        }
        at
    }
}

fn is_operator(call: &ToolCall) -> bool {
    !call.name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether a call only passes scores on or sums them.
fn passes_on(call: &ToolCall) -> bool {
    let passes = matches!(
        call.flow,
        NodeFlow::Keep
            | NodeFlow::Cut
            | NodeFlow::Remove
            | NodeFlow::Sum
            | NodeFlow::Difference
            | NodeFlow::Multiply
            | NodeFlow::Divide
            | NodeFlow::Normalize
            | NodeFlow::Note
    );
    passes || matches!(call.name, "power" | "nodes")
}

/// Returns the difference between the largest and the smallest contribution of a signal to the
/// shown nodes, in scores of the ranking; 0 if the signal's weight is unknown.
fn spread(signal: &Signal) -> f32 {
    let Some(weight) = signal.weight else { return 0.0 };
    let values = || signal.values.iter().map(|value| value.unwrap_or(0.0) * weight);
    values().fold(f32::MIN, f32::max) - values().fold(f32::MAX, f32::min)
}

fn rounded(number: f64) -> String {
    format!("{}", (number * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::testing::{call, scores, scores_of};

    /// A program that sums two weighted signals above one that scores all nodes equally.
    fn calls() -> (Vec<ToolCall>, Ranking) {
        let found = scores(&[(1, 1.0), (2, 1.0), (3, 1.0)]);
        let words = scores(&[(1, 8.0), (2, 4.0), (3, 2.0)]);
        let close = scores(&[(1, 0.1), (2, 0.9), (3, 0.8)]);
        let normal = Value::scores(scores_of(&words).normalized());
        let weighed = Value::scores(scores_of(&close).scale(3.0));
        let sum =
            Value::scores(scores_of(&normal).combine(scores_of(&weighed), agent_kb::Combine::Sum));
        let top = Value::scores(scores_of(&sum).top(3));
        let text = || Value::text("a query");
        let pool = Value::nodes(scores_of(&found).nodes());
        let calls = vec![
            call("search", vec![text()], &found),
            call("match_text", vec![text(), pool.clone()], &words),
            call("similarity", vec![Value::text("left"), pool], &close),
            call("normalize", vec![words], &normal),
            call("*", vec![close, Value::Float(3.0)], &weighed),
            call("+", vec![normal, weighed], &sum),
            call("top", vec![sum, Value::Int(3)], &top),
        ];
        let ranking = scores_of(&top).ranking();
        (calls, ranking)
    }

    #[test]
    fn signals_come_by_how_far_they_part_right_from_wrong() {
        let (calls, ranking) = calls();
        let flow = Flow::new(&calls, &ranking);
        let reader = Reader { flow: &flow, query: "a query" };
        let shown = shown(&ranking, &[1], Some(2), 2);
        let nodes: Vec<(NodeId, bool)> =
            shown.iter().map(|one| (one.node, one.is_answer)).collect();
        assert_eq!(nodes, [(1, true), (2, false), (3, false)]);
        let (rows, same) = reader.rows(&shown);
        let labels: Vec<(&str, Option<f32>)> =
            rows.iter().map(|row| (row.label.as_str(), row.weight)).collect();
        let expected = [("similarity(\"left\")", Some(3.0)), ("match_text(query)", Some(0.125))];
        assert_eq!(labels, expected);
        assert_eq!(rows[0].values, [Some(0.1), Some(0.9), Some(0.8)]);
        assert_eq!(same, ["search(query)"]);
    }

    #[test]
    fn a_product_says_what_its_sum_weighs() {
        let (mut calls, _) = calls();
        let sum = scores_of(calls[5].result.as_ref().unwrap()).clone();
        let kind = scores(&[(1, 1.0), (2, 0.5), (3, 0.2)]);
        let both = Value::scores(sum.combine(scores_of(&kind), agent_kb::Combine::Product));
        let sum = calls[5].result.clone().unwrap();
        calls.pop();
        calls.push(call("search_vectors", vec![Value::text("a query")], &kind));
        calls.push(call("*", vec![sum, kind], &both));
        let ranking = scores_of(&both).ranking();
        let flow = Flow::new(&calls, &ranking);
        let reader = Reader { flow: &flow, query: "a query" };
        let label = "(0.125 match_text(..) + 3 similarity(..)) * search_vectors(query)";
        assert_eq!(reader.label(7, 0), label);
    }

    #[test]
    fn a_first_answer_is_shown_with_those_it_passed_and_a_lost_one_without_a_rank() {
        let ranked = vec![(1, 3.0), (2, 2.0), (3, 1.0)];
        let of = |answers: &[NodeId], place| -> Vec<(NodeId, Option<usize>)> {
            shown(&ranked, answers, place, 2).iter().map(|one| (one.node, one.rank)).collect()
        };
        assert_eq!(of(&[1], Some(0)), [(1, Some(1)), (2, Some(2)), (3, Some(3))]);
        assert_eq!(of(&[9, 8], None), [(8, None), (1, Some(1)), (2, Some(2))]);
    }
}
