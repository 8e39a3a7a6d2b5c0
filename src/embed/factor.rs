//! Leading singular values and right singular vectors of a large sparse matrix.
//!
//! The algorithm is a randomized range finder with power iterations: Halko, Martinsson, Tropp,
//! "Finding structure with randomness", SIAM Review 53(2), 2011, algorithms 4.4 and 5.1. The range
//! finder is applied to the transpose of the matrix. Its test matrix holds random signs instead of
//! Gaussian numbers; signs are cheaper to draw and equally suitable (section 4.6). Modified
//! Gram-Schmidt, run twice, computes orthonormal bases (Giraud, Langou, Rozložník 2005). Cyclic
//! Jacobi rotations solve the small symmetric eigenproblem (Golub, Van Loan, "Matrix Computations",
//! section 8.5).
//!
//! Every sum has a fixed order, so results do not depend on the number of threads.

use std::ops::ControlFlow;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use crate::matrix::{add_scaled, dot};
use crate::sparse::SparseMatrix;

/// Number of random vectors drawn beyond the requested rank. Halko et al. advise 5 to 10; here,
/// more vectors cost little and make the result more stable.
const OVERSAMPLING: usize = 24;
/// Number of times that the basis is multiplied by `AᵀA`; two multiplications suffice for slowly
/// decaying spectra (Halko et al., section 4.5).
const POWER_ITERATIONS: usize = 2;
/// A vector that keeps less than this share of its length after orthogonalization counts as
/// linearly dependent.
const DEPENDENT: f32 = 1e-5;
/// Singular values up to this share of the largest singular value are rounding noise of `f32`
/// arithmetic and are dropped.
const NEGLIGIBLE: f64 = 1e-4;
/// Number of rows summed in `f32` before their sum is added in `f64`. The number is constant, so
/// that the order of summation is fixed.
const GRAM_BLOCK_ROWS: usize = 256;
/// Maximum number of Jacobi sweeps; convergence is quadratic and takes 6 to 10 sweeps.
const MAX_SWEEPS: usize = 40;

/// Number of calls of `progress` made by [`right_singular_vectors`].
pub(crate) const STEPS: usize = POWER_ITERATIONS + 2;

/// Leading singular values of a matrix, with their right singular vectors.
pub(crate) struct Factor {
    /// Matrix `[n_columns, rank]`, row-major; column `i` is the right singular vector of singular
    /// value `i`.
    pub(crate) vectors: Vec<f32>,
    /// Singular values, `[rank]`, descending, all positive.
    pub(crate) singular_values: Vec<f32>,
}

impl Factor {
    /// Returns the number of singular values; fewer than requested if the matrix has a lower rank.
    pub(crate) fn rank(&self) -> usize {
        self.singular_values.len()
    }
}

/// Computes the `rank` largest singular values of `matrix` (`[m, n]`) and their right singular
/// vectors; fewer if the rank of `matrix` is lower.
///
/// Takes `O((entries + n * l) * l)` time and `O((m + n) * l)` memory with `l = rank + 24`.
/// `progress` is called with `1..=`[`STEPS`]; if it breaks, the result is `None`.
pub(crate) fn right_singular_vectors(
    matrix: &SparseMatrix,
    rank: usize,
    seed: u64,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Option<Factor> {
    let (m, n) = (matrix.n_rows(), matrix.n_columns());
    let width = (rank + OVERSAMPLING).min(m).min(n);
    if width == 0 || rank == 0 {
        return Some(Factor { vectors: Vec::new(), singular_values: Vec::new() });
    }
    let transposed = matrix.transposed();
    let mut basis = orthonormal(&transposed.times(&random_signs(m, width, seed), width), n, width);
    if progress(1).is_break() {
        return None;
    }
    for iteration in 0..POWER_ITERATIONS {
        let image = transposed.times(&matrix.times(&basis, width), width);
        basis = orthonormal(&image, n, width);
        if progress(iteration + 2).is_break() {
            return None;
        }
    }
    let (values, rotation) = symmetric_eigen(gram(&matrix.times(&basis, width), width), width);
    let largest = values.first().copied().unwrap_or(0.0).max(0.0).sqrt();
    let singular_values: Vec<f32> = values
        .iter()
        .map(|value| value.max(0.0).sqrt())
        .take(rank)
        .take_while(|value| *value > largest * NEGLIGIBLE && *value > 0.0)
        .map(|value| value as f32)
        .collect();
    let kept = singular_values.len();
    let mut vectors = vec![0.0f32; n * kept];
    if kept > 0 {
        vectors.par_chunks_mut(kept).zip(basis.par_chunks(width)).for_each(|(row, from)| {
            for (value, turn) in from.iter().zip(rotation.chunks(width)) {
                add_scaled(row, *value, &turn[..kept]);
            }
        });
    }
    if progress(STEPS).is_break() {
        return None;
    }
    Some(Factor { vectors, singular_values })
}

/// Returns a `[n_rows, width]` matrix of random signs, +1 or -1; row `r` is drawn from stream `r`
/// of a random generator with this seed.
fn random_signs(n_rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut signs = vec![0.0f32; n_rows * width];
    signs.par_chunks_mut(width).enumerate().for_each(|(row, signs)| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(row as u64);
        for group in signs.chunks_mut(64) {
            let mut bits = random.next_u64();
            for sign in group {
                *sign = if bits & 1 == 0 { 1.0 } else { -1.0 };
                bits >>= 1;
            }
        }
    });
    signs
}

/// Returns a `[n_rows, width]` matrix whose columns are an orthonormal basis of the space that the
/// columns of `matrix` span. A column that depends linearly on earlier columns becomes zero.
fn orthonormal(matrix: &[f32], n_rows: usize, width: usize) -> Vec<f32> {
    let mut vectors = transpose(matrix, n_rows, width);
    for _pass in 0..2 {
        let mut lengths: Vec<f32> = vectors.chunks(n_rows).map(|v| dot(v, v).sqrt()).collect();
        for first in 0..width {
            let (head, tail) = vectors.split_at_mut((first + 1) * n_rows);
            let vector = &mut head[first * n_rows..];
            let length = dot(vector, vector).sqrt();
            if length <= lengths[first] * DEPENDENT || !length.is_normal() {
                vector.fill(0.0);
                lengths[first] = 0.0;
                continue;
            }
            vector.iter_mut().for_each(|value| *value /= length);
            let vector = &*vector;
            tail.par_chunks_mut(n_rows)
                .for_each(|other| add_scaled(other, -dot(vector, other), vector));
        }
    }
    transpose(&vectors, width, n_rows)
}

/// Transposes a row-major `[n_rows, n_columns]` matrix to `[n_columns, n_rows]`.
fn transpose(matrix: &[f32], n_rows: usize, n_columns: usize) -> Vec<f32> {
    /// Number of columns transposed at a time, so that every cache line is used completely.
    const TILE: usize = 16;
    let mut transposed = vec![0.0f32; matrix.len()];
    transposed.par_chunks_mut(n_rows * TILE).enumerate().for_each(|(tile, rows)| {
        for row in 0..n_rows {
            for (offset, column) in rows.chunks_mut(n_rows).enumerate() {
                column[row] = matrix[row * n_columns + tile * TILE + offset];
            }
        }
    });
    transposed
}

/// Returns the product of the transpose of `matrix` (`[rows, width]`) and `matrix` itself, a
/// `[width, width]` matrix, in `f64`.
fn gram(matrix: &[f32], width: usize) -> Vec<f64> {
    let block = GRAM_BLOCK_ROWS * width;
    // Bounds memory: the sums of one group of blocks are added, in order, before the next group is
    // computed.
    let mut total = vec![0.0f64; width * width];
    for group in matrix.chunks(block * 64) {
        let sums: Vec<Vec<f32>> = group
            .par_chunks(block)
            .map(|rows| {
                let mut sum = vec![0.0f32; width * width];
                for row in rows.chunks(width) {
                    for (i, value) in row.iter().enumerate() {
                        add_scaled(&mut sum[i * width + i..(i + 1) * width], *value, &row[i..]);
                    }
                }
                sum
            })
            .collect();
        for sum in sums {
            total.iter_mut().zip(sum).for_each(|(total, value)| *total += f64::from(value));
        }
    }
    for i in 0..width {
        for j in 0..i {
            total[i * width + j] = total[j * width + i];
        }
    }
    total
}

/// Returns the eigenvalues, descending, of a symmetric matrix, and its eigenvectors as the columns
/// of a row-major `[n, n]` matrix.
///
/// Uses cyclic Jacobi rotations in `f64`; equal eigenvalues keep the order that they have on the
/// diagonal after the rotations.
fn symmetric_eigen(mut matrix: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f32>) {
    // Row `i` of `turned` is the vector that becomes eigenvector `i`.
    let mut turned = vec![0.0f64; n * n];
    (0..n).for_each(|i| turned[i * n + i] = 1.0);
    let norm: f64 = matrix.iter().map(|value| value * value).sum();
    for _sweep in 0..MAX_SWEEPS {
        let mut off = 0.0;
        for i in 0..n {
            for j in i + 1..n {
                off += matrix[i * n + j] * matrix[i * n + j];
            }
        }
        if off <= norm * 1e-26 {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let apq = matrix[p * n + q];
                if apq == 0.0 {
                    continue;
                }
                let theta = (matrix[q * n + q] - matrix[p * n + p]) / (2.0 * apq);
                let tangent = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = tangent * cosine;
                for k in 0..n {
                    let (kp, kq) = (matrix[k * n + p], matrix[k * n + q]);
                    matrix[k * n + p] = cosine * kp - sine * kq;
                    matrix[k * n + q] = sine * kp + cosine * kq;
                }
                rotate_rows(&mut matrix, n, p, q, cosine, sine);
                rotate_rows(&mut turned, n, p, q, cosine, sine);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| matrix[b * n + b].total_cmp(&matrix[a * n + a]).then(a.cmp(b)));
    let values = order.iter().map(|i| matrix[i * n + i]).collect();
    let mut vectors = vec![0.0f32; n * n];
    for (column, i) in order.iter().enumerate() {
        for row in 0..n {
            vectors[row * n + column] = turned[i * n + row] as f32;
        }
    }
    (values, vectors)
}

fn rotate_rows(matrix: &mut [f64], n: usize, p: usize, q: usize, cosine: f64, sine: f64) {
    let (head, tail) = matrix.split_at_mut(q * n);
    for (a, b) in head[p * n..(p + 1) * n].iter_mut().zip(&mut tail[..n]) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_of_a_planted_matrix_has_its_singular_values_and_vectors() {
        // Rows repeat three orthogonal patterns: singular values are sqrt(count) * length.
        let mut matrix = SparseMatrix::new(7);
        for _ in 0..9 {
            matrix.push_row(&[(0, 3.0), (1, 4.0)]);
        }
        for _ in 0..4 {
            matrix.push_row(&[(2, 1.0), (5, -1.0)]);
        }
        matrix.push_row(&[(6, 0.5)]);
        let factor =
            right_singular_vectors(&matrix, 5, 3, &mut |_| ControlFlow::Continue(())).unwrap();
        let expected = [15.0, 8.0f32.sqrt(), 0.5];
        assert_eq!(factor.rank(), 3, "the rank is 3 although 5 was requested");
        for (value, expected) in factor.singular_values.iter().zip(expected) {
            assert!((value - expected).abs() < 1e-4, "{value} {expected}");
        }
        assert!((factor.vectors[0].abs() - 0.6).abs() < 1e-5);
        assert!((factor.vectors[3].abs() - 0.8).abs() < 1e-5);
        assert!((factor.vectors[6 * 3 + 2].abs() - 1.0).abs() < 1e-4);
    }

    #[test]
    fn bases_are_orthonormal_even_for_nearly_dependent_columns() {
        let (n_rows, width) = (200, 12);
        let mut matrix = random_signs(n_rows, width, 1);
        for row in matrix.chunks_mut(width) {
            row[5] = row[4] + 1e-3 * row[5];
            row[7] = row[2];
        }
        let basis = orthonormal(&matrix, n_rows, width);
        let gram = gram(&basis, width);
        for i in 0..width {
            for j in 0..width {
                let expected = if i == j && i != 7 { 1.0 } else { 0.0 };
                assert!(
                    (gram[i * width + j] - expected).abs() < 1e-5,
                    "{i} {j} {}",
                    gram[i * width + j]
                );
            }
        }
    }

    #[test]
    fn eigenvectors_reassemble_the_matrix() {
        let n = 20;
        let rows = random_signs(31, n, 9);
        let matrix = gram(&rows, n);
        let (values, vectors) = symmetric_eigen(matrix.clone(), n);
        assert!(values.is_sorted_by(|a, b| a >= b));
        for i in 0..n {
            for j in 0..n {
                let sum: f64 = (0..n)
                    .map(|k| {
                        values[k] * f64::from(vectors[i * n + k]) * f64::from(vectors[j * n + k])
                    })
                    .sum();
                assert!((sum - matrix[i * n + j]).abs() < 1e-4);
            }
        }
    }
}
