//! Builds `vectors/`: what depends on the embedder. Must not know which embedder it is given.

use std::{
    io,
    ops::{ControlFlow, Range},
    path::Path,
    sync::PoisonError,
};

use crate::{
    EmbedderChoice, Import, IndexError,
    build::{Embedded, VectorSource, Watch},
    layout::{MODEL, QUERIES, Staging, VECTORS, VectorsOf, VectorsRecord},
    vectors::{Precision, VectorWriter},
};
use agent_embed::{Corpus, EmbedError, Embedder, LsaEmbedder, LsaParams, Matrix, QueryTable};
use agent_kb::{Kb, NodeId};

/// Texts embedded at a time.
const BLOCK: usize = 1_024;
/// Texts embedded at a time by a transformer; the time a caller waits who wants to stop.
const TRANSFORMER_BLOCK: usize = 128;
/// What is reported.
const STAGE: &str = "vectors";

/// Builds and publishes the vectors of an index directory.
pub(super) fn build(
    kb: &Kb,
    index: &Path,
    source: &VectorSource<'_>,
    watch: &Watch<'_>,
) -> Result<(), IndexError> {
    let staging = Staging::new(index)?;
    let dir = staging.path();
    let record = match *source {
        VectorSource::Builtin => {
            let embedder = train(kb, watch)?;
            embedder.save(&dir.join(MODEL))?;
            let of = VectorsOf::new(&EmbedderChoice::Builtin, &embedder, false);
            compute(kb, dir, of, &embedder, watch)?
        }
        VectorSource::Embedder { choice, embedder, candidates_only } => {
            let of = VectorsOf::new(choice, embedder, candidates_only);
            compute(kb, dir, of, embedder, watch)?
        }
        VectorSource::Embedded(vectors) => take(kb, dir, vectors, watch)?,
        VectorSource::Import { choice, vectors } => copy(kb, dir, choice, vectors, watch)?,
    };
    record.write(dir)?;
    staging.publish(&index.join(VECTORS))
}

/// Trains the built-in embedder on all documents.
fn train(kb: &Kb, watch: &Watch<'_>) -> Result<LsaEmbedder, IndexError> {
    let text = |node: usize| kb.text(node as NodeId);
    let corpus = Corpus { n_documents: kb.n_nodes() as usize, text: &text };
    LsaEmbedder::train(corpus, &LsaParams::default(), &mut |progress| match watch.at(
        progress.stage,
        progress.done as u64,
        progress.total as u64,
    ) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    })
    .map_err(|error| match error {
        EmbedError::Interrupted => IndexError::Stopped,
        error => IndexError::Embed(error),
    })
}

/// Which of some nodes have a vector: all, or those of candidate types.
fn embedded(kb: &Kb, candidates_only: bool, of: Range<NodeId>) -> impl Iterator<Item = NodeId> {
    of.filter(move |&node| !candidates_only || kb.candidate_types().contains(&kb.node_type(node)))
}

/// Cuts the nodes of a base into at most `n` ranges with about as many vectors each.
pub fn cut(kb: &Kb, candidates_only: bool, n: u64) -> Vec<Range<NodeId>> {
    let total = embedded(kb, candidates_only, 0..kb.n_nodes()).count() as u64;
    let n = n.clamp(1, total.max(1));
    let begins = |unit: u64| (u128::from(total) * u128::from(unit) / u128::from(n)) as u64;
    let mut ranges = Vec::new();
    let mut from = 0;
    for (before, node) in (0..).zip(embedded(kb, candidates_only, 0..kb.n_nodes())) {
        if before > 0 && before == begins(ranges.len() as u64 + 1) {
            ranges.push(from..node);
            from = node;
        }
    }
    ranges.push(from..kb.n_nodes());
    ranges
}

/// Takes nodes, and a row for each.
type OnBlock<'a> = dyn FnMut(&[NodeId], &Matrix) -> Result<(), IndexError> + 'a;

/// Embeds those of some nodes that have a vector, in order; `on_block` gets blocks of at most 1,024
/// nodes and a row for each.
///
/// # Errors
/// Those of the embedder and of `on_block`.
pub fn embed(
    kb: &Kb,
    (choice, embedder): (&EmbedderChoice, &dyn Embedder),
    candidates_only: bool,
    nodes: Range<NodeId>,
    on_block: &mut OnBlock<'_>,
) -> Result<(), IndexError> {
    let block = match choice {
        EmbedderChoice::Candle(_) => TRANSFORMER_BLOCK,
        _ => BLOCK,
    };
    let mut nodes = embedded(kb, candidates_only, nodes);
    loop {
        let block: Vec<NodeId> = nodes.by_ref().take(block).collect();
        if block.is_empty() {
            return Ok(());
        }
        let texts: Vec<&str> = block.iter().map(|&node| kb.text(node)).collect();
        on_block(&block, &embedder.embed_documents(&texts)?)?;
    }
}

/// Writes a row for every node: that of its vector, or zeros.
struct Rows<'a> {
    writer: VectorWriter,
    watch: &'a Watch<'a>,
    dim: usize,
    /// Nodes with a row.
    next: NodeId,
    /// Vectors written, of all.
    done: u64,
    total: u64,
}

impl<'a> Rows<'a> {
    fn create(
        kb: &Kb,
        dir: &Path,
        of: &VectorsOf,
        watch: &'a Watch<'a>,
    ) -> Result<Self, IndexError> {
        let (dim, path) = (of.dim, dir.join(VECTORS));
        let writer = VectorWriter::create(&path, dim, Precision::F32, &of.fingerprint)?;
        let total = embedded(kb, of.candidates_only, 0..kb.n_nodes()).count() as u64;
        watch.at(STAGE, 0, total)?;
        Ok(Self { writer, watch, dim, next: 0, done: 0, total })
    }

    /// Takes the vectors of the next nodes that have one.
    fn append(&mut self, nodes: &[NodeId], vectors: &[f32]) -> Result<(), IndexError> {
        let mut vectors = vectors;
        for run in nodes.chunk_by(|node, next| node + 1 == *next) {
            self.fill(run[0])?;
            let (of_run, rest) = vectors.split_at(run.len() * self.dim);
            self.writer.append(&Matrix::new(run.len(), self.dim, of_run.to_vec())?)?;
            self.next += run.len() as NodeId;
            vectors = rest;
        }
        self.done += nodes.len() as u64;
        self.watch.at(STAGE, self.done, self.total)
    }

    /// Gives zeros to the nodes before `end`.
    fn fill(&mut self, end: NodeId) -> Result<(), IndexError> {
        while self.next < end {
            let n = (end - self.next).min(BLOCK as NodeId);
            let zeros = vec![0.0; n as usize * self.dim];
            self.writer.append(&Matrix::new(n as usize, self.dim, zeros)?)?;
            self.next += n;
        }
        Ok(())
    }

    fn finish(mut self, kb: &Kb) -> Result<(), IndexError> {
        self.fill(kb.n_nodes())?;
        self.writer.finish()?;
        self.watch.at(STAGE, self.total, self.total)
    }
}

/// Embeds every node, or those of candidate types with zeros for the others.
fn compute(
    kb: &Kb,
    dir: &Path,
    of: VectorsOf,
    embedder: &dyn Embedder,
    watch: &Watch<'_>,
) -> Result<VectorsRecord, IndexError> {
    let mut rows = Rows::create(kb, dir, &of, watch)?;
    let (with, all) = ((&of.embedder, embedder), 0..kb.n_nodes());
    embed(kb, with, of.candidates_only, all, &mut |nodes, vectors| {
        rows.append(nodes, vectors.data())
    })?;
    rows.finish(kb)?;
    Ok(VectorsRecord::new(kb.fingerprint(), of))
}

/// Reads the vectors that an embedder gave elsewhere.
fn take(
    kb: &Kb,
    dir: &Path,
    embedded_elsewhere: &Embedded<'_>,
    watch: &Watch<'_>,
) -> Result<VectorsRecord, IndexError> {
    let Embedded { of, input } = embedded_elsewhere;
    let mut input = input.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = |error| IndexError::io(Path::new("the vectors of units"), error);
    let mut rows = Rows::create(kb, dir, of, watch)?;
    let mut nodes = embedded(kb, of.candidates_only, 0..kb.n_nodes());
    loop {
        let block: Vec<NodeId> = nodes.by_ref().take(BLOCK).collect();
        if block.is_empty() {
            break;
        }
        let mut bytes = vec![0; block.len() * of.dim * size_of::<f32>()];
        input.read_exact(&mut bytes).map_err(failed)?;
        let numbers = bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number));
        rows.append(&block, &numbers.collect::<Vec<f32>>())?;
    }
    if input.read(&mut [0]).map_err(failed)? > 0 {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "there are too many")));
    }
    rows.finish(kb)?;
    Ok(VectorsRecord::new(kb.fingerprint(), of.clone()))
}

/// Copies vectors that were computed elsewhere.
fn copy(
    kb: &Kb,
    dir: &Path,
    choice: &EmbedderChoice,
    import: &Import,
    watch: &Watch<'_>,
) -> Result<VectorsRecord, IndexError> {
    let (dim, fingerprint) = (import.dim, import.fingerprint.clone());
    let mut writer = VectorWriter::create(&dir.join(VECTORS), dim, Precision::F32, &fingerprint)?;
    let (mut done, total) = (0, kb.n_nodes().into());
    import.for_each_block(BLOCK, &mut |n_rows, rows| {
        watch.at(STAGE, done, total)?;
        done += n_rows as u64;
        Ok(writer.append(&Matrix::new(n_rows, dim, rows)?)?)
    })?;
    writer.finish()?;
    watch.at(STAGE, total, total)?;
    let queries = dir.join(QUERIES);
    QueryTable::save(&import.queries, &queries)?;
    let description = QueryTable::open(&queries, &fingerprint)?.describe();
    // Others have no vector to be found by.
    let candidates_only = true;
    let embedder = choice.clone();
    let of = VectorsOf { embedder, fingerprint, description, dim, candidates_only };
    Ok(VectorsRecord::new(kb.fingerprint(), of))
}
