//! Encoding of numbers, postings and bounds as bytes.
//!
//! A number takes one byte for seven bits, low bits first; the high bit is set in all its bytes but
//! the last.

use crate::{
    bm25::Bm25,
    postings::{BLOCK, RANGE},
};
use agent_kb::NodeId;

/// The BM25 setting for which bounds are stored by default; bounds for other settings are derived
/// from the stored bounds.
pub(super) const KEPT: Bm25 = Bm25::STARK;
/// Largest value of a byte that stores a bound.
pub(super) const STEPS: f32 = 255.0;
/// Smallest count that does not fit into a byte and is stored separately.
pub(super) const BIG_COUNT: u32 = 255;

/// Appends the code of a number.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Reads a number from the front of `bytes` and removes its code; `None` at the end or if the
/// number exceeds 64 bits.
#[inline]
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut number = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Quantizes a share `tf / (tf + norm)` of a word's weight, in `0..=1`, to a byte; rounds up.
pub(super) fn quantized(share: f32) -> u8 {
    (share * STEPS).ceil().min(STEPS) as u8
}

/// For each value of a stored bound, the largest share of a word's weight that a posting with this
/// bound can have under the BM25 setting of a search.
pub(super) struct Shares {
    of: [f32; 256],
    /// The factor in the formula of the share, `byte / (byte + factor * (STEPS - byte))`, which
    /// gives the shares of the table up to rounding.
    pub(super) factor: f32,
}

impl Shares {
    /// Computes the shares for `setting` from bounds that were stored for the setting `kept`.
    /// `means` is the mean length of all texts, divided by the mean length of the texts in the
    /// searched collection.
    ///
    /// With `norm / tf = k1 * c`, a posting's share of the word's weight is `1 / (1 + k1 * c)`. If
    /// only `k1` changes, bounds are converted exactly. If `b` changes to `b'`, or if the mean
    /// changes, `c` is multiplied by at least `min((1 - b') / (1 - b), b' / b * means)`, without
    /// the second term if `kept.b` is 0.
    pub(super) fn new(setting: Bm25, kept: Bm25, means: f32) -> Self {
        let by_length = if kept.b > 0.0 { setting.b / kept.b * means } else { f32::INFINITY };
        let shrink = ((1.0 - setting.b) / (1.0 - kept.b)).min(by_length);
        // Above 0, to avoid a division by 0.
        let factor = (setting.k1 / kept.k1 * shrink).max(f32::EPSILON);
        let of = std::array::from_fn(|byte| match byte {
            0 => 0.0,
            _ => 1.0 / (1.0 + factor * (STEPS / byte as f32 - 1.0)),
        });
        Self { of, factor }
    }

    /// Returns the largest share for a stored bound.
    #[inline(always)]
    pub(super) fn of(&self, byte: u8) -> f32 {
        self.of[usize::from(byte)]
    }
}

/// Appends postings, pairs (node, count) with nodes ascending, coded as gaps between nodes.
pub(super) fn put_gaps(bytes: &mut Vec<u8>, postings: &[(NodeId, u32)]) {
    let mut next = 0;
    for &(node, count) in postings {
        put(bytes, u64::from(node - next) << 1 | u64::from(count > 1));
        if count > 1 {
            put(bytes, u64::from(count - 2));
        }
        next = node + 1;
    }
}

/// Iterator over postings that [`put_gaps`] coded, nodes ascending; ends at malformed bytes.
pub(super) struct Gaps<'a, 'b> {
    bytes: &'a mut &'b [u8],
    next: u32,
}

impl<'a, 'b> Gaps<'a, 'b> {
    pub(super) fn new(bytes: &'a mut &'b [u8]) -> Self {
        Self { bytes, next: 0 }
    }
}

impl Iterator for Gaps<'_, '_> {
    type Item = (NodeId, u32);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let gap = take(self.bytes)?;
        let count =
            if gap & 1 == 0 { 1 } else { u32::try_from(take(self.bytes)?).ok()?.checked_add(2)? };
        let node = self.next.checked_add(u32::try_from(gap >> 1).ok()?)?;
        self.next = node.checked_add(1)?;
        Some((node, count))
    }
}

/// The postings of a frequent word, in the layout of the [module](crate::postings).
pub(super) struct Frequent<'a> {
    /// A bound for each block, as a byte.
    pub(super) bounds: &'a [u8],
    /// For each range of nodes, 8 bytes with a bit for each node, then in 4 bytes the number of
    /// postings before the range.
    masks: &'a [[u8; 12]],
    counts: &'a [u8],
    /// The nodes with counts of at least [`BIG_COUNT`], and these counts, nodes ascending.
    big: Vec<(NodeId, u32)>,
}

impl<'a> Frequent<'a> {
    /// Reads the postings of a frequent word; `None` if there are too few bytes for `n` nodes.
    pub(super) fn new(bytes: &'a [u8], n: usize) -> Option<Self> {
        let n_ranges = n.div_ceil(RANGE);
        let (bounds, bytes) = bytes.split_at_checked(n_ranges * 8)?;
        let (masks, bytes) = bytes.split_at_checked(n_ranges * 12)?;
        let (total, bytes) = bytes.split_at_checked(4)?;
        let total = u32::from_le_bytes(total.try_into().ok()?);
        let (counts, mut big) = bytes.split_at_checked(total as usize)?;
        Some(Self {
            bounds,
            masks: masks.as_chunks().0,
            counts,
            big: Gaps::new(&mut big).collect(),
        })
    }

    /// Counts the nodes of a bitmap, 64 nodes per number, that have the word.
    pub(super) fn count_in(&self, nodes: &[u64]) -> u32 {
        let pairs = self.masks.iter().zip(nodes);
        pairs.map(|(range, nodes)| (split(range).0 & nodes).count_ones()).sum()
    }

    /// Returns the bit mask of the nodes of a block that have the word, lowest bit first.
    #[inline(always)]
    pub(super) fn mask(&self, block: usize) -> u8 {
        self.masks[block / 8][block % 8]
    }

    /// Returns the number of occurrences of the word in a node's text; `None` if the text does not
    /// contain the word.
    #[inline(always)]
    pub(super) fn count(&self, node: usize) -> Option<f32> {
        let (mask, rank) = split(&self.masks[node / RANGE]);
        let bit = 1u64 << (node % RANGE);
        if mask & bit == 0 {
            return None;
        }
        let before = rank.saturating_add((mask & (bit - 1)).count_ones());
        match self.counts.get(before as usize) {
            Some(&count) if u32::from(count) < BIG_COUNT => Some(f32::from(count)),
            _ => {
                let at = self.big.binary_search_by_key(&(node as NodeId), |big| big.0).ok()?;
                Some(self.big[at].1 as f32)
            }
        }
    }
}

/// Decodes the mask of a range of nodes and the number of postings before the range.
#[inline(always)]
fn split(&[m0, m1, m2, m3, m4, m5, m6, m7, before @ ..]: &[u8; 12]) -> (u64, u32) {
    (u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]), u32::from_le_bytes(before))
}

/// Appends the postings of a frequent word of an index of `n` nodes, in the layout of the
/// [module](crate::postings). `share` computes the share of the word's weight for a node and a
/// count.
pub(super) fn put_frequent(
    bytes: &mut Vec<u8>,
    postings: &[(NodeId, u32)],
    n: usize,
    share: impl Fn(NodeId, u32) -> f32,
) {
    let n_ranges = n.div_ceil(RANGE);
    let mut bounds = vec![0u8; n_ranges * 8];
    let mut masks = vec![0u64; n_ranges];
    for &(node, count) in postings {
        let bound = &mut bounds[node as usize / BLOCK];
        *bound = quantized(share(node, count)).max(*bound);
        masks[node as usize / RANGE] |= 1 << (node as usize % RANGE);
    }
    bytes.extend_from_slice(&bounds);
    let mut rank = 0;
    for mask in masks {
        bytes.extend_from_slice(&mask.to_le_bytes());
        bytes.extend_from_slice(&u32::to_le_bytes(rank));
        rank += mask.count_ones();
    }
    bytes.extend_from_slice(&rank.to_le_bytes());
    bytes.extend(postings.iter().map(|&(_, count)| count.min(BIG_COUNT) as u8));
    let big: Vec<_> = postings.iter().filter(|posting| posting.1 >= BIG_COUNT).copied().collect();
    put_gaps(bytes, &big);
}
