//! Finds the call at which a program lost an answer that it does not rank. The search goes
//! backwards from the ranking, through cuts and filters, and over metapaths to the linked entities
//! from which an answer is reachable.
//!
//! A stretch is the set of calls whose nodes get into the ranking, or into the start of a metapath,
//! without a metapath between. Within a stretch, a node is lost at the latest call that received it
//! and did not pass it on. If there is no such call, the search continues in the preceding stretch.
//! It then looks for the nodes from which a metapath would have reached a sought node.

use std::sync::Arc;

use crate::explain::{
    Kind,
    flow::{Flow, NodeSource, holds},
};
use agent_index::IndexedBase;
use agent_kb::{Direction, NodeId, NodeSet, RelationId};
use agent_tools::{NodeFlow, Session, Steps, ToolCall, ToolHost, Value, registry, split_step};

/// Maximum number of consecutive metapaths that are followed back.
const MAX_METAPATHS: usize = 6;
/// Approximate maximum number of nodes from which a metapath could have reached an answer.
const MAX_STARTS: usize = 50_000;
/// Factor by which `k` of a search is multiplied to test whether `k` was too small.
const MORE: i64 = 10;
/// Maximum `k` of a search that is repeated with a larger `k`.
const MAX_FOUND: i64 = 5_000;

/// Point at which an answer was lost.
#[derive(Debug)]
pub(super) struct LossPoint {
    /// Why the answer was lost at this call.
    pub(super) kind: Kind,
    /// Index of the call at which the answer was lost.
    pub(super) call: usize,
    /// Rank of the answer in the same search with a larger `k`, if that search finds it.
    pub(super) place: Option<usize>,
    /// Number of metapaths between the call and the ranking.
    pub(super) metapaths: usize,
    /// The sought nodes: answers, or linked entities from which an answer is reachable.
    pub(super) sought: NodeSet,
}

/// Searches the calls of a run for the point at which an answer was lost.
pub(super) struct Search<'a> {
    /// The base on which the program ran.
    pub(super) base: &'a Arc<IndexedBase>,
    /// The calls of the run and the flow between them.
    pub(super) flow: &'a Flow<'a>,
}

impl Search<'_> {
    /// Returns the point at which the sought nodes were lost on the way to the result of `end`, or
    /// to any call before `before` if `end` is unknown.
    pub(super) fn lost(
        &self,
        end: Option<usize>,
        before: usize,
        sought: &NodeSet,
        metapaths: usize,
    ) -> Option<LossPoint> {
        let leads = self.flow.leading_to(end, before);
        let stretch: Vec<usize> =
            (0..leads.len()).filter(|&at| leads.get(at).copied().unwrap_or_default()).collect();
        let found =
            |kind, call, place| LossPoint { kind, call, place, metapaths, sought: sought.clone() };
        if let Some(call) = stretch.iter().rev().copied().find(|&at| self.drops(at, sought)) {
            let cuts = self.flow.calls.get(call).is_some_and(|of| of.flow == NodeFlow::Cut);
            return Some(found(if cuts { Kind::Cut } else { Kind::Filtered }, call, None));
        }
        let of_metapaths =
            stretch.iter().filter_map(|&at| self.lost_before_metapath(at, sought, metapaths));
        if let Some(lost) = of_metapaths.min_by_key(preference) {
            return Some(lost);
        }
        // No call held the nodes; a larger k might have.
        let finders = stretch.iter().copied().filter(|&at| self.flow.way(at) == NodeSource::Find);
        let probed: Vec<(usize, Option<usize>)> =
            finders.map(|at| (at, self.place_with_more(at, sought))).collect();
        let nearest = probed.iter().filter_map(|&(at, place)| Some((place?, at))).min();
        if metapaths > 0 {
            let named =
                |at: &usize| self.flow.calls.get(*at).is_some_and(|of| of.flow == NodeFlow::Link);
            let link = probed.iter().map(|pair| pair.0).find(named);
            let call = nearest.map(|pair| pair.1).or(link).or(probed.first().map(|pair| pair.0));
            return call.map(|call| found(Kind::NotLinked, call, None));
        }
        if let Some((place, call)) = nearest {
            return Some(found(Kind::Cut, call, Some(place)));
        }
        let finds = |at: &usize| self.flow.way(*at) != NodeSource::Carry;
        let call = stretch.iter().rev().copied().find(finds)?;
        Some(found(Kind::NotReached, call, None))
    }

    /// Whether a call received a sought node and returned none.
    fn drops(&self, call: usize, sought: &NodeSet) -> bool {
        self.flow.way(call) == NodeSource::Carry
            && self.flow.result(call).is_some_and(|result| !holds(result, sought))
            && self.flow.carried(call).iter().any(|operand| holds(operand.value, sought))
    }

    /// Finds the nodes from which the metapath of call `at` would have reached a sought node, and
    /// returns the point at which these nodes were lost.
    fn lost_before_metapath(
        &self,
        at: usize,
        sought: &NodeSet,
        metapaths: usize,
    ) -> Option<LossPoint> {
        let call = self.flow.calls.get(at)?;
        if self.flow.way(at) != NodeSource::Metapath || metapaths >= MAX_METAPATHS {
            return None;
        }
        let starts = starts(self.base, call, sought)?;
        let operand = self.flow.operands(at).first()?;
        if starts.is_empty() {
            return None;
        }
        if holds(operand.value, &starts) {
            // The limit of the metapath dropped the sought node.
            let (kind, sought) = (Kind::Cut, sought.clone());
            return Some(LossPoint { kind, call: at, place: None, metapaths, sought });
        }
        self.lost(operand.from, at, &starts, metapaths + 1)
            .filter(|lost| lost.kind != Kind::NotReached)
    }

    /// Repeats a search with ten times its `k`; returns the rank of the first sought node.
    fn place_with_more(&self, at: usize, sought: &NodeSet) -> Option<usize> {
        let call = self.flow.calls.get(at)?;
        let tool = registry().iter().position(|spec| spec.name == call.name && spec.cached)?;
        let of_k = registry().get(tool)?.args.iter().position(|arg| arg.name == "k")?;
        let mut args = call.args.clone();
        let k = args.get_mut(of_k)?;
        let Value::Int(before) = *k else { return None };
        *k = Value::Int(before.saturating_mul(MORE).min(MAX_FOUND).max(before));
        let mut session = Session::new(self.base.clone(), None);
        let Ok(Value::Scores(scores)) = session.call(tool, args) else { return None };
        let place = scores.ranking().iter().position(|pair| sought.contains(pair.0))?;
        Some(place + 1)
    }
}

/// Sort key of loss points; the point with the smallest key is reported. Dropped entities come
/// before entities that no call found; then fewer sought nodes come first, then the earlier call.
fn preference(lost: &LossPoint) -> (bool, usize, usize) {
    (lost.kind == Kind::NotLinked, lost.sought.len(), lost.call)
}

/// Returns the nodes from which the metapath of a call reaches one of `reached`; `None` if the call
/// is not a metapath of known relations.
pub(super) fn starts(base: &IndexedBase, call: &ToolCall, reached: &NodeSet) -> Option<NodeSet> {
    let text = |at: usize| call.args.get(at).and_then(Value::as_text);
    let relation = |name: &str| base.kb.relation_id(name).map(|relation| vec![relation]);
    let all = || (0..base.kb.relations().len()).map(|at| RelationId(at as u16)).collect();
    let NodeFlow::Metapath(steps) = call.flow else { return None };
    let steps: Vec<(Vec<RelationId>, Direction)> = match steps {
        Steps::Directed => vec![(relation(text(1)?)?, backwards(text(2)?))],
        Steps::Either => vec![(text(1).and_then(relation).unwrap_or_else(all), Direction::Any)],
        Steps::Path => {
            let written: Vec<&str> = match call.args.get(1)? {
                Value::Text(step) => vec![step],
                Value::List(steps) => steps.iter().filter_map(Value::as_text).collect(),
                _ => return None,
            };
            let step = |written: &&str| {
                let (name, direction) = split_step(written);
                Some((relation(name)?, backwards(direction)))
            };
            written.iter().rev().map(step).collect::<Option<_>>()?
        }
    };
    let mut nodes = reached.clone();
    for (relations, direction) in steps {
        let mut before: Vec<NodeId> = Vec::new();
        for &node in nodes.as_slice() {
            for &relation in &relations {
                before.extend(base.kb.neighbors(node, relation, direction).iter());
            }
            if before.len() >= MAX_STARTS {
                break;
            }
        }
        nodes = NodeSet::new(before);
    }
    Some(nodes)
}

fn backwards(direction: &str) -> Direction {
    match direction {
        "out" => Direction::In,
        "in" => Direction::Out,
        _ => Direction::Any,
    }
}
