//! No call of a tool goes on for long: each tool with the largest arguments that a program can give.
//!
//! On a small base always; on the real ones where `AGENT_TEST_HOME` names a home with them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use agent::{
    index::IndexedBase,
    kb::{NodeSet, Scores},
    sandbox::Limits,
    tools::{Kind, Session, ToolError, ToolHost, ToolSpec, Value, registry},
};

use crate::{support::real_bases, toolkit};

/// A call may be late by this much on a loaded machine; what has no bound is late by far more.
const LATE: Duration = Duration::from_secs(5);

/// The longest texts: one run without a vowel too many, one that is parted everywhere, words that
/// no name has, common words, and letters that fold slowly.
fn texts() -> Vec<String> {
    let most = Limits::default().text_bytes;
    let words = (0..most / 8).map(|n| format!("w{n:06x} ")).collect();
    ["ay", "a1", "the steel of a cell ", "ﬃé"]
        .map(|part| part.repeat(most / part.len()))
        .into_iter()
        .chain([words])
        .collect()
}

fn argument(kind: Kind, name: &str, text: &str, base: &IndexedBase) -> Value {
    let kb = &base.kb;
    let all: NodeSet = (0..kb.n_nodes()).collect();
    match kind {
        Kind::Unit => Value::Unit,
        Kind::Bool => Value::Bool(true),
        Kind::Int | Kind::Number => Value::Int(5_000),
        Kind::Node => Value::Int(0),
        Kind::Text if name == "relation" => Value::text(&kb.relations()[0]),
        Kind::Text if name == "field" => Value::text(&kb.field_names()[0]),
        Kind::Text if name == "direction" => Value::text("any"),
        Kind::Text if name == "how" => Value::text("sum"),
        Kind::Text => Value::text(text),
        Kind::Texts if name == "steps" => Value::List(vec![Value::text(&kb.relations()[0]); 6]),
        Kind::Texts if name == "types" => Value::List(Vec::new()),
        Kind::Texts => Value::List(vec![Value::text(text)]),
        Kind::Nodes => Value::nodes(all),
        Kind::Scores | Kind::Any => Value::scores(Scores::uniform(&all, 1.0)),
        _ => Value::List(Vec::new()),
    }
}

/// Calls a tool until its program would be ended; how long that took.
fn spent(spec: &ToolSpec, tool: usize, text: &str, base: &Arc<IndexedBase>) -> Duration {
    let args: Vec<Value> =
        spec.args.iter().map(|arg| argument(arg.kind, arg.name, text, base)).collect();
    let mut session = Session::new(base.clone(), None);
    let deadline = Duration::from_millis(500);
    session.begin(deadline);
    let began = Instant::now();
    // A base that is too small for the budget or the deadline may answer as often as it likes.
    for _ in 0..3 {
        if let Err(ToolError::Deadline(_) | ToolError::Budget(_)) = session.call(tool, args.clone())
        {
            break;
        }
    }
    began.elapsed().saturating_sub(deadline)
}

/// The first letters of a text.
fn start(text: &str) -> String {
    text.chars().take(12).collect()
}

fn no_call_goes_on(base: &Arc<IndexedBase>) {
    for (tool, spec) in registry().iter().enumerate() {
        for text in texts() {
            let late = spent(spec, tool, &text, base);
            assert!(
                late < LATE,
                "{} with a text of {:?}...: {late:?} late",
                spec.name,
                start(&text)
            );
        }
    }
}

#[test]
fn no_tool_goes_on_with_the_largest_arguments() {
    no_call_goes_on(toolkit::RUNTIME.base());
}

#[test]
fn no_tool_goes_on_with_the_largest_arguments_on_real_bases() {
    for (_, base) in real_bases() {
        no_call_goes_on(&Arc::new(base));
    }
}

#[test]
fn a_call_after_the_deadline_or_a_stop_does_nothing() {
    let mut late = Session::new(toolkit::RUNTIME.base().clone(), None);
    late.begin(Duration::ZERO);
    let refused = late.call(0, vec![Value::text("steel bottle")]);
    assert!(matches!(refused, Err(ToolError::Deadline(_))), "{refused:?}");
    let mut stopped = Session::new(toolkit::RUNTIME.base().clone(), None)
        .stoppable(Arc::new(std::sync::atomic::AtomicBool::new(true)));
    let refused = stopped.call(0, vec![Value::text("steel bottle")]);
    assert_eq!(refused, Err(ToolError::Stopped));
    assert!(stopped.outage().is_some(), "whatever the program gives is of no account");
}
