//! The vectors of all nodes: one `[n, dim]` matrix in a file, searched exactly.
//!
//! Given a query vector, it returns the nodes whose rows have the largest dot product with it. It must not
//! know where vectors come from (see `embed`) nor what a node is; row `i` belongs to node `i`.
//!
//! Search is exhaustive: every row is read, nothing is approximated. The dot product of a row is always
//! summed in one order, and results are ordered by score descending, then node id ascending, so the answer
//! does not depend on the number of threads. Memory bandwidth bounds the time; half precision halves it.
//!
//! # File
//! A safetensors file with one tensor `vectors`, F32 or F16, `[n, dim]`, row-major. Its header is padded
//! with spaces to [`HEADER_BYTES`], so that rows can be streamed behind it before their number is known.
//! Metadata: `format` (this version writes `1`), `embedder` (fingerprint of the model, empty if none) and
//! `checksum` (BLAKE3 of the tensor). Files are written beside their final place and renamed into it.
//! Opening checks the header against the length of the file in constant time; [`VectorIndex::verify`] reads
//! it all.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use half::slice::HalfFloatSliceExt;
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors};
use tempfile::NamedTempFile;

use crate::{
    embed::matrix::{Matrix, dot, dot_le},
    kb::NodeId,
};

/// Length of the part of the file before the rows, in bytes; a multiple of 64 keeps rows aligned.
pub const HEADER_BYTES: usize = 1024;
/// Longest row, in numbers; larger than any known text embedding.
pub const MAX_DIM: usize = 16_384;
/// Longest fingerprint of an embedder, in bytes, so that the header keeps its size.
pub const MAX_FINGERPRINT_BYTES: usize = 256;

/// Version of the file format written and read.
const FORMAT: &str = "1";
/// Name of the tensor.
const TENSOR: &str = "vectors";
/// Rows scored by one thread at a time.
const BLOCK_ROWS: usize = 4096;

/// How a number is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 4 bytes, exact.
    F32,
    /// 2 bytes, 11 significant bits: relative error below 5e-4 per number.
    F16,
}

impl Precision {
    fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F16 => 2,
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Precision::F32 => Dtype::F32,
            Precision::F16 => Dtype::F16,
        }
    }
}

/// Why vectors could not be written, opened or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The file system refused.
    #[error("cannot access vector file {}: {source}", path.display())]
    Io {
        /// File being read or written.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The file is truncated, altered, or holds something else.
    #[error("vector file {} is damaged ({reason}); build it again with `agent index --force`", path.display())]
    Damaged {
        /// File being read.
        path: PathBuf,
        /// First check that failed.
        reason: String,
    },
    /// A vector or matrix has another length than the rows of the index; comparing them would mean nothing.
    #[error(
        "vector has {got} dimensions, the index expects {expected}; use the embedder that built it"
    )]
    Dimension {
        /// Length of the rows of the index.
        expected: usize,
        /// Length given.
        got: usize,
    },
    /// A number is NaN or infinite, or does not fit the precision of the file.
    #[error(
        "row {row} of the vectors holds a number that is not finite in the precision of the index"
    )]
    NotFinite {
        /// Row (node), or 0 for a query.
        row: u64,
    },
    /// A node has no row.
    #[error("node {node} has no vector; the index holds nodes below {n}")]
    UnknownNode {
        /// Node asked for.
        node: NodeId,
        /// Number of rows.
        n: usize,
    },
    /// A filter is not strictly ascending.
    #[error(
        "filter is not sorted by ascending node id without duplicates: {next} follows {previous}"
    )]
    UnsortedFilter {
        /// The id before.
        previous: NodeId,
        /// The id that is not larger.
        next: NodeId,
    },
    /// A parameter of the writer, or the number of rows, is out of range.
    #[error("{name} is {got}, possible are {least} to {most}")]
    OutOfRange {
        /// What is out of range.
        name: &'static str,
        /// Its value.
        got: u64,
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
    },
}

/// Writes a vector file by appending blocks of rows.
///
/// Nothing appears at the final path before [`finish`](VectorWriter::finish); dropping the writer leaves no
/// trace. Memory use is one block.
pub struct VectorWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    dim: usize,
    precision: Precision,
    embedder: String,
    n_rows: u64,
    hasher: blake3::Hasher,
}

impl VectorWriter {
    /// Starts a file of rows of length `dim` that will be published at `path`.
    ///
    /// `embedder` is the fingerprint of the model the vectors come from.
    ///
    /// # Errors
    /// [`VectorError::OutOfRange`] unless `dim` is in `1..=`[`MAX_DIM`] and the fingerprint short enough,
    /// [`VectorError::Io`].
    pub fn create(
        path: &Path,
        dim: usize,
        precision: Precision,
        embedder: &str,
    ) -> Result<VectorWriter, VectorError> {
        check_range("length of a vector", dim as u64, 1, MAX_DIM as u64)?;
        let most = MAX_FINGERPRINT_BYTES as u64;
        check_range("length of the fingerprint", embedder.len() as u64, 0, most)?;
        let failed = |source| VectorError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(failed)?;
        let mut file = BufWriter::new(file);
        file.write_all(&[b' '; HEADER_BYTES]).map_err(failed)?;
        Ok(VectorWriter {
            path: path.to_owned(),
            file,
            dim,
            precision,
            embedder: embedder.to_owned(),
            n_rows: 0,
            hasher: blake3::Hasher::new(),
        })
    }

    /// Appends the rows of the next nodes.
    ///
    /// # Errors
    /// [`VectorError::Dimension`], [`VectorError::NotFinite`] (nothing is appended then),
    /// [`VectorError::OutOfRange`] when rows outnumber node ids, [`VectorError::Io`].
    pub fn append(&mut self, rows: &Matrix) -> Result<(), VectorError> {
        if rows.dim() != self.dim {
            return Err(VectorError::Dimension { expected: self.dim, got: rows.dim() });
        }
        let n_rows = self.n_rows + rows.rows() as u64;
        check_range("number of vectors", n_rows, 0, u64::from(NodeId::MAX))?;
        let finite = |value: f32| match self.precision {
            Precision::F32 => value.is_finite(),
            Precision::F16 => f16::from_f32(value).is_finite(),
        };
        if let Some(place) = rows.data().iter().position(|value| !finite(*value)) {
            return Err(VectorError::NotFinite { row: self.n_rows + (place / self.dim) as u64 });
        }
        let bytes: Vec<u8> = match self.precision {
            Precision::F32 => rows.data().iter().flat_map(|value| value.to_le_bytes()).collect(),
            Precision::F16 => {
                rows.data().iter().flat_map(|value| f16::from_f32(*value).to_le_bytes()).collect()
            }
        };
        self.hasher.update(&bytes);
        self.n_rows = n_rows;
        let path = &self.path;
        self.file.write_all(&bytes).map_err(|source| VectorError::Io { path: path.clone(), source })
    }

    /// Completes the file, publishes it at its path in one step and returns the number of rows.
    ///
    /// # Errors
    /// [`VectorError::Io`]; the old file, if any, is then untouched.
    pub fn finish(self) -> Result<u64, VectorError> {
        let VectorWriter { path, file, dim, precision, embedder, n_rows, hasher } = self;
        let failed = |source| VectorError::Io { path: path.clone(), source };
        let mut file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        let header = serde_json::json!({
            "__metadata__": {
                "format": FORMAT,
                "embedder": embedder,
                "checksum": hasher.finalize().to_hex().as_str(),
            },
            TENSOR: {
                "dtype": precision.dtype().to_string(),
                "shape": [n_rows, dim],
                "data_offsets": [0, n_rows * dim as u64 * precision.bytes() as u64],
            },
        });
        let mut header = header.to_string().into_bytes();
        check_range("length of the header", header.len() as u64, 0, HEADER_BYTES as u64 - 8)?;
        header.resize(HEADER_BYTES - 8, b' ');
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
        file.write_all(&header).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(n_rows)
    }
}

/// An open vector file, mapped read-only; cheap to share between threads.
pub struct VectorIndex {
    path: PathBuf,
    map: Mmap,
    rows: Range<usize>,
    n: usize,
    dim: usize,
    precision: Precision,
    embedder: String,
    checksum: String,
}

impl VectorIndex {
    /// Maps a file written by [`VectorWriter`]; constant time.
    ///
    /// # Errors
    /// [`VectorError::Io`], [`VectorError::Damaged`] when header and length of the file do not fit.
    pub fn open(path: &Path) -> Result<VectorIndex, VectorError> {
        let failed = |source| VectorError::Io { path: path.to_owned(), source };
        let damaged = |reason: String| VectorError::Damaged { path: path.to_owned(), reason };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: vector files are published by rename and never written in place afterwards, so the mapped
        // bytes do not change while they are borrowed.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let (_, header) =
            SafeTensors::read_metadata(&map).map_err(|error| damaged(error.to_string()))?;
        let text = |key: &str| {
            let value = header.metadata().as_ref().and_then(|map| map.get(key));
            value.cloned().ok_or_else(|| damaged(format!("metadata {key} is missing")))
        };
        let format = text("format")?;
        if format != FORMAT {
            return Err(damaged(format!("its format is {format}, this version reads {FORMAT}")));
        }
        let (embedder, checksum) = (text("embedder")?, text("checksum")?);
        let tensors = SafeTensors::deserialize(&map).map_err(|error| damaged(error.to_string()))?;
        let tensor = tensors.tensor(TENSOR).map_err(|error| damaged(error.to_string()))?;
        let precision = [Precision::F32, Precision::F16]
            .into_iter()
            .find(|precision| precision.dtype() == tensor.dtype())
            .ok_or_else(|| damaged(format!("its numbers are {}", tensor.dtype())))?;
        let [n, dim] = *tensor.shape() else {
            return Err(damaged(format!("its shape is {:?}, expected [n, dim]", tensor.shape())));
        };
        if !(1..=MAX_DIM).contains(&dim) || n > NodeId::MAX as usize {
            return Err(damaged(format!("its shape [{n}, {dim}] is out of range")));
        }
        let start = tensor.data().as_ptr().addr() - map.as_ptr().addr();
        let rows = start..start + tensor.data().len();
        Ok(VectorIndex { path: path.to_owned(), map, rows, n, dim, precision, embedder, checksum })
    }

    /// Number of rows; nodes are `0..n`.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Length of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// How numbers are stored.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Fingerprint of the model the vectors come from.
    pub fn embedder(&self) -> &str {
        &self.embedder
    }

    /// Checksum (BLAKE3, hexadecimal) of the vectors as recorded in the file.
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Reads all vectors and compares them with the checksum.
    ///
    /// # Errors
    /// [`VectorError::Damaged`].
    pub fn verify(&self) -> Result<(), VectorError> {
        let found = blake3::hash(self.bytes(0..self.n)).to_hex();
        if found.as_str() == self.checksum {
            return Ok(());
        }
        let reason = "its checksum does not match".to_owned();
        Err(VectorError::Damaged { path: self.path.clone(), reason })
    }

    /// The `k` nodes with the largest dot product with `query` (`[dim]`), best first.
    ///
    /// Ties go to the smaller node id; fewer than `k` come back when the index or the filter holds fewer.
    /// `filter` names the only nodes considered, strictly ascending. O((n + k) dim), or O(filter * dim).
    ///
    /// # Errors
    /// [`VectorError::Dimension`], [`VectorError::NotFinite`] for the query, [`VectorError::UnsortedFilter`],
    /// [`VectorError::UnknownNode`].
    pub fn top_k(
        &self,
        query: &[f32],
        k: usize,
        filter: Option<&[NodeId]>,
    ) -> Result<Vec<(NodeId, f32)>, VectorError> {
        self.check_query(query)?;
        let mut best: Vec<Hit> = match filter {
            None => (0..self.n)
                .into_par_iter()
                .step_by(BLOCK_ROWS)
                .flat_map_iter(|start| {
                    let nodes = start..self.n.min(start + BLOCK_ROWS);
                    self.best_of(query, k, nodes.map(|node| node as NodeId))
                })
                .collect(),
            Some(nodes) => {
                if let Some(pair) = nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
                    return Err(VectorError::UnsortedFilter { previous: pair[0], next: pair[1] });
                }
                self.check_node(nodes.last().copied())?;
                nodes
                    .par_chunks(BLOCK_ROWS)
                    .flat_map_iter(|nodes| self.best_of(query, k, nodes.iter().copied()))
                    .collect()
            }
        };
        if k < best.len() {
            best.select_nth_unstable(k);
            best.truncate(k);
        }
        best.sort_unstable();
        Ok(best.into_iter().map(|hit| (hit.node, hit.score)).collect())
    }

    /// Dot products of `query` (`[dim]`) with the rows of `nodes`, in the order given; any order, any number.
    ///
    /// # Errors
    /// [`VectorError::Dimension`], [`VectorError::NotFinite`] for the query, [`VectorError::UnknownNode`].
    pub fn score(&self, query: &[f32], nodes: &[NodeId]) -> Result<Vec<f32>, VectorError> {
        self.check_query(query)?;
        self.check_node(nodes.iter().copied().max())?;
        let chunks = nodes.par_chunks(BLOCK_ROWS).flat_map_iter(|nodes| {
            let mut buffer = self.buffer();
            nodes.iter().map(move |node| self.score_row(query, *node as usize, &mut buffer))
        });
        Ok(chunks.collect())
    }

    /// The vector of `node`, `[dim]`.
    ///
    /// # Errors
    /// [`VectorError::UnknownNode`].
    pub fn row(&self, node: NodeId) -> Result<Vec<f32>, VectorError> {
        self.check_node(Some(node))?;
        let bytes = self.bytes(node as usize..node as usize + 1);
        Ok(match self.precision {
            Precision::F32 => {
                bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            Precision::F16 => bytes
                .as_chunks()
                .0
                .iter()
                .map(|bytes| f16::from_le_bytes(*bytes).to_f32())
                .collect(),
        })
    }

    /// The best `k` of `nodes`, in no particular order.
    fn best_of(
        &self,
        query: &[f32],
        k: usize,
        nodes: impl ExactSizeIterator<Item = NodeId>,
    ) -> Vec<Hit> {
        if k == 0 {
            return Vec::new();
        }
        let mut buffer = self.buffer();
        // The worst of the best is on top, since hits are ordered best first.
        let mut best: BinaryHeap<Hit> = BinaryHeap::with_capacity(k.min(nodes.len()));
        for node in nodes {
            let score = self.score_row(query, node as usize, &mut buffer);
            let hit = Hit { score, node };
            if best.len() < k {
                best.push(hit);
            } else if let Some(mut worst) = best.peek_mut()
                && hit < *worst
            {
                *worst = hit;
            }
        }
        best.into_vec()
    }

    /// Room to decode a row of halves; unused for full precision.
    fn buffer(&self) -> Decoded {
        match self.precision {
            Precision::F32 => Decoded::default(),
            Precision::F16 => {
                Decoded { halves: vec![f16::ZERO; self.dim], row: vec![0.0; self.dim] }
            }
        }
    }

    fn score_row(&self, query: &[f32], row: usize, buffer: &mut Decoded) -> f32 {
        let bytes = self.bytes(row..row + 1);
        let score = match self.precision {
            Precision::F32 => dot_le(bytes.as_chunks().0, query),
            Precision::F16 => {
                for (half, bytes) in buffer.halves.iter_mut().zip(bytes.as_chunks().0) {
                    *half = f16::from_le_bytes(*bytes);
                }
                buffer.halves.convert_to_f32_slice(&mut buffer.row);
                dot(&buffer.row, query)
            }
        };
        // Turns -0 into 0, which compares as equal to it but sorts before it.
        score + 0.0
    }

    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        let row_bytes = self.dim * self.precision.bytes();
        let start = self.rows.start;
        &self.map[start + rows.start * row_bytes..start + rows.end * row_bytes]
    }

    fn check_query(&self, query: &[f32]) -> Result<(), VectorError> {
        if query.len() != self.dim {
            return Err(VectorError::Dimension { expected: self.dim, got: query.len() });
        }
        if !query.iter().all(|value| value.is_finite()) {
            return Err(VectorError::NotFinite { row: 0 });
        }
        Ok(())
    }

    fn check_node(&self, largest: Option<NodeId>) -> Result<(), VectorError> {
        match largest {
            Some(node) if node as usize >= self.n => {
                Err(VectorError::UnknownNode { node, n: self.n })
            }
            _ => Ok(()),
        }
    }
}

#[derive(Default)]
struct Decoded {
    halves: Vec<f16>,
    row: Vec<f32>,
}

/// A scored node; the smaller one is the better one.
#[derive(Clone, Copy)]
struct Hit {
    score: f32,
    node: NodeId,
}

impl Ord for Hit {
    fn cmp(&self, other: &Hit) -> Ordering {
        other.score.total_cmp(&self.score).then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Hit) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Hit) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

fn check_range(name: &'static str, got: u64, least: u64, most: u64) -> Result<(), VectorError> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(VectorError::OutOfRange { name, got, least, most })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn build(
        rows: &[Vec<f32>],
        dim: usize,
        precision: Precision,
    ) -> (tempfile::TempDir, VectorIndex) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vectors.safetensors");
        let mut writer = VectorWriter::create(&path, dim, precision, "model-7").unwrap();
        for block in rows.chunks(3) {
            writer.append(&Matrix::new(block.len(), dim, block.concat()).unwrap()).unwrap();
        }
        assert!(!path.exists(), "published too early");
        assert_eq!(writer.finish().unwrap(), rows.len() as u64);
        let index = VectorIndex::open(&path).unwrap();
        index.verify().unwrap();
        (folder, index)
    }

    fn naive(
        rows: &[Vec<f32>],
        query: &[f32],
        k: usize,
        filter: Option<&[NodeId]>,
    ) -> Vec<(NodeId, f32)> {
        let mut all: Vec<(NodeId, f32)> = (0..rows.len() as NodeId)
            .filter(|node| filter.is_none_or(|filter| filter.contains(node)))
            .map(|node| (node, rows[node as usize].iter().zip(query).map(|(a, b)| a * b).sum()))
            .collect();
        all.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        all.truncate(k);
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Small whole numbers make sums exact and ties frequent.
        #[test]
        fn top_k_equals_sorting_everything(
            rows in prop::collection::vec(prop::collection::vec((-2i8..=2).prop_map(f32::from), 3), 0..40),
            query in prop::collection::vec((-2i8..=2).prop_map(f32::from), 3),
            k in 0usize..50,
            kept in prop::collection::vec(any::<bool>(), 40),
            half in any::<bool>(),
        ) {
            let precision = if half { Precision::F16 } else { Precision::F32 };
            let (_folder, index) = build(&rows, 3, precision);
            let filter: Vec<NodeId> = (0..rows.len() as NodeId).filter(|i| kept[*i as usize]).collect();
            for filter in [None, Some(&filter[..])] {
                let expected = naive(&rows, &query, k, filter);
                prop_assert_eq!(index.top_k(&query, k, filter).unwrap(), expected);
            }
        }
    }

    fn wave(n: usize, dim: usize) -> Vec<Vec<f32>> {
        (0..n).map(|i| (0..dim).map(|j| ((i * 31 + j * 7) as f32 * 0.01).sin()).collect()).collect()
    }

    #[test]
    fn many_blocks_give_the_same_answer_on_one_thread_and_two() {
        let rows = wave(2 * BLOCK_ROWS + 100, 20);
        let (_folder, index) = build(&rows, 20, Precision::F32);
        let answer = |n_threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap();
            pool.install(|| index.top_k(&rows[77], 50, None).unwrap())
        };
        let (one, two) = (answer(1), answer(2));
        assert_eq!(one, two);
        let nodes: Vec<NodeId> = one.iter().map(|hit| hit.0).collect();
        let scores: Vec<f32> = one.iter().map(|hit| hit.1).collect();
        assert_eq!(index.score(&rows[77], &nodes).unwrap(), scores, "score and top_k agree");
        assert!(scores.is_sorted_by(|a, b| a >= b));
        assert_eq!(index.row(5000).unwrap(), rows[5000]);
    }

    #[test]
    fn half_precision_agrees_with_full_within_its_rounding() {
        let rows = wave(50, 33);
        let (_a, full) = build(&rows, 33, Precision::F32);
        let (_b, half) = build(&rows, 33, Precision::F16);
        let nodes: Vec<NodeId> = (0..50).rev().collect();
        let (full, half) = (full.score(&rows[3], &nodes), half.score(&rows[3], &nodes));
        for (full, half) in full.unwrap().iter().zip(half.unwrap()) {
            assert!((full - half).abs() < 33.0 * 5e-4, "{full} {half}");
        }
    }

    #[test]
    fn misuse_is_a_typed_error() {
        let (folder, index) = build(&wave(4, 2), 2, Precision::F32);
        assert_eq!((index.n(), index.dim(), index.embedder()), (4, 2, "model-7"));
        let error = index.top_k(&[1.0], 3, None).unwrap_err();
        assert!(error.to_string().starts_with("vector has 1 dimensions, the index expects 2"));
        let nan = index.score(&[f32::NAN, 0.0], &[]);
        assert!(matches!(nan, Err(VectorError::NotFinite { row: 0 })));
        let unsorted = index.top_k(&[1.0, 0.0], 3, Some(&[2, 2]));
        assert!(matches!(unsorted, Err(VectorError::UnsortedFilter { previous: 2, next: 2 })));
        let unknown = index.top_k(&[1.0, 0.0], 3, Some(&[2, 4]));
        assert!(matches!(unknown, Err(VectorError::UnknownNode { node: 4, n: 4 })));
        assert!(matches!(index.row(4), Err(VectorError::UnknownNode { .. })));
        let path = folder.path().join("other");
        let mut writer = VectorWriter::create(&path, 2, Precision::F16, "").unwrap();
        let error = writer.append(&Matrix::new(1, 2, vec![0.0, 1e5]).unwrap());
        assert!(matches!(error, Err(VectorError::NotFinite { row: 0 })));
        let error = writer.append(&Matrix::zeros(1, 3).unwrap());
        assert!(matches!(error, Err(VectorError::Dimension { expected: 2, got: 3 })));
        drop(writer);
        assert!(!path.exists());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no leftovers");
        let error = VectorWriter::create(&path, 0, Precision::F32, "").err().unwrap();
        assert_eq!(error.to_string(), "length of a vector is 0, possible are 1 to 16384");
        let long = "x".repeat(MAX_FINGERPRINT_BYTES + 1);
        assert!(VectorWriter::create(&path, 2, Precision::F32, &long).is_err());
    }

    #[test]
    fn truncated_or_altered_files_are_refused() {
        let (folder, index) = build(&wave(10, 5), 5, Precision::F32);
        drop(index);
        let path = folder.path().join("vectors.safetensors");
        let good = std::fs::read(&path).unwrap();
        for end in [0, 7, 8, 100, HEADER_BYTES - 1, HEADER_BYTES, good.len() - 1] {
            std::fs::write(&path, &good[..end]).unwrap();
            assert!(matches!(VectorIndex::open(&path), Err(VectorError::Damaged { .. })), "{end}");
        }
        let mut bad = good.clone();
        bad[HEADER_BYTES + 17] ^= 1;
        std::fs::write(&path, &bad).unwrap();
        let index = VectorIndex::open(&path).unwrap();
        assert!(matches!(index.verify(), Err(VectorError::Damaged { .. })));
        std::fs::write(&path, b"not a tensor file at all").unwrap();
        assert!(matches!(VectorIndex::open(&path), Err(VectorError::Damaged { .. })));
        let none = VectorIndex::open(&folder.path().join("none"));
        assert!(matches!(none, Err(VectorError::Io { .. })));
    }

    #[test]
    fn an_empty_index_answers_with_nothing() {
        let (_folder, index) = build(&[], 4, Precision::F16);
        assert_eq!(index.top_k(&[0.0; 4], 5, None).unwrap(), []);
        assert_eq!(index.top_k(&[0.0; 4], 5, Some(&[])).unwrap(), []);
        assert!(index.score(&[0.0; 4], &[]).unwrap().is_empty());
    }
}
