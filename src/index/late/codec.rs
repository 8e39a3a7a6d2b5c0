//! Short codes for vectors: the nearest of a few hundred or thousand centroids, and the residual
//! with [`BITS`] bits per number (the residual compression of ColBERTv2: Santhanam et al. 2022).
//!
//! Each number of a residual falls into one of `2^BITS` buckets, whose bounds are quantiles of the
//! residuals of a sample, and is decoded as the median of its bucket. A code is the index of the
//! centroid in two bytes, then the indexes of the buckets, the first in the lowest bits. Decoded
//! vectors have length 1.

use rayon::prelude::*;

use agent_embed::matrix::{dot, normalise};

/// Number of bits for each number of a residual: 1, 2, 4 or 8.
const BITS: usize = 2;
/// Minimum number of sampled vectors for each centroid.
const PER_CENTROID: usize = 16;
/// Number of rounds of Lloyd's algorithm (k-means) in which centroids are trained.
const ROUNDS: usize = 6;
/// Number of vectors that one thread assigns to centroids at a time.
const BLOCK: usize = 256;

/// Encodes and decodes vectors.
pub(super) struct Codec<'a> {
    pub(super) dim: usize,
    /// Centroids, `[n, dim]`, each of length 1 or zero.
    pub(super) centroids: &'a [f32],
    /// The decoded value of the residual numbers in each bucket, `[2^BITS]`, ascending.
    pub(super) weights: &'a [f32],
    /// Bounds between buckets, `[2^BITS - 1]`, ascending; used only to encode.
    pub(super) cutoffs: &'a [f32],
}

/// Returns the length of a code, in bytes.
pub(super) fn code_bytes(dim: usize) -> usize {
    2 + (dim * BITS).div_ceil(8)
}

/// Trains centroids, weights and cutoffs, in this order, on a sample (`[n, dim]`, rows of length
/// 1). There are at most `max_centroids` centroids. `max_centroids` must be at most 65,536, because
/// a code holds the index of its centroid in two bytes. The same sample gives the same bytes on any
/// number of threads. O(n * centroids * dim).
pub(super) fn learn(
    sample: &[f32],
    dim: usize,
    max_centroids: usize,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let n = sample.len() / dim;
    let n_centroids = (n / PER_CENTROID).clamp(1, max_centroids).min(n.max(1));
    let row = |at: usize| &sample[at * dim..(at + 1) * dim];
    let mut centroids: Vec<f32> = match n {
        0 => vec![0.0; dim],
        _ => (0..n_centroids).flat_map(|at| row(at * n / n_centroids)).copied().collect(),
    };
    for _ in 0..ROUNDS {
        let nearest = assign(&centroids, sample, dim);
        let mut sums = vec![0.0f32; centroids.len()];
        for (at, &centroid) in nearest.iter().enumerate() {
            let sum = &mut sums[centroid * dim..(centroid + 1) * dim];
            sum.iter_mut().zip(row(at)).for_each(|(sum, number)| *sum += number);
        }
        for (old, new) in centroids.chunks_exact_mut(dim).zip(sums.chunks_exact_mut(dim)) {
            // A centroid without assigned vectors keeps its value.
            if normalise(new) > 0.0 {
                old.copy_from_slice(new);
            }
        }
    }
    let nearest = assign(&centroids, sample, dim);
    let mut residuals: Vec<f32> = Vec::with_capacity(sample.len());
    for (at, &centroid) in nearest.iter().enumerate() {
        let centroid = &centroids[centroid * dim..(centroid + 1) * dim];
        residuals.extend(row(at).iter().zip(centroid).map(|(number, near)| number - near));
    }
    residuals.sort_unstable_by(f32::total_cmp);
    let quantile = |of: f64| {
        let at = (of * residuals.len() as f64) as usize;
        residuals.get(at.min(residuals.len().saturating_sub(1))).copied().unwrap_or(0.0)
    };
    let buckets = 1usize << BITS;
    let cutoffs = (1..buckets).map(|at| quantile(at as f64 / buckets as f64)).collect();
    let weights = (0..buckets).map(|at| quantile((at as f64 + 0.5) / buckets as f64)).collect();
    (centroids, weights, cutoffs)
}

/// Finds the index of the nearest centroid of each row; of equally near centroids, the first.
fn assign(centroids: &[f32], rows: &[f32], dim: usize) -> Vec<usize> {
    rows.par_chunks(dim * BLOCK)
        .flat_map_iter(|rows| rows.chunks_exact(dim).map(|row| nearest(centroids, row)))
        .collect()
}

fn nearest(centroids: &[f32], row: &[f32]) -> usize {
    let mut best = (f32::NEG_INFINITY, 0);
    for (at, centroid) in centroids.chunks_exact(row.len()).enumerate() {
        let score = dot(centroid, row);
        if score > best.0 {
            best = (score, at);
        }
    }
    best.1
}

impl Codec<'_> {
    /// Encodes a vector (`[dim]`, of length 1) as [`code_bytes`] bytes.
    pub(super) fn encode(&self, vector: &[f32]) -> Vec<u8> {
        let near = nearest(self.centroids, vector);
        let centroid = &self.centroids[near * self.dim..(near + 1) * self.dim];
        let mut code = vec![0; code_bytes(self.dim)];
        code[..2].copy_from_slice(&(near as u16).to_le_bytes());
        for (at, (number, near)) in vector.iter().zip(centroid).enumerate() {
            let residual = number - near;
            let bucket = self.cutoffs.partition_point(|&cutoff| cutoff <= residual);
            code[2 + at * BITS / 8] |= (bucket as u8) << (at * BITS % 8);
        }
        code
    }

    /// Decodes a code into `vector` (`[dim]`), which then has length 1; zeros if the code is
    /// malformed. `table` is the result of [`Codec::table`].
    pub(super) fn decode(&self, code: &[u8], table: &[f32], vector: &mut [f32]) {
        vector.fill(0.0);
        let [low, high, residuals @ ..] = code else { return };
        let near = usize::from(u16::from_le_bytes([*low, *high])) * self.dim;
        let Some(centroid) = self.centroids.get(near..near + self.dim) else { return };
        let per_byte = 8 / BITS;
        let parts = vector.chunks_mut(per_byte).zip(centroid.chunks(per_byte));
        for ((numbers, centroid), &byte) in parts.zip(residuals) {
            let residual = &table[usize::from(byte) * per_byte..][..per_byte];
            for ((number, near), rest) in numbers.iter_mut().zip(centroid).zip(residual) {
                *number = near + rest;
            }
        }
        normalise(vector);
    }

    /// Computes the table for [`Codec::decode`]: for each value of a byte the residual numbers that
    /// it encodes, `[256, 8 / BITS]`.
    pub(super) fn table(&self) -> Vec<f32> {
        let mask = (1usize << BITS) - 1;
        let places = (0..256usize).flat_map(|byte| (0..8 / BITS).map(move |at| (byte, at)));
        let weight = |(byte, at): (usize, usize)| {
            self.weights.get((byte >> (at * BITS)) & mask).copied().unwrap_or(0.0)
        };
        places.map(weight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes `n` vectors of length 1 around eight directions.
    fn rows(n: usize, dim: usize) -> Vec<f32> {
        let mut rows: Vec<f32> = (0..n * dim)
            .map(|at| {
                let (row, column) = (at / dim, at % dim);
                let centre = ((row % 8 * 31 + column * 17) as f32).sin();
                centre + 0.3 * ((row * 7 + column * 13) as f32).cos()
            })
            .collect();
        rows.chunks_exact_mut(dim).for_each(|row| {
            normalise(row);
        });
        rows
    }

    #[test]
    fn decoded_vectors_are_near() {
        let (dim, sample) = (20, rows(256, 20));
        let (centroids, weights, cutoffs) = learn(&sample, dim, 512);
        let codec = Codec { dim, centroids: &centroids, weights: &weights, cutoffs: &cutoffs };
        let (table, mut buffer) = (codec.table(), vec![0.0; dim]);
        let cosines = sample.chunks_exact(dim).map(|row| {
            let code = codec.encode(row);
            assert_eq!(code.len(), code_bytes(dim));
            codec.decode(&code, &table, &mut buffer);
            dot(row, &buffer)
        });
        let mean = cosines.sum::<f32>() / 256.0;
        assert!(mean > 0.9, "{mean}");
    }

    #[test]
    fn one_thread_and_two_learn_the_same() {
        let sample = rows(600, 8);
        let with = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| learn(&sample, 8, 512))
        };
        assert_eq!(with(1), with(2));
        assert_eq!(learn(&[], 8, 512).0.len(), 8);
    }

    #[test]
    fn strange_codes_decode_to_zeros_or_a_vector_of_length_one() {
        let codec = Codec { dim: 4, centroids: &[1.0, 0.0, 0.0, 0.0], weights: &[], cutoffs: &[] };
        let (table, mut vector) = (codec.table(), [9.0; 4]);
        codec.decode(&[0, 0, 0xff], &table, &mut vector);
        assert_eq!(vector, [1.0, 0.0, 0.0, 0.0]);
        for code in [&[][..], &[0xff, 0xff, 1], &[1, 0, 1]] {
            vector = [9.0; 4];
            codec.decode(code, &table, &mut vector);
            assert_eq!(vector, [0.0; 4]);
        }
    }
}
