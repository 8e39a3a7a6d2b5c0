//! Builds the requested parts of an index. Each part is published as soon as it is complete, so it
//! stays if another part fails later.

mod vectors;
mod words;

use std::{
    io::Read,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

pub use vectors::{embed, split_nodes};
pub use words::{WordSource, read_words};

use crate::{
    Access, EmbedderChoice, Import, IndexError, Part, Result,
    embedder::IndexEmbedder,
    language::languages,
    layout::{Record, Staging, VECTORS, VectorsRecord, VectorsSpec, part_path, remove_leftovers},
    parts::{self, Materials},
    vectors::VectorIndex,
};
use agent_embed::{ColbertEncoder, Embedder};
use agent_kb::{Direction, Kb, NodeId, RelationId};

/// Maximum number of neighbours, per relation and direction, whose names are indexed with a node;
/// the others are ignored.
const MAX_NAMED_NEIGHBORS: usize = 1_000;
/// Number of units of work, such as nodes, between two reports of [`Watch::step`].
const REPORT_EVERY: u64 = 4_096;

/// Progress of one stage of a build. Stages run in parallel.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Name of the stage, such as `text` or `vectors`.
    pub stage: &'static str,
    /// Number of finished units of work, in the unit of the stage, such as nodes.
    pub done: u64,
    /// Total number of units of work in the stage.
    pub total: u64,
}

/// The parts of an index to build, with their sources.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Source of the words; `None` if the words are not built.
    pub words: Option<WordSource<'a>>,
    /// Source of the vectors; `None` if they are not built. Building the vectors removes all
    /// optional parts.
    pub vectors: Option<VectorSource<'a>>,
    /// Optional parts to build after the vectors.
    pub parts: &'a [Part],
    /// The checkpoint with which the part `colbert` is built.
    pub colbert: Option<&'a ColbertEncoder>,
    /// Cache, account and settings for opening the embedder while optional parts are built.
    pub access: &'a Access,
    /// The previous version of the base. If its index has the part for the query language, the
    /// build updates a copy of that part, where possible, instead of building a new one.
    pub previous: Option<IndexedVersion<'a>>,
}

/// A version of a base with its index.
#[derive(Clone, Copy)]
pub struct IndexedVersion<'a> {
    /// The base.
    pub kb: &'a Kb,
    /// The directory of its index.
    pub index: &'a Path,
}

impl Plan<'static> {
    /// Returns the plan of all required parts, words and vectors, with the built-in embedder.
    pub fn complete() -> Self {
        let (words, vectors) = (Some(WordSource::Nodes), Some(VectorSource::Builtin));
        Self { words, vectors, ..Self::nothing() }
    }
}

impl Plan<'_> {
    /// Returns a plan that builds no parts.
    pub fn nothing() -> Self {
        let (words, vectors, colbert, previous) = (None, None, None, None);
        Self { words, vectors, parts: &[], colbert, access: Access::none(), previous }
    }
}

/// Where a build gets the vectors of nodes from.
#[derive(Clone, Copy)]
pub enum VectorSource<'a> {
    /// The built-in embedder, which the build trains on the base.
    Builtin,
    /// An opened embedder, which embeds all texts now.
    Embedder {
        /// The choice of the embedder, recorded so that the index can open it again to embed
        /// queries.
        choice: &'a EmbedderChoice,
        /// The opened embedder.
        embedder: &'a dyn Embedder,
        /// Whether only nodes of candidate types are embedded; other nodes get vectors of zeros.
        candidates_only: bool,
    },
    /// Vectors of [`embed`] that were computed beforehand, such as on other computers.
    Precomputed(&'a PrecomputedVectors<'a>),
    /// Imported vectors of candidates and queries; only the imported queries can be embedded.
    Import {
        /// The choice `import:DIR`, with the directory of the vectors.
        choice: &'a EmbedderChoice,
        /// The imported vectors, checked against the base.
        vectors: &'a Import,
    },
}

/// Vectors of [`embed`] that were computed beforehand, such as on other computers.
pub struct PrecomputedVectors<'a> {
    /// Embedder, length and scope of the vectors.
    pub spec: VectorsSpec,
    /// The vectors of all nodes that have one, in node order, as little-endian `f32` without
    /// separators.
    pub input: Mutex<&'a mut (dyn Read + Send)>,
}

/// Returns the names of the neighbours that are indexed with a node: at most
/// [`MAX_NAMED_NEIGHBORS`]. Names that consist of type and row number, such as `review-3`, are left
/// out.
pub(super) fn names_of_neighbors(
    kb: &Kb,
    node: NodeId,
    relation: RelationId,
    direction: Direction,
) -> Vec<&str> {
    let neighbors = kb.neighbors(node, relation, direction);
    let names = neighbors.iter().filter(|&&neighbor| !is_numbered(kb, neighbor));
    names.take(MAX_NAMED_NEIGHBORS).map(|&neighbor| kb.name(neighbor)).collect()
}

/// Whether the name of a node consists of its type and a number.
pub(crate) fn is_numbered(kb: &Kb, node: NodeId) -> bool {
    let rest = kb.name(node).strip_prefix(kb.type_name(kb.node_type(node)));
    let number = rest.and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u64>().is_ok())
}

/// Whether a node has no name of its own: its name is its id, or its type and row number.
pub(crate) fn has_no_name(kb: &Kb, node: NodeId) -> bool {
    is_numbered(kb, node) || kb.has_keys() && kb.key(node) == kb.name(node)
}

/// Progress callback and stop flag of a build, shared by its threads.
pub struct Watch<'a> {
    /// Receives progress; called from any thread.
    pub report: &'a (dyn Fn(Progress) + Sync),
    /// The caller sets this to `true` to stop the build.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// Reports that `done` of `total` units of a stage are finished, then checks the stop flag.
    ///
    /// # Errors
    /// [`IndexError::Stopped`] if the stop flag is set.
    pub(super) fn progress(&self, stage: &'static str, done: u64, total: u64) -> Result<()> {
        (self.report)(Progress { stage, done, total });
        self.check_stop()
    }

    /// As [`progress`](Self::progress), but reports only every [`REPORT_EVERY`] units.
    pub(super) fn step(&self, stage: &'static str, done: u64, total: u64) -> Result<()> {
        match done.is_multiple_of(REPORT_EVERY) {
            true => self.progress(stage, done, total),
            false => self.check_stop(),
        }
    }

    /// Checks the stop flag; takes nanoseconds.
    ///
    /// # Errors
    /// [`IndexError::Stopped`] if the stop flag is set.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(IndexError::Stopped) } else { Ok(()) }
    }
}

/// Builds all required parts with the built-in embedder ([`Plan::complete`]) into the directory
/// `index`.
///
/// # Errors
/// As [`build_parts`].
pub fn build(
    kb: &Kb,
    index: &Path,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<()> {
    build_parts(kb, index, &Plan::complete(), &Watch { report, stop })
}

/// Builds the parts of `plan` into the directory `index`; each replaces its older version
/// atomically. First removes the leftovers of killed builds.
///
/// # Errors
/// [`IndexError::Stopped`] soon after the stop flag of `watch` is set, or the first failure. Parts
/// that were complete are published; the others are unchanged.
pub fn build_parts(kb: &Kb, index: &Path, plan: &Plan<'_>, watch: &Watch<'_>) -> Result<()> {
    remove_leftovers(index);
    let languages = languages(kb);
    let (words, vectors) = rayon::join(
        || plan.words.map_or(Ok(()), |words| words::build(kb, languages, index, words, watch)),
        || plan.vectors.map_or(Ok(()), |from| vectors::build(kb, languages, index, from, watch)),
    );
    words.and(vectors)?;
    plan.parts.iter().try_for_each(|&part| build_part(kb, index, part, plan, watch))
}

/// Builds and publishes an optional part, then lists it in the record of the vectors.
fn build_part(kb: &Kb, index: &Path, part: Part, plan: &Plan<'_>, watch: &Watch<'_>) -> Result<()> {
    let dir = index.join(VECTORS);
    let mut record = VectorsRecord::read(index, "the base")?;
    let vectors = VectorIndex::open(&dir.join(VECTORS))?;
    let embedder = IndexEmbedder::new(index, record.clone(), plan.access)?;
    let staging = Staging::new(index)?;
    let previous = plan.previous.filter(|version| has_part(version, part));
    let colbert = plan.colbert;
    let materials = Materials { kb, vectors: &vectors, embedder: &embedder, colbert, previous };
    parts::build(part, &materials, watch, staging.path())?;
    // The record must not list a part whose files are being replaced.
    if record.parts.contains(&part) {
        record.parts.retain(|&listed| listed != part);
        record.write(&dir)?;
    }
    staging.publish(&part_path(index, part))?;
    record.parts.push(part);
    record.parts.sort_unstable();
    record.write(&dir)
}

/// Whether the index of `version` was built over the base of `version` and contains `part`.
fn has_part(version: &IndexedVersion<'_>, part: Part) -> bool {
    let record = VectorsRecord::read(version.index, "the base");
    record.is_ok_and(|there| there.kb == version.kb.fingerprint() && there.parts.contains(&part))
}
