//! `agent bench`: what single pieces of work cost on a dataset, to be compared with other software
//! that does the same work. One file per measurement; this one times, counts and prints. What no
//! other software does is measured in `benches/`, to compare two builds.
//!
//! Each measurement runs its work once to warm up, then again until [`LEAST_SECONDS`] have passed,
//! and prints the mean of one piece. A digest of the results says whether another program had the
//! same ones.

mod dense;
mod documents;
mod embed;
mod load;
mod metrics;
mod neighbors;
mod program;
mod search;
mod work;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Subcommand;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{Context, Exit};
use agent_app::error::Result;

/// Work is repeated for at least so long; the system counts the processor's time in 10 ms.
const LEAST_SECONDS: f64 = 1.0;
/// Nodes that a search finds.
const K: usize = 100;
/// Units in which Linux tells the processor's time, on every architecture.
const TICKS_PER_SECOND: u64 = 100;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Open a dataset
    Load(Args),
    /// Look up the neighbors of nodes
    Neighbors(WorkArgs),
    /// Unite the neighbors of neighbors
    Hop2(WorkArgs),
    /// Render the documents of 1,000 nodes that may be answers, and those of a STaRK base with relations
    Documents(Args),
    /// Search by words
    Bm25(WorkArgs),
    /// Search by vectors, exactly
    Dense(WorkArgs),
    /// Embed texts
    Embed(embed::Args),
    /// Compute eight metrics of rankings of 100 nodes
    Metrics(WorkArgs),
    /// Compile programs and run them over 50 candidates
    Program(WorkArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Installed dataset, directory in neutral format, or built-in sample
    #[arg(value_name = "N")]
    dataset: String,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct WorkArgs {
    #[command(flatten)]
    args: Args,
    /// Take the work from this file instead of drawing it
    ///
    /// One piece a line, columns separated by tabs. neighbors: node, relation. hop2: node, first
    /// relation, second relation. bm25: words. metrics: ranked nodes, answers, each separated by
    /// spaces. program: query, candidates separated by spaces. dense: a safetensors file with F32 tensors rows and queries, searched instead of
    /// the dataset's own vectors.
    #[arg(long, value_name = "FILE")]
    work: Option<PathBuf>,
}

pub(super) fn run(command: Command, ctx: &Context) -> Result<Exit> {
    match command {
        Command::Load(args) => load::run(&args, ctx)?,
        Command::Neighbors(args) => neighbors::run(&args, ctx)?,
        Command::Hop2(args) => neighbors::run_hop2(&args, ctx)?,
        Command::Documents(args) => documents::run(&args, ctx)?,
        Command::Bm25(args) => search::run(&args, ctx)?,
        Command::Dense(args) => dense::run(&args, ctx)?,
        Command::Embed(args) => embed::run(&args, ctx)?,
        Command::Metrics(args) => metrics::run(&args, ctx)?,
        Command::Program(args) => program::run(&args, ctx)?,
    }
    Ok(Exit::Done)
}

/// What a measurement found.
#[derive(Serialize)]
struct Figure {
    work: &'static str,
    /// Pieces of work in one pass.
    n: usize,
    passes: u32,
    /// Wall time of one piece in microseconds.
    wall_us: f64,
    /// Processor time of one piece in microseconds, all threads; none where the system has no
    /// `/proc`.
    cpu_us: Option<f64>,
    /// Largest memory that the process has held, in MiB.
    peak_mib: Option<f64>,
    /// What else was found.
    #[serde(flatten)]
    found: Map<String, Value>,
}

/// Times `pass`, which does `n` pieces of work.
fn measure(work: &'static str, n: usize, mut pass: impl FnMut()) -> Figure {
    pass();
    let (began, cpu_began) = (Instant::now(), cpu_time());
    let mut passes = 0u32;
    while passes == 0 || began.elapsed().as_secs_f64() < LEAST_SECONDS {
        pass();
        passes += 1;
    }
    let each = |time: Duration| time.as_secs_f64() * 1e6 / (f64::from(passes) * n.max(1) as f64);
    Figure {
        work,
        n,
        passes,
        wall_us: each(began.elapsed()),
        cpu_us: cpu_time().zip(cpu_began).map(|(now, before)| each(now - before)),
        peak_mib: status_mib("VmHWM:"),
        found: Map::new(),
    }
}

impl Figure {
    /// Adds something else that was found.
    fn with(mut self, key: &str, value: impl Into<Value>) -> Figure {
        self.found.insert(key.to_owned(), value.into());
        self
    }

    fn print(&self, json: bool, ctx: &Context) -> Result<()> {
        if json {
            return ctx.printer.json(self);
        }
        let cpu =
            self.cpu_us.map(|us| format!(", {us:.4} us of the processor")).unwrap_or_default();
        let found: String =
            self.found.iter().map(|(key, value)| format!("  {key} {value}")).collect();
        ctx.printer.data(&format!("{}: {:.4} us{cpu}{found}", self.work, self.wall_us))
    }
}

/// Processor time of this process so far, of all its threads.
fn cpu_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program may hold anything but ends with the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<std::result::Result<u64, _>>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// A quantity of memory of this process, in MiB.
fn status_mib(key: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib / 1024.0)
}

/// Hex SHA-256 of lists of ids: each its length and its ids, little-endian `u32`.
fn digest(lists: impl IntoIterator<Item = impl AsRef<[u32]>>) -> String {
    let mut hasher = Sha256::new();
    for ids in lists {
        let ids = ids.as_ref();
        hasher.update((ids.len() as u32).to_le_bytes());
        hasher.update(bytemuck::cast_slice::<u32, u8>(ids));
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
