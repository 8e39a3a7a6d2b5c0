//! Exact top-k search on a CUDA device: finds, for each query, the rows with the largest dot
//! products (scores).
//!
//! Rows are stored as 16-bit floats. For a few queries, one kernel scores row by row and selects
//! the best of each 1,024 rows. For many queries, a matrix product scores one block of rows at a
//! time, so that the full table of scores is never stored. The best rows of all blocks are then
//! merged into one list per query.
//!
//! Scores are computed from the 16-bit rows. [`TopK::error_bound`] bounds their difference from the
//! scores of the original rows, so that a caller who computes exact scores of the results can
//! detect whether any row may be missing.

use std::sync::Arc;

use cudarc::{
    cublas::sys::{
        cublasComputeType_t::CUBLAS_COMPUTE_32F,
        cublasGemmAlgo_t::CUBLAS_GEMM_DFALT,
        cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T},
        cudaDataType_t::{CUDA_R_16F, CUDA_R_32F},
    },
    driver::{CudaSlice, DevicePtr, DevicePtrMut, PushKernelArg},
};
use half::f16;

use crate::gpu::{Device, DeviceContext, GpuError, MAX_WIDTH, Result, grid};

/// Names of the kernels that this module calls.
#[cfg(test)]
pub(super) const KERNELS: &[&str] = &["score_rows", "select_rows", "select_pairs"];
/// Maximum number of rows to return per query: half of the rows that one block of threads sorts, so
/// that each step of merging at least halves the number of lists.
pub const MAX_K: usize = 512;
/// Number of rows that one block of threads sorts; must match `kernels.cu`.
const SORT_ROWS: usize = 1_024;
/// Number of threads of a block that sorts; must match `kernels.cu`.
const SORT_THREADS: u32 = 256;
/// Minimum number of queries for which a matrix product is faster than scoring row by row.
const PRODUCT_QUERIES: usize = 8;
/// Number of rows scored by one matrix product; with 256 queries, the scores take 64 MiB.
const PRODUCT_ROWS: usize = 65_536;
/// Maximum number of queries processed at a time.
const MAX_QUERIES: usize = 256;
/// Number of rows copied to the device at a time.
const UPLOAD_ROWS: usize = 65_536;

/// A matrix whose rows are on a CUDA device, ready to be searched.
pub struct TopK {
    device: Arc<Device>,
    rows: CudaSlice<f16>,
    n: usize,
    dim: usize,
    /// Maximum Euclidean norm of a row.
    norm: f32,
}

/// Lists of the best rows, with their scores, on the device. Each query has `lists` lists of `k`
/// rows: the arrays have the shape `[queries, lists, k]`.
struct Lists {
    scores: CudaSlice<f32>,
    rows: CudaSlice<u32>,
    lists: usize,
}

impl TopK {
    /// Copies a matrix to the device; `numbers` holds its rows of `dim` numbers each.
    ///
    /// # Errors
    /// [`GpuError::Shape`] if `dim` is 0 or above [`MAX_WIDTH`], `numbers` is not a whole number of
    /// rows, or there are 2^32 rows or more; [`GpuError::Device`] if the device fails, for example
    /// because its memory is too small.
    pub fn new(device: Arc<Device>, numbers: &[f32], dim: usize) -> Result<TopK> {
        if dim == 0 || dim > MAX_WIDTH {
            return Err(GpuError::shape("a row", dim, format!("1 to {MAX_WIDTH} numbers")));
        }
        if !numbers.len().is_multiple_of(dim) {
            return Err(GpuError::shape("a matrix", numbers.len(), format!("a multiple of {dim}")));
        }
        let n = numbers.len() / dim;
        if u32::try_from(n).is_err() {
            return Err(GpuError::shape("a matrix", n, "fewer than 2^32 rows"));
        }
        let copying = "copying vectors to it";
        let mut rows = device.stream.alloc_zeros::<f16>(numbers.len().max(1)).doing(copying)?;
        let mut square = 0.0f32;
        for (at, block) in numbers.chunks(UPLOAD_ROWS * dim).enumerate() {
            for row in block.chunks(dim) {
                square = square.max(row.iter().map(|number| number * number).sum());
            }
            let narrow: Vec<f16> = block.iter().copied().map(f16::from_f32).collect();
            let first = at * UPLOAD_ROWS * dim;
            let mut part = rows.slice_mut(first..first + narrow.len());
            device.stream.memcpy_htod(&narrow, &mut part).doing(copying)?;
        }
        Ok(TopK { device, rows, n, dim, norm: square.sqrt() })
    }

    /// Returns an upper bound on the difference between a score that [`search`](Self::search)
    /// returns for `query` and the 32-bit dot product of the original row and `query`; infinite if
    /// a norm is beyond the range of a 16-bit float.
    ///
    /// Rounding to 11 significant bits changes a number by at most 2^-11 of itself. So it changes a
    /// product of two numbers by slightly more than 2^-10 of the product. By Cauchy-Schwarz, it
    /// changes a sum of such products by the same share of the product of the norms. Numbers below
    /// 2^-14 are off by at most 2^-25. Each of the two 32-bit sums adds an error of `dim` times
    /// 2^-24.
    pub fn error_bound(&self, query: &[f32]) -> f32 {
        let norm = query.iter().map(|number| number * number).sum::<f32>().sqrt();
        if norm.max(self.norm) > f16::MAX.to_f32() {
            return f32::INFINITY;
        }
        let relative = 1.001 * 2f32.powi(-10) + self.dim as f32 * 2f32.powi(-23);
        let tiny = (self.dim as f32).sqrt() * 2f32.powi(-25) * (norm + self.norm);
        relative * norm * self.norm + tiny
    }

    /// Finds, for each query of `queries` (`[n, dim]`), the `k` rows with the highest scores, or
    /// all rows if there are fewer. Returns pairs of row number and score, by score descending,
    /// then row number ascending.
    ///
    /// # Errors
    /// [`GpuError::Shape`] if `k` is above [`MAX_K`] or `queries` is not a whole number of rows;
    /// [`GpuError::Device`] if the device fails.
    pub fn search(&self, queries: &[f32], k: usize) -> Result<Vec<Vec<(u32, f32)>>> {
        if k > MAX_K {
            return Err(GpuError::shape("k", k, format!("at most {MAX_K}")));
        }
        if !queries.len().is_multiple_of(self.dim) {
            let expected = format!("a multiple of {}", self.dim);
            return Err(GpuError::shape("queries", queries.len(), expected));
        }
        if k == 0 || self.n == 0 {
            return Ok(vec![Vec::new(); queries.len() / self.dim]);
        }
        let mut found = Vec::with_capacity(queries.len() / self.dim);
        for some in queries.chunks(MAX_QUERIES * self.dim) {
            let n = some.len() / self.dim;
            let lists = if n < PRODUCT_QUERIES {
                self.score_each(some, n, k)?
            } else {
                self.score_blocks(some, n, k)?
            };
            found.extend(self.fetch(self.join(lists, n, k)?, n, k)?);
        }
        Ok(found)
    }

    /// Scores all rows for a few queries, row by row; returns, for each query, one list of the `k`
    /// best rows per [`SORT_ROWS`] rows.
    fn score_each(&self, queries: &[f32], n_queries: usize, k: usize) -> Result<Lists> {
        let stream = &self.device.stream;
        let queries = stream.clone_htod(queries).doing("copying queries to it")?;
        let mut best = self.lists(n_queries, self.n.div_ceil(SORT_ROWS), k)?;
        let kernel = self.device.kernel("score_rows")?;
        let (n, dim, k) = (self.n as u32, self.dim as i32, k as i32);
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&self.rows).arg(&queries).arg(&n).arg(&dim).arg(&k);
        launch.arg(&mut best.scores).arg(&mut best.rows);
        // SAFETY: arguments are those of the kernel; it reads rows[n, dim] and queries[n_queries,
        // dim], and writes the allocated [n_queries, lists, k].
        unsafe { launch.launch(grid(best.lists, n_queries, SORT_THREADS)?) }
            .doing("scoring rows")?;
        Ok(best)
    }

    /// Scores all rows for many queries by matrix products, block by block; returns, for each
    /// query, one list of its `k` best rows.
    fn score_blocks(&self, queries: &[f32], n_queries: usize, k: usize) -> Result<Lists> {
        let stream = &self.device.stream;
        let narrow: Vec<f16> = queries.iter().copied().map(f16::from_f32).collect();
        let narrow = stream.clone_htod(&narrow).doing("copying queries to it")?;
        let block = PRODUCT_ROWS.min(self.n);
        let mut scores =
            stream.alloc_zeros::<f32>(block * n_queries).doing("making room for scores")?;
        let kernel = self.device.kernel("select_rows")?;
        let mut joined: Option<Lists> = None;
        for first in (0..self.n).step_by(block) {
            let n = block.min(self.n - first);
            self.product(&narrow, n_queries, first, n, &mut scores)?;
            let mut best = self.lists(n_queries, n.div_ceil(SORT_ROWS), k)?;
            let (columns, from, most) = (n as u32, first as u32, k as i32);
            let mut launch = stream.launch_builder(&kernel);
            launch.arg(&scores).arg(&columns).arg(&from).arg(&most);
            launch.arg(&mut best.scores).arg(&mut best.rows);
            // SAFETY: arguments are those of the kernel; it reads scores[n_queries, n] and writes
            // the allocated [n_queries, lists, k].
            unsafe { launch.launch(grid(best.lists, n_queries, SORT_THREADS)?) }
                .doing("choosing the best rows")?;
            let best = self.join(best, n_queries, k)?;
            joined = Some(match joined {
                None => best,
                Some(before) => {
                    self.join(self.side_by_side(&before, &best, n_queries, k)?, n_queries, k)?
                }
            });
        }
        joined.map_or_else(|| self.lists(n_queries, 1, k), Ok)
    }

    /// Computes the scores of `n` rows from row `first`: `scores[q, r] = queries[q] . rows[first +
    /// r]` for `r < n`.
    fn product(
        &self,
        queries: &CudaSlice<f16>,
        n_queries: usize,
        first: usize,
        n: usize,
        scores: &mut CudaSlice<f32>,
    ) -> Result<()> {
        let stream = &self.device.stream;
        let rows = self.rows.slice(first * self.dim..(first + n) * self.dim);
        let (rows, _rows) = rows.device_ptr(stream);
        let (queries, _queries) = queries.device_ptr(stream);
        let (scores, _scores) = scores.device_ptr_mut(stream);
        let (one, zero) = (1.0f32, 0.0f32);
        let dim = self.dim as i32;
        // SAFETY: cuBLAS is column-major: rows are a `dim` by n matrix to be transposed, queries
        // are `dim` by n_queries, and scores n by n_queries; all lie within their slices.
        unsafe {
            cudarc::cublas::result::gemm_ex(
                *self.device.blas.handle(),
                CUBLAS_OP_T,
                CUBLAS_OP_N,
                n as i32,
                n_queries as i32,
                dim,
                (&raw const one).cast(),
                rows as *const _,
                CUDA_R_16F,
                dim,
                queries as *const _,
                CUDA_R_16F,
                dim,
                (&raw const zero).cast(),
                scores as *mut _,
                CUDA_R_32F,
                n as i32,
                CUBLAS_COMPUTE_32F,
                CUBLAS_GEMM_DFALT,
            )
        }
        .doing("multiplying rows and queries")
    }

    fn lists(&self, n_queries: usize, lists: usize, k: usize) -> Result<Lists> {
        let stream = &self.device.stream;
        let n = n_queries * lists * k;
        Ok(Lists {
            scores: stream.alloc_zeros(n).doing("making room for rankings")?,
            rows: stream.alloc_zeros(n).doing("making room for rankings")?,
            lists,
        })
    }

    /// Joins, for each query, its list in `a` and its list in `b`, in this order.
    fn side_by_side(&self, a: &Lists, b: &Lists, n_queries: usize, k: usize) -> Result<Lists> {
        let stream = &self.device.stream;
        let mut both = self.lists(n_queries, 2, k)?;
        for query in 0..n_queries {
            let from = query * k..(query + 1) * k;
            for (at, list) in [a, b].into_iter().enumerate() {
                let to = (2 * query + at) * k..(2 * query + at + 1) * k;
                let (scores, rows) =
                    (list.scores.slice(from.clone()), list.rows.slice(from.clone()));
                stream
                    .memcpy_dtod(&scores, &mut both.scores.slice_mut(to.clone()))
                    .and_then(|()| stream.memcpy_dtod(&rows, &mut both.rows.slice_mut(to)))
                    .doing("joining rankings")?;
            }
        }
        Ok(both)
    }

    /// Merges the lists of each query into one list of its `k` best rows.
    fn join(&self, mut best: Lists, n_queries: usize, k: usize) -> Result<Lists> {
        let stream = &self.device.stream;
        let kernel = self.device.kernel("select_pairs")?;
        while best.lists > 1 {
            let n = (best.lists * k) as u32;
            let mut joined = self.lists(n_queries, (n as usize).div_ceil(SORT_ROWS), k)?;
            let most = k as i32;
            let mut launch = stream.launch_builder(&kernel);
            launch.arg(&best.scores).arg(&best.rows).arg(&n).arg(&most);
            launch.arg(&mut joined.scores).arg(&mut joined.rows);
            // SAFETY: arguments are those of the kernel; it reads [n_queries, n] pairs and writes
            // the allocated [n_queries, lists, k].
            unsafe { launch.launch(grid(joined.lists, n_queries, SORT_THREADS)?) }
                .doing("joining rankings")?;
            best = joined;
        }
        Ok(best)
    }

    /// Copies the list of each query from the device, without unfilled places.
    fn fetch(&self, best: Lists, n_queries: usize, k: usize) -> Result<Vec<Vec<(u32, f32)>>> {
        let stream = &self.device.stream;
        let scores = stream.clone_dtoh(&best.scores).doing("fetching rankings")?;
        let rows = stream.clone_dtoh(&best.rows).doing("fetching rankings")?;
        let pairs: Vec<(u32, f32)> = rows.into_iter().zip(scores).collect();
        let known = |pairs: &[(u32, f32)]| {
            pairs.iter().copied().filter(|pair| (pair.0 as usize) < self.n).collect()
        };
        Ok(pairs.chunks(k).take(n_queries).map(known).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers, because 16-bit floats hold them exactly and many scores tie.
    #[test]
    fn finds_the_rows_that_plain_loops_find() {
        let Some(device) = Device::first().unwrap() else {
            crate::given::skipped("there is no CUDA device");
            return;
        };
        let (n, dim, k) = (70_000, 24, 100);
        let number = |at: usize| ((at * 2_654_435_761) >> 7) % 5;
        let rows: Vec<f32> = (0..n * dim).map(|at| number(at) as f32 - 2.0).collect();
        let queries: Vec<f32> = (0..20 * dim).map(|at| number(at + 99) as f32 - 2.0).collect();
        let search = TopK::new(device, &rows, dim).unwrap();
        let expected = |query: &[f32]| {
            let dot = |row: &[f32]| row.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
            let mut all: Vec<(u32, f32)> = (0..).zip(rows.chunks(dim).map(dot)).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(k);
            all
        };
        for n_queries in [1, 20] {
            let queries = &queries[..n_queries * dim];
            let found = search.search(queries, k).unwrap();
            let expected: Vec<_> = queries.chunks(dim).map(expected).collect();
            assert_eq!(found, expected, "{n_queries} queries");
        }
    }
}
