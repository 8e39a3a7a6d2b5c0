//! Tests of the registry: the names of systems are distinct and can be parsed; every system opens,
//! or the error says what it needs.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use serde_json::{Map, json};

use crate::{Effort, Need, Opener, SYSTEMS, SystemError, find, open, request_bounds};
use agent_index::IndexedBase;
use agent_infer::{EXPAND_ROLE, rag::ANSWER_ROLE};
use agent_llm::{
    Llm, RoleSettings,
    cassette::{Cassette, Recorder},
    ledger::{Ceilings, Ledger},
};
use agent_retrieve::{Detail, Retriever};
use agent_sandbox::SandboxOptions;
use agent_testing::{MODEL, QUERY, assistant, echo, example_base, llm, llm_within, planted};
use agent_tools::Assistant;

/// Opens a system on the example base, without a language model.
fn opened(name: &str) -> Result<Box<dyn Retriever>, SystemError> {
    opened_with(name, &example_base(), None)
}

fn opened_with(
    name: &str,
    base: &Arc<IndexedBase>,
    assistant: Option<&Arc<Assistant>>,
) -> Result<Box<dyn Retriever>, SystemError> {
    open(
        name,
        &Opener {
            base,
            assistant,
            effort: Effort::default(),
            no_known_answers: false,
            threads: 1,
            sandbox: &|_| SandboxOptions::default(),
            queries: &[(1, "a query".to_owned())],
            notice: &|_| {},
            stop: &Arc::new(AtomicBool::new(false)),
            level: 0,
        },
    )
}

/// Opens a system on the example base, which must fail; returns the error.
#[track_caller]
fn refused(name: &str) -> SystemError {
    match opened(name) {
        Ok(system) => panic!("{name} is opened as {}", system.name()),
        Err(error) => error,
    }
}

#[test]
fn names_are_distinct_and_every_system_says_what_it_does() {
    let names: BTreeSet<&str> = SYSTEMS.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), SYSTEMS.len());
    for spec in SYSTEMS {
        assert!(!spec.summary.is_empty() && !spec.summary.contains(['\n', '|']), "{}", spec.name);
        // The written name is parsed as the same system.
        let filled = spec.written().replace(['[', ']'], "");
        assert_eq!(find(&filled).unwrap().0.name, spec.name);
    }
}

#[test]
fn every_system_opens_or_says_what_it_needs() {
    for spec in SYSTEMS {
        let name = spec.written().replace(":FILE", ":no/such/file");
        let name = name.split('[').next().unwrap_or_default();
        match opened(name) {
            Ok(system) => {
                assert!(spec.needs.is_empty(), "{name} needs {:?}", spec.needs);
                assert!(system.name().starts_with(spec.name), "{name}: {}", system.name());
            }
            Err(error) => {
                let [need, ..] = spec.needs else { panic!("{name}: {error}") };
                let expected = match need {
                    Need::Part(part) => part.name(),
                    Need::Model => "language model",
                    Need::File => "no/such/file",
                    Need::Queries => "labelled queries",
                };
                assert!(error.to_string().contains(expected), "{name}: {error}");
                assert!(!error.is_usage(), "{name}: {error}");
            }
        }
    }
}

#[test]
fn unknown_names_get_a_suggestion() {
    for (wrong, near) in
        [("bm52", "bm25"), ("rerankr:bm25", "rerank"), ("bundel:x.json", "bundle"), ("lat", "late")]
    {
        let error = refused(wrong);
        assert_eq!(error.hint(), Some(format!("did you mean {near:?}?")), "{wrong}");
        assert!(error.is_usage() && error.to_string().contains("hybrid:weighted[=A]"));
    }
    assert_eq!(refused("something else").hint(), None);
    // No system takes arguments that it does not have, or lacks those it must have.
    for wrong in ["bm25=3", "dense:x", "late:dense", "rerank=bm25", "multi=dense", "react=5"] {
        assert!(matches!(refused(wrong), SystemError::Unknown { .. }), "{wrong}");
    }
    for wrong in [
        "bundle",
        "program:",
        "hybrid:weighted=",
        "hybrid:weighted=nan",
        "expand:prf=3,twice",
        "multi:candidates=dense",
        "multi:maen",
    ] {
        let error = refused(wrong);
        assert!(matches!(error, SystemError::Arguments { .. }) && error.is_usage(), "{wrong}");
    }
}

/// Systems that expand queries, boost scores or write answers, each with the number of requests
/// that it makes to a language model for one query.
const ASKING: [(&str, usize); 14] = [
    ("kar:graph", 0),
    ("kar:graph=20,0.3,names", 0),
    ("prf", 0),
    ("expand:prf=3:bm25", 0),
    ("expand:prf=3,once:bm25", 0),
    ("expand:hyde:dense", 1),
    ("expand:hyde=1", 1),
    ("expand:rar:hybrid", 1),
    ("expand:kar", 2),
    ("expand:kar=5,7,names:bm25", 2),
    ("expand:kar=10,3,no-graph", 2),
    ("expand:agr", 5),
    ("answer:kar:graph", 1),
    ("answer=check:expand:hyde", 3),
];

#[test]
fn every_system_makes_the_stated_number_of_requests() {
    let base = planted();
    for (name, n) in ASKING {
        let (model, heard) = llm(echo);
        let system = opened_with(name, &base, Some(&assistant(model))).unwrap();
        let answer = system.answer(QUERY, 10, Detail::default()).unwrap();
        assert!(!answer.ranking().is_empty(), "{name}");
        assert_eq!((heard.count(), answer.unassisted), (n, None), "{name}");
        let bounds = request_bounds(name, Effort::None).unwrap();
        assert_eq!(bounds.iter().map(|bounds| bounds.min).sum::<usize>(), n, "{name}");
    }
}

/// Path of the recorded replies of the scripted model to the systems in [`ASKING`]; tests with
/// `UPDATE=1` record them.
const CASSETTE: &str = "tests/data/cassettes/expand.jsonl";

#[test]
fn what_was_recorded_gives_the_same_bytes_again() {
    let base = planted();
    let replies = |assistant: &Arc<Assistant>| -> String {
        let answer = |(name, _): &(&str, usize)| {
            let system = opened_with(name, &base, Some(assistant)).unwrap();
            let detail = Detail { explained_count: 3, paths: true };
            let answer = system.answer(QUERY, 20, detail).unwrap();
            json!({"system": name, "nodes": answer.ranking(), "why": answer.explanations})
                .to_string()
        };
        ASKING.iter().map(answer).collect::<Vec<_>>().join("\n")
    };
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(CASSETTE);
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded.jsonl");
    let recorder = Arc::new(Recorder::open(&recorded).unwrap());
    let (model, _) = llm_within(echo, Ceilings::default(), vec![recorder.clone()]);
    let live = replies(&assistant(model));
    recorder.finish().unwrap();
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::copy(&recorded, &path).unwrap();
    }
    let same = std::fs::read(&path).ok() == std::fs::read(&recorded).ok();
    assert!(
        same,
        "{CASSETTE} is stale; write it with `UPDATE=1 cargo test --release -p agent-systems`"
    );
    for _ in 0..2 {
        let cassette = Arc::new(Cassette::open(&path).unwrap());
        let set = RoleSettings {
            model: MODEL.to_owned(),
            temperature: Some(0.0),
            max_tokens: 2_000,
            parameters: Map::new(),
        };
        let roles = [EXPAND_ROLE, ANSWER_ROLE].map(|spec| (spec.role(), set.clone()));
        let (ledger, stop) = (Ledger::new([].into(), Ceilings::default()), Arc::default());
        let llm = Llm::new(cassette.clone(), HashMap::from(roles), Vec::new(), ledger, stop);
        assert_eq!(replies(&assistant(Arc::new(llm))), live);
        assert_eq!(cassette.unused(), Vec::<&agent_llm::cassette::RecordedExchange>::new());
    }
}
