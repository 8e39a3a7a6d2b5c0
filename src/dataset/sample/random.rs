//! Seeded random numbers for samples: independent streams and a few kinds of draws.
//!
//! Every draw uses integer arithmetic or exactly rounded floating point (`+ - * /` and `sqrt`), so
//! that the same seed gives the same bytes on every machine. A stream is identified by seed,
//! purpose and index, so that the draws for one node never depend on the number of nodes.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Returns the 64-bit FNV-1a hash of `bytes`; stable across machines and releases.
pub fn hash64(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// A stream of random numbers that does not depend on other streams.
pub struct Stream(ChaCha8Rng);

impl Stream {
    /// Returns the stream for one purpose and one index, such as for the name of node 17 of a type.
    pub fn new(seed: u64, purpose: &str, index: u64) -> Stream {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&hash64(purpose.as_bytes()).to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(index);
        Stream(rng)
    }

    /// Returns an integer in `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.0.next_u64()) * n as u128) >> 64) as usize
    }

    /// Returns a number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with the given probability in per cent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of the items, all equally likely; `T::default()` if there are none.
    pub fn pick<T: Copy + Default>(&mut self, items: &[T]) -> T {
        items.get(self.below(items.len())).copied().unwrap_or_default()
    }

    /// Returns one of the texts, all equally likely; an empty text if there are none.
    pub(crate) fn pick_text<'a>(&mut self, texts: &'a [impl AsRef<str>]) -> &'a str {
        texts.get(self.below(texts.len())).map_or("", AsRef::as_ref)
    }

    /// Returns an integer in `0..n`, small integers more likely: the probability of `r` falls as
    /// `r^(-2/3)`.
    pub(crate) fn skewed(&mut self, n: usize) -> usize {
        let unit = self.unit();
        ((unit * unit * unit * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// Returns a random count with about the given mean and a cubic tail: at least half the mean
    /// (before rounding) and at most `limit`.
    pub fn heavy_count(&mut self, mean: f64, limit: usize) -> usize {
        let unit = self.unit().max(1e-6);
        let wanted = mean * 0.5 / unit.sqrt();
        let whole = wanted.floor();
        let extra = usize::from(self.unit() < wanted - whole);
        ((whole as usize) + extra).min(limit)
    }

    /// Returns the text with two adjacent, different lower-case letters within a word swapped;
    /// unchanged if there are no such letters.
    pub fn with_typo(&mut self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let places: Vec<usize> = (1..letters.len().saturating_sub(2))
            .filter(|&at| letters[at - 1..at + 3].iter().all(|letter| letter.is_ascii_lowercase()))
            .filter(|&at| letters[at] != letters[at + 1])
            .collect();
        if !places.is_empty() {
            let at = self.pick(&places);
            letters.swap(at, at + 1);
        }
        letters.into_iter().collect()
    }

    /// Puts `items` in random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

/// A permutation of `0..n` that maps a rank to an index: `rank -> (a * rank + b) mod n`.
///
/// The popularity of a node depends on its rank. The permutation spreads popular nodes over the
/// ids, so that an id does not reveal popularity.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    n: u64,
    factor: u64,
    shift: u64,
    inverse: u64,
}

impl Spread {
    /// Returns a random permutation of `0..n`.
    pub(super) fn new(n: u32, stream: &mut Stream) -> Spread {
        let n = u64::from(n.max(1));
        let mut factor = (stream.below(n as usize) as u64).max(1);
        while gcd(factor, n) != 1 {
            factor = factor % n + 1;
        }
        let shift = stream.below(n as usize) as u64;
        Spread { n, factor, shift, inverse: inverse(factor, n) }
    }

    /// Returns the index of the node with a rank.
    pub(super) fn index(&self, rank: u32) -> u32 {
        ((self.factor * u64::from(rank) + self.shift) % self.n) as u32
    }

    /// Returns the rank of the node with an index.
    pub(super) fn rank(&self, index: u32) -> u32 {
        ((u64::from(index) + self.n - self.shift) % self.n * self.inverse % self.n) as u32
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the inverse of `factor` modulo `n` by the extended Euclidean algorithm; `factor` and `n`
/// must be coprime.
fn inverse(factor: u64, n: u64) -> u64 {
    let (mut old_r, mut r) = (factor as i128, n as i128);
    let (mut old_s, mut s) = (1i128, 0i128);
    while r != 0 {
        let quotient = old_r / r;
        (old_r, r) = (r, old_r - quotient * r);
        (old_s, s) = (s, old_s - quotient * s);
    }
    old_s.rem_euclid(n as i128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_a_bijection_and_rank_undoes_index() {
        for n in [1, 2, 3, 10, 97, 360, 1_000] {
            let spread = Spread::new(n, &mut Stream::new(5, "test", u64::from(n)));
            let mut seen = vec![false; n as usize];
            for rank in 0..n {
                let index = spread.index(rank);
                assert_eq!(spread.rank(index), rank, "n = {n}");
                seen[index as usize] = true;
            }
            assert!(seen.iter().all(|seen| *seen), "n = {n}");
        }
    }

    #[test]
    fn draws_stay_in_range_and_streams_differ() {
        let mut stream = Stream::new(1, "test", 0);
        for n in [1usize, 2, 7, 1_000] {
            for _ in 0..200 {
                assert!(stream.below(n) < n);
                assert!(stream.skewed(n) < n);
                assert!(stream.heavy_count(3.0, n) <= n);
            }
        }
        let draw = |seed, purpose, index| Stream::new(seed, purpose, index).below(1 << 60);
        let first = draw(1, "a", 0);
        assert_eq!(first, draw(1, "a", 0));
        assert!(
            [draw(2, "a", 0), draw(1, "b", 0), draw(1, "a", 1)].iter().all(|other| *other != first)
        );
    }

    #[test]
    fn heavy_counts_have_the_wanted_mean() {
        let mut stream = Stream::new(1, "mean", 0);
        let total: usize = (0..20_000).map(|_| stream.heavy_count(4.0, 10_000)).sum();
        let mean = total as f64 / 20_000.0;
        assert!((3.6..4.4).contains(&mean), "{mean}");
    }
}
