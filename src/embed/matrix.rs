//! A dense row-major matrix of `f32` values, and the dot product by which all vectors are compared.
//!
//! The dot product is always summed in the same order (sixteen interleaved partial sums, then a
//! fixed tree), so a score does not depend on threads or batching.

use crate::{EmbedError, Result};

/// Number of interleaved partial sums of a dot product; 16 fill two AVX2 or four SSE registers.
const LANES: usize = 16;

/// A `[rows, dim]` matrix of `f32` values, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    dim: usize,
    data: Vec<f32>,
}

impl Matrix {
    /// Creates a `[rows, dim]` matrix from its values in row-major order.
    ///
    /// # Errors
    /// [`EmbedError::Shape`] unless `data.len() == rows * dim`.
    pub fn new(rows: usize, dim: usize, data: Vec<f32>) -> Result<Matrix> {
        if rows.checked_mul(dim) != Some(data.len()) {
            return Err(EmbedError::Shape { rows, dim, got: data.len() });
        }
        Ok(Matrix { rows, dim, data })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the length of a row: the number of columns.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns all values, in row-major order.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Returns row number `row`, from 0; `None` if the matrix has fewer rows.
    pub fn row(&self, row: usize) -> Option<&[f32]> {
        if row >= self.rows {
            return None;
        }
        self.data.get(row * self.dim..(row + 1) * self.dim)
    }

    /// Returns all values, in row-major order.
    pub fn into_data(self) -> Vec<f32> {
        self.data
    }
}

/// Whether the processor supports [`dot_le_wide`].
#[cfg(target_arch = "x86_64")]
fn is_wide() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Computes the result of [`dot_le_lanes`] with AVX2 registers of 8 lanes. Both functions keep the
/// lanes separate and round products before adding them, so they agree bit for bit.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn dot_le_wide(bytes: &[[u8; 4]], right: &[f32]) -> f32 {
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };
    let len = bytes.len().min(right.len());
    let (left_chunks, left_rest) = bytes[..len].as_chunks::<LANES>();
    let (right_chunks, right_rest) = right[..len].as_chunks::<LANES>();
    let (mut low, mut high) = (_mm256_setzero_ps(), _mm256_setzero_ps());
    let mut sums = [0.0f32; LANES];
    for (a, b) in left_chunks.iter().zip(right_chunks) {
        let (a, b) = (a.as_ptr().cast::<f32>(), b.as_ptr());
        // SAFETY: both are 16 numbers long; numbers of this processor are little-endian.
        #[expect(unsafe_code, reason = "eight products at once")]
        unsafe {
            low = _mm256_add_ps(low, _mm256_mul_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b)));
            let (a, b) = (_mm256_loadu_ps(a.add(8)), _mm256_loadu_ps(b.add(8)));
            high = _mm256_add_ps(high, _mm256_mul_ps(a, b));
        }
    }
    // SAFETY: 16 numbers are written.
    #[expect(unsafe_code, reason = "as above")]
    unsafe {
        _mm256_storeu_ps(sums.as_mut_ptr(), low);
        _mm256_storeu_ps(sums.as_mut_ptr().add(8), high);
    }
    let rest = left_rest.iter().zip(right_rest);
    fold_lanes(sums) + rest.fold(0.0, |sum, (a, b)| sum + f32::from_le_bytes(*a) * b)
}

/// Returns the dot product of two vectors; if one is longer, its extra values are ignored.
///
/// The order of summation depends on the length alone. No term is skipped, so NaN propagates.
pub fn dot(left: &[f32], right: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: `is_wide` has found the instructions of `dot_le_wide`.
        #[expect(unsafe_code, reason = "code for this processor alone")]
        return unsafe { dot_le_wide(bytemuck::cast_slice(left), right) };
    }
    dot_lanes(left, right)
}

/// Returns the dot product of two vectors; each element of `bytes` is a little-endian `f32`, as in
/// a mapped file.
///
/// The result equals [`dot`] on the decoded values bit for bit. No alignment is required.
pub fn dot_le(bytes: &[[u8; 4]], right: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: `is_wide` has found the instructions of `dot_le_wide`.
        #[expect(unsafe_code, reason = "code for this processor alone")]
        return unsafe { dot_le_wide(bytes, right) };
    }
    dot_le_lanes(bytes, right)
}

fn dot_lanes(left: &[f32], right: &[f32]) -> f32 {
    sum_lanes(left, right, |value| value)
}

fn dot_le_lanes(bytes: &[[u8; 4]], right: &[f32]) -> f32 {
    sum_lanes(bytes, right, f32::from_le_bytes)
}

/// Returns the dot product of `left`, whose elements `read` converts to numbers, and `right`.
#[inline(always)]
fn sum_lanes<T: Copy>(left: &[T], right: &[f32], read: impl Fn(T) -> f32) -> f32 {
    let len = left.len().min(right.len());
    let (left_chunks, left_rest) = left[..len].as_chunks::<LANES>();
    let (right_chunks, right_rest) = right[..len].as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for (a, b) in left_chunks.iter().zip(right_chunks) {
        for lane in 0..LANES {
            sums[lane] += read(a[lane]) * b[lane];
        }
    }
    let mut rest = 0.0;
    for (a, b) in left_rest.iter().zip(right_rest) {
        rest += read(*a) * b;
    }
    fold_lanes(sums) + rest
}

/// Scales `vector` to Euclidean norm 1 and returns its previous norm.
///
/// A vector whose norm is zero, or too small to divide by, becomes the zero vector.
pub fn normalise(vector: &mut [f32]) -> f32 {
    let norm = dot(vector, vector).sqrt();
    if norm.is_finite() && norm > f32::MIN_POSITIVE.sqrt() {
        let scale = 1.0 / norm;
        vector.iter_mut().for_each(|value| *value *= scale);
    } else {
        vector.fill(0.0);
    }
    norm
}

/// Adds `factor * row` to `target`, element by element; if one is longer, its extra elements are
/// ignored.
pub fn add_scaled(target: &mut [f32], factor: f32, row: &[f32]) {
    for (sum, value) in target.iter_mut().zip(row) {
        *sum += factor * value;
    }
}

/// Returns the sum of the lanes, always added in the same order.
#[inline]
pub(crate) fn fold_lanes(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_refuses_a_buffer_of_another_size() {
        assert!(matches!(
            Matrix::new(2, 3, vec![0.0; 5]),
            Err(EmbedError::Shape { rows: 2, dim: 3, got: 5 })
        ));
        assert!(Matrix::new(usize::MAX, 2, Vec::new()).is_err());
        let matrix = Matrix::new(2, 2, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!(matrix.row(1), Some(&[3.0, 4.0][..]));
        assert_eq!(matrix.row(2), None);
    }

    #[test]
    fn both_dot_products_agree_bit_for_bit_and_with_the_plain_sum() {
        for len in [0, 1, 15, 16, 17, 100] {
            let left: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
            let right: Vec<f32> = (0..len).map(|i| (i as f32 * 0.11).cos()).collect();
            let bytes: Vec<[u8; 4]> = left.iter().map(|value| value.to_le_bytes()).collect();
            let plain: f64 =
                left.iter().zip(&right).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert_eq!(dot(&left, &right).to_bits(), dot_le(&bytes, &right).to_bits());
            assert_eq!(dot(&left, &right).to_bits(), dot_lanes(&left, &right).to_bits());
            assert!((f64::from(dot(&left, &right)) - plain).abs() < 1e-4);
        }
    }

    #[test]
    fn normalise_never_yields_nan() {
        let mut zero = [0.0, 0.0];
        assert_eq!(normalise(&mut zero), 0.0);
        let mut tiny = [1e-38, 1e-38];
        normalise(&mut tiny);
        let mut huge = [f32::MAX, f32::MAX];
        normalise(&mut huge);
        assert!(zero.iter().chain(&tiny).chain(&huge).all(|value| value.is_finite()));
        let mut plain = [3.0, 4.0];
        assert_eq!(normalise(&mut plain), 5.0);
        assert_eq!(plain, [0.6, 0.8]);
    }
}
