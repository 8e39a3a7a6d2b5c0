//! Builds the requested parts of an index. Each part is published when it is complete, independent
//! of the other parts.

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
    Access, EmbedderChoice, Import, IndexError, Part,
    embedder::IndexEmbedder,
    language::languages,
    layout::{Staging, VECTORS, VectorsRecord, VectorsSpec, part_path, remove_leftovers},
    parts::{self, Materials},
    vectors::VectorIndex,
};
use agent_embed::Embedder;
use agent_kb::Kb;

/// Progress of one stage of a build. Stages run in parallel.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Name of the stage.
    pub stage: &'static str,
    /// Number of finished units of work.
    pub done: u64,
    /// Total number of units of work.
    pub total: u64,
}

/// Parts to build, with their sources.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Source of the words, if they are built.
    pub words: Option<WordSource<'a>>,
    /// Source of the vectors, if they are built; this removes all optional parts.
    pub vectors: Option<VectorSource<'a>>,
    /// Optional parts to build after the vectors.
    pub parts: &'a [Part],
    /// Resources for opening the embedder of the optional parts.
    pub access: &'a Access,
    /// The previous version of the base; the query part is updated from its index if possible.
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
    /// Plans all required parts, with the built-in embedder.
    pub fn complete() -> Self {
        Self {
            words: Some(WordSource::Nodes),
            vectors: Some(VectorSource::Builtin),
            parts: &[],
            access: Access::none(),
            previous: None,
        }
    }
}

/// Source of the vectors.
#[derive(Clone, Copy)]
pub enum VectorSource<'a> {
    /// The built-in embedder, trained on the base.
    Builtin,
    /// An opened embedder.
    Embedder {
        /// The embedder's name, for opening it again.
        choice: &'a EmbedderChoice,
        /// The embedder.
        embedder: &'a dyn Embedder,
        /// Whether only nodes of candidate types are embedded; other nodes get zeros.
        candidates_only: bool,
    },
    /// Vectors computed elsewhere by [`embed`].
    Precomputed(&'a PrecomputedVectors<'a>),
    /// Imported vectors, without an embedder.
    Import {
        /// The name of the import, with the directory of the vectors.
        choice: &'a EmbedderChoice,
        /// The vectors.
        vectors: &'a Import,
    },
}

/// Vectors computed elsewhere by [`embed`].
pub struct PrecomputedVectors<'a> {
    /// Specification of the vectors.
    pub spec: VectorsSpec,
    /// The vectors of all nodes that have one, in node order, as little-endian `f32`.
    pub input: Mutex<&'a mut (dyn Read + Send)>,
}

/// Progress callback and stop flag of a build.
pub struct Watch<'a> {
    /// Receives progress, from any thread.
    pub report: &'a (dyn Fn(Progress) + Sync),
    /// Set to stop the build.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// Reports progress of a stage, then checks the stop flag.
    ///
    /// # Errors
    /// [`IndexError::Stopped`] if the stop flag is set.
    pub(super) fn progress(
        &self,
        stage: &'static str,
        done: u64,
        total: u64,
    ) -> Result<(), IndexError> {
        (self.report)(Progress { stage, done, total });
        self.check_stop()
    }

    /// Checks the stop flag; cheap.
    ///
    /// # Errors
    /// [`IndexError::Stopped`] if the stop flag is set.
    pub(super) fn check_stop(&self) -> Result<(), IndexError> {
        if self.stop.load(Ordering::Relaxed) { Err(IndexError::Stopped) } else { Ok(()) }
    }
}

/// Builds [`Plan::complete`] into the index directory of a base.
///
/// # Errors
/// As [`build_parts`].
pub fn build(
    kb: &Kb,
    index: &Path,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<(), IndexError> {
    build_parts(kb, index, &Plan::complete(), report, stop)
}

/// Builds parts of an index; each replaces its older version atomically. First removes leftovers of
/// killed builds.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set, or the first failure. Parts that were complete
/// are published; the others are unchanged.
pub fn build_parts(
    kb: &Kb,
    index: &Path,
    plan: &Plan<'_>,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<(), IndexError> {
    remove_leftovers(index);
    let watch = Watch { report, stop };
    let languages = languages(kb);
    let (words, vectors) = rayon::join(
        || match plan.words {
            Some(source) => words::build(kb, languages, index, source, &watch),
            None => Ok(()),
        },
        || match &plan.vectors {
            Some(source) => vectors::build(kb, languages, index, source, &watch),
            None => Ok(()),
        },
    );
    words.and(vectors)?;
    plan.parts.iter().try_for_each(|&part| build_part(kb, index, part, plan, &watch))
}

/// Builds an optional part, then adds it to the record.
fn build_part(
    kb: &Kb,
    index: &Path,
    part: Part,
    plan: &Plan<'_>,
    watch: &Watch<'_>,
) -> Result<(), IndexError> {
    let dir = index.join(VECTORS);
    let mut record = VectorsRecord::read(index, "the base")?;
    let vectors = VectorIndex::open(&dir.join(VECTORS))?;
    let embedder = IndexEmbedder::new(index, record.clone(), plan.access)?;
    let staging = Staging::new(index)?;
    let previous = plan.previous.filter(|version| has_part(version, part));
    let materials = Materials { kb, vectors: &vectors, embedder: &embedder, previous };
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

/// Whether the index of a version belongs to its base and has a part.
fn has_part(version: &IndexedVersion<'_>, part: Part) -> bool {
    let record = VectorsRecord::read(version.index, "the base");
    record.is_ok_and(|there| there.kb == version.kb.fingerprint() && there.parts.contains(&part))
}
