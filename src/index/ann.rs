//! Approximate nearest neighbours: a graph over the nodes that may be answers, in which a search
//! goes from near to nearer. The only place that knows usearch.
//!
//! usearch builds the graph (HNSW: Malkov & Yashunin 2018); what is kept is its lowest level, as
//! arrays. Searching is done here, over the exact vectors: scores are exact, nothing is stored twice,
//! opening reads a header, and no bytes in the file can lead outside of it. Entry points spread over
//! the graph take the place of the upper levels. The nodes are cut into shards of at most
//! `SHARD_NODES`; one thread builds a shard, so the graph does not depend on their number.
//!
//! Must not know: texts, queries, who asks.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    path::Path,
};

use rayon::prelude::*;
use safetensors::Dtype;
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

use crate::{
    IndexError,
    arrays::{Array, Arrays},
    build::Watch,
    parts::Materials,
    vectors::{VectorError, VectorIndex},
};
use agent_kb::{NodeId, best};

/// Nodes of one graph at most: bounds the memory and time of one thread.
const SHARD_NODES: usize = 1 << 17;
/// Links of a node in the upper levels; twice as many in the lowest.
const CONNECTIVITY: usize = 16;
/// Nodes kept in view while a node is linked.
const EXPANSION_BUILD: usize = 128;
/// Nodes kept in view by a search, at least; more find more and take longer.
const EXPANSION_SEARCH: usize = 256;
/// Nodes of a shard that a search begins with.
const ENTRY_POINTS: usize = 64;
/// Nodes whose neighbours are searched, exactly and not, to state the recall.
const SAMPLED: usize = 100;
/// Neighbours asked for in that.
const RECALL_AT: usize = 100;
/// Nodes linked between two looks at whether to stop.
const REPORT_EVERY: usize = 1_024;
/// The file inside its directory.
const FILE: &str = "graph";
/// The stage in reports of progress.
const STAGE: &str = "ann";

/// An opened graph.
pub struct AnnIndex {
    arrays: Arrays,
    /// The node of each place, ascending. Nodes without a vector have no place.
    nodes: Array<u32>,
    /// Bounds of the shards in places.
    shards: Array<u64>,
    /// Bounds of the links of each place.
    bounds: Array<u64>,
    /// Places, in the same shard.
    links: Array<u32>,
    recall: f32,
}

/// Builds the graph into a directory.
pub(super) fn build(of: &Materials<'_>, watch: &Watch<'_>, dir: &Path) -> Result<(), IndexError> {
    let mut nodes: Vec<NodeId> = Vec::new();
    for &node in of.kb.candidates() {
        if of.vectors.row(node)?.iter().any(|&number| number != 0.0) {
            nodes.push(node);
        }
    }
    let n_shards = nodes.len().div_ceil(SHARD_NODES).max(1);
    let shards: Vec<u64> =
        (0..=n_shards).map(|shard| (shard * nodes.len() / n_shards) as u64).collect();
    let linked: Vec<Vec<Vec<u32>>> = shards
        .par_windows(2)
        .map(|shard| link(&nodes, shard[0] as usize..shard[1] as usize, of.vectors, watch, dir))
        .collect::<Result<_, _>>()?;
    let linked: Vec<Vec<u32>> = linked.into_iter().flatten().collect();
    let mut bounds = vec![0u64];
    for links in &linked {
        bounds.push(bounds.last().copied().unwrap_or(0) + links.len() as u64);
    }
    let links = linked.concat();
    let write = |recall: f32| {
        let arrays: [(&str, Dtype, &[u8]); 5] = [
            ("shards", Dtype::U64, bytemuck::cast_slice(&shards)),
            ("bounds", Dtype::U64, bytemuck::cast_slice(&bounds)),
            ("nodes", Dtype::U32, bytemuck::cast_slice(&nodes)),
            ("links", Dtype::U32, bytemuck::cast_slice(&links)),
            ("recall", Dtype::F32, bytemuck::bytes_of(&recall)),
        ];
        Arrays::write_sealed(&dir.join(FILE), &arrays)
    };
    write(0.0)?;
    let recall = AnnIndex::open(dir)?.measured(&nodes, of.vectors)?;
    write(recall)
}

/// The links of each node of one shard, as places among all nodes, ascending.
fn link(
    nodes: &[NodeId],
    shard: std::ops::Range<usize>,
    vectors: &VectorIndex,
    watch: &Watch<'_>,
    dir: &Path,
) -> Result<Vec<Vec<u32>>, IndexError> {
    let failed = |error: &dyn std::fmt::Display| {
        IndexError::io(dir, std::io::Error::other(error.to_string()))
    };
    let options = IndexOptions {
        dimensions: vectors.dim(),
        metric: MetricKind::IP,
        quantization: ScalarKind::F32,
        connectivity: CONNECTIVITY,
        expansion_add: EXPANSION_BUILD,
        expansion_search: EXPANSION_BUILD,
        multi: false,
    };
    let graph = Index::new(&options).map_err(|error| failed(&error))?;
    graph.reserve_capacity_and_threads(shard.len(), 1).map_err(|error| failed(&error))?;
    for place in shard.clone() {
        if (place - shard.start).is_multiple_of(REPORT_EVERY) {
            watch.at(STAGE, (place - shard.start) as u64, shard.len() as u64)?;
        }
        graph.add(place as u64, &vectors.row(nodes[place])?).map_err(|error| failed(&error))?;
    }
    watch.at(STAGE, shard.len() as u64, shard.len() as u64)?;
    let sorted = |place: usize| {
        let mut links: Vec<u32> =
            graph.neighbors(place as u64, 0).map(|link| link as u32).collect();
        links.sort_unstable();
        links
    };
    Ok(shard.map(sorted).collect())
}

impl AnnIndex {
    /// Maps the graph in a directory; constant time.
    ///
    /// # Errors
    /// As [`Arrays::open`] and [`Arrays::get`].
    pub fn open(dir: &Path) -> Result<Self, IndexError> {
        let arrays = Arrays::open(&dir.join(FILE))?;
        Ok(Self {
            nodes: arrays.get("nodes")?,
            shards: arrays.get("shards")?,
            bounds: arrays.get("bounds")?,
            links: arrays.get("links")?,
            recall: arrays.get::<f32>("recall")?.as_slice().first().copied().unwrap_or(0.0),
            arrays,
        })
    }

    /// Reads it all and compares it with its checksum.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub fn verify(&self) -> Result<(), IndexError> {
        self.arrays.verify()
    }

    /// What it is, in a line for people.
    pub fn describe(&self) -> String {
        let n = self.nodes.as_slice().len();
        let sampled = n.div_ceil(sample_step(n));
        let recall = self.recall;
        format!("graph over {n} nodes, recall@{RECALL_AT} {recall:.3} on {sampled} of them")
    }

    /// About the `k` nodes nearest to `query` (`[dim]`, not zero), best first, ties by ascending id.
    /// `vectors` must be those it was built over. Scores are exact dot products; a node may be
    /// missing. About `(k + 256) * 32` dot products for each shard.
    ///
    /// # Errors
    /// Those of [`VectorIndex::score`].
    pub fn search(
        &self,
        vectors: &VectorIndex,
        query: &[f32],
        k: usize,
    ) -> Result<Vec<(NodeId, f32)>, VectorError> {
        let found: Vec<Vec<(NodeId, f32)>> = self
            .shards
            .as_slice()
            .par_windows(2)
            .map(|shard| self.descend(vectors, query, k, shard[0] as usize, shard[1] as usize))
            .collect::<Result<_, _>>()?;
        Ok(best(found.concat(), k))
    }

    /// Searches the graph of one shard from its entry points: the best node not yet looked at is looked
    /// at next, until it is worse than all that are kept.
    fn descend(
        &self,
        vectors: &VectorIndex,
        query: &[f32],
        k: usize,
        start: usize,
        end: usize,
    ) -> Result<Vec<(NodeId, f32)>, VectorError> {
        let nodes = self.nodes.as_slice();
        let width = k.max(EXPANSION_SEARCH);
        let step = end.saturating_sub(start).div_ceil(ENTRY_POINTS).max(1);
        let mut seen: HashSet<u32> = HashSet::new();
        let mut open: BinaryHeap<(Score, Reverse<u32>)> = BinaryHeap::new();
        let mut kept: BinaryHeap<Reverse<(Score, Reverse<u32>)>> = BinaryHeap::new();
        let mut next: Vec<u32> =
            (start..end.min(nodes.len())).step_by(step).map(|place| place as u32).collect();
        loop {
            next.retain(|&place| (place as usize) < nodes.len() && seen.insert(place));
            let ids: Vec<NodeId> = next.iter().map(|&place| nodes[place as usize]).collect();
            for (&place, score) in next.iter().zip(vectors.score(query, &ids)?) {
                let hit = (Score(score), Reverse(place));
                if kept.len() < width || kept.peek().is_some_and(|worst| hit > worst.0) {
                    open.push(hit);
                    kept.push(Reverse(hit));
                    if kept.len() > width {
                        kept.pop();
                    }
                }
            }
            match open.pop() {
                Some(hit)
                    if kept.len() < width || kept.peek().is_some_and(|worst| hit >= worst.0) =>
                {
                    next = self.links.part(&self.bounds, hit.1.0 as usize).to_vec();
                }
                _ => break,
            }
        }
        Ok(kept
            .into_iter()
            .map(|Reverse((score, Reverse(place)))| (nodes[place as usize], score.0))
            .collect())
    }

    /// The share of the exact neighbours of sampled nodes that a search finds.
    fn measured(&self, nodes: &[NodeId], vectors: &VectorIndex) -> Result<f32, IndexError> {
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

/// From one sampled node to the next, of `n`.
fn sample_step(n: usize) -> usize {
    n.div_ceil(SAMPLED).max(1)
}

/// A score in its total order.
#[derive(Clone, Copy)]
struct Score(f32);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Score {}
impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Score {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}
