//! Search for the `k` best nodes in an inverted index, by block-max pruning.

use std::{borrow::Cow, cell::Cell, ops::Range, sync::Arc};

use crate::{
    bm25::{Bm25, LengthWeights, idf},
    postings::{
        BLOCK, MAX_QUERY_WORDS, Postings, RANGE,
        coding::{Frequent, Gaps, STEPS, Shares},
        is_rare,
    },
};
use agent_ground::words::for_each_reference_word;
use agent_kb::{NodeId, Ranking};

/// Maximum relative amount by which rounding may make a bound smaller than the score that it
/// bounds.
const SLACK: f32 = 1e-4;
/// Every block bound whose position is a multiple of this number is sampled, to estimate the
/// largest bounds.
const SAMPLED: usize = 16;
/// Blocks are scored in steps, those with the largest bounds first: step `n` ends after about
/// `LEVELS[n] * k` blocks.
const LEVELS: [usize; 3] = [1, 4, 16];
/// Number of blocks whose nodes share a 64-bit mask of allowed nodes.
const MASKED: usize = u64::BITS as usize / BLOCK;
/// For each byte, its bits as 0.0 or 1.0, lowest first.
static BITS: [[f32; BLOCK]; 256] = {
    let mut bits = [[0.0; BLOCK]; 256];
    let mut at = 0;
    while at < 256 * BLOCK {
        bits[at / BLOCK][at % BLOCK] = ((at / BLOCK) >> (at % BLOCK) & 1) as f32;
        at += 1;
    }
    bits
};

thread_local! {
    /// Buffer for scores of nodes by rare words; all zero between queries.
    static RARE_SCORES: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// A subset of the indexed texts that is searched as a collection of its own: other texts do not
/// affect its scores.
pub struct Collection {
    /// Bitmap of the nodes in the subset: 64 nodes per number, lowest bit first.
    nodes: Arc<[u64]>,
    /// Number of texts in the subset.
    pub n_texts: usize,
    /// Mean number of words of a text in the subset.
    pub mean_length: f32,
}

impl Collection {
    fn has(&self, node: NodeId) -> bool {
        let mask = self.nodes.get(node as usize / 64);
        mask.is_some_and(|mask| mask >> (node % 64) & 1 == 1)
    }
}

/// A frequent word of a query.
struct Term<'a> {
    /// Inverse document frequency of the word times its weight in the query.
    weight: f32,
    /// The largest score that the word can add in the block that is being scored.
    max_score: f32,
    postings: Frequent<'a>,
}

/// The best nodes so far. Holds up to about twice `k` nodes between truncations.
struct TopNodes {
    k: usize,
    /// A key for each node: the bits of the score in the upper half, the inverted id in the lower
    /// half. The greater key is better.
    found: Vec<u64>,
    /// The `k`-th best score at the last truncation; 0 while there are fewer than `k` nodes.
    floor: f32,
}

impl TopNodes {
    fn new(k: usize) -> Self {
        Self { k, found: Vec::new(), floor: 0.0 }
    }

    /// Adds a node with a score above 0; occasionally drops all but the best `k`.
    #[inline]
    fn take(&mut self, node: NodeId, score: f32) {
        self.found.push(u64::from(score.to_bits()) << 32 | u64::from(!node));
        if self.found.len() >= self.k.saturating_mul(2).saturating_add(RANGE) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.found.len() >= self.k {
            let (_, &mut last, _) = self.found.select_nth_unstable_by(self.k - 1, |a, b| b.cmp(a));
            self.found.truncate(self.k);
            self.floor = f32::from_bits((last >> 32) as u32);
        }
    }

    /// Smallest bound of a node that may still be among the best `k`, lowered by [`SLACK`].
    fn floor_bound(&self) -> f32 {
        self.floor * (1.0 - SLACK)
    }

    fn ranking(mut self) -> Ranking {
        self.cut();
        self.found.sort_unstable_by(|a, b| b.cmp(a));
        let pair = |key: u64| (!(key as u32), f32::from_bits((key >> 32) as u32));
        self.found.into_iter().map(pair).collect()
    }
}

/// State of the search for one query.
struct Search<'a> {
    index: &'a Postings,
    weights: LengthWeights,
    lengths: &'a [u32],
    /// For each node, the sum of its scores for the rare words of the query.
    rare: Vec<f32>,
    /// The largest share of a word's weight for each value of a stored bound.
    shares: Shares,
    /// The frequent words of the query, rarest first.
    frequent: Vec<Term<'a>>,
    /// Index of the first block that has an allowed node.
    first: usize,
    /// Upper bounds on the scores in each block from block `first` on.
    bounds: Vec<f32>,
    best: TopNodes,
}

impl Postings {
    /// Returns the `k` best nodes for a query by BM25, with their scores, best first, ties by
    /// ascending id. A word that is repeated in the query counts as often as it occurs; words after
    /// the first [`MAX_QUERY_WORDS`] are ignored. `allowed` is a bitmap of the nodes that may be
    /// found, 64 nodes per number, lowest bit first; `None` allows all.
    ///
    /// O(postings of the query's words) at worst; less if few blocks can hold a result.
    pub fn search(&self, text: &str, setting: Bm25, allowed: Option<&[u64]>, k: usize) -> Ranking {
        self.best(self.words(text, None), setting, self.mean, allowed, k)
    }

    /// As [`search`](Self::search), for words that are given in their indexed form, such as stems,
    /// with weights.
    pub(crate) fn search_forms(
        &self,
        forms: &[(String, f32)],
        setting: Bm25,
        allowed: Option<&[u64]>,
        k: usize,
    ) -> Ranking {
        let forms = forms.iter().take(MAX_QUERY_WORDS);
        let ids = forms.filter_map(|(form, weight)| Some((self.id(form)?, *weight))).collect();
        self.best(self.weighted(ids, None), setting, self.mean, allowed, k)
    }

    /// Returns the result of [`search`](Self::search) for each of several sets of allowed nodes.
    /// Words and bounds are read once for all sets.
    pub fn search_each(
        &self,
        text: &str,
        setting: Bm25,
        sets: &[Arc<[u64]>],
        k: usize,
    ) -> Vec<Ranking> {
        let sets: Vec<Option<&[u64]>> = sets.iter().map(|set| Some(&**set)).collect();
        self.best_of_each(self.words(text, None), setting, self.mean, &sets, k)
    }

    /// As [`search`](Self::search), within a collection: the number of texts, document frequencies
    /// and mean length are those of the collection. O(postings of the query's words).
    pub fn search_in(
        &self,
        text: &str,
        setting: Bm25,
        collection: &Collection,
        k: usize,
    ) -> Ranking {
        let words = self.words(text, Some(collection));
        self.best(words, setting, collection.mean_length, Some(&collection.nodes), k)
    }

    /// Creates the collection of the texts of the nodes in a bitmap, 64 nodes per number, lowest
    /// bit first. O(nodes).
    pub fn collection(&self, nodes: Arc<[u64]>) -> Collection {
        let mut collection = Collection { nodes, n_texts: 0, mean_length: 0.0 };
        let mut tokens = 0;
        for (node, &length) in (0..).zip(self.lengths.as_slice()) {
            if collection.has(node) {
                collection.n_texts += 1;
                tokens += u64::from(length);
            }
        }
        collection.mean_length = (tokens as f64 / collection.n_texts.max(1) as f64) as f32;
        collection
    }

    /// Finds the `k` best allowed nodes for words in the form that [`Self::weighted`] returns;
    /// `mean` is the mean number of words of a text.
    fn best(
        &self,
        words: Vec<(u32, u32, f32)>,
        setting: Bm25,
        mean: f32,
        allowed: Option<&[u64]>,
        k: usize,
    ) -> Ranking {
        let mut each = self.best_of_each(words, setting, mean, &[allowed], k);
        each.pop().unwrap_or_default()
    }

    /// Finds the `k` best nodes for each set of allowed nodes; see [`Self::best`].
    fn best_of_each(
        &self,
        words: Vec<(u32, u32, f32)>,
        setting: Bm25,
        mean: f32,
        sets: &[Option<&[u64]>],
        k: usize,
    ) -> Vec<Ranking> {
        if words.is_empty() || k == 0 {
            return vec![Vec::new(); sets.len()];
        }
        let lengths = self.lengths.as_slice();
        let n_blocks = lengths.len().div_ceil(BLOCK);
        let mut rare = RARE_SCORES.take();
        if rare.len() < n_blocks * BLOCK {
            rare.resize(n_blocks * BLOCK, 0.0);
        }
        let wanted = sets.iter().map(|allowed| wanted_blocks(*allowed, n_blocks));
        let wanted = wanted.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let wanted = wanted.unwrap_or_default();
        let mut search = Search {
            index: self,
            weights: setting.lengths(mean),
            lengths,
            rare,
            shares: Shares::new(setting, self.kept, self.mean / mean),
            frequent: Vec::with_capacity(words.len()),
            first: wanted.start,
            bounds: vec![0.0; wanted.len()],
            best: TopNodes::new(k),
        };
        let mut touched = Vec::new();
        for (count, id, weight) in words {
            search.add(count, id, weight, &mut touched);
        }
        let bounds = std::mem::take(&mut search.bounds);
        let mut found = Vec::with_capacity(sets.len());
        for allowed in sets {
            search.run(&bounds, *allowed);
            found.push(std::mem::replace(&mut search.best, TopNodes::new(k)).ranking());
        }
        touched.into_iter().for_each(|node: NodeId| search.rare[node as usize] = 0.0);
        RARE_SCORES.set(search.rare);
        found
    }

    /// Returns the words of a query that the index contains, in the form that [`Self::weighted`]
    /// returns; with `collection`, only words that the collection contains.
    fn words(&self, text: &str, collection: Option<&Collection>) -> Vec<(u32, u32, f32)> {
        let (mut ids, mut left) = (Vec::new(), MAX_QUERY_WORDS);
        for_each_reference_word(text, |word| {
            if left > 0 {
                left -= 1;
                self.analysis.for_each_form(&self.stems, word, &mut |form, weight| {
                    ids.extend(self.id(form).map(|id| (id, weight)));
                });
            }
        });
        self.weighted(ids, collection)
    }

    /// Returns the inverse document frequency of a word in its indexed form; `None` if no text
    /// contains the word.
    pub(crate) fn idf(&self, form: &str) -> Option<f32> {
        let count = *self.counts.as_slice().get(self.id(form)? as usize)?;
        Some(idf(self.lengths.as_slice().len(), count))
    }

    /// Number of indexed texts.
    pub(crate) fn n_texts(&self) -> usize {
        self.lengths.as_slice().len()
    }

    /// Iterates over the indexed words that are not less than `first`, ascending, each with the
    /// number of texts that contain it.
    pub(crate) fn words_from(&self, first: &str) -> impl Iterator<Item = (&str, u32)> {
        (self.vocabulary.find_from(first)..self.vocabulary.len()).filter_map(|at| {
            let id = *self.ids.as_slice().get(at)?;
            let texts = *self.counts.as_slice().get(id as usize)?;
            Some((std::str::from_utf8(self.vocabulary.get(at)).ok()?, texts))
        })
    }

    /// Finds the number of a word in its indexed form; `None` if no text contains the word.
    fn id(&self, form: &str) -> Option<u32> {
        self.vocabulary.find(form).and_then(|at| self.ids.as_slice().get(at)).copied()
    }

    /// Multiplies the weight of each word by the word's inverse document frequency, and merges
    /// repeated words. Returns triples (number of nodes with the word, word number, weight), rarest
    /// word first.
    fn weighted(
        &self,
        mut ids: Vec<(u32, f32)>,
        collection: Option<&Collection>,
    ) -> Vec<(u32, u32, f32)> {
        ids.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let n = collection.map_or(self.lengths.as_slice().len(), |nodes| nodes.n_texts);
        let mut words: Vec<(u32, u32, f32)> = ids
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|same| {
                let id = same[0].0;
                let count = *self.counts.as_slice().get(id as usize)?;
                let here = collection.map_or(count, |nodes| self.count_in(id, count, nodes));
                let weight = same.iter().map(|pair| pair.1).sum::<f32>() * idf(n, here);
                (here > 0).then_some((count, id, weight))
            })
            .collect();
        words.sort_unstable_by_key(|&(count, id, _)| (count, id));
        words
    }

    /// Counts the texts of a collection that contain a word; `count` is the number of such texts in
    /// the whole index.
    fn count_in(&self, word: u32, count: u32, collection: &Collection) -> u32 {
        let mut bytes = self.postings.part(&self.starts, word as usize);
        let n = self.lengths.as_slice().len();
        if is_rare(count, n) {
            return Gaps::new(&mut bytes).filter(|pair| collection.has(pair.0)).count() as u32;
        }
        Frequent::new(bytes, n).map_or(0, |postings| postings.count_in(&collection.nodes))
    }
}

impl<'a> Search<'a> {
    /// Adds a word to the query: for a rare word the scores of its nodes, for a frequent word the
    /// bounds of all blocks. Appends nodes with scores to `touched`.
    fn add(&mut self, count: u32, id: u32, weight: f32, touched: &mut Vec<NodeId>) {
        let mut bytes = self.index.postings.part(&self.index.starts, id as usize);
        if is_rare(count, self.lengths.len()) {
            let (mut block, mut max_score) = (0, 0.0f32);
            for (node, count) in Gaps::new(&mut bytes) {
                let at = node as usize;
                let Some(&length) = self.lengths.get(at) else { break };
                let Some(own) = (at / BLOCK).checked_sub(self.first) else { continue };
                if own >= self.bounds.len() {
                    break;
                }
                let score = weight * self.weights.share(count, length);
                if own != block {
                    self.bounds[block] += std::mem::take(&mut max_score);
                    block = own;
                }
                max_score = max_score.max(score);
                self.rare[at] += score;
                touched.push(node);
            }
            if let Some(bound) = self.bounds.get_mut(block) {
                *bound += max_score;
            }
        } else if let Some(postings) = Frequent::new(bytes, self.lengths.len()) {
            let word = postings.bounds.get(self.first..).unwrap_or_default();
            add_bounds(&mut self.bounds, word, weight, &self.shares);
            self.frequent.push(Term { weight, max_score: 0.0, postings });
        }
    }

    /// Finds the best allowed nodes; scores the blocks with the largest bounds first, so that most
    /// other blocks need not be read.
    fn run(&mut self, bounds: &[f32], allowed: Option<&[u64]>) {
        let wanted = wanted_blocks(allowed, self.first + bounds.len());
        let first = wanted.start.max(self.first);
        let bounds = bounds.get(first - self.first..wanted.end.saturating_sub(self.first));
        let mut bounds = Cow::Borrowed(bounds.unwrap_or_default());
        if let Some(allowed) = allowed {
            drop_unwanted(bounds.to_mut(), allowed.get(first / MASKED..).unwrap_or_default());
        }
        let mut sample: Vec<f32> = bounds.iter().step_by(SAMPLED).copied().collect();
        let mut cut = f32::INFINITY;
        let cuts = LEVELS.map(|level| {
            let nth = self.best.k.saturating_mul(level).div_ceil(SAMPLED);
            if nth < sample.len() {
                sample.select_nth_unstable_by(nth, |a, b| b.total_cmp(a));
                cut = sample[nth];
            } else {
                cut = 0.0;
            }
            cut
        });
        let lowest = cut;
        let mut blocks = Vec::new();
        collect_blocks(&bounds, first, lowest..f32::INFINITY, &mut blocks);
        let mut above = f32::INFINITY;
        for cut in cuts {
            self.run_blocks(&blocks, cut..above, allowed);
            above = cut;
        }
        if self.best.floor_bound() < lowest {
            blocks.clear();
            collect_blocks(&bounds, first, self.best.floor_bound()..lowest, &mut blocks);
            self.run_blocks(&blocks, 0.0..lowest, allowed);
        }
    }

    /// Scores the blocks whose bound is in the range `bounds`.
    fn run_blocks(&mut self, blocks: &[(f32, u32)], bounds: Range<f32>, allowed: Option<&[u64]>) {
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
            fn run_wide(
                search: &mut Search<'_>,
                blocks: &[(f32, u32)],
                bounds: Range<f32>,
                allowed: Option<&[u64]>,
            ) {
                search.run_any_blocks(blocks, bounds, allowed);
            }
            if has_wide_registers() {
                // SAFETY: the processor has the instructions.
                #[expect(unsafe_code, reason = "chosen when the program runs")]
                return unsafe { run_wide(self, blocks, bounds, allowed) };
            }
        }
        self.run_any_blocks(blocks, bounds, allowed);
    }

    #[inline(always)]
    fn run_any_blocks(
        &mut self,
        blocks: &[(f32, u32)],
        bounds: Range<f32>,
        allowed: Option<&[u64]>,
    ) {
        for &(bound, block) in blocks {
            if bounds.contains(&bound) && bound >= self.best.floor_bound() {
                let block = block as usize;
                let mask = allowed.map_or(u8::MAX, |allowed| {
                    allowed.get(block / 8).map_or(0, |mask| mask.to_le_bytes()[block % 8])
                });
                self.score_block(block, mask);
            }
        }
        self.best.cut();
    }

    /// Scores those nodes of a block that may be among the best; bit `i` of `allowed` allows node
    /// `i` of the block.
    #[inline(always)]
    fn score_block(&mut self, block: usize, allowed: u8) {
        let first = block * BLOCK;
        let mut bounds = [0.0f32; BLOCK];
        bounds.copy_from_slice(&self.rare[first..first + BLOCK]);
        for term in &mut self.frequent {
            term.max_score = term.weight * self.shares.of(term.postings.bounds[block]);
            let bits = &BITS[usize::from(term.postings.mask(block))];
            for (bound, bit) in bounds.iter_mut().zip(bits) {
                *bound += bit * term.max_score;
            }
        }
        let mut floor = self.best.floor_bound();
        let mut mask = reached(&bounds, floor) & allowed;
        while mask != 0 {
            let place = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let node = first + place;
            let Some(&length) = self.lengths.get(node) else { break };
            let norm = self.weights.norm(length);
            let (mut score, mut bound) = (self.rare[node], bounds[place]);
            for term in &self.frequent {
                if let Some(count) = term.postings.count(node) {
                    let exact = term.weight * (count / (count + norm));
                    score += exact;
                    bound += exact - term.max_score;
                    if bound < floor {
                        break;
                    }
                }
            }
            if bound >= floor && score >= self.best.floor && score > 0.0 {
                self.best.take(node as NodeId, score);
                floor = self.best.floor_bound();
            }
        }
    }
}

/// Returns the bit mask of the bounds that are above 0 and at least `floor`, lowest bit first.
#[inline]
fn reached(bounds: &[f32; BLOCK], floor: f32) -> u8 {
    let floor = floor.max(f32::MIN_POSITIVE);
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_cmpge_ps, _mm_movemask_ps, _mm_set1_ps, _mm_setr_ps};
        let [a, b, c, d, e, f, g, h] = *bounds;
        // SAFETY: every such processor has SSE.
        #[expect(unsafe_code, reason = "eight comparisons at once")]
        unsafe {
            let half = |four| _mm_movemask_ps(_mm_cmpge_ps(four, _mm_set1_ps(floor))) as u8;
            half(_mm_setr_ps(a, b, c, d)) | half(_mm_setr_ps(e, f, g, h)) << 4
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    bounds.iter().rev().fold(0, |mask, &bound| mask << 1 | u8::from(bound >= floor))
}

/// Returns the range from the first to the last block that has an allowed node; all blocks if
/// `allowed` is `None`.
fn wanted_blocks(allowed: Option<&[u64]>, n_blocks: usize) -> Range<usize> {
    let Some(allowed) = allowed else { return 0..n_blocks };
    let has_any = |mask: &u64| *mask != 0;
    let last = allowed.iter().rposition(has_any).map_or(0, |last| last + 1);
    let first = allowed.iter().position(has_any).unwrap_or(last);
    let at = |mask: usize| (mask * MASKED).min(n_blocks);
    at(first)..at(last)
}

/// Sets the bounds of blocks without an allowed node to 0; the bitmap `allowed` starts at the first
/// block of `bounds`.
fn drop_unwanted(bounds: &mut [f32], allowed: &[u64]) {
    for (bounds, mask) in bounds.chunks_mut(MASKED).zip(allowed.iter().chain(std::iter::repeat(&0)))
    {
        for (bound, allowed) in bounds.iter_mut().zip(mask.to_le_bytes()) {
            if allowed == 0 {
                *bound = 0.0;
            }
        }
    }
}

/// Appends pairs (bound, block index) of the blocks whose bound is in the range and above 0, in
/// order; `bounds[0]` belongs to block `first`.
fn collect_blocks(bounds: &[f32], first: usize, range: Range<f32>, blocks: &mut Vec<(f32, u32)>) {
    let (eights, rest) = bounds.as_chunks::<BLOCK>();
    let mut last = [0.0; BLOCK];
    last[..rest.len()].copy_from_slice(rest);
    for (eight, at) in eights.iter().chain([&last]).zip((first as u32..).step_by(BLOCK)) {
        let mut mask = reached(eight, range.start);
        while mask != 0 {
            let place = mask.trailing_zeros();
            mask &= mask - 1;
            let bound = eight[place as usize];
            if bound < range.end {
                blocks.push((bound, at + place));
            }
        }
    }
}

/// Whether the processor has the instructions that the functions for wide registers need.
#[cfg(target_arch = "x86_64")]
fn has_wide_registers() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
}

/// Adds the bounds of a word to those of the query, block by block: `weight` times the share that
/// each byte of `word` stands for.
fn add_bounds(bounds: &mut [f32], word: &[u8], weight: f32, shares: &Shares) {
    #[cfg(target_arch = "x86_64")]
    if has_wide_registers() {
        // SAFETY: the processor has the instructions.
        #[expect(unsafe_code, reason = "chosen when the program runs")]
        return unsafe { add_bounds_wide(bounds, word, weight, shares) };
    }
    for (bound, &byte) in bounds.iter_mut().zip(word) {
        *bound += weight * shares.of(byte);
    }
}

/// As [`add_bounds`], but adds to eight bounds at a time and computes shares without the table.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_bounds_wide(bounds: &mut [f32], word: &[u8], weight: f32, shares: &Shares) {
    use std::arch::x86_64::{
        _mm_loadu_si64, _mm256_add_ps, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32, _mm256_div_ps,
        _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps, _mm256_sub_ps,
    };
    let (eights, rest) = bounds.as_chunks_mut::<BLOCK>();
    let [weights, factor, steps] =
        [weight, shares.factor, STEPS].map(|number| _mm256_set1_ps(number));
    let last = word.get(eights.len() * BLOCK..).unwrap_or_default();
    for (eight, bytes) in eights.iter_mut().zip(word.as_chunks::<BLOCK>().0) {
        // SAFETY: eight numbers and eight bytes are read, eight numbers written.
        #[expect(unsafe_code, reason = "eight bounds at once")]
        unsafe {
            let bytes = _mm_loadu_si64(bytes.as_ptr());
            let bytes = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
            let missing = _mm256_mul_ps(factor, _mm256_sub_ps(steps, bytes));
            let max_score =
                _mm256_div_ps(_mm256_mul_ps(weights, bytes), _mm256_add_ps(bytes, missing));
            let sum = _mm256_add_ps(_mm256_loadu_ps(eight.as_ptr()), max_score);
            _mm256_storeu_ps(eight.as_mut_ptr(), sum);
        }
    }
    for (bound, &byte) in rest.iter_mut().zip(last) {
        *bound += weight * shares.of(byte);
    }
}
