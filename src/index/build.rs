//! Builds all indexes of a base into one directory that appears when it is complete.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{Deserialize, Serialize};

use crate::{
    embed::{Corpus, EmbedError, Embedder, LsaEmbedder, LsaParams},
    index::{
        IndexError, names,
        terms::TermIndexBuilder,
        text::TextIndexBuilder,
        vectors::{Precision, VectorWriter},
    },
    kb::{Direction, Kb, NodeId, RelationId, publish},
};

pub(super) const TEXT: &str = "text";
pub(super) const TERMS: &str = "terms";
pub(super) const NAMES_TERMS: &str = "names_terms";
pub(super) const NAMES: &str = "names";
pub(super) const VECTORS: &str = "vectors";
pub(super) const EMBEDDER: &str = "embedder";
const RECORD: &str = "index.json";

/// Version of the whole directory; raised whenever any index would be built otherwise.
const FORMAT: u32 = 3;
/// Neighbours of one relation whose names are indexed with a node.
const MAX_NAMED_NEIGHBORS: usize = 1_000;
/// Texts embedded at a time.
const EMBED_BLOCK: u32 = 1_024;
/// Nodes between two reports of progress.
const REPORT_EVERY: u32 = 4_096;

/// What `index.json` says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    format: u32,
    /// Fingerprint of the knowledge base.
    pub(super) kb: String,
    /// Fingerprint of the embedder.
    pub(super) embedder: String,
}

impl Record {
    /// Reads the record of an index directory.
    pub(super) fn read(dir: &Path, base: &str) -> Result<Self, IndexError> {
        let path = dir.join(RECORD);
        let bytes = fs::read(&path).map_err(|_| IndexError::Missing { base: base.to_owned() })?;
        let record: Self = serde_json::from_slice(&bytes)
            .map_err(|e| IndexError::damaged(&path, e.to_string()))?;
        if record.format != FORMAT {
            return Err(IndexError::damaged(
                &path,
                format!("format {}, not {FORMAT}", record.format),
            ));
        }
        Ok(record)
    }

    /// Identifies what the index would answer.
    pub(super) fn fingerprint(&self) -> String {
        let parts = format!("{} {} {}", self.format, self.kb, self.embedder);
        blake3::hash(parts.as_bytes()).to_hex().to_string()
    }
}

/// How far building is: nodes done of all, by stage. Two stages run side by side.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being built.
    pub stage: &'static str,
    /// Units done.
    pub done: u64,
    /// Units in all.
    pub total: u64,
}

/// Where the index of the built-in embedder is, inside the index directory of a base.
pub fn index_dir(indexes: &Path) -> PathBuf {
    indexes.join("builtin")
}

/// Reports progress and learns whether to stop.
struct Watch<'a> {
    report: &'a (dyn Fn(Progress) + Sync),
    stop: &'a AtomicBool,
}

impl Watch<'_> {
    fn at(&self, stage: &'static str, done: u64, total: u64) -> Result<(), IndexError> {
        (self.report)(Progress { stage, done, total });
        if self.stop.load(Ordering::Relaxed) { Err(IndexError::Stopped) } else { Ok(()) }
    }
}

/// Builds the indexes of a base with the built-in embedder, replacing older ones in one step.
///
/// # Errors
/// [`IndexError::Stopped`] soon after `stop` is set, or what failed; the old index, if any, stays.
pub fn build(
    kb: &Kb,
    dir: &Path,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Result<(), IndexError> {
    let parent = dir.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(|error| IndexError::io(parent, error))?;
    let staging = tempfile::Builder::new()
        .prefix(".building-")
        .tempdir_in(parent)
        .map_err(|error| IndexError::io(parent, error))?;
    let path = staging.path();
    let watch = Watch { report, stop };
    let (words, vectors) = rayon::join(
        || build_text(kb, path, &watch),
        || {
            names::build(kb, &path.join(NAMES))?;
            build_vectors(kb, path, &watch)
        },
    );
    words?;
    let record = Record { format: FORMAT, kb: kb.fingerprint().to_owned(), embedder: vectors? };
    let file = path.join(RECORD);
    serde_json::to_vec_pretty(&record)
        .map_err(std::io::Error::from)
        .and_then(|json| fs::write(&file, json))
        .map_err(|error| IndexError::io(&file, error))?;
    Ok(publish(&staging.keep(), dir)?)
}

fn build_text(kb: &Kb, dir: &Path, watch: &Watch<'_>) -> Result<(), IndexError> {
    let text_dir = dir.join(TEXT);
    fs::create_dir(&text_dir).map_err(|error| IndexError::io(&text_dir, error))?;
    let mut text = TextIndexBuilder::create(&text_dir, kb.field_names().len());
    let (mut terms, mut names_terms) = (TermIndexBuilder::default(), TermIndexBuilder::default());
    for node in 0..kb.n_nodes() {
        if node % REPORT_EVERY == 0 {
            watch.at("text", node.into(), kb.n_nodes().into())?;
        }
        let names = neighbor_names(kb, node);
        text.add(kb.node_type(node), kb.text(node), &names, kb.fields(node))?;
        terms.add(kb.text(node))?;
        names_terms.add(&names)?;
    }
    text.finish()?;
    terms.write(&dir.join(TERMS))?;
    names_terms.write(&dir.join(NAMES_TERMS))?;
    watch.at("text", kb.n_nodes().into(), kb.n_nodes().into())
}

/// The names of a node's neighbours by every relation, one a line.
fn neighbor_names(kb: &Kb, node: NodeId) -> String {
    let mut names = String::new();
    for relation in 0..kb.relations().len() {
        let neighbors = kb.neighbors(node, RelationId(relation as u16), Direction::Any);
        for &neighbor in neighbors.iter().take(MAX_NAMED_NEIGHBORS) {
            names.push_str(kb.name(neighbor));
            names.push('\n');
        }
    }
    names
}

/// Trains the embedder and embeds every node; returns the embedder's fingerprint.
fn build_vectors(kb: &Kb, dir: &Path, watch: &Watch<'_>) -> Result<String, IndexError> {
    let text = |node: usize| kb.text(node as NodeId);
    let corpus = Corpus { n_documents: kb.n_nodes() as usize, text: &text };
    let embedder = LsaEmbedder::train(
        corpus,
        &LsaParams::default(),
        &mut |progress| match watch.at(progress.stage, progress.done as u64, progress.total as u64)
        {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        },
    )
    .map_err(|error| match error {
        EmbedError::Interrupted => IndexError::Stopped,
        error => IndexError::Embed(error),
    })?;
    embedder.save(&dir.join(EMBEDDER))?;
    let mut vectors = VectorWriter::create(
        &dir.join(VECTORS),
        embedder.dim(),
        Precision::F32,
        embedder.fingerprint(),
    )?;
    for first in (0..kb.n_nodes()).step_by(EMBED_BLOCK as usize) {
        watch.at("vectors", first.into(), kb.n_nodes().into())?;
        let last = first.saturating_add(EMBED_BLOCK).min(kb.n_nodes());
        let texts: Vec<&str> = (first..last).map(|node| kb.text(node)).collect();
        vectors.append(&embedder.embed_documents(&texts)?)?;
    }
    vectors.finish()?;
    watch.at("vectors", kb.n_nodes().into(), kb.n_nodes().into())?;
    Ok(embedder.fingerprint().to_owned())
}
