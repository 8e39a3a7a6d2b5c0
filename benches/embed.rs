//! Measures embedding with a real model: tokens per CPU second over files of texts, and CPU time of
//! a query.
//!
//! ```text
//! AGENT_MINILM_DIR=MODEL RAYON_NUM_THREADS=1 cargo bench --bench embed -- [REPEATS] [TEXTS...]
//! ```
//!
//! Files have one text per line. Prints a JSON line per file, with the lowest CPU time of the
//! repeats (default 3), of all threads, as Linux counts it. The wall time per text, in
//! microseconds, is the lowest as well.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench may panic and print"
)]

use std::{fs, path::Path, time::Instant};

use agent::embed::{BertEncoder, Embedder};

/// Number of embeddings of the query that are averaged; Linux counts CPU time in slices of some
/// milliseconds.
const QUERIES: usize = 200;
/// A query of 16 tokens.
const QUERY: &str =
    "system model query graph product medicine gene protein water house light music paper story";

/// Returns the CPU seconds that all threads of this process have used so far.
fn cpu() -> f64 {
    let of_task = |task: fs::DirEntry| {
        let counts = fs::read_to_string(task.path().join("schedstat")).unwrap();
        counts.split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| of_task(task.unwrap())).sum::<u64>() as f64 / 1e9
}

/// Runs the work repeatedly; returns the lowest CPU seconds and the lowest wall seconds.
fn best(repeats: usize, mut work: impl FnMut()) -> [f64; 2] {
    let mut spent = || {
        let (start, began) = (cpu(), Instant::now());
        work();
        [cpu() - start, began.elapsed().as_secs_f64()]
    };
    let lower = |best: [f64; 2], now: [f64; 2]| [best[0].min(now[0]), best[1].min(now[1])];
    (0..repeats).map(|_| spent()).fold([f64::INFINITY; 2], lower)
}

fn main() {
    let Some(dir) = std::env::var_os("AGENT_MINILM_DIR") else {
        println!("skipped: set AGENT_MINILM_DIR to the directory of a model");
        return;
    };
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let repeats = arguments.first().map_or(3, |repeats| repeats.parse().unwrap());
    let before = cpu();
    let encoder = BertEncoder::open(Path::new(&dir)).unwrap();
    encoder.embed_query(QUERY).unwrap();
    println!("{{\"work\": \"embed-first\", \"cpu_ms\": {:.1}}}", (cpu() - before) * 1e3);
    for file in arguments.iter().skip(1) {
        let texts = fs::read_to_string(file).unwrap();
        let texts: Vec<&str> = texts.lines().collect();
        let tokens: usize = encoder.count_tokens(&texts).unwrap().iter().sum();
        let [cpu, wall] = best(repeats, || drop(encoder.embed_documents(&texts).unwrap()));
        let file = Path::new(file).file_name().unwrap().to_string_lossy();
        println!(
            "{{\"work\": \"embed\", \"peer\": \"agent\", \"texts\": \"{file}\", \"n\": {}, \
             \"tokens\": {tokens}, \"cpu\": {cpu:.4}, \"wall_us\": {:.1}, \
             \"tokens_per_cpu_s\": {:.0}}}",
            texts.len(),
            wall * 1e6 / texts.len() as f64,
            tokens as f64 / cpu
        );
    }
    let queries = || (0..QUERIES).for_each(|_| drop(encoder.embed_query(QUERY).unwrap()));
    println!(
        "{{\"work\": \"embed-query\", \"peer\": \"agent\", \"tokens\": {}, \"cpu_ms\": {:.3}}}",
        encoder.count_tokens(&[QUERY]).unwrap()[0],
        best(repeats, queries)[0] / QUERIES as f64 * 1e3
    );
}
