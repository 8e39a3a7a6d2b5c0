//! The registry holds together: names are distinct and understood, and every system opens or says
//! what it needs.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicBool},
};

use crate::{
    retrieve::Retriever,
    sandbox::SandboxOptions,
    systems::{Effort, Need, Opener, SYSTEMS, SystemError, find, open},
    tools::testing::example_base,
};

/// Opens a system over the example base, without a language model.
fn opened(name: &str) -> Result<Box<dyn Retriever>, SystemError> {
    open(
        name,
        &Opener {
            base: &example_base(),
            assistant: None,
            effort: Effort::default(),
            threads: 1,
            sandbox: &|_| SandboxOptions::default(),
            queries: &[(1, "a query".to_owned())],
            notice: &|_| {},
            stop: &Arc::new(AtomicBool::new(false)),
            level: 0,
        },
    )
}

/// What a name is refused with.
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
        // What is written is understood as that system and no other.
        let filled = spec.written().replace(['[', ']'], "");
        let fitting = SYSTEMS.iter().filter(|other| other.arguments_of(&filled).is_some());
        assert_eq!(fitting.map(|spec| spec.name).collect::<Vec<_>>(), [spec.name]);
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
                let told = match need {
                    Need::Part(part) => part.name(),
                    Need::Model => "language model",
                    Need::File => "no/such/file",
                    Need::Queries => "labelled queries",
                };
                assert!(error.to_string().contains(told), "{name}: {error}");
                assert!(!error.is_usage(), "{name}: {error}");
            }
        }
    }
}

#[test]
fn wrong_names_are_told_with_what_is_near() {
    for (wrong, near) in
        [("bm52", "bm25"), ("rerankr:bm25", "rerank"), ("bundel:x.json", "bundle"), ("lat", "late")]
    {
        let error = refused(wrong);
        assert_eq!(error.hint(), Some(format!("did you mean {near:?}?")), "{wrong}");
        assert!(error.is_usage() && error.to_string().contains("hybrid:weighted[=A]"));
    }
    assert_eq!(refused("something else").hint(), None);
    // No system takes arguments that it does not have, or lacks those it must have.
    for wrong in ["bm25=3", "dense:x", "late:dense", "rerank=bm25"] {
        assert!(matches!(refused(wrong), SystemError::Unknown { .. }), "{wrong}");
    }
    for wrong in ["bundle", "program:", "hybrid:weighted=", "hybrid:weighted=nan"] {
        let error = refused(wrong);
        assert!(matches!(error, SystemError::Arguments { .. }) && error.is_usage(), "{wrong}");
    }
}
