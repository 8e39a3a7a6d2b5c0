//! Exact search: bounds from the codes exclude most rows, exact scores rank the rest.
//!
//! Blocks of rows are compared with all queries of a batch at once. A row whose bound reaches a
//! query's floor, the `k`-th best score so far, is added to the query's waiting rows. Many waiting
//! rows are settled together: those with the largest bounds are scored first, so that the floor
//! rises and the remaining rows fall below it unscored. Threads share floors. That changes only
//! which rows are scored, never the result, because the bound of a dropped row, and so its score,
//! is strictly below `k` known scores.

use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::atomic::{self, AtomicU32};

use rayon::prelude::*;

use super::{
    BLOCK_ROWS, Hit, Result, Score, VectorError, VectorIndex,
    kernels::{BLOCK, Kernel, LANES, Lanes, Note, Panel, Test},
    quantized::{Block, CodedQuery, block_bytes},
};
use agent_kb::{NodeId, Ranking};

/// Maximum number of queries compared with a block of rows at once. A larger batch is split, and
/// all blocks are read again for each part.
pub(super) const MAX_QUERIES: usize = 256;
/// If fewer rows than this are searched, all are scored, without codes.
const FEW_ROWS: usize = 1_024;
/// Number of blocks of rows after which a thread reads the floors that other threads have raised.
const SPAN: usize = 16;
/// Maximum number of waiting rows of a query, in addition to twice the number of results.
const MAX_WAITING: usize = 1_024;

/// The rows that are searched.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// All nodes from the first number to below the second.
    Range(usize, usize),
    /// These nodes, ascending.
    List(&'a [NodeId]),
}

impl<'a> Scope<'a> {
    fn new(n: usize, filter: Option<&'a [NodeId]>) -> Scope<'a> {
        match filter {
            None => Scope::Range(0, n),
            Some(nodes @ [first, .., last]) if (last - first) as usize == nodes.len() - 1 => {
                Scope::Range(*first as usize, *last as usize + 1)
            }
            Some(nodes) => Scope::List(nodes),
        }
    }

    fn len(self) -> usize {
        match self {
            Scope::Range(start, end) => end - start,
            Scope::List(nodes) => nodes.len(),
        }
    }

    /// Returns the node at a position, from 0.
    fn node(self, position: usize) -> NodeId {
        match self {
            Scope::Range(start, _) => (start + position) as NodeId,
            Scope::List(nodes) => nodes[position],
        }
    }

    /// Returns the indexes of the blocks to read. For a range these are blocks of the index; for a
    /// list, each block consists of [`BLOCK`] nodes of the list.
    fn blocks(self) -> Range<usize> {
        match self {
            Scope::Range(start, end) => start / BLOCK..end.div_ceil(BLOCK),
            Scope::List(nodes) => 0..nodes.len().div_ceil(BLOCK),
        }
    }
}

/// The rows of one block that are searched: those with an index in `rows`.
struct Rows<'a> {
    block: Block<'a>,
    rows: Range<usize>,
    /// The nodes of the block, by index of their row.
    nodes: Scope<'a>,
}

/// A query with its codes.
struct Query<'a> {
    numbers: &'a [f32],
    coded: CodedQuery,
    /// The largest `k`-th best score that any thread knows, as the bits of a [`Score`].
    floor: AtomicU32,
}

impl Query<'_> {
    fn floor(&self) -> f32 {
        Score(self.floor.load(atomic::Ordering::Relaxed)).number()
    }
}

/// The best rows of one query so far, and rows that wait to be scored.
struct TopK {
    k: usize,
    /// The best hits so far, at most `k`. The worst is on top, because hits are ordered best first.
    best: BinaryHeap<Hit>,
    /// Rows that wait to be scored: pairs (upper bound on the score, node).
    waiting: Vec<(f64, NodeId)>,
}

impl TopK {
    fn new(k: usize) -> TopK {
        TopK { k, best: BinaryHeap::new(), waiting: Vec::new() }
    }

    fn offer(&mut self, hit: Hit) {
        if self.best.len() < self.k {
            self.best.push(hit);
        } else if let Some(mut worst) = self.best.peek_mut()
            && hit < *worst
        {
            *worst = hit;
        }
    }

    /// Scores waiting rows, largest bound first, until no bound reaches the floor; then raises the
    /// shared floor to the `k`-th best score and drops the rest.
    fn settle(&mut self, index: &VectorIndex, query: &Query<'_>) {
        let mut floor = query.floor();
        self.waiting.retain(|(bound, _)| *bound >= f64::from(floor));
        self.waiting.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut buffer = index.buffer();
        let waiting = std::mem::take(&mut self.waiting);
        for (bound, node) in &waiting {
            if *bound < f64::from(floor) {
                break;
            }
            let score = index.score_row(query.numbers, *node as usize, &mut buffer);
            self.offer(Hit::new(score, *node));
            if self.best.len() == self.k
                && let Some(worst) = self.best.peek()
            {
                floor = floor.max(worst.score());
            }
        }
        query.floor.fetch_max(Score::new(floor).0, atomic::Ordering::Relaxed);
        self.waiting = waiting;
        self.waiting.clear();
    }
}

/// State of one thread that compares blocks of rows with the queries of a batch.
struct Worker<'a> {
    index: &'a VectorIndex,
    kernel: Kernel,
    queries: &'a [Query<'a>],
    panel: Option<&'a Panel>,
    tops: Vec<TopK>,
    /// The test of the query whose floor was last updated; used only if there is a single query.
    test: Test,
    lanes: Vec<Lanes>,
    sums: Vec<i32>,
    masks: Vec<u16>,
    gathered: Vec<u8>,
}

impl Worker<'_> {
    /// Computes the test of a query anew from its current floor.
    fn update_test(&mut self, query: usize) {
        let coded = &self.queries[query].coded;
        self.test = coded.test(self.queries[query].floor());
        let (lanes, lane) = (&mut self.lanes[query / LANES], query % LANES);
        lanes.shift[lane] = self.test.shifts[0];
        lanes.full[lane] = self.test.full;
        lanes.rest[lane] = coded.first_rest();
        lanes.threshold[lane] = self.test.threshold;
    }

    /// Adds a row to the waiting rows of a query, unless its bound is below the query's floor.
    fn enqueue(&mut self, query: usize, bound: f64, node: NodeId) {
        if bound < f64::from(self.queries[query].floor()) {
            return;
        }
        let top = &mut self.tops[query];
        top.waiting.push((bound, node));
        if top.waiting.len() >= 2 * top.k + MAX_WAITING {
            top.settle(self.index, &self.queries[query]);
            self.update_test(query);
        }
    }

    fn scan_single(&mut self, rows: &Rows<'_>) {
        let coded = &self.queries[0].coded;
        let [first, second] = &coded.parts;
        let mut sums = [[0; BLOCK]; 2];
        self.kernel.pair(rows.block.codes(), [first, second], &mut sums);
        let notes = rows.block.notes();
        let mut left = self.kernel.reaching_one(&sums, self.test, notes.each_ref());
        while left != 0 {
            let row = left.trailing_zeros() as usize;
            left &= left - 1;
            if rows.rows.contains(&row) {
                let bound = coded.bound(sums.map(|sums| sums[row]), note(&notes, row));
                self.enqueue(0, bound, rows.nodes.node(row));
            }
        }
    }

    fn scan_batch(&mut self, panel: &Panel, rows: &Rows<'_>) {
        let mut sums = std::mem::take(&mut self.sums);
        let mut masks = std::mem::take(&mut self.masks);
        sums.resize(BLOCK * panel.n(), 0);
        masks.resize(panel.n() / LANES, 0);
        self.kernel.panel(rows.block.codes(), panel, &mut sums);
        let notes = rows.block.notes();
        for row in rows.rows.clone() {
            let sums = &sums[row * panel.n()..][..panel.n()];
            let note = note(&notes, row);
            self.kernel.reaching(sums, &self.lanes, note, &mut masks);
            for (group, &mask) in masks.iter().enumerate() {
                let mut left = mask;
                while left != 0 {
                    let at = group * LANES + left.trailing_zeros() as usize;
                    left &= left - 1;
                    let Some(query) = self.queries.get(at) else { break };
                    let second = self.kernel.product(rows.block.row(row), &query.coded.parts[1]);
                    let bound = query.coded.bound([sums[at], second], note);
                    self.enqueue(at, bound, rows.nodes.node(row));
                }
            }
        }
        (self.sums, self.masks) = (sums, masks);
    }
}

fn note(notes: &[[f32; BLOCK]; 3], row: usize) -> Note {
    Note { scale: notes[0][row], full: notes[1][row], rest: notes[2][row] }
}

impl VectorIndex {
    /// Returns the best `k` nodes of the filter for each query; see [`VectorIndex::top_k`].
    pub(super) fn search(
        &self,
        queries: &[&[f32]],
        k: usize,
        filter: Option<&[NodeId]>,
    ) -> Result<Vec<Ranking>> {
        queries.iter().try_for_each(|query| self.check_query(query))?;
        if let Some(nodes) = filter {
            if let Some(pair) = nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
                return Err(VectorError::UnsortedFilter { previous: pair[0], next: pair[1] });
            }
            self.check_node(nodes.last().copied())?;
        }
        let on_device = match filter {
            None => self.search_on_device(queries, k)?,
            Some(_) => vec![None; queries.len()],
        };
        let left = queries.iter().zip(&on_device).filter(|(_, found)| found.is_none());
        let left: Vec<&[f32]> = left.map(|(query, _)| *query).collect();
        let scope = Scope::new(self.n, filter);
        // Codes exclude few rows if a large share of the rows is requested.
        let all = scope.len() < FEW_ROWS || k > scope.len() / 4;
        let kernel = (!all).then(Kernel::best);
        let mut here = left
            .chunks(MAX_QUERIES)
            .flat_map(|queries| self.best(queries, k, scope, kernel))
            .map(|hits| hits.into_iter().map(|hit| (hit.node, hit.score())).collect());
        let found = |found: Option<_>| found.or_else(|| here.next()).unwrap_or_default();
        Ok(on_device.into_iter().map(found).collect())
    }

    /// Returns the best `k` hits for each query, best first. Without a kernel, every row is scored.
    fn best(
        &self,
        queries: &[&[f32]],
        k: usize,
        scope: Scope<'_>,
        kernel: Option<Kernel>,
    ) -> Vec<Vec<Hit>> {
        let mut hits: Vec<Vec<Hit>> = vec![Vec::new(); queries.len()];
        if k == 0 {
            return hits;
        }
        let mut coded = Vec::new();
        let mut places = Vec::new();
        for (place, numbers) in queries.iter().enumerate() {
            match kernel.and_then(|_| self.space.code_query(numbers)) {
                Some(query) => {
                    let floor = AtomicU32::new(Score::new(f32::NEG_INFINITY).0);
                    coded.push(Query { numbers, coded: query, floor });
                    places.push(place);
                }
                None => hits[place] = self.best_by_score(numbers, k, scope),
            }
        }
        if let Some(kernel) = kernel
            && !coded.is_empty()
        {
            for (place, best) in places.into_iter().zip(self.best_by_code(&coded, k, scope, kernel))
            {
                hits[place] = best;
            }
        }
        hits
    }

    fn best_by_score(&self, query: &[f32], k: usize, scope: Scope<'_>) -> Vec<Hit> {
        let tops = (0..scope.len()).into_par_iter().step_by(BLOCK_ROWS).map(|start| {
            let mut buffer = self.buffer();
            let mut top = TopK::new(k);
            for at in start..scope.len().min(start + BLOCK_ROWS) {
                let node = scope.node(at);
                top.offer(Hit::new(self.score_row(query, node as usize, &mut buffer), node));
            }
            top
        });
        let mut best: Vec<Hit> = tops.flat_map_iter(|top| top.best).collect();
        if k < best.len() {
            best.select_nth_unstable(k);
            best.truncate(k);
        }
        best.sort_unstable();
        best
    }

    fn best_by_code(
        &self,
        queries: &[Query<'_>],
        k: usize,
        scope: Scope<'_>,
        kernel: Kernel,
    ) -> Vec<Vec<Hit>> {
        let stride = self.space.stride();
        let panel = (queries.len() > 1)
            .then(|| Panel::new(stride, queries.iter().map(|query| &query.coded.parts[0][..])));
        let n_lanes = panel.as_ref().map_or(1, |panel| panel.n() / LANES);
        let idle = Lanes {
            shift: [0; LANES],
            full: [0.0; LANES],
            rest: [0.0; LANES],
            threshold: [f32::INFINITY; LANES],
        };
        let blocks = scope.blocks();
        let spans = blocks.clone().into_par_iter().step_by(SPAN).with_min_len(4);
        let workers = spans.fold(
            || Worker {
                index: self,
                kernel,
                queries,
                panel: panel.as_ref(),
                tops: queries.iter().map(|_| TopK::new(k)).collect(),
                test: queries[0].coded.test(f32::NEG_INFINITY),
                lanes: vec![idle.clone(); n_lanes],
                sums: Vec::new(),
                masks: Vec::new(),
                gathered: Vec::new(),
            },
            |mut worker, start| {
                for query in 0..queries.len() {
                    worker.update_test(query);
                }
                let mut gathered = std::mem::take(&mut worker.gathered);
                for at in start..blocks.end.min(start + SPAN) {
                    let rows = self.rows_of(scope, at, &mut gathered);
                    match worker.panel {
                        Some(panel) => worker.scan_batch(panel, &rows),
                        None => worker.scan_single(&rows),
                    }
                }
                worker.gathered = gathered;
                worker
            },
        );
        let workers: Vec<Vec<TopK>> = workers.map(|worker| worker.tops).collect();
        let finish = |at: usize| {
            let mut top = TopK::new(k);
            for tops in &workers {
                tops[at].best.iter().for_each(|hit| top.offer(*hit));
                top.waiting.extend_from_slice(&tops[at].waiting);
            }
            top.settle(self, &queries[at]);
            top.best.into_sorted_vec()
        };
        (0..queries.len()).into_par_iter().map(finish).collect()
    }

    /// Returns block number `at` of the scope; rows of a list are copied to `gathered`.
    fn rows_of<'a>(&'a self, scope: Scope<'a>, at: usize, gathered: &'a mut Vec<u8>) -> Rows<'a> {
        let stride = self.space.stride();
        match scope {
            Scope::Range(start, end) => {
                let first = at * BLOCK;
                let rows = start.max(first) - first..end.min(first + BLOCK) - first;
                Rows { block: self.block(at), rows, nodes: Scope::Range(first, first + BLOCK) }
            }
            Scope::List(nodes) => {
                let nodes = &nodes[at * BLOCK..nodes.len().min((at + 1) * BLOCK)];
                gathered.resize(block_bytes(stride), 0);
                for (row, &node) in nodes.iter().enumerate() {
                    let (block, from) = (self.block(node as usize / BLOCK), node as usize % BLOCK);
                    gathered[row * stride..][..stride].copy_from_slice(block.row(from));
                    block.copy_note(from, gathered, row);
                }
                let block = Block::new(gathered, stride);
                Rows { block, rows: 0..nodes.len(), nodes: Scope::List(nodes) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::vectors::{Precision, tests::build};

    /// Makes rows that are hard to bound or to rank: far from the centre, equal, with one dimension
    /// and, if `wild`, tiny or huge.
    fn hard_rows(random: &mut ChaCha8Rng, n: usize, dim: usize, wild: bool) -> Vec<Vec<f32>> {
        let mut rows: Vec<Vec<f32>> = Vec::with_capacity(n);
        let far: Vec<f32> = (0..dim).map(|_| random.random_range(-3.0..3.0)).collect();
        for at in 0..n {
            let mut row: Vec<f32> = (0..dim).map(|_| random.random_range(-1.0..1.0)).collect();
            match random.random_range(0..if wild { 12 } else { 6 }) {
                0 => row.fill(0.0),
                1 if at > 0 => row = rows[random.random_range(0..at)].clone(),
                2 => row.iter_mut().zip(&far).for_each(|(x, far)| *x = *x * 1e-6 + far),
                3 => {
                    let at = random.random_range(0..dim);
                    row.fill(0.0);
                    row[at] = 1.0;
                }
                4 => row.iter_mut().for_each(|x| *x = x.round()),
                6 => row.iter_mut().for_each(|x| *x *= 1e-41),
                7 => row.iter_mut().for_each(|x| *x *= 1e-20),
                8 => row.iter_mut().for_each(|x| *x *= 3e38),
                9 => row.iter_mut().for_each(|x| *x *= 1e18),
                _ => (),
            }
            rows.push(row);
        }
        rows
    }

    #[test]
    fn codes_never_change_the_answer() {
        let mut random = ChaCha8Rng::seed_from_u64(11);
        for (dim, n, wild, precision) in [
            (1, 70, false, Precision::F32),
            (3, 600, true, Precision::F32),
            (65, 400, false, Precision::F16),
            (100, 300, true, Precision::F32),
            (192, 300, false, Precision::F32),
        ] {
            let rows = hard_rows(&mut random, n, dim, wild);
            let (_folder, index) = build(&rows, dim, precision);
            let mut queries = hard_rows(&mut random, 20, dim, false);
            queries.retain(|query| index.space.code_query(query).is_some());
            queries.push(index.row(7).unwrap().iter().map(|x| x.clamp(-1.0, 1.0) + 1e-4).collect());
            queries.push(vec![1e-9; dim]);
            let half: Vec<NodeId> = (0..n as NodeId).filter(|_| random.random()).collect();
            let range: Vec<NodeId> = (65..n as NodeId - 3).collect();
            for filter in [None, Some(&half[..]), Some(&range[..])] {
                let scope = Scope::new(n, filter);
                for k in [1, 20] {
                    let by_score: Vec<_> =
                        queries.iter().map(|query| index.best_by_score(query, k, scope)).collect();
                    for n_queries in [1, queries.len()] {
                        for &kernel in Kernel::all() {
                            let coded: Vec<Query<'_>> = queries[..n_queries]
                                .iter()
                                .map(|numbers| Query {
                                    numbers,
                                    coded: index.space.code_query(numbers).unwrap(),
                                    floor: AtomicU32::new(Score::new(f32::NEG_INFINITY).0),
                                })
                                .collect();
                            let by_code = index.best_by_code(&coded, k, scope, kernel);
                            assert!(
                                by_code == by_score[..n_queries],
                                "{kernel:?} {dim} {k} {n_queries}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn order_of_bits_is_order_of_numbers() {
        let numbers = [f32::NEG_INFINITY, -2.0, -1e-45, 0.0, 1e-45, 1.0, f32::INFINITY];
        assert!(numbers.map(Score::new).is_sorted());
        assert_eq!(numbers.map(Score::new).map(Score::number), numbers);
    }
}
