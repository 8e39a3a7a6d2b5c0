//! Approximate nearest neighbours: best-first search of a graph over the candidate nodes.
//!
//! The module `graph` builds the graph (HNSW: Malkov & Yashunin 2018); the file holds the lowest
//! layer as arrays. Entry points that are spread over the graph replace the upper layers. The
//! search reads the exact vectors of the index, so scores are exact and no vector is stored twice.
//! Opening reads only a header, and malformed content cannot cause access outside the file. Nodes
//! are split into shards of at most `SHARD_NODES`; one thread builds a shard, so the graph does not
//! depend on the number of threads.

mod graph;

use std::{cmp::Reverse, collections::HashSet, ops::Range, path::Path};

use rayon::prelude::*;

use self::graph::{GraphBuilder, beam_search};
use crate::{
    Result,
    arrays::{Array, Arrays, named},
    build::Watch,
    parts::Materials,
    vectors::{VectorError, VectorIndex},
};
use agent_kb::{NodeId, Ranking, best};

/// Maximum number of nodes of one shard; it bounds the memory and time of the thread that builds
/// the shard.
const SHARD_NODES: usize = 1 << 17;
/// Minimum number of best nodes that a search keeps while it runs; a larger number raises recall
/// and time.
const EXPANSION_SEARCH: usize = 256;
/// Maximum number of entry points of a shard, from which its search starts.
const ENTRY_POINTS: usize = 64;
/// Maximum number of nodes on which recall is measured; they are evenly spaced.
const SAMPLED: usize = 100;
/// Number of nearest neighbours that are compared for each node on which recall is measured.
const RECALL_AT: usize = 100;
/// Number of nodes inserted between two reports of progress.
const REPORT_EVERY: usize = 1_024;
/// Name of the file of the graph.
const FILE: &str = "graph";
/// Name of the stage in progress reports.
const STAGE: &str = "ann";

/// An opened graph for approximate search.
pub struct AnnIndex {
    arrays: Arrays,
    /// The nodes of the graph, ascending; a *place* is an index in this array. Nodes whose vector
    /// is zero are left out.
    nodes: Array<u32>,
    /// Shard `i` has the places `shards[i]..shards[i + 1]`.
    shards: Array<u64>,
    /// Place `i` has the links `links[bounds[i]..bounds[i + 1]]`.
    bounds: Array<u64>,
    /// Places to which a place is linked, all in the same shard.
    links: Array<u32>,
    recall: f32,
}

/// Builds the graph over the candidates and writes it to the directory `dir`.
pub(super) fn build(materials: &Materials<'_>, watch: &Watch<'_>, dir: &Path) -> Result<()> {
    let mut nodes: Vec<NodeId> = Vec::new();
    for &node in materials.kb.candidates() {
        if materials.vectors.row(node)?.iter().any(|&number| number != 0.0) {
            nodes.push(node);
        }
    }
    let n_shards = nodes.len().div_ceil(SHARD_NODES).max(1);
    let shards: Vec<u64> =
        (0..=n_shards).map(|shard| (shard * nodes.len() / n_shards) as u64).collect();
    let linked: Vec<Vec<Vec<u32>>> = shards
        .par_windows(2)
        .map(|shard| link(&nodes, shard[0] as usize..shard[1] as usize, materials.vectors, watch))
        .collect::<Result<_, _>>()?;
    let linked: Vec<Vec<u32>> = linked.into_iter().flatten().collect();
    let mut bounds = vec![0u64];
    for links in &linked {
        bounds.push(bounds.last().copied().unwrap_or(0) + links.len() as u64);
    }
    let links = linked.concat();
    let write = |recall: f32| {
        Arrays::write_sealed(
            &dir.join(FILE),
            &[
                named("shards", &shards),
                named("bounds", &bounds),
                named("nodes", &nodes),
                named("links", &links),
                named("recall", &[recall]),
            ],
        )
    };
    write(0.0)?;
    let recall = AnnIndex::open(dir)?.measure_recall(&nodes, materials.vectors)?;
    write(recall)
}

/// Builds the graph of one shard, which is a range of places. Returns the links of each place of
/// the shard; a link is the linked place, counted over all shards.
fn link(
    nodes: &[NodeId],
    shard: Range<usize>,
    vectors: &VectorIndex,
    watch: &Watch<'_>,
) -> Result<Vec<Vec<u32>>> {
    let total = shard.len() as u64;
    let mut graph = GraphBuilder::new(vectors.dim(), shard.len());
    for (inserted, &node) in nodes[shard.clone()].iter().enumerate() {
        if inserted.is_multiple_of(REPORT_EVERY) {
            watch.progress(STAGE, inserted as u64, total)?;
        }
        graph.insert(&vectors.row(node)?);
    }
    watch.progress(STAGE, total, total)?;
    let first = shard.start as u32;
    Ok(graph.into_links().map(|links| links.iter().map(|link| first + link).collect()).collect())
}

impl AnnIndex {
    /// Opens the graph in the directory `dir`; the file is mapped, not read. Constant time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(dir: &Path) -> Result<Self> {
        let arrays = Arrays::open(&dir.join(FILE))?;
        Ok(Self {
            nodes: arrays.get("nodes")?,
            shards: arrays.get("shards")?,
            bounds: arrays.get("bounds")?,
            links: arrays.get("links")?,
            recall: arrays.number("recall")?,
            arrays,
        })
    }

    /// Reads the whole file and compares it with its recorded checksum.
    ///
    /// # Errors
    /// [`crate::IndexError::Damaged`] if the checksum differs.
    pub fn verify(&self) -> Result<()> {
        self.arrays.verify()
    }

    /// Returns a one-line summary for display: number of nodes and measured recall.
    pub fn describe(&self) -> String {
        let n = self.nodes.as_slice().len();
        let sampled = n.div_ceil(sample_step(n));
        let recall = self.recall;
        format!("graph over {n} nodes, recall@{RECALL_AT} {recall:.3} on {sampled} of them")
    }

    /// Returns approximately the `k` nodes nearest to `query` (`[dim]`, not zero) with their dot
    /// products, best first, ties by ascending id. The dot products are exact, but a near node may
    /// be missing. `vectors` must be the vectors from which the graph was built. Computes about
    /// `(k + 256) * 32` dot products per shard.
    ///
    /// # Errors
    /// As [`VectorIndex::score`].
    pub fn search(
        &self,
        vectors: &VectorIndex,
        query: &[f32],
        k: usize,
    ) -> Result<Ranking, VectorError> {
        let found: Vec<Vec<(NodeId, f32)>> = self
            .shards
            .as_slice()
            .par_windows(2)
            .map(|shard| self.search_shard(vectors, query, k, shard[0] as usize..shard[1] as usize))
            .collect::<Result<_, _>>()?;
        Ok(best(found.concat(), k))
    }

    /// Searches the graph of one shard, a range of places, from its entry points.
    fn search_shard(
        &self,
        vectors: &VectorIndex,
        query: &[f32],
        k: usize,
        shard: Range<usize>,
    ) -> Result<Ranking, VectorError> {
        let nodes = self.nodes.as_slice();
        let step = shard.len().div_ceil(ENTRY_POINTS).max(1);
        let entries =
            (shard.start..shard.end.min(nodes.len())).step_by(step).map(|place| place as u32);
        let score = |places: &[u32]| {
            let ids: Vec<NodeId> = places.iter().map(|&place| nodes[place as usize]).collect();
            vectors.score(query, &ids)
        };
        let links = |place: u32| self.links.part(&self.bounds, place as usize).to_vec();
        let width = k.max(EXPANSION_SEARCH);
        let hits = beam_search(entries.collect(), nodes.len(), width, score, links)?;
        Ok(hits
            .iter()
            .map(|(score, Reverse(place))| (nodes[*place as usize], score.number()))
            .collect())
    }

    /// Returns the share, in `0..=1`, of the nearest neighbours of sampled nodes that a search
    /// finds.
    fn measure_recall(&self, nodes: &[NodeId], vectors: &VectorIndex) -> Result<f32> {
        let (mut found, mut exact_total) = (0, 0);
        for &node in nodes.iter().step_by(sample_step(nodes.len())) {
            let query = vectors.row(node)?;
            let exact = vectors.top_k(&query, RECALL_AT, Some(nodes))?;
            let near = self.search(vectors, &query, RECALL_AT)?;
            let near: HashSet<NodeId> = near.iter().map(|pair| pair.0).collect();
            found += exact.iter().filter(|pair| near.contains(&pair.0)).count();
            exact_total += exact.len();
        }
        Ok(found as f32 / exact_total.max(1) as f32)
    }
}

/// Returns the sampling step: every `step`-th of `n` nodes is sampled.
fn sample_step(n: usize) -> usize {
    n.div_ceil(SAMPLED).max(1)
}
