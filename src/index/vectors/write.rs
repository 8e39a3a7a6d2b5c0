//! Writes vector files. Rows are streamed to the file; their codes follow when all rows are known.

use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::f16;
use rayon::prelude::*;
use tempfile::NamedTempFile;

use super::{
    CENTRE, CODES, FORMAT, HEADER_BYTES, MAX_DIM, MAX_FINGERPRINT_BYTES, PADDING, Precision,
    Result, TENSOR, VectorError, check_range, decode,
    kernels::BLOCK,
    quantized::{Space, block_bytes},
};
use agent_embed::matrix::Matrix;
use agent_ground::files;
use agent_kb::NodeId;

/// Alignment of tensors in the file, in bytes, so that registers and tiles cross no cache lines.
pub(super) const ALIGNMENT: usize = 64;
/// Number of blocks that are coded in parallel before they are written.
const CODED_BLOCKS: usize = 64;

/// Writes a vector file, block of rows by block of rows.
///
/// Only [`finish`](VectorWriter::finish) creates the file at its path; a dropped writer leaves no
/// files. Memory: one block of rows while appending; 64 blocks of 64 rows with their codes while
/// finishing.
pub struct VectorWriter {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    dim: usize,
    precision: Precision,
    embedder: String,
    n_rows: u64,
    /// Sum of all rows so far, `[dim]`.
    sum: Vec<f64>,
    hasher: blake3::Hasher,
}

impl VectorWriter {
    /// Starts a file of rows of `dim` numbers, to be published at `path`. `embedder` is the
    /// fingerprint of the embedder that makes the vectors, empty if there is none.
    ///
    /// # Errors
    /// [`VectorError::OutOfRange`] if `dim` is not in `1..=`[`MAX_DIM`] or the fingerprint is too
    /// long, [`VectorError::Io`].
    pub fn create(
        path: &Path,
        dim: usize,
        precision: Precision,
        embedder: &str,
    ) -> Result<VectorWriter> {
        check_range("length of a vector", dim as u64, 1, MAX_DIM as u64)?;
        let most = MAX_FINGERPRINT_BYTES as u64;
        check_range("length of the fingerprint", embedder.len() as u64, 0, most)?;
        let failed = |source| VectorError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let file =
            files::temporary_file(folder.unwrap_or(Path::new(".")), ".vectors-").map_err(failed)?;
        let mut file = BufWriter::new(file);
        file.write_all(&[b' '; HEADER_BYTES]).map_err(failed)?;
        Ok(VectorWriter {
            path: path.to_owned(),
            file,
            dim,
            precision,
            embedder: embedder.to_owned(),
            n_rows: 0,
            sum: vec![0.0; dim],
            hasher: blake3::Hasher::new(),
        })
    }

    /// Appends the rows of the next nodes, in node order.
    ///
    /// # Errors
    /// [`VectorError::Dimension`] or [`VectorError::NotFinite`], with nothing appended;
    /// [`VectorError::OutOfRange`] if there are more rows than node ids; [`VectorError::Io`].
    pub fn append(&mut self, rows: &Matrix) -> Result<()> {
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
        for row in rows.data().chunks_exact(self.dim) {
            for (sum, value) in self.sum.iter_mut().zip(row) {
                *sum += f64::from(*value);
            }
        }
        self.hasher.update(&bytes);
        self.n_rows = n_rows;
        self.write(&bytes)
    }

    /// Codes all rows, completes the file and publishes it at its path atomically; returns the
    /// number of rows. O(n dim log dim).
    ///
    /// # Errors
    /// [`VectorError::Io`]; a file that was at the path is then unchanged.
    pub fn finish(mut self) -> Result<u64> {
        let path = self.path.clone();
        let failed = |source| VectorError::Io { path: path.clone(), source };
        let (n, dim) = (self.n_rows, self.dim as u64);
        let rows = n * dim * self.precision.bytes() as u64;
        let padding = rows.next_multiple_of(ALIGNMENT as u64) - rows;
        let mean = self.sum.iter().map(|sum| (sum / n.max(1) as f64) as f32);
        let mut centre: Vec<u8> = mean.flat_map(f32::to_le_bytes).collect();
        let space = Space::new(decode(&centre, Precision::F32));
        centre.resize(centre.len().next_multiple_of(ALIGNMENT), 0);
        let n_blocks = n.div_ceil(BLOCK as u64);
        let shapes: [(&str, String, Vec<u64>, u64); 4] = [
            (TENSOR, self.precision.dtype().to_string(), vec![n, dim], rows),
            (PADDING, "U8".to_owned(), vec![padding], padding),
            (CENTRE, "F32".to_owned(), vec![centre.len() as u64 / 4], centre.len() as u64),
            (
                CODES,
                "U8".to_owned(),
                vec![n_blocks, block_bytes(space.stride()) as u64],
                n_blocks * block_bytes(space.stride()) as u64,
            ),
        ];
        self.write(&vec![0; padding as usize])?;
        self.write(&centre)?;
        let derived = self.write_codes(&space, rows as usize)?;
        let mut header = serde_json::json!({
            "__metadata__": {
                "format": FORMAT,
                "embedder": self.embedder,
                "checksum": self.hasher.finalize().to_hex().as_str(),
                "codes": derived.to_hex().as_str(),
            },
        });
        let mut start = 0;
        for (name, dtype, shape, len) in shapes {
            header[name] = serde_json::json!({
                "dtype": dtype,
                "shape": shape,
                "data_offsets": [start, start + len],
            });
            start += len;
        }
        let mut header = header.to_string().into_bytes();
        check_range("length of the header", header.len() as u64, 0, HEADER_BYTES as u64 - 8)?;
        header.resize(HEADER_BYTES - 8, b' ');
        let mut file = self.file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
        file.write_all(&header).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(n)
    }

    /// Appends the codes of all rows to the file. The rows are the `len` bytes after the header.
    /// Returns the checksum of the codes.
    fn write_codes(&mut self, space: &Space, len: usize) -> Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        if len == 0 {
            return Ok(hasher.finalize());
        }
        let path = self.path.clone();
        let failed = |source| VectorError::Io { path: path.clone(), source };
        self.file.flush().map_err(failed)?;
        // Read, not mapped: a map would keep all rows in memory.
        let mut file = self.file.get_ref().reopen().map_err(failed)?;
        file.seek(SeekFrom::Start(HEADER_BYTES as u64)).map_err(failed)?;
        let row_bytes = self.dim * self.precision.bytes();
        let (mut left, most) = (len, CODED_BLOCKS * BLOCK * row_bytes);
        let mut rows = vec![0; left.min(most)];
        while left > 0 {
            rows.truncate(left);
            file.read_exact(&mut rows).map_err(failed)?;
            left -= rows.len();
            let blocks = rows.par_chunks(BLOCK * row_bytes);
            let coded: Vec<Vec<u8>> =
                blocks.map(|rows| space.code_rows(&decode(rows, self.precision))).collect();
            for block in coded {
                hasher.update(&block);
                self.write(&block)?;
            }
        }
        Ok(hasher.finalize())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let path = &self.path;
        self.file.write_all(bytes).map_err(|source| VectorError::Io { path: path.clone(), source })
    }
}
