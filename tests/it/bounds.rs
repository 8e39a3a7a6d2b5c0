//! No call of a tool goes on for long: each tool with the largest arguments that a program can give.
//!
//! On a small base and on a large one with long texts and a long word always; on the real ones where
//! `AGENT_TEST_HOME` names a home with them.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use agent::{
    clock::ThreadClock,
    index::{IndexedBase, build},
    kb::{Kb, KbMeta, KbWriter, NodeSet, Scores},
    sandbox::{Limits, Workers},
    tools::{Kind, Session, ToolError, ToolHost, ToolSpec, Value, registry},
};

use crate::{support::real_bases, toolkit};

/// A call may be late by this much on a loaded machine; what has no bound is late by far more.
const LATE: Duration = Duration::from_secs(5);

/// Processor time of one call beyond the deadline of its program, at most.
const LATE_COMPUTED: Duration = Duration::from_millis(250);
/// What a program on the large base may compute.
const SHORT_DEADLINE: Duration = Duration::from_millis(100);
/// Nodes of the large base.
const N_LARGE: u32 = 20_000;
/// Bytes of its long texts and of its long word.
const LONG: usize = 100_000;
/// Nodes and postings that the calls of one program may touch, as documented.
const MOST_TOUCHED: u64 = 20_000_000;

/// A base with a hub, a few texts of many words, and one word as long as they are, in a name, in a
/// text and in a field.
fn large() -> Arc<IndexedBase> {
    let dir = tempfile::tempdir().unwrap();
    let (kb_dir, index) = (dir.path().join("kb"), dir.path().join("index"));
    let mut writer = KbWriter::create(&kb_dir).unwrap();
    let long_word = "a1".repeat(LONG / 2);
    for node in 0..N_LARGE {
        let (name, text) = match node {
            1 => (long_word.clone(), long_word.clone()),
            2..6 => (format!("book {node}"), "the steel of a cell ".repeat(LONG / 20)),
            6 => ("list".to_owned(), (0..LONG / 8).map(|n| format!("w{n:06x} ")).collect()),
            _ => {
                let text = format!("a part of steel {} for series {}", node % 97, node % 89);
                (format!("part {node}"), text)
            }
        };
        let fields = [("note".to_owned(), text.clone())];
        writer.push_node("part", &name, &text, &fields).unwrap();
    }
    for node in 1..N_LARGE {
        writer.push_edge(node, "belongs to", 0).unwrap();
        writer.push_edge(node - 1, "comes before", node).unwrap();
    }
    writer.finish(&KbMeta::default(), &mut |_, _| true).unwrap();
    let kb = Kb::open(&kb_dir).unwrap();
    build(&kb, &index, &|_| {}, &AtomicBool::new(false)).unwrap();
    // What is mapped stays readable after its files are gone.
    Arc::new(IndexedBase::open(&kb_dir, &index, "large").unwrap())
}

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

/// What one call computes on its thread beyond the deadline, and how it ended.
fn computed(
    spec: &'static ToolSpec,
    tool: usize,
    text: &str,
    base: &Arc<IndexedBase>,
) -> (Duration, Result<(), ToolError>, u64) {
    let args: Vec<Value> =
        spec.args.iter().map(|arg| argument(arg.kind, arg.name, text, base)).collect();
    let mut session = Session::new(base.clone(), None);
    let clock = ThreadClock::current();
    session.begin(SHORT_DEADLINE);
    let before = clock.now();
    let ended = session.call(tool, args).map(drop);
    let spent = clock.now() - before;
    (spent.saturating_sub(SHORT_DEADLINE), ended, session.work().touched)
}

#[test]
fn no_call_computes_beyond_the_deadline_on_a_large_base() {
    let base = large();
    // As in a sandbox: what a tool does in parallel is charged to the one thread.
    let workers = Workers::new(1).unwrap();
    let (mut late, mut n_ended) = (Vec::new(), [0; 3]);
    for (tool, spec) in registry().iter().enumerate() {
        let takes_text = spec.args.iter().any(|arg| matches!(arg.kind, Kind::Text | Kind::Texts));
        for text in texts().into_iter().take(if takes_text { usize::MAX } else { 1 }) {
            let (of_job, first) = (base.clone(), start(&text));
            let job = move || computed(spec, tool, &text, &of_job);
            let (beyond, ended, touched) = workers.run(job).unwrap();
            match &ended {
                Ok(()) => {
                    n_ended[0] += 1;
                    assert!(touched <= MOST_TOUCHED, "{}: {touched} touched", spec.name);
                }
                Err(ToolError::Deadline(_) | ToolError::Budget(_)) => n_ended[1] += 1,
                Err(ToolError::Internal(message)) => panic!("{}: {message}", spec.name),
                Err(_) => n_ended[2] += 1,
            }
            if !beyond.is_zero() {
                eprintln!("{} of {first:?}: {beyond:?} beyond, {touched} touched", spec.name);
            }
            if beyond > LATE_COMPUTED {
                late.push(format!("{} with a text of {first:?}...: {beyond:?}", spec.name));
            }
        }
    }
    eprintln!("[answered, over a bound, refused]: {n_ended:?}");
    assert!(late.is_empty(), "{late:#?}");
    assert!(n_ended[0] > registry().len() / 4, "most calls are refused: {n_ended:?}");
    assert!(n_ended[1] > 0, "the base is too small to reach any bound");
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
        .stoppable(Arc::new(AtomicBool::new(true)));
    let refused = stopped.call(0, vec![Value::text("steel bottle")]);
    assert_eq!(refused, Err(ToolError::Stopped));
    assert!(stopped.outage().is_some(), "whatever the program gives is of no account");
}
