//! Measures calls in each engine: a program that does nothing, a mined program, a loop, a program
//! with many tool calls, and parsing.
//!
//! Runs on the base of the other benches; `docs/sandbox.md` reports the results.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench may panic")]

mod support;

use std::{hint::black_box, sync::Arc};

use agent::{
    infer::{ParamValues, Runtime},
    program::Program,
    sandbox::{Place, SandboxOptions, Workers},
};
use criterion::{Criterion, criterion_group, criterion_main};

const NOTHING: &str = "fn retrieve(query, candidates, params) { #{} }";

/// A program like those of the search actor: candidates, names, matches, a sum of weighted scores.
const MINED: &str = r#"
fn params() { #{ w: #{ value: 0.6, min: 0.0, max: 2.0 }, k: #{ value: 50, min: 10, max: 400 } } }
fn retrieve(query, candidates, params) {
    let pool = uniform(candidates);
    let named = link(query, [], 3);
    let rest = without_names(query, named);
    let found = search(rest, "paper", 50);
    top(normalize(pool)
        + normalize(match_text(query, pool)) * params.w
        + normalize(match_text(rest, pool)) * params.w
        + normalize(found) * params.w
        + similarity(rest, pool) * 0.2, params.k)
}
"#;

/// A loop over numbers, without tools: measures the interpreter alone.
const LOOP: &str = r#"
fn retrieve(query, candidates, params) {
    let sum = 0.0;
    for i in 0..10000 { sum += (i % 7) * 0.5; }
    #{ "1": sum }
}
"#;

/// Three tool calls for each candidate, and a map of scores.
const CANDIDATES: &str = r#"
fn retrieve(query, candidates, params) {
    let scores = #{};
    for id in candidates {
        let name = name_of(id);
        scores[id.to_string()] = score_of(cover(query, [id]), id) + name.len() * 0.001;
    }
    scores
}
"#;

fn engines(criterion: &mut Criterion) {
    let world = support::world();
    let base = world.shared();
    let queries = world.queries();
    let code = tempfile::tempdir().unwrap();
    for (engine, place) in [("process", Place::Process), ("wasm", Place::Wasm)] {
        let options = SandboxOptions { place, code_dir: Some(code.path().to_owned()) };
        let workers = Arc::new(Workers::new(1).unwrap());
        let runtime = Runtime::in_sandbox(base.clone(), workers, None, &options);
        for query in &queries {
            runtime.candidates(query.text.trim()).unwrap();
        }
        for (name, source) in [
            ("nothing", NOTHING),
            ("mined program", MINED),
            ("loop of 10,000 turns", LOOP),
            ("300 tool calls", CANDIDATES),
        ] {
            let compiled = runtime.compile(&Program::new(source)).unwrap();
            let none = ParamValues::new();
            let mut at = queries.iter().cycle();
            criterion.bench_function(&format!("{name}, {engine}"), |b| {
                b.iter(|| {
                    let query = black_box(at.next().unwrap().text.as_str());
                    runtime.run(&compiled, &none, query, None).unwrap().unwrap()
                })
            });
        }
        let mined = Program::new(MINED);
        criterion.bench_function(&format!("parsing, {engine}"), |b| {
            b.iter(|| runtime.compile(&mined).unwrap())
        });
    }
}

criterion_group! { name = benches; config = support::quick(); targets = engines }
criterion_main!(benches);
