//! Finds the best nodes for a query without reading what cannot matter.

use crate::{
    index::{
        bm25::{Bm25, idf},
        postings::{
            MAX_QUERY_WORDS, Postings, RANGE,
            coding::{Gaps, shares, take},
            is_rare,
        },
    },
    kb::NodeId,
    words::for_each_reference_word,
};

/// What a bound may fall short of a score, by rounding; shares of it.
const SLACK: f32 = 1e-4;

/// A word of the query, ready to be scored.
struct Term<'a> {
    /// Its idf times how often it was asked for.
    weight: f32,
    postings: List<'a>,
}

enum List<'a> {
    /// Nodes with scores, and how many of them were passed.
    Rare(Vec<(NodeId, f32)>, usize),
    /// Bounds, ends and postings by range.
    Frequent(&'a [u8], &'a [[u8; 4]], &'a [u8]),
}

/// The best nodes so far: more than are wanted, cut now and then.
struct Best {
    k: usize,
    /// Scores above inverted ids: the greater, the better.
    found: Vec<u64>,
    /// Scores below this are not wanted; 0 until there are `k`.
    least: f32,
}

impl Best {
    fn new(k: usize) -> Self {
        Self { k, found: Vec::new(), least: 0.0 }
    }

    /// Takes a score above 0.
    #[inline]
    fn take(&mut self, node: NodeId, score: f32) {
        self.found.push(u64::from(score.to_bits()) << 32 | u64::from(!node));
        if self.found.len() >= self.k.saturating_mul(2).saturating_add(RANGE) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.found.len() >= self.k {
            let (_, &mut last, _) =
                self.found.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
            self.found.truncate(self.k);
            self.least = f32::from_bits((last >> 32) as u32);
        }
    }

    fn ranking(mut self) -> Vec<(NodeId, f32)> {
        self.cut();
        self.found.sort_unstable_by(|a, b| b.cmp(a));
        self.found
            .into_iter()
            .map(|key| (!(key as u32), f32::from_bits((key >> 32) as u32)))
            .collect()
    }
}

impl Postings {
    /// The `k` best nodes by BM25 among those of `allowed`, best first; ties by ascending id. A word
    /// asked for twice counts twice. Words beyond [`MAX_QUERY_WORDS`] are dropped. `allowed` gives
    /// the mask of nodes 64 `i` to 64 `i` + 63.
    ///
    /// O(postings) at worst, far below when few ranges can hold the best.
    pub fn search(
        &self,
        text: &str,
        setting: Bm25,
        allowed: impl Fn(usize) -> u64,
        k: usize,
    ) -> Vec<(NodeId, f32)> {
        let n_ranges = self.lengths.as_slice().len().div_ceil(RANGE);
        let mut bounds = vec![0.0f32; n_ranges];
        let mut terms = self.terms(text, setting, &mut bounds);
        if terms.is_empty() || k == 0 {
            return Vec::new();
        }
        let mut best = Best::new(k);
        // The most promising ranges first, so that most others need not be read.
        let mut order: Vec<u64> = (0u64..)
            .zip(&bounds)
            .filter(|(_, bound)| **bound > 0.0)
            .map(|(range, bound)| u64::from(bound.to_bits()) << 32 | range)
            .collect();
        let first = k.min(order.len());
        if first < order.len() {
            order.select_nth_unstable_by(first, |a, b| b.cmp(a));
        }
        let (promising, others) = order.split_at(first);
        for part in [promising, others] {
            best.cut();
            let least = best.least * (1.0 - SLACK);
            let mut ranges: Vec<u32> = part
                .iter()
                .filter(|key| f32::from_bits((**key >> 32) as u32) >= least)
                .map(|key| *key as u32)
                .collect();
            ranges.sort_unstable();
            for term in &mut terms {
                if let List::Rare(_, at) = &mut term.postings {
                    *at = 0;
                }
            }
            for range in ranges {
                let range = range as usize;
                if bounds[range] >= best.least * (1.0 - SLACK) {
                    self.score_range(range, &mut terms, setting, &allowed, &mut best);
                }
            }
        }
        best.ranking()
    }

    /// The query's words that the index has, rarest first, and what they can add to each range.
    fn terms(&self, text: &str, setting: Bm25, bounds: &mut [f32]) -> Vec<Term<'_>> {
        let mut words: Vec<u32> = Vec::new();
        let mut left = MAX_QUERY_WORDS;
        for_each_reference_word(text, |word| {
            if left > 0 {
                left -= 1;
                let id = self.vocabulary.find(word).and_then(|at| self.ids.as_slice().get(at));
                words.extend(id);
            }
        });
        words.sort_unstable();
        let lengths = self.lengths.as_slice();
        let mut counted: Vec<(u32, u32, f32)> = words
            .chunk_by(|a, b| a == b)
            .map(|same| {
                let count = self.counts.as_slice().get(same[0] as usize).copied().unwrap_or(0);
                (count, same[0], same.len() as f32 * idf(lengths.len(), count))
            })
            .collect();
        counted.sort_unstable_by_key(|word| (word.0, word.1));
        let shares = shares(setting);
        let term = |(count, id, weight): (u32, u32, f32)| {
            let mut bytes = self.postings.part(&self.starts, id as usize);
            if is_rare(count, lengths.len()) {
                let mut nodes = Vec::with_capacity(count.min(lengths.len() as u32) as usize);
                let (mut at, mut most) = (0, 0.0f32);
                for (node, count) in Gaps::new(&mut bytes) {
                    let Some(&length) = lengths.get(node as usize) else { break };
                    let norm = setting.norm(length, self.mean);
                    let score = weight * (count as f32 / (count as f32 + norm));
                    if node as usize / RANGE != at {
                        bounds[at] += std::mem::take(&mut most);
                        at = node as usize / RANGE;
                    }
                    most = most.max(score);
                    nodes.push((node, score));
                }
                if let Some(bound) = bounds.get_mut(at) {
                    *bound += most;
                }
                return Some(Term { weight, postings: List::Rare(nodes, 0) });
            }
            let (maxima, rest) = bytes.split_at_checked(bounds.len())?;
            let (ends, postings) = rest.split_at_checked(bounds.len() * 4)?;
            for (bound, &most) in bounds.iter_mut().zip(maxima) {
                *bound += weight * shares[usize::from(most)];
            }
            let ends = ends.as_chunks().0;
            Some(Term { weight, postings: List::Frequent(maxima, ends, postings) })
        };
        counted.into_iter().filter_map(term).collect()
    }

    /// Scores the nodes of one range.
    fn score_range(
        &self,
        range: usize,
        terms: &mut [Term<'_>],
        setting: Bm25,
        allowed: impl Fn(usize) -> u64,
        best: &mut Best,
    ) {
        let first = range * RANGE;
        let lengths = self.lengths.as_slice().get(first..).unwrap_or(&[]);
        let mut norms = [1.0f32; RANGE];
        for (norm, &length) in norms.iter_mut().zip(lengths) {
            *norm = setting.norm(length, self.mean);
        }
        let mut scores = [0.0f32; RANGE];
        for term in terms {
            match &mut term.postings {
                List::Rare(nodes, at) => {
                    let rest = &nodes[*at..];
                    *at += rest.partition_point(|&(node, _)| (node as usize) < first);
                    while let Some(&(node, score)) = nodes.get(*at)
                        && (node as usize) < first + RANGE
                    {
                        scores[node as usize % RANGE] += score;
                        *at += 1;
                    }
                }
                List::Frequent(_, ends, postings) => {
                    let start = range.checked_sub(1).map_or(0, |before| u32::from_le_bytes(ends[before]));
                    let end = u32::from_le_bytes(ends[range]);
                    let mut bytes = postings.get(start as usize..end as usize).unwrap_or(&[]);
                    while let Some((&byte, rest)) = bytes.split_first() {
                        bytes = rest;
                        let count = match byte & 3 {
                            3 => take(&mut bytes).unwrap_or(0) as f32 + 4.0,
                            less => f32::from(less + 1),
                        };
                        let place = usize::from(byte >> 2);
                        scores[place] += term.weight * (count / (count + norms[place]));
                    }
                }
            }
        }
        let reached = |least: f32| {
            scores.iter().zip(0..).fold(0u64, |mask, (&score, place)| {
                mask | u64::from(score >= least && score > 0.0) << place
            })
        };
        let mut mask = reached(best.least);
        if mask != 0 {
            mask &= allowed(range);
        }
        while mask != 0 {
            let place = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            if place < lengths.len() {
                best.take((first + place) as NodeId, scores[place]);
            }
        }
    }
}
