//! Late interaction over compressed vectors of document tokens.
//!
//! The score of a document is the sum, over the tokens of the query, of the largest dot product
//! with any token of the document (MaxSim of ColBERT: Khattab & Zaharia 2020). Token vectors of
//! documents have length 1; the length of a query token's vector acts as its weight. The index
//! holds the first [`MAX_TOKENS`] tokens of each candidate's document, in the short codes of
//! `codec`.
//!
//! Two parts have this form: `late`, with the token vectors of the index's embedder, and `colbert`,
//! with those of a ColBERT checkpoint. The latter also finds documents by itself (`probe`).

mod codec;
mod probe;

use std::{
    collections::HashMap,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use rayon::prelude::*;

use crate::{
    IndexError, Result,
    arrays::{Array, Arrays, named},
    build::Watch,
    late::{
        codec::{Codec, code_bytes, learn},
        probe::{Lists, lists},
    },
    layout::{Part, part_path},
    parts::Materials,
};
use agent_embed::{
    ColbertEncoder, EmbedError, Matrix,
    bert::colbert::MAX_DOCUMENT_TOKENS,
    matrix::{dot, normalise},
};
use agent_kb::{Kb, NodeId, Ranking, best};

/// Maximum number of tokens of one document that the part `late` stores; later tokens are ignored.
pub const MAX_TOKENS: usize = 256;
/// Maximum number of tokens of a query; later tokens are ignored.
pub const MAX_QUERY_TOKENS: usize = 64;
/// Maximum number of tokens of each document on which the codec is trained; they are evenly spaced.
const SAMPLED_TOKENS: usize = 64;
/// Number of documents embedded at a time.
const BLOCK_NODES: usize = 256;
/// Maximum number of codes that are cached during a build; a full cache is cleared. Caching helps
/// models with few distinct vectors.
const MAX_CACHED_CODES: usize = 1 << 16;
/// Number of documents that one thread scores at a time.
const BLOCK_SCORED: usize = 16;
/// Name of the index file.
const FILE: &str = "tokens";
/// Name of the temporary file of codes, which exists only during the build.
const CODES: &str = "codes";

/// The compressed tokens of the candidates' documents, memory-mapped.
pub struct LateIndex {
    arrays: Arrays,
    /// The candidates, ascending.
    nodes: Array<u32>,
    /// The `i`-th candidate has the tokens `bounds[i]..bounds[i + 1]` among all tokens.
    bounds: Array<u64>,
    codes: Array<u8>,
    centroids: Array<f32>,
    weights: Array<f32>,
    dim: usize,
    checkpoint: Option<Checkpoint>,
}

/// Data of the part `colbert` in addition to compressed tokens.
struct Checkpoint {
    fingerprint: Array<u8>,
    dir: Array<u8>,
    lists: Lists,
}

/// Embeds the tokens of each text: `[tokens, dim]`.
type EmbedTokens<'a> = dyn Fn(&[&str]) -> Result<Vec<Matrix>, EmbedError> + 'a;

/// Where the token vectors of documents come from.
struct Source<'a> {
    /// Name of the stage in progress reports.
    stage: &'static str,
    dim: usize,
    /// Maximum number of tokens of one document that are stored.
    max_tokens: usize,
    /// Maximum number of documents on which the codec is trained; they are evenly spaced.
    sampled_nodes: usize,
    max_centroids: usize,
    embed: &'a EmbedTokens<'a>,
    /// The checkpoint that `embed` runs; `None` for the index's embedder.
    checkpoint: Option<&'a ColbertEncoder>,
}

/// A token of a query with the token of a document that is most similar to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Index of the token in the query, from 0.
    pub query: usize,
    /// Index of the token in the document, from 0.
    pub document: usize,
    /// Dot product of the vectors of both tokens.
    pub score: f32,
}

/// Embeds and compresses the tokens of the documents of all candidates with the index's embedder,
/// and writes them to the directory `dir`.
pub(super) fn build(materials: &Materials<'_>, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let source = Source {
        stage: "late",
        dim: materials.embedder.dim(),
        max_tokens: MAX_TOKENS,
        sampled_nodes: 512,
        max_centroids: 512,
        embed: &|texts| materials.embedder.embed_tokens(texts),
        checkpoint: None,
    };
    write(materials.kb, &source, watch, dir)
}

/// As [`build`], with the checkpoint of `materials`; also writes the lists for finding documents.
pub(super) fn build_colbert(
    materials: &Materials<'_>,
    watch: &Watch<'_>,
    dir: &Path,
) -> Result<()> {
    let encoder = materials.colbert.ok_or(IndexError::NoCheckpoint)?;
    let source = Source {
        stage: "colbert",
        dim: encoder.dim(),
        max_tokens: MAX_DOCUMENT_TOKENS,
        sampled_nodes: 1024,
        // More centroids would find fewer irrelevant documents, but finding the nearest centroid of
        // a token would take longer than a small model takes to compute the token.
        max_centroids: 4096,
        embed: &|texts| encoder.embed_documents(texts),
        checkpoint: Some(encoder),
    };
    write(materials.kb, &source, watch, dir)
}

/// Returns the directory and the fingerprint of the checkpoint with which the part `colbert` of an
/// index directory was built; `None` if the part is missing or damaged.
pub fn checkpoint_of(index: &Path) -> Option<(PathBuf, String)> {
    let part = LateIndex::open(&part_path(index, Part::Colbert)).ok()?;
    let text = |bytes: &Array<u8>| String::from_utf8(bytes.as_slice().to_vec()).ok();
    let Checkpoint { dir, fingerprint, .. } = part.checkpoint.as_ref()?;
    Some((text(dir)?.into(), text(fingerprint)?))
}

/// Embeds and compresses the tokens of the documents of all candidates, and writes them to the
/// directory `dir`.
fn write(kb: &Kb, source: &Source<'_>, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let (nodes, dim, stage) = (kb.candidates(), source.dim, source.stage);
    watch.progress(stage, 0, nodes.len() as u64)?;
    let step = nodes.len().div_ceil(source.sampled_nodes).max(1);
    let sampled: Vec<NodeId> = nodes.iter().step_by(step).copied().collect();
    let mut sample = Vec::new();
    for block in sampled.chunks(BLOCK_NODES) {
        watch.check_stop()?;
        for document in tokens(kb, source, block)? {
            let rows = document.chunks_exact(dim);
            let step = rows.len().div_ceil(SAMPLED_TOKENS).max(1);
            sample.extend(rows.step_by(step).flatten());
        }
    }
    let (centroids, weights, cutoffs) = learn(&sample, dim, source.max_centroids);
    drop(sample);
    let codec = Codec { dim, centroids: &centroids, weights: &weights, cutoffs: &cutoffs };

    let spool = dir.join(CODES);
    let failed = IndexError::io(&spool);
    let mut codes = BufWriter::new(File::create(&spool).map_err(failed)?);
    let (mut bounds, mut cache) = (vec![0u64], HashMap::new());
    for (at, block) in nodes.chunks(BLOCK_NODES).enumerate() {
        watch.progress(stage, (at * BLOCK_NODES) as u64, nodes.len() as u64)?;
        let documents = tokens(kb, source, block)?;
        for document in &documents {
            bounds.push(bounds[bounds.len() - 1] + (document.len() / dim) as u64);
        }
        for code in encode(&codec, &documents.concat(), &mut cache) {
            codes.write_all(&code).map_err(failed)?;
        }
    }
    codes.flush().map_err(failed)?;
    let file = File::open(&spool).map_err(failed)?;
    // SAFETY: the file is in the private directory of this build, and nothing writes to it now.
    #[expect(unsafe_code, reason = "memory mapping has no safe form")]
    let codes = unsafe { Mmap::map(&file) }.map_err(failed)?;
    let stored_dim = [dim as u32];
    let mut arrays = vec![
        named("bounds", &bounds),
        named("nodes", nodes),
        named("centroids", &centroids),
        named("weights", &weights),
        named("dim", &stored_dim),
        named("codes", &codes),
    ];
    let (list_bounds, places, checkpoint_dir);
    if let Some(checkpoint) = source.checkpoint {
        (list_bounds, places) = lists(&codes, &bounds, code_bytes(dim), centroids.len() / dim);
        checkpoint_dir = checkpoint.dir().to_string_lossy();
        arrays.extend([
            named("list_bounds", &list_bounds),
            named("places", &places),
            named("fingerprint", checkpoint.fingerprint().as_bytes()),
            named("dir", checkpoint_dir.as_bytes()),
        ]);
    }
    Arrays::write_sealed(&dir.join(FILE), &arrays)?;
    drop(codes);
    std::fs::remove_file(&spool).map_err(failed)?;
    watch.progress(stage, nodes.len() as u64, nodes.len() as u64)
}

/// Embeds the first tokens of the document of each node: for each node `[tokens, dim]`, whose rows
/// have length 1 or are zeros.
fn tokens(kb: &Kb, source: &Source<'_>, nodes: &[NodeId]) -> Result<Vec<Vec<f32>>> {
    let texts: Vec<&str> = nodes.iter().map(|&node| kb.text(node)).collect();
    let dim = source.dim;
    let shortened = |rows: Matrix| {
        let mut rows = rows.into_data();
        rows.truncate(source.max_tokens * dim);
        rows.chunks_exact_mut(dim).for_each(|row| {
            normalise(row);
        });
        rows
    };
    Ok((source.embed)(&texts)?.into_iter().map(shortened).collect())
}

/// Encodes rows (`[n, dim]`), each to a code. Equal rows are encoded only once, even in different
/// calls with the same cache.
fn encode(
    codec: &Codec<'_>,
    rows: &[f32],
    cache: &mut HashMap<blake3::Hash, Vec<u8>>,
) -> Vec<Vec<u8>> {
    let hashed: Vec<(blake3::Hash, &[f32])> = rows
        .par_chunks_exact(codec.dim)
        .map(|row| (blake3::hash(bytemuck::cast_slice(row)), row))
        .collect();
    if cache.len() >= MAX_CACHED_CODES {
        cache.clear();
    }
    let mut new: HashMap<blake3::Hash, &[f32]> = hashed.iter().copied().collect();
    new.retain(|key, _| !cache.contains_key(key));
    cache.par_extend(new.into_par_iter().map(|(key, row)| (key, codec.encode(row))));
    hashed.iter().filter_map(|(key, _)| cache.get(key).cloned()).collect()
}

impl LateIndex {
    /// Opens the tokens in the directory `dir`; the file is mapped, not read. Constant time.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the file cannot be read; [`IndexError::Damaged`] if it is not a file
    /// of tokens.
    pub fn open(dir: &Path) -> Result<Self> {
        let path = dir.join(FILE);
        let arrays = Arrays::open(&path)?;
        let dim = arrays.number::<u32>("dim")? as usize;
        let checkpoint = match arrays.get("fingerprint") {
            Err(_) => None,
            Ok(fingerprint) => Some(Checkpoint {
                fingerprint,
                dir: arrays.get("dir")?,
                lists: Lists { bounds: arrays.get("list_bounds")?, places: arrays.get("places")? },
            }),
        };
        let opened = Self {
            nodes: arrays.get("nodes")?,
            bounds: arrays.get("bounds")?,
            codes: arrays.get("codes")?,
            centroids: arrays.get("centroids")?,
            weights: arrays.get("weights")?,
            dim,
            checkpoint,
            arrays,
        };
        if dim == 0 || !opened.centroids.as_slice().len().is_multiple_of(dim) {
            return Err(IndexError::damaged(&path, format!("its vectors have {dim} dimensions")));
        }
        Ok(opened)
    }

    /// Reads the whole file and compares it with its recorded checksum.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if the checksum differs.
    pub fn verify(&self) -> Result<()> {
        self.arrays.verify()
    }

    /// Whether the part was built with this checkpoint.
    pub fn is_of(&self, encoder: &ColbertEncoder) -> bool {
        self.checkpoint.as_ref().is_some_and(|checkpoint| {
            checkpoint.fingerprint.as_slice() == encoder.fingerprint().as_bytes()
        }) && self.dim == encoder.dim()
    }

    /// Returns a one-line summary for display.
    pub fn describe(&self) -> String {
        let bytes = code_bytes(self.dim);
        let tokens = self.codes.as_slice().len() / bytes;
        let nodes = self.nodes.as_slice().len();
        format!("{tokens} tokens of {nodes} documents, {bytes} bytes per token")
    }

    /// Ranks the nodes in `nodes` that have tokens, by late interaction with `query`
    /// (`[tokens, dim]`). `nodes` may have any order but no duplicates. Returns the best `k` with
    /// their scores, best first, ties by ascending id. O(tokens of the nodes * tokens of the
    /// query * dim).
    pub fn rank(&self, query: &Matrix, nodes: &[NodeId], k: usize) -> Ranking {
        let table = self.codec().table();
        let scored: Vec<(NodeId, f32)> = nodes
            .par_chunks(BLOCK_SCORED)
            .flat_map_iter(|nodes| {
                let (table, mut buffer) = (&table, vec![0.0; self.dim]);
                nodes.iter().filter_map(move |&node| {
                    let pairs = self.pairs_with(query, node, table, &mut buffer);
                    (!pairs.is_empty()).then(|| (node, pairs.iter().map(|pair| pair.score).sum()))
                })
            })
            .collect();
        best(scored, k)
    }

    /// Returns for each token of the query its pair with the most similar token of the node's
    /// document, in the order of the query. The scores of the pairs sum to the score of the node.
    /// Empty for a node without tokens.
    pub fn pairs(&self, query: &Matrix, node: NodeId) -> Vec<Pair> {
        self.pairs_with(query, node, &self.codec().table(), &mut vec![0.0; self.dim])
    }

    fn pairs_with(
        &self,
        query: &Matrix,
        node: NodeId,
        table: &[f32],
        buffer: &mut [f32],
    ) -> Vec<Pair> {
        let codec = self.codec();
        let mut pairs: Vec<Pair> = Vec::new();
        for (document, code) in self.codes_of(node).enumerate() {
            codec.decode(code, table, buffer);
            for row in 0..query.rows().min(MAX_QUERY_TOKENS) {
                let score = query.row(row).map_or(0.0, |row| dot(row, buffer));
                match pairs.get_mut(row) {
                    Some(pair) if score > pair.score => {
                        *pair = Pair { query: row, document, score };
                    }
                    Some(_) => {}
                    None => pairs.push(Pair { query: row, document, score }),
                }
            }
        }
        pairs
    }

    /// Returns a codec that can decode but not encode.
    fn codec(&self) -> Codec<'_> {
        Codec {
            dim: self.dim,
            centroids: self.centroids.as_slice(),
            weights: self.weights.as_slice(),
            cutoffs: &[],
        }
    }

    /// Returns the codes of the tokens of a node's document, in the order of the text.
    fn codes_of(&self, node: NodeId) -> impl Iterator<Item = &[u8]> {
        let bytes = code_bytes(self.dim);
        let codes = self.nodes.as_slice().binary_search(&node).ok().and_then(|place| {
            let bound = |at: usize| {
                usize::try_from(*self.bounds.as_slice().get(at)?).ok()?.checked_mul(bytes)
            };
            self.codes.as_slice().get(bound(place)?..bound(place + 1)?)
        });
        codes.unwrap_or(&[]).chunks_exact(bytes).take(MAX_DOCUMENT_TOKENS)
    }
}
