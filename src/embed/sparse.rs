//! A sparse matrix in compressed rows, and its product with a dense matrix.
//!
//! Products run in parallel over rows of the result. One thread sums each row in ascending column
//! order, so the result does not depend on the number of threads.

use rayon::prelude::*;

/// A `[n_rows, n_columns]` matrix; the entries of each row are in ascending column order.
pub(crate) struct SparseMatrix {
    n_columns: usize,
    /// Row `r` has the entries `starts[r]..starts[r + 1]` of `columns` and `values`; there are
    /// `n_rows + 1` starts.
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl SparseMatrix {
    /// Creates a matrix with `n_columns` columns and no rows.
    pub(crate) fn new(n_columns: usize) -> SparseMatrix {
        SparseMatrix { n_columns, starts: vec![0], columns: Vec::new(), values: Vec::new() }
    }

    /// Appends a row of `(column, value)` pairs; columns must ascend and be below `n_columns`.
    pub(crate) fn push_row(&mut self, entries: &[(u32, f32)]) {
        debug_assert!(entries.is_sorted_by(|a, b| a.0 < b.0));
        debug_assert!(entries.iter().all(|entry| (entry.0 as usize) < self.n_columns));
        self.columns.extend(entries.iter().map(|entry| entry.0));
        self.values.extend(entries.iter().map(|entry| entry.1));
        self.starts.push(self.columns.len());
    }

    /// Returns the number of rows.
    pub(crate) fn n_rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of columns.
    pub(crate) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Returns the transpose, `[n_columns, n_rows]`; O(entries + rows + columns).
    pub(crate) fn transposed(&self) -> SparseMatrix {
        let mut starts = vec![0usize; self.n_columns + 1];
        for column in &self.columns {
            starts[*column as usize + 1] += 1;
        }
        for column in 0..self.n_columns {
            starts[column + 1] += starts[column];
        }
        let mut next = starts.clone();
        let mut columns = vec![0u32; self.columns.len()];
        let mut values = vec![0.0f32; self.values.len()];
        for row in 0..self.n_rows() {
            for entry in self.starts[row]..self.starts[row + 1] {
                let place = &mut next[self.columns[entry] as usize];
                columns[*place] = row as u32;
                values[*place] = self.values[entry];
                *place += 1;
            }
        }
        SparseMatrix { n_columns: self.n_rows(), starts, columns, values }
    }

    /// Returns the product of this matrix and `dense`, a `[n_columns, width]` matrix: a
    /// `[n_rows, width]` matrix. Both dense matrices are row-major.
    pub(crate) fn times(&self, dense: &[f32], width: usize) -> Vec<f32> {
        debug_assert_eq!(dense.len(), self.n_columns * width);
        let mut product = vec![0.0f32; self.n_rows() * width];
        if width == 0 {
            return product;
        }
        product.par_chunks_mut(width).enumerate().for_each(|(row, sums)| {
            for entry in self.starts[row]..self.starts[row + 1] {
                let start = self.columns[entry] as usize * width;
                crate::matrix::add_scaled(sums, self.values[entry], &dense[start..start + width]);
            }
        });
        product
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_a_matrix_and_its_transpose_match_the_definition() {
        // [[0, 2, 0], [1, 0, 3], [0, 0, 0], [0, 4, 0]]
        let mut matrix = SparseMatrix::new(3);
        matrix.push_row(&[(1, 2.0)]);
        matrix.push_row(&[(0, 1.0), (2, 3.0)]);
        matrix.push_row(&[]);
        matrix.push_row(&[(1, 4.0)]);
        let dense = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
        assert_eq!(matrix.times(&dense, 2), [4.0, 40.0, 10.0, 100.0, 0.0, 0.0, 8.0, 80.0]);
        let transposed = matrix.transposed();
        assert_eq!((transposed.n_rows(), transposed.n_columns()), (3, 4));
        assert_eq!(transposed.times(&[1.0, 2.0, 3.0, 4.0], 1), [2.0, 18.0, 6.0]);
    }
}
