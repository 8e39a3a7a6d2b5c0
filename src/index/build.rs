//! Builds the parts of an index that are asked for; each appears when it is complete, whatever
//! becomes of the others.

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

pub use vectors::{cut, embed};
pub use words::{WordSource, read_words};

use crate::{
    Access, EmbedderChoice, Import, IndexError, Part,
    embedder::IndexEmbedder,
    layout::{Staging, VECTORS, VectorsOf, VectorsRecord, part_path, remove_leftovers},
    parts::{self, Materials},
    vectors::VectorIndex,
};
use agent_embed::Embedder;
use agent_kb::Kb;

/// How far building is: units done of all, by stage. Stages run side by side.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being built.
    pub stage: &'static str,
    /// Units done.
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

/// What to build.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Where words come from, if they are built.
    pub words: Option<WordSource<'a>>,
    /// Where vectors come from, if they are built; the optional parts go with the old ones.
    pub vectors: Option<VectorSource<'a>>,
    /// Optional parts that are built, over the vectors that are then there.
    pub parts: &'a [Part],
    /// What the embedder needs to be opened again for optional parts.
    pub access: &'a Access,
    /// The version of the base that answers until this one is indexed: what did not change since is
    /// taken over where a part can.
    pub before: Option<Version<'a>>,
}

/// A version of a base with its index.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    /// The base.
    pub kb: &'a Kb,
    /// The directory of its index.
    pub index: &'a Path,
}

impl Plan<'static> {
    /// All that is needed, with the built-in embedder.
    pub fn complete() -> Self {
        static ACCESS: Access = Access::NONE;
        Self {
            words: Some(WordSource::Nodes),
            vectors: Some(VectorSource::Builtin),
            parts: &[],
            access: &ACCESS,
            before: None,
        }
    }
}

/// Where vectors come from.
#[derive(Clone, Copy)]
pub enum VectorSource<'a> {
    /// The built-in embedder, trained on the base.
    Builtin,
    /// An opened embedder.
    Embedder {
        /// How it is opened again.
        choice: &'a EmbedderChoice,
        /// The embedder.
        embedder: &'a dyn Embedder,
        /// Whether only nodes of candidate types are embedded; others get zeros.
        candidates_only: bool,
    },
    /// Vectors that an embedder gave elsewhere.
    Embedded(&'a Embedded<'a>),
    /// Vectors from a place that gives no others.
    Import {
        /// Where.
        choice: &'a EmbedderChoice,
        /// The vectors.
        vectors: &'a Import,
    },
}

/// Vectors that an embedder gave elsewhere, by [`embed`].
pub struct Embedded<'a> {
    /// Which they are.
    pub of: VectorsOf,
    /// The vector of each node that has one, in the order of nodes: numbers of 4 bytes, the lowest
    /// byte first.
    pub input: Mutex<&'a mut (dyn Read + Send)>,
}

/// Reports progress and learns whether to stop.
pub struct Watch<'a> {
    /// Gets how far a stage is.
    pub report: &'a (dyn Fn(Progress) + Sync),
    /// Set once the caller wants to stop.
    pub stop: &'a AtomicBool,
}

impl Watch<'_> {
    /// Tells how far a stage is.
    ///
    /// # Errors
    /// [`IndexError::Stopped`] once the caller wants that.
    pub(super) fn at(&self, stage: &'static str, done: u64, total: u64) -> Result<(), IndexError> {
        (self.report)(Progress { stage, done, total });
        self.go_on()
    }

    /// Whether to go on; costs next to nothing.
    ///
    /// # Errors
    /// [`IndexError::Stopped`] once the caller wants that.
    pub(super) fn go_on(&self) -> Result<(), IndexError> {
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

/// Builds parts of an index, each replacing an older one in one step; what builds that were killed
/// left behind is removed first.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set, or what failed; parts that were complete by
/// then are published, of the others the old ones stay.
pub fn build_parts(
    kb: &Kb,
    index: &Path,
    plan: &Plan<'_>,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<(), IndexError> {
    remove_leftovers(index);
    let watch = Watch { report, stop };
    let (words, vectors) = rayon::join(
        || match plan.words {
            Some(source) => words::build(kb, index, source, &watch),
            None => Ok(()),
        },
        || match &plan.vectors {
            Some(source) => vectors::build(kb, index, source, &watch),
            None => Ok(()),
        },
    );
    words.and(vectors)?;
    plan.parts.iter().try_for_each(|&part| build_part(kb, index, part, plan, &watch))
}

/// Builds an optional part, and lists it in the record once it is there.
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
    let before = plan.before.filter(|before| has_part(before, part));
    let materials = Materials { kb, vectors: &vectors, embedder: &embedder, before };
    parts::build(part, &materials, watch, staging.path())?;
    // The record never names digests of what is being replaced.
    if record.parts.contains(&part) {
        record.parts.retain(|&listed| listed != part);
        record.write(&dir)?;
    }
    staging.publish(&part_path(index, part))?;
    record.parts.push(part);
    record.parts.sort_unstable();
    record.write(&dir)
}

/// Whether a version has a part that was built over it.
fn has_part(version: &Version<'_>, part: Part) -> bool {
    let record = VectorsRecord::read(version.index, "the base");
    record.is_ok_and(|there| there.kb == version.kb.fingerprint() && there.parts.contains(&part))
}
