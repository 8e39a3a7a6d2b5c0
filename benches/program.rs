//! Measures the parts of an answer: candidates, programs like those of a run, routing, bundles. The
//! bench `peers` measures metrics, and compares programs with other languages.
//!
//! `AGENT_BENCH_BUNDLE=FILE` adds a bundle made for the base.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench may panic")]

mod support;

use std::{env, hint::black_box, path::Path, sync::Arc};

use agent::{
    bundle::{Bundle, router::features},
    infer::{BundleRetriever, ProgramRetriever, Runtime},
    program::Program,
    retrieve::{Retriever, shortlist},
    sandbox::Workers,
};
use criterion::{Criterion, criterion_group, criterion_main};

const EMPTY: &str = "fn retrieve(query, candidates, params) { #{} }";

/// Score algebra over 50 candidates, ten tool calls, as the search actor writes it.
const TEN_CALLS: &str = r#"
fn retrieve(query, candidates, params) {
    candidates.truncate(50);
    let pool = uniform(candidates);
    let named = link(query, [], 3);
    let rest = without_names(query, named);
    top(normalize(pool)
        + normalize(match_text(query, pool)) * 0.6
        + normalize(match_text(rest, pool)) * 0.6
        + normalize(match_names(query, pool)) * 0.6
        + normalize(match_names(rest, pool)) * 0.6
        + cover(query, pool) * 0.3
        + cover(rest, pool) * 0.3
        + similarity(query, pool) * 0.2
        + similarity(rest, pool) * 0.2, 50)
}
"#;

/// Two calls for all 50 candidates together and seven for each, as programs in the style of AvaTaR.
const LOOP: &str = r#"
fn retrieve(query, candidates, params) {
    candidates.truncate(50);
    let ids = candidates;
    ids.sort();
    let similar = compute_query_node_similarity(query, ids);
    let recall = compute_recall_score(query, ids);
    let scores = #{};
    for (id, i) in ids {
        let name = name_of(id);
        let text = score_of(cover(query, [id]), id);
        let names = score_of(match_names(query, [id]), id);
        let words = score_of(match_text(query, [id]), id);
        scores[id.to_string()] = similar[i] + recall[i] + text + names + words;
    }
    scores
}
"#;

fn programs(criterion: &mut Criterion) {
    let world = support::world();
    let base = world.shared();
    let queries = world.queries();
    let mut at = queries.iter().cycle();
    let mut next = || black_box(at.next().unwrap().text.as_str());
    let workers = Arc::new(Workers::new(1).unwrap());
    let runtime = Arc::new(Runtime::new(base.clone(), workers, None));

    criterion.bench_function("candidates of a query", |b| {
        b.iter(|| shortlist(&base, next(), 100).unwrap())
    });
    for query in &queries {
        // Computed in advance, as in a run, so that only the program is timed.
        runtime.candidates(query.text.trim()).unwrap();
    }
    for (name, source) in [
        ("program that returns nothing", EMPTY),
        ("program of ten tool calls over 50 candidates", TEN_CALLS),
        ("program with seven calls for each of 50 candidates", LOOP),
    ] {
        let program = Program::new(source);
        let program = ProgramRetriever::new(runtime.clone(), &program, Default::default()).unwrap();
        criterion.bench_function(name, |b| b.iter(|| program.retrieve(next(), 20).unwrap()));
    }
    criterion.bench_function("features of a query for the router", |b| {
        b.iter(|| features(&base, next()))
    });
    if let Ok(file) = env::var("AGENT_BENCH_BUNDLE") {
        let bundle = Bundle::read(Path::new(&file)).unwrap();
        let bundle = BundleRetriever::new(runtime, &bundle).unwrap();
        criterion.bench_function("query answered by a bundle", |b| {
            b.iter(|| bundle.retrieve(next(), 20).unwrap())
        });
    }
}

criterion_group! { name = benches; config = support::quick(); targets = programs }
criterion_main!(benches);
