//! Generates sample knowledge bases with the schemas of the three STaRK benchmarks.
//!
//! Kind, seed and scale determine a directory in the neutral dataset format: nodes, edges,
//! questions with exact answers, and splits. All names and sentences are invented. Only schemas,
//! sizes and question templates are taken from the benchmarks (Wu et al. 2024, "STaRK: Benchmarking
//! LLM Retrieval on Textual and Relational Knowledge Bases").
//!
//! A node has hidden facts (module `facts`), which its document states in varying words. A question
//! (module `queries`) asks for the nodes that lie at the end of a metapath (module `wording`) and
//! have certain facts. Neither part suffices alone: many nodes share the facts, and no document
//! names the relation.
//!
//! The generator uses two parts of other modules: [`agent_kb::metapath`], to follow metapaths, and
//! the names of the benchmark's bases. The rest of this crate uses only [`generate`].
//!
//! | limit | value |
//! | --- | --- |
//! | scale | (0, 10]; 1 is the size of the benchmark |
//! | questions | 600 at the default scale, 2,000 at most |
//! | answers per question | 1 to 20 |
//! | memory | about 16 bytes per stored edge and 20 per node: below 0.5 GB at scale 1, 5 GB at 10 |
//!
//! The same kind, seed and scale give the same bytes on every machine.

mod facts;
mod graph;
mod names;
mod queries;
pub mod random;
mod schema;
mod texts;
mod wording;
mod write;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::sample::facts::Facts;
use crate::sample::graph::World;
use crate::sample::queries::Source;

/// Kind of a sample: the base of the benchmark whose schema it has.
pub use crate::stark::Kind as SampleKind;

impl SampleKind {
    /// Returns the kind with a name such as `amazon`; `None` if there is none.
    pub fn from_name(name: &str) -> Option<SampleKind> {
        SampleKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the scale at which a sample of this kind has about 5,000 nodes.
    pub fn default_scale(self) -> f64 {
        match self {
            SampleKind::Amazon => 0.005,
            SampleKind::Mag => 0.003,
            SampleKind::Prime => 0.04,
        }
    }
}

/// Maximum scale: at this scale a sample has up to 19 million nodes and 200 million stored edges,
/// all of them in memory.
pub const MAX_SCALE: f64 = 10.0;

/// Options of a sample.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SampleOptions {
    /// Seed of all random draws; the same seed gives the same sample.
    pub seed: u64,
    /// Size relative to the benchmark, greater than 0 and at most [`MAX_SCALE`]; `None` means
    /// [`SampleKind::default_scale`].
    ///
    /// The number of nodes of each type is proportional to the scale, but at least some dozens, so
    /// that every question template has answers. Mean degrees equal the benchmark's, except for
    /// dense relations in smaller bases. Every edge is stored once, whereas the published counts
    /// include both directions of each edge.
    pub scale: Option<f64>,
}

/// Size of a generated sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleReport {
    /// Number of nodes written.
    pub n_nodes: u64,
    /// Number of edges written; each edge is written once, in its stored direction.
    pub n_edges: u64,
    /// Numbers of questions in the splits train, val and test.
    pub n_queries: [usize; 3],
}

/// Progress of the generation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleProgress {
    /// Current stage: `edges`, `nodes` or `questions`.
    pub stage: &'static str,
    /// Number of finished units: relations, nodes or templates, depending on the stage.
    pub done: u64,
    /// Total number of units of the stage.
    pub total: u64,
}

/// Why no sample was generated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SampleError {
    /// The scale is not greater than 0 and at most [`MAX_SCALE`], or is not a number.
    #[error(
        "sample scale {} is out of range; choose a number above 0 and at most {MAX_SCALE}",
        in_few_digits(*scale)
    )]
    Scale {
        /// The given scale.
        scale: f64,
    },
    /// The output folder is not empty; it is left unchanged.
    #[error("folder {} is not empty; choose a new or empty folder for the sample", path.display())]
    NotEmpty {
        /// The output folder.
        path: PathBuf,
    },
    /// A file could not be written. Files written before remain, but without `dataset.toml`.
    #[error("cannot write {}; check free space and permissions", path.display())]
    Write {
        /// The file or folder that could not be written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Writes a sample to the directory `out_dir`, which is created if missing and must be empty.
///
/// Time and space are linear in the numbers of nodes and edges. `progress` is called at least once
/// per stage, and after every few ten thousand nodes or edges.
///
/// # Errors
/// [`SampleError::Scale`] or [`SampleError::NotEmpty`] before anything is written;
/// [`SampleError::Write`] later.
pub fn generate(
    kind: SampleKind,
    options: SampleOptions,
    out_dir: &Path,
    progress: &mut dyn FnMut(SampleProgress),
) -> Result<SampleReport, SampleError> {
    let world = world(kind, options)?;
    write::prepare(out_dir)?;
    let mut report = |stage, done, total| progress(SampleProgress { stage, done, total });
    let (graph, n_edges) =
        write::edges(&world, out_dir, &mut |done, total| report("edges", done, total))?;
    let facts = all_facts(&world);
    let source = Source { world: &world, graph: &graph, facts: &facts };
    write::nodes(&source, out_dir, &mut |done, total| report("nodes", done, total))?;
    let mut report_questions = |done, total| report("questions", done, total);
    let questions = queries::construct(&source, default_nodes(kind), &mut report_questions);
    let n_queries = write::questions(&world, &questions, out_dir)?;
    write::description(&world, out_dir)?;
    Ok(SampleReport { n_nodes: world.n_nodes(), n_edges, n_queries })
}

/// Formats a number; a very small or very large number gets an exponent.
fn in_few_digits(number: f64) -> String {
    let is_short = number == 0.0 || (1e-6..1e12).contains(&number.abs());
    if is_short { number.to_string() } else { format!("{number:e}") }
}

/// Checks the scale and returns the sizes of the base.
fn world(kind: SampleKind, options: SampleOptions) -> Result<World, SampleError> {
    let scale = options.scale.unwrap_or(kind.default_scale());
    if scale > 0.0 && scale <= MAX_SCALE {
        Ok(World::new(kind, options.seed, scale))
    } else {
        Err(SampleError::Scale { scale })
    }
}

fn all_facts(world: &World) -> Vec<Facts> {
    let types = world.kind.types().iter().enumerate();
    types.map(|(position, name)| Facts::new(world, position, name)).collect()
}

fn default_nodes(kind: SampleKind) -> u64 {
    World::new(kind, 0, kind.default_scale()).n_nodes()
}
