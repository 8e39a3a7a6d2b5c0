//! Words numbered by first appearance, for building an index.

use std::hash::{BuildHasher, RandomState};

/// Distinct words, numbered from 0 in order of first appearance. O(1) per lookup.
pub(super) struct Vocabulary {
    /// Hash table, whose size is a power of two. An entry holds the upper half of a word's hash,
    /// and the number of the word plus one; 0 if the entry is free.
    slots: Vec<(u32, u32)>,
    hashes: Vec<u64>,
    bounds: Vec<usize>,
    bytes: Vec<u8>,
}

/// Hash function for words. The keys are random in each process, so that no text can be made to
/// cause collisions.
#[derive(Clone, Copy)]
pub(super) struct Hasher([u64; 2]);

impl Hasher {
    pub(super) fn new() -> Self {
        let state = RandomState::new();
        Self([state.hash_one(0u8), state.hash_one(1u8) | 1])
    }

    /// Returns the hash of a word, by folded products of its eight-byte parts.
    #[inline]
    pub(super) fn hash(self, word: &[u8]) -> u64 {
        let mut hash = self.0[0] ^ word.len() as u64;
        let mut mix = |part: u64| {
            let product = u128::from(hash ^ part) * u128::from(self.0[1]);
            hash = product as u64 ^ (product >> 64) as u64;
        };
        let (parts, rest) = word.as_chunks::<8>();
        parts.iter().for_each(|part| mix(u64::from_le_bytes(*part)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(u64::from_le_bytes(last));
        mix(self.0[0].rotate_left(32));
        hash
    }
}

impl Vocabulary {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![(0, 0); 1 << 10],
            hashes: Vec::new(),
            bounds: vec![0],
            bytes: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.bounds[number]..self.bounds[number + 1]]
    }

    /// Iterates over the words with their hashes, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.hashes.iter().enumerate().map(|(number, &hash)| (self.get(number), hash))
    }

    /// Returns the number of a word with its hash; gives a new word the next number.
    #[inline]
    pub(super) fn number(&mut self, word: &[u8], hash: u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (known, number) = self.slots[at];
            if number == 0 {
                return self.insert(word, hash, at);
            }
            if known == (hash >> 32) as u32 && self.get(number as usize - 1) == word {
                return number - 1;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn insert(&mut self, word: &[u8], hash: u64, at: usize) -> u32 {
        self.hashes.push(hash);
        self.bytes.extend_from_slice(word);
        self.bounds.push(self.bytes.len());
        self.slots[at] = ((hash >> 32) as u32, self.hashes.len() as u32);
        if self.hashes.len() * 2 > self.slots.len() {
            let mask = self.slots.len() * 2 - 1;
            self.slots = vec![(0, 0); mask + 1];
            for (number, &hash) in (1..).zip(&self.hashes) {
                let mut at = hash as usize & mask;
                while self.slots[at].1 != 0 {
                    at = (at + 1) & mask;
                }
                self.slots[at] = ((hash >> 32) as u32, number);
            }
        }
        self.hashes.len() as u32 - 1
    }
}
