//! Data flow between the tool calls of a run: from results to operands of later calls, and to the
//! ranking.
//!
//! A trace has values, not variables. The origin of an operand is the latest earlier call that
//! returned the same value (a shared pointer), otherwise an equal value, otherwise a value with the
//! same set of nodes. Values that the program computed itself have no origin; every earlier call
//! may have contributed to them.

use std::sync::Arc;

use agent_kb::{NodeId, NodeSet, Scores};
use agent_retrieve::Ranking;
use agent_tools::{Kind, NodeFlow, ToolCall, Value, node_id, registry};

/// Where the nodes in a call's result come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeSource {
    /// Search found them, or their source is unknown.
    Find,
    /// They were reached over relations from the nodes of the operand.
    Metapath,
    /// They were in the operands, which the call scores, joins or filters.
    Carry,
}

/// An argument that holds nodes.
pub(super) struct Operand<'a> {
    /// Value of the argument.
    pub(super) value: &'a Value,
    /// The call that returned the value, if known.
    pub(super) from: Option<usize>,
}

/// The calls of one run and the flow of values between them.
pub(super) struct Flow<'a> {
    /// The calls, in order.
    pub(super) calls: &'a [ToolCall],
    /// The call that returned the ranking, if known.
    pub(super) last: Option<usize>,
    ways: Vec<NodeSource>,
    operands: Vec<Vec<Operand<'a>>>,
}

impl<'a> Flow<'a> {
    /// Follows the values of a run. Quadratic in the number of calls, at most 200 in a trace.
    pub(super) fn new(calls: &'a [ToolCall], ranking: &Ranking) -> Flow<'a> {
        let operands: Vec<Vec<Operand<'a>>> = calls
            .iter()
            .enumerate()
            .map(|(at, call)| {
                let earlier = calls.get(..at).unwrap_or_default();
                let of = |value| Operand { value, from: origin(earlier, value) };
                node_arguments(call).into_iter().map(of).collect()
            })
            .collect();
        let ranked = Value::scores(Scores::new(ranking.clone()));
        let last = origin(calls, &ranked);
        let ways = calls.iter().zip(&operands).map(|(call, of)| way(call, of)).collect();
        Flow { calls, last, ways, operands }
    }

    /// Returns where the nodes in the result of call number `call` come from.
    pub(super) fn way(&self, call: usize) -> NodeSource {
        self.ways.get(call).copied().unwrap_or(NodeSource::Find)
    }

    /// Returns the arguments of a call that hold nodes, in order.
    pub(super) fn operands(&self, call: usize) -> &[Operand<'a>] {
        self.operands.get(call).map_or(&[], Vec::as_slice)
    }

    /// Returns the operands whose nodes may be in the call's result.
    pub(super) fn carried(&self, call: usize) -> &[Operand<'a>] {
        let operands = self.operands(call);
        let Some(of) = self.calls.get(call) else { return operands };
        // Removed nodes are not in the result.
        if of.flow == NodeFlow::Remove { operands.get(..1).unwrap_or(operands) } else { operands }
    }

    /// Returns the result of a call; `None` if the call failed.
    pub(super) fn result(&self, call: usize) -> Option<&'a Value> {
        self.calls.get(call).and_then(|call| call.result.as_ref().ok())
    }

    /// Returns, for each call, whether its nodes get into the result of call `end` without a
    /// metapath between. If `end` is unknown, this is true for all calls before `before`.
    pub(super) fn leading_to(&self, end: Option<usize>, before: usize) -> Vec<bool> {
        let mut leads = vec![false; self.calls.len()];
        let mark_before = |leads: &mut Vec<bool>, at: usize| {
            leads.iter_mut().take(at).for_each(|leads| *leads = true);
        };
        match end {
            Some(end) => leads.iter_mut().skip(end).take(1).for_each(|leads| *leads = true),
            None => mark_before(&mut leads, before),
        }
        for at in (0..self.calls.len()).rev() {
            if !leads.get(at).copied().unwrap_or_default() || self.way(at) == NodeSource::Metapath {
                continue;
            }
            for operand in self.carried(at) {
                match operand.from {
                    Some(from) => leads.iter_mut().skip(from).take(1).for_each(|l| *l = true),
                    None if count(operand.value) > 0 => mark_before(&mut leads, at),
                    None => {}
                }
            }
        }
        leads
    }
}

/// Returns the origin of a value: the latest call that returned it, as the module's documentation
/// defines it.
fn origin(calls: &[ToolCall], value: &Value) -> Option<usize> {
    let gave = |same: &dyn Fn(&Value) -> bool| {
        calls.iter().rposition(|call| call.result.as_ref().is_ok_and(same))
    };
    gave(&|result| same_pointer(result, value)).or_else(|| {
        let nodes = ids(value).filter(|nodes| !nodes.is_empty())?;
        gave(&|result| result == value)
            .or_else(|| gave(&|result| node_set(result).is_some_and(|other| other == nodes)))
    })
}

fn same_pointer(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Nodes(a), Value::Nodes(b)) => Arc::ptr_eq(a, b),
        (Value::Scores(a), Value::Scores(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Returns the arguments that hold nodes; for a list of sets or scores, its items.
fn node_arguments(call: &ToolCall) -> Vec<&Value> {
    let spec = registry().iter().find(|spec| spec.name == call.name && !spec.is_operator());
    let mut found = Vec::new();
    for (at, value) in call.args.iter().enumerate() {
        let kind = spec.and_then(|spec| spec.args.get(at)).map_or(Kind::Any, |arg| arg.kind);
        let takes_nodes = matches!(kind, Kind::Nodes | Kind::Scores | Kind::Node | Kind::Any);
        match value {
            Value::Nodes(_) | Value::Scores(_) => found.push(value),
            Value::List(items) if items.iter().any(|item| node_set(item).is_some()) => {
                found.extend(items);
            }
            // A number beside an operator is a weight.
            Value::Int(_) | Value::Text(_) if spec.is_none() => {}
            Value::List(_) | Value::Map(_) | Value::Int(_) | Value::Text(_)
                if takes_nodes && ids(value).is_some() =>
            {
                found.push(value);
            }
            _ => {}
        }
    }
    found
}

fn way(call: &ToolCall, operands: &[Operand<'_>]) -> NodeSource {
    match call.flow {
        NodeFlow::Metapath(_) => return NodeSource::Metapath,
        NodeFlow::Link | NodeFlow::Find => return NodeSource::Find,
        _ if operands.is_empty() => return NodeSource::Find,
        _ => {}
    }
    let given: Vec<NodeSet> = operands.iter().filter_map(|of| ids(of.value)).collect();
    let new = |node: &NodeId| !given.iter().any(|nodes| nodes.contains(*node));
    let result = call.result.as_ref().ok().and_then(ids).unwrap_or_default();
    if result.as_slice().iter().any(new) { NodeSource::Find } else { NodeSource::Carry }
}

/// Returns the nodes of a set, of scores or of a map with ids as keys; `None` for other values.
pub(super) fn node_set(value: &Value) -> Option<NodeSet> {
    match value {
        Value::Nodes(nodes) => Some((**nodes).clone()),
        Value::Scores(scores) => Some(scores.nodes()),
        Value::Map(map) => {
            let ids: Option<Vec<NodeId>> = map.keys().map(|key| key.parse().ok()).collect();
            ids.filter(|ids| !ids.is_empty()).map(NodeSet::new)
        }
        _ => None,
    }
}

/// Returns the nodes of a value as [`node_set`] does; also the nodes of a single id or a list of
/// ids.
fn ids(value: &Value) -> Option<NodeSet> {
    match value {
        Value::List(items) => {
            let ids: Option<Vec<NodeId>> = items.iter().map(node_id).collect();
            ids.map(NodeSet::new)
        }
        _ => node_set(value).or_else(|| node_id(value).map(|id| NodeSet::new(vec![id]))),
    }
}

fn count(value: &Value) -> usize {
    ids(value).map_or(0, |nodes| nodes.len())
}

/// Whether a value holds any of the nodes.
pub(super) fn holds(value: &Value, nodes: &NodeSet) -> bool {
    let any = |contains: &dyn Fn(NodeId) -> bool| nodes.as_slice().iter().any(|&id| contains(id));
    match value {
        Value::Nodes(set) => any(&|id| set.contains(id)),
        Value::Scores(scores) => any(&|id| scores.get(id).is_some()),
        other => ids(other).is_some_and(|set| any(&|id| set.contains(id))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::testing::call;

    fn nodes(ids: &[NodeId]) -> Value {
        Value::nodes(NodeSet::new(ids.to_vec()))
    }

    #[test]
    fn values_come_from_the_latest_call_that_gave_them() {
        let (brands, made) = (nodes(&[7]), nodes(&[1, 2]));
        let listed = Value::List(vec![Value::Int(2), Value::Int(1)]);
        let calls = [
            call("get_node_ids_by_type", vec![Value::text("brand")], &brands.clone()),
            call("hop", vec![brands, Value::text("made_by")], &made.clone()),
            // The same nodes in a list that the program filled.
            call("with_field", vec![listed, Value::text("feature")], &nodes(&[2])),
            call("uniform", vec![nodes(&[5]), Value::Float(1.0)], &nodes(&[5])),
            call("-", vec![made, nodes(&[2])], &nodes(&[1])),
        ];
        let flow = Flow::new(&calls, &vec![(1, 1.0)]);
        let from = |at: usize| flow.operands(at).iter().map(|of| of.from).collect::<Vec<_>>();
        assert_eq!([from(1), from(2), from(3)], [vec![Some(0)], vec![Some(1)], vec![None]]);
        assert_eq!(from(4), [Some(1), Some(2)]);
        assert_eq!((flow.last, flow.carried(4).len()), (Some(4), 1));
        let ways: Vec<NodeSource> = (0..5).map(|at| flow.way(at)).collect();
        assert_eq!(
            ways,
            [
                NodeSource::Find,
                NodeSource::Metapath,
                NodeSource::Carry,
                NodeSource::Carry,
                NodeSource::Carry
            ]
        );
        // Removed nodes do not get into the ranking, nor do nodes before a metapath.
        assert_eq!(flow.leading_to(flow.last, 5), [false, true, false, false, true]);
        // An operand from nowhere may come from any call before.
        assert_eq!(flow.leading_to(Some(3), 5), [true, true, true, true, false]);
        assert_eq!(flow.leading_to(None, 2), [true, true, false, false, false]);
    }

    #[test]
    fn texts_and_weights_hold_no_nodes() {
        let value = nodes(&[1, 2]);
        let made = call("*", vec![Value::scores(Scores::default()), Value::Int(1)], &value);
        assert_eq!(node_arguments(&made).len(), 1);
        let searched = call("search", vec![Value::text("12")], &value);
        assert!(node_arguments(&searched).is_empty());
        let sought = NodeSet::new(vec![2, 9]);
        assert!(holds(&value, &sought) && !holds(&nodes(&[3]), &sought));
        assert!(holds(&Value::List(vec![Value::text("9")]), &sought));
        assert!(!holds(&Value::Float(2.0), &sought));
    }
}
