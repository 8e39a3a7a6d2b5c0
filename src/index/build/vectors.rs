//! Builds `vectors/`, the part of an index that depends on the embedder.

use std::{
    io::{self, BufReader, Read, Seek},
    ops::{ControlFlow, Range},
    path::Path,
};

use crate::{
    EmbedderChoice, Import, IndexError, Result,
    build::{PrecomputedVectors, VectorSource, Watch},
    layout::{MODEL, QUERIES, Record, Staging, VECTORS, VectorsRecord, VectorsSpec},
    vectors::{Precision, VectorWriter},
};
use agent_embed::{Corpus, EmbedError, Embedder, LsaEmbedder, LsaParams, Matrix, QueryTable};
use agent_ground::{locks::locked, words::Languages};
use agent_kb::{Kb, NodeId};

/// Maximum number of texts embedded at a time, and of rows copied at a time.
const BLOCK: usize = 1_024;
/// Name of the stage in progress reports.
const STAGE: &str = "vectors";

/// Builds the vectors of a base and publishes them in the directory `index`.
pub(super) fn build(
    kb: &Kb,
    languages: Languages,
    index: &Path,
    source: VectorSource<'_>,
    watch: &Watch<'_>,
) -> Result<()> {
    let staging = Staging::new(index)?;
    let dir = staging.path();
    let record = match source {
        VectorSource::Builtin => {
            let embedder = train(kb, languages, watch)?;
            embedder.save(&dir.join(MODEL))?;
            let spec = VectorsSpec::new(&EmbedderChoice::Builtin, &embedder, false);
            compute(kb, dir, spec, &embedder, watch)?
        }
        VectorSource::Embedder { choice, embedder, candidates_only } => {
            let spec = VectorsSpec::new(choice, embedder, candidates_only);
            compute(kb, dir, spec, embedder, watch)?
        }
        VectorSource::Precomputed(vectors) => take(kb, dir, vectors, watch)?,
        VectorSource::Import { choice, vectors } => copy(kb, dir, choice, vectors, watch)?,
    };
    record.write(dir)?;
    staging.publish(&index.join(VECTORS))
}

/// Trains the built-in embedder on the documents of all nodes.
fn train(kb: &Kb, languages: Languages, watch: &Watch<'_>) -> Result<LsaEmbedder> {
    let text = |node: usize| kb.text(node as NodeId);
    let corpus = Corpus { n_documents: kb.n_nodes() as usize, text: &text };
    let params = LsaParams { languages, ..LsaParams::default() };
    LsaEmbedder::train(corpus, &params, &mut |at| {
        let told = watch.progress(at.stage, at.done as u64, at.total as u64);
        told.map_or(ControlFlow::Break(()), ControlFlow::Continue)
    })
    .map_err(|error| match error {
        EmbedError::Interrupted => IndexError::Stopped,
        error => IndexError::Embed(error),
    })
}

/// Returns the nodes of a range that get a vector: all, or those of candidate types if
/// `candidates_only`.
fn nodes_with_vector(
    kb: &Kb,
    candidates_only: bool,
    nodes: Range<NodeId>,
) -> impl Iterator<Item = NodeId> {
    nodes
        .filter(move |&node| !candidates_only || kb.candidate_types().contains(&kb.node_type(node)))
}

/// Splits the nodes of a base into at most `n` ranges with about equal numbers of nodes that get a
/// vector. The ranges are adjacent, ascending, and cover all nodes.
pub fn split_nodes(kb: &Kb, candidates_only: bool, n: u64) -> Vec<Range<NodeId>> {
    let total = nodes_with_vector(kb, candidates_only, 0..kb.n_nodes()).count() as u64;
    let n = n.clamp(1, total.max(1));
    let begins = |unit: u64| (u128::from(total) * u128::from(unit) / u128::from(n)) as u64;
    let mut ranges = Vec::new();
    let mut from = 0;
    for (before, node) in (0..).zip(nodes_with_vector(kb, candidates_only, 0..kb.n_nodes())) {
        if before > 0 && before == begins(ranges.len() as u64 + 1) {
            ranges.push(from..node);
            from = node;
        }
    }
    ranges.push(from..kb.n_nodes());
    ranges
}

/// Callback that receives a block of nodes and a matrix with the vector of each node as a row.
type BlockHandler<'a> = dyn FnMut(&[NodeId], &Matrix) -> Result<()> + 'a;

/// Embeds the documents of the nodes in the range `nodes` that get a vector, in node order;
/// `on_block` receives blocks of at most 1,024 nodes, with a vector for each node.
///
/// # Errors
/// Errors of the embedder and of `on_block`.
pub fn embed(
    kb: &Kb,
    embedder: &dyn Embedder,
    candidates_only: bool,
    nodes: Range<NodeId>,
    on_block: &mut BlockHandler<'_>,
) -> Result<()> {
    let block = embedder.block_texts().clamp(1, BLOCK);
    let mut nodes = nodes_with_vector(kb, candidates_only, nodes);
    loop {
        let block: Vec<NodeId> = nodes.by_ref().take(block).collect();
        if block.is_empty() {
            return Ok(());
        }
        let texts: Vec<&str> = block.iter().map(|&node| kb.text(node)).collect();
        on_block(&block, &embedder.embed_documents(&texts)?)?;
    }
}

/// Writes one row for every node, in node order: the node's vector, or zeros.
struct Rows<'a> {
    writer: VectorWriter,
    watch: &'a Watch<'a>,
    dim: usize,
    /// Number of nodes whose row is written; equals the id of the next node.
    next: NodeId,
    /// Number of vectors written, without rows of zeros.
    done: u64,
    total: u64,
}

impl<'a> Rows<'a> {
    fn create(kb: &Kb, dir: &Path, spec: &VectorsSpec, watch: &'a Watch<'a>) -> Result<Self> {
        let (dim, path) = (spec.dim, dir.join(VECTORS));
        let writer = VectorWriter::create(&path, dim, Precision::F32, &spec.fingerprint)?;
        let total = nodes_with_vector(kb, spec.candidates_only, 0..kb.n_nodes()).count() as u64;
        watch.progress(STAGE, 0, total)?;
        Ok(Self { writer, watch, dim, next: 0, done: 0, total })
    }

    /// Appends the vectors of `nodes`, which ascend and follow all written nodes. Nodes between
    /// them get zeros.
    fn append(&mut self, nodes: &[NodeId], vectors: &[f32]) -> Result<()> {
        let mut vectors = vectors;
        for run in nodes.chunk_by(|node, next| node + 1 == *next) {
            self.fill(run[0])?;
            let (of_run, rest) = vectors.split_at(run.len() * self.dim);
            self.writer.append(&Matrix::new(run.len(), self.dim, of_run.to_vec())?)?;
            self.next += run.len() as NodeId;
            vectors = rest;
        }
        self.done += nodes.len() as u64;
        self.watch.progress(STAGE, self.done, self.total)
    }

    /// Appends rows of zeros for the nodes before `end` that are not yet written.
    fn fill(&mut self, end: NodeId) -> Result<()> {
        while self.next < end {
            let n = (end - self.next).min(BLOCK as NodeId);
            let zeros = vec![0.0; n as usize * self.dim];
            self.writer.append(&Matrix::new(n as usize, self.dim, zeros)?)?;
            self.next += n;
        }
        Ok(())
    }

    fn finish(mut self, kb: &Kb) -> Result<()> {
        self.fill(kb.n_nodes())?;
        self.writer.finish()?;
        self.watch.progress(STAGE, self.total, self.total)
    }
}

/// Embeds the nodes and writes their vectors. If only nodes of candidate types get vectors, all
/// other rows are zeros. Returns the record, which the caller must write.
fn compute(
    kb: &Kb,
    dir: &Path,
    spec: VectorsSpec,
    embedder: &dyn Embedder,
    watch: &Watch<'_>,
) -> Result<VectorsRecord> {
    let mut rows = Rows::create(kb, dir, &spec, watch)?;
    let all = 0..kb.n_nodes();
    embed(kb, embedder, spec.candidates_only, all, &mut |nodes, vectors| {
        rows.append(nodes, vectors.data())
    })?;
    rows.finish(kb)?;
    Ok(VectorsRecord::new(kb.fingerprint(), spec))
}

/// Writes vectors that [`embed`] computed elsewhere. Returns the record, which the caller must
/// write.
fn take(
    kb: &Kb,
    dir: &Path,
    embedded_elsewhere: &PrecomputedVectors<'_>,
    watch: &Watch<'_>,
) -> Result<VectorsRecord> {
    let PrecomputedVectors { spec, input } = embedded_elsewhere;
    let mut input = locked(input);
    let failed = IndexError::io(Path::new("the precomputed vectors"));
    let mut rows = Rows::create(kb, dir, spec, watch)?;
    let mut nodes = nodes_with_vector(kb, spec.candidates_only, 0..kb.n_nodes());
    loop {
        let block: Vec<NodeId> = nodes.by_ref().take(BLOCK).collect();
        if block.is_empty() {
            break;
        }
        let vectors = read_numbers(&mut **input, block.len() * spec.dim).map_err(failed)?;
        rows.append(&block, &vectors)?;
    }
    if input.read(&mut [0]).map_err(failed)? > 0 {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, "too many vectors")));
    }
    rows.finish(kb)?;
    Ok(VectorsRecord::new(kb.fingerprint(), spec.clone()))
}

/// Reads `n` little-endian `f32`.
fn read_numbers(input: &mut dyn Read, n: usize) -> io::Result<Vec<f32>> {
    let mut bytes = vec![0; n * size_of::<f32>()];
    input.read_exact(&mut bytes)?;
    Ok(bytes.as_chunks().0.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

/// Writes imported vectors of nodes and queries. Returns the record, which the caller must write.
fn copy(
    kb: &Kb,
    dir: &Path,
    choice: &EmbedderChoice,
    import: &Import,
    watch: &Watch<'_>,
) -> Result<VectorsRecord> {
    let (dim, fingerprint) = (import.dim, import.fingerprint.clone());
    let mut writer = VectorWriter::create(&dir.join(VECTORS), dim, Precision::F32, &fingerprint)?;
    let failed = IndexError::io(Path::new("the temporary file of vectors"));
    let mut file = &import.file;
    file.rewind().map_err(failed)?;
    let mut input = BufReader::with_capacity(1 << 20, file);
    let total = kb.n_nodes().into();
    for start in (0..import.n_nodes).step_by(BLOCK) {
        let n_rows = BLOCK.min((import.n_nodes - start) as usize);
        let rows = read_numbers(&mut input, n_rows * dim).map_err(failed)?;
        watch.progress(STAGE, start.into(), total)?;
        writer.append(&Matrix::new(n_rows, dim, rows)?)?;
    }
    writer.finish()?;
    watch.progress(STAGE, total, total)?;
    let queries = dir.join(QUERIES);
    QueryTable::save(&import.queries, &queries)?;
    let description = QueryTable::open(&queries, &fingerprint)?.describe();
    // An import has vectors of candidates only.
    let candidates_only = true;
    let embedder = choice.clone();
    let spec = VectorsSpec { embedder, fingerprint, description, dim, candidates_only };
    Ok(VectorsRecord::new(kb.fingerprint(), spec))
}
