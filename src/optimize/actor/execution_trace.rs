//! Execution traces for the comparator: how a program came to its answer for one training query,
//! and where the right answers were lost.

use serde_json::{Value, json};

use crate::{
    dataset::LabelledQuery,
    infer::{ParamValues, Runtime},
    kb::NodeId,
    optimize::{OptimizeError, trial::reciprocal_rank},
    retrieve::Ranking,
    sandbox::Compiled,
    tools::{ToolCall, Trace, Value as ToolValue},
};

/// Right answers that are shown.
const SHOWN_ANSWERS: usize = 3;
/// Wrong nodes above them that are shown.
const SHOWN_WRONG: usize = 3;
/// Lines of the trace that are shown.
const SHOWN_CALLS: usize = 14;
/// Characters of a line or a name.
const LINE_CHARS: usize = 220;

/// What happened on one query, for a prompt.
pub(super) fn of(
    runtime: &Runtime,
    compiled: &Compiled,
    params: &ParamValues,
    query: &LabelledQuery,
) -> Result<Value, OptimizeError> {
    let trace = Trace::default();
    let (ranking, failure) = match runtime.run(compiled, params, &query.text, Some(&trace))? {
        Ok(outcome) => (outcome.ranking, None),
        Err(failure) => (Ranking::new(), Some(failure.to_string())),
    };
    let calls = trace.take();
    let kb = &runtime.base().kb;
    let is_answer = |node: NodeId| query.answers.contains(&node);
    let place = |node: NodeId| ranking.iter().position(|pair| pair.0 == node);
    let shown = |node: NodeId| {
        let at = place(node);
        json!({
            "name": cut(kb.name(node)),
            "type": kb.type_name(kb.node_type(node)),
            "rank": at.map(|at| at + 1),
            "score": at.map(|at| ranking[at].1),
        })
    };
    let mut answers: Vec<NodeId> = query.answers.to_vec();
    answers.sort_by_key(|&node| (place(node).unwrap_or(usize::MAX), node));
    let best = answers.first().and_then(|&node| place(node));
    let wrong = ranking.iter().map(|pair| pair.0).filter(|&node| !is_answer(node));
    let first = answers.first().copied();
    Ok(json!({
        "query": query.text,
        "reciprocal_rank": reciprocal_rank(runtime, &ranking, &query.answers),
        "answer_rank": best.map(|at| at + 1),
        "lost_at": failure.unwrap_or_else(|| lost_at(&calls, &query.answers, best)),
        "n_answers": query.answers.len(),
        "answers": answers.iter().take(SHOWN_ANSWERS).map(|&node| shown(node)).collect::<Vec<_>>(),
        "wrong": wrong.take(SHOWN_WRONG).map(shown).collect::<Vec<_>>(),
        "trace": calls
            .iter()
            .take(SHOWN_CALLS)
            .map(|call| cut(&call.describe(kb, first)))
            .collect::<Vec<_>>(),
    }))
}

/// Where the right answers were seen last, in words.
fn lost_at(calls: &[ToolCall], answers: &[NodeId], best: Option<usize>) -> String {
    if let Some(at) = best {
        return format!("not lost: the first right answer is at rank {}", at + 1);
    }
    match calls.iter().rposition(|call| holds(call, answers)) {
        None => "no call found a right answer".to_owned(),
        Some(at) => {
            let found = format!("call {} ({}) found a right answer", at + 1, calls[at].name);
            match calls.get(at + 1) {
                Some(next) => {
                    format!("{found}; it is gone from call {} ({}) on", at + 2, next.name)
                }
                None => format!("{found}, and the result leaves it out"),
            }
        }
    }
}

/// Whether a call's result holds one of the answers.
fn holds(call: &ToolCall, answers: &[NodeId]) -> bool {
    match &call.result {
        Ok(ToolValue::Nodes(nodes)) => answers.iter().any(|&node| nodes.contains(node)),
        Ok(ToolValue::Scores(scores)) => answers.iter().any(|&node| scores.get(node).is_some()),
        _ => false,
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LINE_CHARS) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
