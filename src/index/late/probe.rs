//! Finds documents by their tokens' centroids, then ranks the best of them by their decoded tokens.
//!
//! A query token probes its nearest centroids; documents with a token of one of these centroids are
//! candidates (Santhanam et al., "ColBERTv2", 2022). If there are too many candidates to decode,
//! all are first scored with each document token replaced by its centroid, and only the best are
//! decoded (Santhanam et al., "PLAID", 2022).

use rayon::prelude::*;

use super::{BLOCK_SCORED, LateIndex, MAX_QUERY_TOKENS};
use crate::arrays::Array;
use agent_embed::{Matrix, matrix::dot};
use agent_kb::{NodeId, Ranking, best, distinct};

/// Minimum number of decoded candidates, unless there are fewer candidates.
const MIN_DECODED: usize = 1024;
/// Minimum number of decoded candidates for each requested node.
const DECODED_PER_NODE: usize = 4;

/// For each centroid the documents with a token of this centroid.
pub(super) struct Lists {
    /// Centroid `i` has the places `bounds[i]..bounds[i + 1]`.
    pub(super) bounds: Array<u64>,
    /// Positions of documents among the candidates; for each centroid ascending, without
    /// duplicates.
    pub(super) places: Array<u32>,
}

/// Builds the arrays of [`Lists`] from all codes; document `i` has the codes
/// `bounds[i]..bounds[i + 1]`, each of `code_bytes` bytes. O(codes).
pub(super) fn lists(
    codes: &[u8],
    bounds: &[u64],
    code_bytes: usize,
    n_centroids: usize,
) -> (Vec<u64>, Vec<u32>) {
    let for_each = |visit: &mut dyn FnMut(usize, u32)| {
        let mut last = vec![u32::MAX; n_centroids];
        let mut codes = codes.chunks_exact(code_bytes);
        for (place, range) in bounds.windows(2).enumerate() {
            for code in codes.by_ref().take((range[1] - range[0]) as usize) {
                let centroid = usize::from(u16::from_le_bytes([code[0], code[1]]));
                if last[centroid] != place as u32 {
                    last[centroid] = place as u32;
                    visit(centroid, place as u32);
                }
            }
        }
    };
    let mut list_bounds = vec![0u64; n_centroids + 1];
    for_each(&mut |centroid, _| list_bounds[centroid + 1] += 1);
    for centroid in 0..n_centroids {
        list_bounds[centroid + 1] += list_bounds[centroid];
    }
    let mut ends = list_bounds.clone();
    let mut places = vec![0u32; list_bounds[n_centroids] as usize];
    for_each(&mut |centroid, place| {
        places[ends[centroid] as usize] = place;
        ends[centroid] += 1;
    });
    (list_bounds, places)
}

impl LateIndex {
    /// Searches all documents by late interaction with `query` (`[tokens, dim]`). Each token of the
    /// query probes its `nprobe` nearest centroids. Returns the best `k` with their scores, best
    /// first, ties by ascending id. Exact over the stored codes if `nprobe` is at least the number
    /// of centroids; O(tokens of the candidates * tokens of the query). Empty for an index without
    /// lists, such as the part `late`.
    pub fn search(&self, query: &Matrix, nprobe: usize, k: usize) -> Ranking {
        let Some(checkpoint) = &self.checkpoint else { return Vec::new() };
        let queries: Vec<&[f32]> =
            (0..query.rows().min(MAX_QUERY_TOKENS)).filter_map(|row| query.row(row)).collect();
        let centroids = self.centroids.as_slice();
        // `[centroids, tokens of the query]`.
        let scores: Vec<f32> = centroids
            .par_chunks_exact(self.dim)
            .flat_map_iter(|centroid| queries.iter().map(|row| dot(row, centroid)))
            .collect();
        let n_centroids = centroids.len() / self.dim;
        let lists = &checkpoint.lists;
        let mut places = Vec::new();
        for centroid in probed(&scores, queries.len(), nprobe) {
            places.extend_from_slice(lists.places.part(&lists.bounds, centroid));
        }
        let places = distinct(places).into_iter();
        let mut nodes: Vec<NodeId> =
            places.filter_map(|place| self.nodes.as_slice().get(place as usize).copied()).collect();
        let decoded = MIN_DECODED.max(k.saturating_mul(DECODED_PER_NODE));
        if nodes.len() > decoded && nprobe < n_centroids {
            let scored = self.score_by_centroids(&nodes, &scores, queries.len());
            nodes = best(scored, decoded).into_iter().map(|pair| pair.0).collect();
        }
        self.rank(query, &nodes, k)
    }

    /// Scores nodes as [`rank`](Self::rank) does, with each document token replaced by its
    /// centroid. `scores` is `[centroids, width]`, the dot products with the `width` tokens of the
    /// query.
    fn score_by_centroids(
        &self,
        nodes: &[NodeId],
        scores: &[f32],
        width: usize,
    ) -> Vec<(NodeId, f32)> {
        let score = |node: NodeId, most: &mut [f32]| {
            most.fill(f32::NEG_INFINITY);
            for code in self.codes_of(node) {
                let centroid = usize::from(u16::from_le_bytes([code[0], code[1]]));
                let row = scores.get(centroid * width..(centroid + 1) * width).unwrap_or_default();
                for (most, &score) in most.iter_mut().zip(row) {
                    *most = most.max(score);
                }
            }
            (node, most.iter().sum())
        };
        nodes
            .par_chunks(BLOCK_SCORED)
            .flat_map_iter(|nodes| {
                let mut most = vec![0.0; width];
                nodes.iter().map(move |&node| score(node, &mut most))
            })
            .collect()
    }
}

/// Returns the centroids, ascending, that are among the `nprobe` best of any token of the query.
/// `scores` is `[centroids, width]`, the dot products with the `width` tokens of the query.
fn probed(scores: &[f32], width: usize, nprobe: usize) -> Vec<usize> {
    let of_token = |token| {
        let scores = scores.iter().skip(token).step_by(width).enumerate();
        let pairs = scores.map(|(centroid, &score)| (centroid as u32, score));
        best(pairs.collect(), nprobe).into_iter().map(|pair| pair.0 as usize)
    };
    distinct((0..width).flat_map(of_token).collect())
}
