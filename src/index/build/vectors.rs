//! Builds `vectors/`: what depends on the embedder. Must not know which embedder it is given.

use std::{ops::ControlFlow, path::Path};

use crate::{
    embed::{Corpus, EmbedError, Embedder, LsaEmbedder, LsaParams, Matrix, QueryTable},
    index::{
        EmbedderChoice, Import, IndexError,
        build::{VectorSource, Watch},
        layout::{Described, MODEL, QUERIES, Staging, VECTORS, VectorsRecord},
        vectors::{Precision, VectorWriter},
    },
    kb::{Kb, NodeId},
};

/// Texts embedded at a time.
const BLOCK: usize = 1_024;
/// Texts embedded at a time by a transformer; the time a caller waits who wants to stop.
const TRANSFORMER_BLOCK: usize = 128;

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
            embed(kb, dir, &EmbedderChoice::Builtin, &embedder, false, watch)?
        }
        VectorSource::Embedder { choice, embedder, candidates_only } => {
            embed(kb, dir, choice, embedder, candidates_only, watch)?
        }
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

/// Embeds every node, or those of candidate types with zeros for the others.
fn embed(
    kb: &Kb,
    dir: &Path,
    choice: &EmbedderChoice,
    embedder: &dyn Embedder,
    candidates_only: bool,
    watch: &Watch<'_>,
) -> Result<VectorsRecord, IndexError> {
    let wanted =
        |node: NodeId| !candidates_only || kb.candidate_types().contains(&kb.node_type(node));
    let total = (0..kb.n_nodes()).filter(|&node| wanted(node)).count() as u64;
    let (dim, mut done) = (embedder.dim(), 0);
    let mut writer =
        VectorWriter::create(&dir.join(VECTORS), dim, Precision::F32, embedder.fingerprint())?;
    let block = match choice {
        EmbedderChoice::Candle(_) => TRANSFORMER_BLOCK,
        _ => BLOCK,
    };
    for first in (0..kb.n_nodes()).step_by(block) {
        watch.at("vectors", done, total)?;
        let last = first.saturating_add(block as u32).min(kb.n_nodes());
        let nodes: Vec<NodeId> = (first..last).filter(|&node| wanted(node)).collect();
        let texts: Vec<&str> = nodes.iter().map(|&node| kb.text(node)).collect();
        let embedded = embedder.embed_documents(&texts)?;
        let mut rows = vec![0.0; (last - first) as usize * dim];
        for (&node, vector) in nodes.iter().zip(embedded.data().chunks_exact(dim)) {
            let start = (node - first) as usize * dim;
            rows[start..start + dim].copy_from_slice(vector);
        }
        writer.append(&Matrix::new((last - first) as usize, dim, rows)?)?;
        done += nodes.len() as u64;
    }
    writer.finish()?;
    watch.at("vectors", total, total)?;
    let described = Described {
        embedder: choice,
        fingerprint: embedder.fingerprint(),
        description: embedder.describe(),
        dim,
        candidates_only,
    };
    Ok(VectorsRecord::new(kb.fingerprint(), described))
}

/// Copies vectors that were computed elsewhere.
fn copy(
    kb: &Kb,
    dir: &Path,
    choice: &EmbedderChoice,
    import: &Import,
    watch: &Watch<'_>,
) -> Result<VectorsRecord, IndexError> {
    let (dim, fingerprint) = (import.dim, &import.fingerprint);
    let mut writer = VectorWriter::create(&dir.join(VECTORS), dim, Precision::F32, fingerprint)?;
    let (mut done, total) = (0, kb.n_nodes().into());
    import.for_each_block(BLOCK, &mut |n_rows, rows| {
        watch.at("vectors", done, total)?;
        done += n_rows as u64;
        Ok(writer.append(&Matrix::new(n_rows, dim, rows)?)?)
    })?;
    writer.finish()?;
    watch.at("vectors", total, total)?;
    let queries = dir.join(QUERIES);
    QueryTable::save(&import.queries, &queries)?;
    let description = QueryTable::open(&queries, fingerprint)?.describe();
    // Others have no vector to be found by.
    let candidates_only = true;
    let described = Described { embedder: choice, fingerprint, description, dim, candidates_only };
    Ok(VectorsRecord::new(kb.fingerprint(), described))
}
