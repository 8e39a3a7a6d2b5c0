//! Measures operations on a base that no other software offers: importing, opening with all
//! indexes, entity linking, scores within a set. The bench `peers` measures the rest.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a bench may panic")]

mod support;

use std::hint::black_box;

use agent::{
    dataset::Home,
    index::entities,
    kb::{Kb, NodeId},
    words::Languages,
};
use criterion::{Criterion, criterion_group, criterion_main};

/// Number of nodes in the scored set.
const SET: u32 = 1_000;

fn importing(criterion: &mut Criterion) {
    let temporary = tempfile::tempdir().unwrap();
    let files = temporary.path().join("files");
    support::sample_files(&files);
    let home = Home::new(temporary.path().join("home"));
    criterion.bench_function("import a sample", |b| b.iter(|| support::import(&files, &home)));
}

/// Measures linking in a sample. Only its names are indexed, so the sample may be large.
fn linking(criterion: &mut Criterion) {
    let (temporary, base) = support::sample();
    let kb = Kb::open(&base.kb_dir()).unwrap();
    let path = temporary.path().join("names");
    entities::build(&kb, Languages::ENGLISH, &path, &mut || Ok(())).unwrap();
    let names = entities::EntityIndex::open(&path, Languages::ENGLISH).unwrap();
    let n = kb.n_nodes();
    let mut nodes = (0..n).step_by(n as usize / 7).cycle();
    criterion.bench_function(&format!("link a query to {n} names of a sample"), |b| {
        b.iter(|| {
            let node = nodes.next().unwrap_or_default();
            let query =
                format!("Which papers by {} are on {}?", kb.name(node), kb.name(n - 1 - node));
            names.link(&kb, black_box(&query), &[], 10)
        })
    });
}

fn using(criterion: &mut Criterion) {
    let world = support::world();
    let base = world.shared();
    let queries = world.queries();
    let mut texts = queries.iter().map(|query| query.text.as_str()).cycle();
    let mut next = || black_box(texts.next().unwrap_or_default());

    criterion.bench_function("open the base with its index", |b| b.iter(|| world.open()));
    criterion.bench_function("link a query", |b| {
        b.iter(|| base.entities.link(&base.kb, next(), &[], 2))
    });
    let n = base.kb.n_nodes();
    let set: Vec<NodeId> = (0..n).step_by((n / SET).max(1) as usize).take(SET as usize).collect();
    criterion.bench_function("match words with the text of 1,000 nodes", |b| {
        b.iter(|| {
            let terms = base.terms.query(&base.stems, next());
            set.iter().map(|&node| base.terms.bm25(&terms, node)).sum::<f32>()
        })
    });
}

criterion_group! { name = benches; config = support::quick(); targets = importing, linking, using }
criterion_main!(benches);
