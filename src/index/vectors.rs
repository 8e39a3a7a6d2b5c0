//! The vectors of all nodes: one `[n, dim]` matrix in a file, with exact search by dot product. Row
//! `i` belongs to node `i`.
//!
//! A score is the dot product of query and row in `f32`, summed in a fixed order; results are
//! ordered by score descending, then node id ascending. Most rows are excluded without computing
//! their score: codes of one byte per number, a quarter of the size, give a proven upper bound on
//! the score (`quantized.rs`). Scores are computed only for rows whose bound reaches the `k`-th
//! best score so far (`search.rs`). So the result equals that of scoring every row, bit for bit, on
//! any processor and any number of threads.
//!
//! # File
//! A safetensors file. Its header is padded with spaces to [`HEADER_BYTES`], so that rows can be
//! streamed after it before their number is known. Tensors, in this order, all but `padding` at
//! multiples of 64 bytes:
//!
//! | name | type | shape | content |
//! | --- | --- | --- | --- |
//! | `vectors` | F32 or F16 | `[n, dim]` | the rows |
//! | `padding` | U8 | `[0..64]` | zeros |
//! | `centre` | F32 | `[dim]`, padded to a multiple of 16 | mean of the rows, then zeros |
//! | `codes` | U8 | `[n / 64, 64 (stride + 12)]` | blocks of 64 coded rows; `stride` is `dim` padded to a multiple of 64 |
//!
//! Metadata: `format` (this version writes `2`), `embedder` (fingerprint of the model, empty if
//! none), `checksum` and `codes` (BLAKE3 of rows and of codes). Files are written to a temporary
//! name in the same directory and renamed. Opening checks the header against the length of the file
//! in constant time; [`VectorIndex::verify`] reads the whole file.

mod device;
mod kernels;
mod quantized;
mod search;
mod write;

use std::cmp::Reverse;
use std::ops::Range;
use std::path::{Path, PathBuf};

use half::f16;
use half::slice::HalfFloatSliceExt;
use memmap2::Mmap;
use rayon::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use self::device::DeviceSearch;
use self::kernels::BLOCK;
use self::quantized::{Block, Space, block_bytes};
pub use self::write::VectorWriter;
use agent_embed::{
    gpu::GpuError,
    matrix::{Matrix, dot, dot_le},
};
use agent_ground::files;
use agent_kb::{NodeId, Ranking};

/// Length of the header, in bytes; a multiple of 64, so that the rows are aligned.
pub const HEADER_BYTES: usize = 2048;
/// Maximum number of values in a row; more than any known text embedding has.
pub const MAX_DIM: usize = 16_384;
/// Maximum length in bytes of an embedder's fingerprint; limited because the header has a fixed
/// size.
pub const MAX_FINGERPRINT_BYTES: usize = 256;

/// The version of the file format that this program writes and reads.
const FORMAT: &str = "2";
/// Name of the tensor of rows.
const TENSOR: &str = "vectors";
/// Name of the tensor of zeros that aligns the tensors after it.
const PADDING: &str = "padding";
/// Name of the tensor with the centre of the rows.
const CENTRE: &str = "centre";
/// Name of the tensor of coded rows.
const CODES: &str = "codes";
/// Number of rows that one thread scores at a time.
const BLOCK_ROWS: usize = 4096;

/// Storage format of the numbers of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 4 bytes per number, exact.
    F32,
    /// 2 bytes per number, 11 significant bits: relative error below 5e-4.
    F16,
}

impl Precision {
    fn bytes(self) -> usize {
        self.dtype().bitsize() / 8
    }

    fn dtype(self) -> Dtype {
        match self {
            Precision::F32 => Dtype::F32,
            Precision::F16 => Dtype::F16,
        }
    }
}

/// Result of writing, opening or searching vectors.
pub type Result<T, E = VectorError> = std::result::Result<T, E>;

/// Why vectors could not be written, opened or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The file could not be read or written.
    #[error("cannot access vector file {}: {source}{}", path.display(), files::remedy(source))]
    Io {
        /// Path of the file that was read or written.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is truncated, altered or not a vector file.
    #[error("vector file {} is damaged ({reason}); build it again with `agent index --force`", path.display())]
    Damaged {
        /// Path of the damaged file.
        path: PathBuf,
        /// The first check that failed.
        reason: String,
    },
    /// The length of a vector, or of the rows of a matrix, differs from that of the file's rows.
    #[error(
        "vector has {got} dimensions, the index expects {expected}; use the embedder that built it"
    )]
    Dimension {
        /// Length of the rows of the file.
        expected: usize,
        /// Length of the vector, or of the rows of the matrix.
        got: usize,
    },
    /// A number is NaN or infinite, or does not fit the precision of the file.
    #[error(
        "row {row} of the vectors holds a number that is not finite in the precision of the index"
    )]
    NotFinite {
        /// Row of the number, which is the id of its node; 0 for a query.
        row: u64,
    },
    /// The file has no row for a node.
    #[error("node {node} has no vector; the index holds nodes below {n}")]
    UnknownNode {
        /// The node without a row.
        node: NodeId,
        /// Number of rows.
        n: usize,
    },
    /// A filter is not strictly ascending.
    #[error(
        "filter must list node ids in ascending order without duplicates, but {next} follows \
         {previous}"
    )]
    UnsortedFilter {
        /// The id that precedes `next` in the filter.
        previous: NodeId,
        /// The id that is not above `previous`.
        next: NodeId,
    },
    /// Search on the CUDA device failed.
    #[error(transparent)]
    Gpu(#[from] GpuError),
    /// A parameter of the writer, or the number of rows, is out of range.
    #[error("{name} is {got}; it must be {min} to {max}")]
    OutOfRange {
        /// Name of the value that is out of range.
        name: &'static str,
        /// The value.
        got: u64,
        /// Smallest allowed value.
        min: u64,
        /// Largest allowed value.
        max: u64,
    },
}

/// An open vector file, memory-mapped; cheap to share between threads.
pub struct VectorIndex {
    path: PathBuf,
    map: Mmap,
    rows: Range<usize>,
    codes: Range<usize>,
    n: usize,
    dim: usize,
    precision: Precision,
    space: Space,
    embedder: String,
    checksum: String,
    codes_checksum: String,
    device: DeviceSearch,
}

impl VectorIndex {
    /// Opens a file written by [`VectorWriter`]; the file is mapped, not read. Constant time.
    ///
    /// # Errors
    /// [`VectorError::Io`]; [`VectorError::Damaged`] if the header is malformed or does not match
    /// the length of the file.
    pub fn open(path: &Path) -> Result<VectorIndex> {
        let failed = |source| VectorError::Io { path: path.to_owned(), source };
        let damaged = |reason: String| VectorError::Damaged { path: path.to_owned(), reason };
        let file = files::open(path).map_err(failed)?;
        // SAFETY: vector files are published by rename and never written in place afterwards, so
        // the mapped bytes do not change while they are borrowed.
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
        let tensors = SafeTensors::deserialize(&map).map_err(|error| damaged(error.to_string()))?;
        let tensor = |name: &str| tensors.tensor(name).map_err(|error| damaged(error.to_string()));
        let place = |tensor: &TensorView<'_>| {
            let start = tensor.data().as_ptr().addr() - map.as_ptr().addr();
            start..start + tensor.data().len()
        };
        let rows = tensor(TENSOR)?;
        let precision = [Precision::F32, Precision::F16]
            .into_iter()
            .find(|precision| precision.dtype() == rows.dtype())
            .ok_or_else(|| damaged(format!("its numbers are {}", rows.dtype())))?;
        let [n, dim] = *rows.shape() else {
            return Err(damaged(format!("its shape is {:?}, expected [n, dim]", rows.shape())));
        };
        if !(1..=MAX_DIM).contains(&dim) || n > NodeId::MAX as usize {
            return Err(damaged(format!("its shape [{n}, {dim}] is out of range")));
        }
        let (centre, codes) = (tensor(CENTRE)?, tensor(CODES)?);
        if centre.dtype() != Dtype::F32 || centre.data().len() < dim * size_of::<f32>() {
            return Err(damaged("its centre does not match its rows".to_owned()));
        }
        let expected = n.div_ceil(BLOCK) * block_bytes(quantized::stride(dim));
        if codes.dtype() != Dtype::U8 || codes.data().len() != expected {
            return Err(damaged("its codes do not match its rows".to_owned()));
        }
        let centre = &centre.data()[..dim * size_of::<f32>()];
        Ok(VectorIndex {
            path: path.to_owned(),
            rows: place(&rows),
            codes: place(&codes),
            n,
            dim,
            precision,
            space: Space::new(decode(centre, Precision::F32)),
            embedder: text("embedder")?,
            checksum: text("checksum")?,
            codes_checksum: text("codes")?,
            device: DeviceSearch::default(),
            map,
        })
    }

    /// Number of rows; the rows belong to the nodes `0..n`.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Number of values in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Fingerprint of the embedder that made the vectors; empty if there is none.
    pub fn embedder(&self) -> &str {
        &self.embedder
    }

    /// Checksum of the rows (BLAKE3, hexadecimal), as recorded in the file.
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Reads all rows and codes and compares them with their recorded checksums.
    ///
    /// # Errors
    /// [`VectorError::Damaged`] if a checksum differs.
    pub fn verify(&self) -> Result<()> {
        let parts = [
            (self.bytes(0..self.n), &self.checksum, "rows"),
            (&self.map[self.codes.clone()], &self.codes_checksum, "codes"),
        ];
        for (bytes, expected, part) in parts {
            if blake3::hash(bytes).to_hex().as_str() != expected {
                let reason = format!("its {part} do not match their checksum");
                return Err(VectorError::Damaged { path: self.path.clone(), reason });
            }
        }
        Ok(())
    }

    /// Returns the `k` nodes whose rows have the largest dot product with `query` (`[dim]`), with
    /// these products, best first, ties by ascending id.
    ///
    /// `filter`, strictly ascending, restricts the search to these nodes. Returns fewer than `k`
    /// nodes if the file or the filter has fewer. O(n dim), or O(filter dim); uses all threads.
    ///
    /// # Errors
    /// [`VectorError::Dimension`] or [`VectorError::NotFinite`] for the query;
    /// [`VectorError::UnsortedFilter`] or [`VectorError::UnknownNode`] for the filter;
    /// [`VectorError::Gpu`].
    pub fn top_k(&self, query: &[f32], k: usize, filter: Option<&[NodeId]>) -> Result<Ranking> {
        Ok(self.search(&[query], k, filter)?.pop().unwrap_or_default())
    }

    /// Returns the result of [`top_k`](Self::top_k) for each row of `queries` (`[n_queries, dim]`),
    /// in their order. The rows of the file are read once for every 256 queries. Memory in addition
    /// to the results: the codes and waiting rows of 256 queries.
    ///
    /// # Errors
    /// As [`top_k`](Self::top_k).
    pub fn top_k_batch(
        &self,
        queries: &Matrix,
        k: usize,
        filter: Option<&[NodeId]>,
    ) -> Result<Vec<Ranking>> {
        let rows: Vec<&[f32]> = (0..queries.rows()).filter_map(|row| queries.row(row)).collect();
        self.search(&rows, k, filter)
    }

    /// Returns the dot product of `query` (`[dim]`) with the row of each of `nodes`, in the given
    /// order. Nodes may be in any order and repeated.
    ///
    /// A product that overflows is infinite; a sum of infinities of both signs is negative
    /// infinity.
    ///
    /// # Errors
    /// [`VectorError::Dimension`] or [`VectorError::NotFinite`] for the query,
    /// [`VectorError::UnknownNode`].
    pub fn score(&self, query: &[f32], nodes: &[NodeId]) -> Result<Vec<f32>> {
        self.check_query(query)?;
        self.check_node(nodes.iter().copied().max())?;
        let chunks = nodes.par_chunks(BLOCK_ROWS).flat_map_iter(|nodes| {
            let mut buffer = self.buffer();
            nodes.iter().map(move |node| self.score_row(query, *node as usize, &mut buffer))
        });
        Ok(chunks.collect())
    }

    /// Returns the vector of `node`, `[dim]`, decoded to `f32`.
    ///
    /// # Errors
    /// [`VectorError::UnknownNode`].
    pub fn row(&self, node: NodeId) -> Result<Vec<f32>> {
        self.check_node(Some(node))?;
        Ok(decode(self.bytes(node as usize..node as usize + 1), self.precision))
    }

    /// Creates a buffer for decoding rows of 16-bit floats; empty for rows of 32-bit floats.
    fn buffer(&self) -> DecodeBuffer {
        match self.precision {
            Precision::F32 => DecodeBuffer::default(),
            Precision::F16 => {
                DecodeBuffer { halves: vec![f16::ZERO; self.dim], row: vec![0.0; self.dim] }
            }
        }
    }

    fn score_row(&self, query: &[f32], row: usize, buffer: &mut DecodeBuffer) -> f32 {
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
        if score.is_nan() {
            // The sum has infinities of both signs; the resulting NaN differs by processor.
            return f32::NEG_INFINITY;
        }
        // Turns -0 into 0. The two are equal, but a total order distinguishes them.
        score + 0.0
    }

    /// Returns the coded block of rows `64 at .. 64 (at + 1)`.
    fn block(&self, at: usize) -> Block<'_> {
        let len = block_bytes(self.space.stride());
        Block::new(&self.map[self.codes.start + at * len..][..len], self.space.stride())
    }

    fn bytes(&self, rows: Range<usize>) -> &[u8] {
        let row_bytes = self.dim * self.precision.bytes();
        let start = self.rows.start;
        &self.map[start + rows.start * row_bytes..start + rows.end * row_bytes]
    }

    fn check_query(&self, query: &[f32]) -> Result<()> {
        if query.len() != self.dim {
            return Err(VectorError::Dimension { expected: self.dim, got: query.len() });
        }
        if !query.iter().all(|value| value.is_finite()) {
            return Err(VectorError::NotFinite { row: 0 });
        }
        Ok(())
    }

    fn check_node(&self, largest: Option<NodeId>) -> Result<()> {
        match largest {
            Some(node) if node as usize >= self.n => {
                Err(VectorError::UnknownNode { node, n: self.n })
            }
            _ => Ok(()),
        }
    }
}

#[derive(Default)]
struct DecodeBuffer {
    halves: Vec<f16>,
    row: Vec<f32>,
}

/// A score in the total order of [`f32::total_cmp`], NaN included; stored as bits that, compared as
/// integers, have this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score(u32);

impl Score {
    pub(crate) fn new(number: f32) -> Score {
        let bits = number.to_bits();
        Score(if bits >> 31 == 0 { bits | 1 << 31 } else { !bits })
    }

    pub(crate) fn number(self) -> f32 {
        f32::from_bits(if self.0 >> 31 == 1 { self.0 & !(1 << 31) } else { !self.0 })
    }
}

/// A scored node. The order is best first: of two hits the smaller is the better one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hit {
    score: Reverse<Score>,
    node: NodeId,
}

impl Hit {
    fn new(score: f32, node: NodeId) -> Hit {
        Hit { score: Reverse(Score::new(score)), node }
    }

    fn score(&self) -> f32 {
        self.score.0.number()
    }
}

/// Decodes numbers that are stored in a file with the given precision, little-endian.
fn decode(bytes: &[u8], precision: Precision) -> Vec<f32> {
    match precision {
        Precision::F32 => {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        Precision::F16 => {
            bytes.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect()
        }
    }
}

fn check_range(name: &'static str, got: u64, min: u64, max: u64) -> Result<()> {
    if (min..=max).contains(&got) {
        return Ok(());
    }
    Err(VectorError::OutOfRange { name, got, min, max })
}

#[cfg(test)]
mod tests;
