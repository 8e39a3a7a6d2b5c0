//! Navigable graphs: best-first search, and construction by insertion (HNSW: Malkov & Yashunin
//! 2018).
//!
//! Rows are inserted in order; the *place* of a row is its position in this order, from 0. Levels
//! come from a seeded random generator, and ties go to the smaller place. So the same rows give the
//! same graph.

use std::{cmp::Reverse, collections::BinaryHeap, convert::Infallible};

use agent_embed::matrix::dot;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashSet;

use crate::vectors::Score;

/// Maximum number of links that a new row gets per layer, and that any row keeps in an upper layer.
const CONNECTIVITY: usize = 16;
/// Maximum number of links that a row keeps in the lowest layer.
const CONNECTIVITY_LOWEST: usize = 2 * CONNECTIVITY;
/// Number of best places that the search for the links of a new row keeps.
const EXPANSION_BUILD: usize = 128;
/// Seed of the generator of random levels.
const SEED: u64 = 0;

/// A place with its score; the larger hit is the better one. Of two hits with equal scores, the one
/// with the smaller place is larger.
pub(super) type Hit = (Score, Reverse<u32>);

/// Searches a graph from `entries` for the `width` best places; returns them best first (Algorithm
/// 2 of the paper). Each step follows the links of the best place whose links are not yet followed.
/// The search ends when this place is worse than all kept places. `score` returns the scores of
/// places; `links` returns the places linked to a place. Places from `n_places` on are ignored.
pub(super) fn beam_search<E>(
    entries: Vec<u32>,
    n_places: usize,
    width: usize,
    score: impl Fn(&[u32]) -> Result<Vec<f32>, E>,
    links: impl Fn(u32) -> Vec<u32>,
) -> Result<Vec<Hit>, E> {
    let mut next = entries;
    let mut seen: FxHashSet<u32> = FxHashSet::default();
    let mut open: BinaryHeap<Hit> = BinaryHeap::new();
    let mut kept: BinaryHeap<Reverse<Hit>> = BinaryHeap::new();
    loop {
        next.retain(|&place| (place as usize) < n_places && seen.insert(place));
        for (&place, score) in next.iter().zip(score(&next)?) {
            let hit = (Score::new(score), Reverse(place));
            if kept.len() < width || kept.peek().is_some_and(|worst| hit > worst.0) {
                open.push(hit);
                kept.push(Reverse(hit));
                if kept.len() > width {
                    kept.pop();
                }
            }
        }
        match open.pop() {
            Some(hit) if kept.len() < width || kept.peek().is_some_and(|worst| hit >= worst.0) => {
                next = links(hit.1.0);
            }
            _ => return Ok(kept.into_sorted_vec().into_iter().map(|Reverse(hit)| hit).collect()),
        }
    }
}

/// A graph that grows row by row.
pub(super) struct GraphBuilder {
    dim: usize,
    /// The inserted rows, `[inserted, dim]`.
    rows: Vec<f32>,
    /// The links of each place with their scores, by layer, lowest layer first.
    links: Vec<Vec<Vec<Hit>>>,
    /// A place in the highest layer, where searches start.
    entry: u32,
    levels: ChaCha8Rng,
}

impl GraphBuilder {
    /// Creates an empty graph with memory for `capacity` rows of `dim` numbers.
    pub(super) fn new(dim: usize, capacity: usize) -> Self {
        Self {
            dim,
            rows: Vec::with_capacity(dim * capacity),
            links: Vec::with_capacity(capacity),
            entry: 0,
            levels: ChaCha8Rng::seed_from_u64(SEED),
        }
    }

    /// Appends a row and links it to the nearest rows so far (Algorithm 1 of the paper).
    pub(super) fn insert(&mut self, row: &[f32]) {
        let place = self.links.len() as u32;
        // One in `CONNECTIVITY` rows reaches the next level.
        let level = (self.levels.random::<u64>().trailing_zeros() / CONNECTIVITY.ilog2()) as usize;
        let mut links = vec![Vec::new(); level + 1];
        if place > 0 {
            let top = self.links[self.entry as usize].len() - 1;
            let mut entries = vec![self.entry];
            for layer in (0..=top).rev() {
                let width = if layer > level { 1 } else { EXPANSION_BUILD };
                let near = self.nearest(row, entries, width, layer);
                entries = near.iter().map(|hit| hit.1.0).collect();
                if layer <= level {
                    links[layer] = self.select(&near, CONNECTIVITY);
                }
            }
            if level > top {
                self.entry = place;
            }
        }
        self.rows.extend_from_slice(row);
        for (layer, links) in links.iter().enumerate() {
            links.iter().for_each(|hit| self.link_back(hit.1.0, (hit.0, Reverse(place)), layer));
        }
        self.links.push(links);
    }

    /// Returns the links of each place in the lowest layer, ascending.
    pub(super) fn into_links(self) -> impl Iterator<Item = Vec<u32>> {
        self.links.into_iter().map(|layers| {
            let mut links: Vec<u32> = layers[0].iter().map(|hit| hit.1.0).collect();
            links.sort_unstable();
            links
        })
    }

    fn row(&self, place: u32) -> &[f32] {
        &self.rows[place as usize * self.dim..][..self.dim]
    }

    fn nearest(&self, row: &[f32], entries: Vec<u32>, width: usize, layer: usize) -> Vec<Hit> {
        let score = |places: &[u32]| -> Result<Vec<f32>, Infallible> {
            Ok(places.iter().map(|&place| dot(row, self.row(place))).collect())
        };
        let links =
            |place: u32| self.links[place as usize][layer].iter().map(|hit| hit.1.0).collect();
        let Ok(near) = beam_search(entries, self.links.len(), width, score, links);
        near
    }

    /// Selects at most `max_links` links of a place from `near`, best first (Algorithm 4 of the
    /// paper). A candidate that is nearer to a selected link than to the place is skipped, because
    /// that link leads to it.
    fn select(&self, near: &[Hit], max_links: usize) -> Vec<Hit> {
        let mut links: Vec<Hit> = Vec::with_capacity(max_links);
        for &hit in near {
            let row = self.row(hit.1.0);
            if links.iter().all(|link| Score::new(dot(row, self.row(link.1.0))) <= hit.0) {
                links.push(hit);
                if links.len() == max_links {
                    break;
                }
            }
        }
        links
    }

    /// Adds a link to a place in a layer; if the place then has too many links, selects them anew.
    fn link_back(&mut self, place: u32, link: Hit, layer: usize) {
        let max_links = if layer == 0 { CONNECTIVITY_LOWEST } else { CONNECTIVITY };
        let links = &mut self.links[place as usize][layer];
        links.push(link);
        if links.len() > max_links {
            let mut near = std::mem::take(links);
            near.sort_unstable_by(|a, b| b.cmp(a));
            self.links[place as usize][layer] = self.select(&near, max_links);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N_ROWS: usize = 2_000;
    const DIM: usize = 16;

    #[test]
    fn a_search_finds_nearly_all_neighbours_and_links_are_bounded() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut graph = GraphBuilder::new(DIM, N_ROWS);
        for _ in 0..N_ROWS {
            let row: Vec<f32> = (0..DIM).map(|_| random.random_range(-1.0..1.0)).collect();
            graph.insert(&row);
        }
        let mut n_found = 0;
        for query in (0..N_ROWS as u32).step_by(40) {
            let near = graph.nearest(graph.row(query), vec![graph.entry], EXPANSION_BUILD, 0);
            let score = |place: u32| Score::new(dot(graph.row(query), graph.row(place)));
            let mut exact: Vec<Hit> =
                (0..N_ROWS as u32).map(|place| (score(place), Reverse(place))).collect();
            exact.sort_unstable_by(|a, b| b.cmp(a));
            n_found += exact[..10].iter().filter(|hit| near.contains(hit)).count();
        }
        assert!(n_found >= 480, "{n_found} of 500");
        assert!(graph.into_links().all(|links| links.len() <= CONNECTIVITY_LOWEST));
    }
}
