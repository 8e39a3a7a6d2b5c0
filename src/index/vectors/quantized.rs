//! Stores rows as bytes, at a quarter of their size, with a proven bound on the quantization error.
//! A search reads these bytes first.
//!
//! # Codes
//! With `x` a stored row, `m` the centre (near the mean of all rows) and `H` a rotation,
//! `z = H (x - m)` is coded as `s c`: whole numbers `c` in -127..=127 times the scale
//! `s = max |z| / 127`. The rotation is a Hadamard transform after changes of sign, in blocks of
//! the largest power of two that divides the padded length. It spreads the content of a few
//! dimensions over the whole block, and subtracting the mean leaves the differences between rows,
//! so that one scale fits all dimensions of a row. A query `q` is rotated to `w = H q` and coded
//! twice. First, `w` is coded as `t a` with `t = max |w| / 127`, which leaves the remainder
//! `r = w - t a`. Then `r` is coded in the same way as `t' b`, which leaves the remainder `r'`. Let
//! `e = z - s c`.
//!
//! # Bound
//! `H` is orthogonal, so in real numbers `x.q = m.q + z.w = m.q + s t c.a + s c.r + e.w`, and by
//! Cauchy and Schwarz
//!
//! ```text
//! (1)  x.q <= m.q + s t c.a            + |s c| |r|  + |e| |q|
//! (2)  x.q <= m.q + s t c.a + s t' c.b + |s c| |r'| + |e| |q|
//! ```
//!
//! `c.a` and `c.b` are exact whole numbers. The score is not `x.q` but a sum of `f32` in a fixed
//! order: each term goes through one product and at most `d/16 + 20` additions, so with `u = 2^-24`
//! the score is at most `(d/16 + 22) u |x| |q|` above `x.q` (Higham, Accuracy and Stability, 3.1).
//! Both bounds are tested in `f32` with at most twelve roundings of terms. Each term is below
//! `4 (|x| + |z|) |q|`, because `|s c| <= 2 |z|` and `|r| <= |q|`: rounding moves no number by more
//! than its own size. The sum of these errors is below `|q|` times
//!
//! ```text
//! slack = 2 u (d/16 + 128) (|x| + |z|)
//! ```
//!
//! A row stores `s`, `full = |e| + slack` and `rest = |s c|`, rounded up; a query stores `|q|`,
//! `|r|` and `|r'|`, rounded up. Sums in `f64` (transforms, norms, `m.q`) are wrong by less than `d
//! 2^-52` of the norms, which the factor 2 and [`SUM_ERROR`] cover. Underflow in a score is below
//! `d 2^-149`, less than the slack while norms are within [`ROW_NORMS`] and [`QUERY_NORMS`]. A row
//! whose norm is outside [`ROW_NORMS`] and not zero has an infinite `full`, so that its score is
//! always computed. A query with a norm outside [`QUERY_NORMS`] has no codes, and all scores are
//! computed.

use std::ops::RangeInclusive;

use super::kernels::{BLOCK, Note, STEP, Test};

/// Largest absolute value of a code.
const MAX_CODE: f64 = 127.0;
/// Added to the codes of rows, which are then stored as unsigned bytes.
const SHIFT: u8 = 128;
/// Norms of rows for which the bound is proven; it is also proven for zero.
const ROW_NORMS: RangeInclusive<f64> = 1e-12..=1e15;
/// Norms of queries for which the bound is proven.
const QUERY_NORMS: RangeInclusive<f64> = 1e-12..=1e12;
/// Relative error of a sum of products of at most 16,384 terms in `f64`: above `16_384 * 2^-52`.
const SUM_ERROR: f64 = 4e-12;
/// Number of terms of the bound that are stored per row: scale, `full` and `rest`.
const NOTES: usize = 3;

/// Returns the size of a coded block, in bytes: the codes of [`BLOCK`] rows, then the scales of all
/// rows, their `full` and their `rest`.
pub(super) fn block_bytes(stride: usize) -> usize {
    BLOCK * (stride + NOTES * size_of::<f32>())
}

/// Returns the length of a coded row of `dim` numbers, in bytes.
pub(super) fn stride(dim: usize) -> usize {
    dim.next_multiple_of(STEP)
}

/// The transformation that rows and queries undergo before they are coded: a shift by the centre
/// (rows only) and a rotation.
pub(super) struct Space {
    dim: usize,
    /// The centre `m`, `[dim]`.
    centre: Vec<f32>,
    /// Signs of the rotation, `[stride]`, times the factor that makes it preserve norms.
    signs: Vec<f64>,
    /// Length of the blocks of the Hadamard transform, a power of two.
    width: usize,
}

impl Space {
    /// Creates the transformation with this centre, `[dim]`; numbers of the centre that are not
    /// finite or very large count as zero.
    pub(super) fn new(mut centre: Vec<f32>) -> Space {
        for value in &mut centre {
            if value.is_nan() || value.abs() > *ROW_NORMS.end() as f32 {
                *value = 0.0;
            }
        }
        let dim = centre.len();
        let stride = stride(dim);
        let width = 1 << stride.trailing_zeros();
        let unit = 1.0 / (width as f64).sqrt();
        // The signs need only look random: the top bit of a multiplicative hash.
        let sign = |at: usize| (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63;
        let signs = (0..stride).map(|at| if sign(at) == 0 { unit } else { -unit }).collect();
        Space { dim, centre, signs, width }
    }

    /// Length of a coded row, in bytes.
    pub(super) fn stride(&self) -> usize {
        self.signs.len()
    }

    /// Rotates `vector` (`[stride]`, padded with zeros) in place: replaces `v` by `H v`.
    fn rotate(&self, vector: &mut [f64]) {
        for (value, sign) in vector.iter_mut().zip(&self.signs) {
            *value *= sign;
        }
        for block in vector.chunks_exact_mut(self.width) {
            let mut half = 1;
            while half < self.width {
                for pair in block.chunks_exact_mut(2 * half) {
                    let (left, right) = pair.split_at_mut(half);
                    for (a, b) in left.iter_mut().zip(right) {
                        (*a, *b) = (*a + *b, *a - *b);
                    }
                }
                half *= 2;
            }
        }
    }

    /// Codes at most [`BLOCK`] rows (`[n, dim]`) as one block of [`block_bytes`] bytes. O(dim log
    /// dim) per row.
    pub(super) fn code_rows(&self, rows: &[f32]) -> Vec<u8> {
        let stride = self.stride();
        let mut block = vec![SHIFT; BLOCK * stride];
        let mut notes = [[0.0f32; BLOCK]; NOTES];
        let mut turned = vec![0.0f64; stride];
        for (at, row) in rows.chunks_exact(self.dim).enumerate() {
            turned.fill(0.0);
            for ((value, x), m) in turned.iter_mut().zip(row).zip(&self.centre) {
                *value = f64::from(*x) - f64::from(*m);
            }
            self.rotate(&mut turned);
            let codes = &mut block[at * stride..][..stride];
            let note = code_row(&turned, norm(row.iter().map(|x| f64::from(*x))), self.dim, codes);
            [notes[0][at], notes[1][at], notes[2][at]] = [note.scale, note.full, note.rest];
        }
        block.extend(notes.as_flattened().iter().flat_map(|number| number.to_le_bytes()));
        block
    }

    /// Codes a query (`[dim]`, finite); `None` if its norm is outside [`QUERY_NORMS`], where the
    /// bound is not proven.
    pub(super) fn code_query(&self, query: &[f32]) -> Option<CodedQuery> {
        let mut turned: Vec<f64> = query.iter().map(|x| f64::from(*x)).collect();
        let length = norm(turned.iter().copied());
        if !QUERY_NORMS.contains(&length) {
            return None;
        }
        let centre = self.centre.iter().map(|m| f64::from(*m));
        let offset: f64 = turned.iter().zip(centre.clone()).map(|(q, m)| q * m).sum();
        turned.resize(self.stride(), 0.0);
        self.rotate(&mut turned);
        let (first_unit, first) = code_part(&mut turned);
        let first_rest = norm(turned.iter().copied());
        let (second_unit, second) = code_part(&mut turned);
        let shift =
            |codes: &[i8]| i32::from(SHIFT) * codes.iter().map(|a| i32::from(*a)).sum::<i32>();
        Some(CodedQuery {
            offset: offset + SUM_ERROR * norm(centre) * length,
            length: length * (1.0 + SUM_ERROR),
            rest: first_rest + SUM_ERROR * length,
            last: norm(turned.into_iter()) + SUM_ERROR * length,
            units: [first_unit, second_unit],
            shifts: [shift(&first), shift(&second)],
            parts: [first, second],
        })
    }
}

/// A coded query, to be compared with coded rows; symbols as in the module documentation.
pub(super) struct CodedQuery {
    /// `m.q` plus a bound on the rounding error of that sum.
    offset: f64,
    /// `|q|`, rounded up.
    length: f64,
    /// `|r|`, rounded up.
    rest: f64,
    /// `|r'|`, rounded up.
    last: f64,
    /// The scales `t` and `t'`.
    units: [f64; 2],
    /// For `a` and for `b`: the amount that [`SHIFT`] in the bytes of rows adds to the sum of
    /// products with a row.
    shifts: [i32; 2],
    /// The codes `a` and `b`, each as long as a coded row.
    pub(super) parts: [Vec<i8>; 2],
}

impl CodedQuery {
    /// Returns the test of bound (2), with all terms divided by `t`. Every row whose score is at
    /// least `threshold` passes the test.
    pub(super) fn test(&self, threshold: f32) -> Test {
        let limit = (f64::from(threshold) - self.offset) / self.units[0];
        let up = |length: f64| ((length / self.units[0]) as f32).next_up();
        Test {
            shifts: self.shifts,
            second: (self.units[1] / self.units[0]) as f32,
            full: up(self.length),
            rest: up(self.last),
            threshold: (limit as f32).next_down(),
        }
    }

    /// Returns the factor of a row's `rest` in the test of bound (1). All other terms are those of
    /// [`CodedQuery::test`].
    pub(super) fn first_rest(&self) -> f32 {
        ((self.rest / self.units[0]) as f32).next_up()
    }

    /// Returns an upper bound on the score of a row, from its sums of products with `a` and with
    /// `b`.
    pub(super) fn bound(&self, sums: [i32; 2], note: Note) -> f64 {
        let product = |at: usize| f64::from(sums[at] - self.shifts[at]) * self.units[at];
        f64::from(note.scale) * (product(0) + product(1))
            + f64::from(note.full) * self.length
            + f64::from(note.rest) * self.last
            + self.offset
    }
}

/// A coded block, as stored in a file.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    bytes: &'a [u8],
    stride: usize,
}

impl<'a> Block<'a> {
    /// Wraps a block of [`block_bytes`] bytes; `stride` is the length of a coded row, in bytes.
    pub(super) fn new(bytes: &'a [u8], stride: usize) -> Block<'a> {
        Block { bytes, stride }
    }

    /// The codes of all rows of the block.
    pub(super) fn codes(&self) -> &'a [u8] {
        &self.bytes[..BLOCK * self.stride]
    }

    /// The codes of the row with this index in the block.
    pub(super) fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.stride..][..self.stride]
    }

    /// Copies the terms of the bound of row `from` to row `to` of `block`, which has the same size.
    pub(super) fn copy_note(&self, from: usize, block: &mut [u8], to: usize) {
        let start = BLOCK * self.stride;
        let (from_notes, to_notes) =
            (self.bytes[start..].as_chunks::<4>().0, block[start..].as_chunks_mut::<4>().0);
        for at in 0..NOTES {
            to_notes[at * BLOCK + to] = from_notes[at * BLOCK + from];
        }
    }

    /// Reads the scales of all rows, their `full` and their `rest`.
    pub(super) fn notes(&self) -> [[f32; BLOCK]; NOTES] {
        let mut notes = [[0.0; BLOCK]; NOTES];
        let bytes = self.bytes[BLOCK * self.stride..].as_chunks::<4>().0;
        for (note, bytes) in notes.as_flattened_mut().iter_mut().zip(bytes) {
            *note = f32::from_le_bytes(*bytes);
        }
        notes
    }
}

/// Returns the Euclidean norm.
fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// Quantizes `values`: returns the scale and the codes, and replaces `values` by the remainders,
/// which are `values` minus the codes times the scale.
fn code_part(values: &mut [f64]) -> (f64, Vec<i8>) {
    let unit = largest(values) / MAX_CODE;
    let per_unit = if unit > 0.0 { 1.0 / unit } else { 0.0 };
    let code = |value: &mut f64| {
        let code = (*value * per_unit).round_ties_even().clamp(-MAX_CODE, MAX_CODE);
        *value -= code * unit;
        code as i8
    };
    (unit, values.iter_mut().map(code).collect())
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| value.abs().max(most))
}

/// Writes the codes of a rotated row and returns the terms of its bound; `length` is the norm of
/// the row before rotation.
fn code_row(turned: &[f64], length: f64, dim: usize, codes: &mut [u8]) -> Note {
    let turned_length = norm(turned.iter().copied());
    let proven = length == 0.0 || ROW_NORMS.contains(&length);
    if !proven || turned_length > *ROW_NORMS.end() {
        return Note { scale: 0.0, full: f32::INFINITY, rest: 0.0 };
    }
    let scale = (largest(turned) / MAX_CODE) as f32;
    // If the scale is too small to distinguish from zero, the whole row counts as error.
    let scale = if f64::from(scale) > *ROW_NORMS.start() * 1e-6 { scale } else { 0.0 };
    let unit = f64::from(scale);
    let per_unit = if scale > 0.0 { 1.0 / unit } else { 0.0 };
    let (mut lost, mut kept) = (0.0, 0.0);
    for (value, code) in turned.iter().zip(codes) {
        let whole = (value * per_unit).round_ties_even().clamp(-MAX_CODE, MAX_CODE);
        *code = (whole as i32 + i32::from(SHIFT)) as u8;
        lost += (value - unit * whole) * (value - unit * whole);
        kept += unit * whole * (unit * whole);
    }
    let slack = f64::from(f32::EPSILON) * (dim as f64 / 16.0 + 128.0) * (length + turned_length);
    Note {
        scale,
        full: ((lost.sqrt() + slack) as f32).next_up(),
        rest: (kept.sqrt() as f32).next_up(),
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::vectors::kernels::Kernel;
    use agent_embed::matrix::dot;

    #[test]
    fn no_score_is_above_its_bound_and_bounds_are_close() {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let mut number = || random.random_range(-1.0f32..1.0);
        for dim in [1, 16, 100, 384] {
            // One dimension is far from zero in every row, as with some embedders.
            let row = |at: usize, x: f32| if at == dim / 2 { x + 20.0 } else { x };
            let rows: Vec<f32> = (0..BLOCK * dim).map(|at| row(at % dim, number())).collect();
            let space = Space::new((0..dim).map(|at| row(at, 0.0)).collect());
            let bytes = space.code_rows(&rows);
            assert_eq!(bytes.len(), block_bytes(space.stride()));
            let block = Block::new(&bytes, space.stride());
            let notes = block.notes();
            for scale in [1.0, 1e-9] {
                let query: Vec<f32> = (0..dim).map(|_| number() * scale).collect();
                let coded = space.code_query(&query).unwrap();
                for (at, row) in rows.chunks_exact(dim).enumerate() {
                    let score = dot(row, &query);
                    let note = Note { scale: notes[0][at], full: notes[1][at], rest: notes[2][at] };
                    let [a, b] = [0, 1].map(|part: usize| {
                        Kernel::Plain.product(block.row(at), &coded.parts[part])
                    });
                    let bound = coded.bound([a, b], note);
                    assert!(bound >= f64::from(score), "{bound} {score}");
                    // At most 1 % of the row's distance from the centre, plus rounding.
                    let differs = row.iter().zip(&space.centre).map(|(x, m)| f64::from(x - m));
                    let close = 0.01 * norm(differs) + 1e-3;
                    assert!(bound - f64::from(score) <= close * coded.length, "{bound} {score}");
                    // A threshold that the score just reaches lets the row pass both tests.
                    let test = coded.test(score);
                    let first = (a - coded.shifts[0]) as f32;
                    let second = first + (b - coded.shifts[1]) as f32 * test.second;
                    for (sum, rest) in [(first, coded.first_rest()), (second, test.rest)] {
                        let bound = sum * note.scale + note.full * test.full + note.rest * rest;
                        assert!(bound >= test.threshold, "{bound} {}", test.threshold);
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_without_proof_are_never_ruled_out() {
        let space = Space::new(vec![0.0; 2]);
        let bytes = space.code_rows(&[1e-30, 0.0, 1e20, 0.0, 0.0, 0.0, 1.0, 0.0]);
        let [_, full, _] = Block::new(&bytes, space.stride()).notes();
        assert_eq!(full[..2], [f32::INFINITY; 2]);
        assert!(full[2] < 1e-9 && full[3] < 0.01, "{full:?}");
        assert!(space.code_query(&[0.0, 0.0]).is_none());
        assert!(space.code_query(&[1e13, 0.0]).is_none());
    }
}
