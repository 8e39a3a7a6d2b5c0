//! Measures exact vector search: one query, a batch, and a search in a tenth of the rows.
//!
//! `AGENT_BENCH_ROWS` (default 20,000) and `AGENT_BENCH_DIM` (default 384) set the size of the index.
#![allow(missing_docs, clippy::unwrap_used, reason = "a bench may panic")]

use std::hint::black_box;

use agent::{
    embed::matrix::{Matrix, normalise},
    index::vectors::{Precision, VectorIndex, VectorWriter},
};
use criterion::{Criterion, criterion_group, criterion_main};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of queries in a batch.
const BATCH: usize = 256;

fn from_environment(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// Makes rows of length 1 in random directions.
fn rows(random: &mut ChaCha8Rng, n: usize, dim: usize) -> Matrix {
    let mut data: Vec<f32> = (0..n * dim).map(|_| random.random_range(-1.0..1.0)).collect();
    for row in data.chunks_exact_mut(dim) {
        normalise(row);
    }
    Matrix::new(n, dim, data).unwrap()
}

fn searching(criterion: &mut Criterion) {
    let (n, dim) =
        (from_environment("AGENT_BENCH_ROWS", 20_000), from_environment("AGENT_BENCH_DIM", 384));
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let folder = tempfile::tempdir().unwrap();
    for precision in [Precision::F32, Precision::F16] {
        let path = folder.path().join("vectors");
        let mut writer = VectorWriter::create(&path, dim, precision, "").unwrap();
        writer.append(&rows(&mut random, n, dim)).unwrap();
        writer.finish().unwrap();
        let index = VectorIndex::open(&path).unwrap();
        let queries = rows(&mut random, BATCH, dim);
        let query = queries.row(0).unwrap();
        let some: Vec<u32> = (0..n as u32).step_by(10).collect();
        let name = |what: &str| format!("{what} among {n} x {dim} {precision:?}, 100 nodes");
        criterion.bench_function(&name("one query"), |b| {
            b.iter(|| index.top_k(black_box(query), 100, None).unwrap())
        });
        criterion.bench_function(&name("one query, every tenth row"), |b| {
            b.iter(|| index.top_k(black_box(query), 100, Some(&some)).unwrap())
        });
        criterion.bench_function(&name("256 queries"), |b| {
            b.iter(|| index.top_k_batch(black_box(&queries), 100, None).unwrap())
        });
    }
}

criterion_group! {
    name = vectors;
    config = Criterion::default().sample_size(10);
    targets = searching
}
criterion_main!(vectors);
