//! How numbers and bounds become bytes.
//!
//! Numbers are written seven bits a byte, low bits first, the high bit set on all bytes but the
//! last.

use crate::{index::bm25::Bm25, kb::NodeId};

/// The setting for which bounds are kept; others are derived from them.
pub(super) const KEPT: Bm25 = Bm25::STARK;
/// Greatest value of a bound.
const STEPS: f32 = 255.0;

/// Appends a number.
pub(super) fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes a number off the front; `None` at the end or past 64 bits.
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

/// A share `tf / (tf + norm)` of a word's weight, rounded up to a byte.
pub(super) fn quantized(share: f32) -> u8 {
    (share * STEPS).ceil().min(STEPS) as u8
}

/// For each byte, the greatest share that a posting so bounded can have by another setting.
///
/// With `c = norm / (k1 * tf)` a share is `1 / (1 + k1 * c)`; another `k1` maps bound to bound, and
/// another `b` shrinks `c` by `min((1 - b') / (1 - b), b' / b)` at most.
pub(super) fn shares(setting: Bm25) -> [f32; 256] {
    let shrink = ((1.0 - setting.b) / (1.0 - KEPT.b)).min(setting.b / KEPT.b);
    let factor = setting.k1 / KEPT.k1 * shrink;
    std::array::from_fn(|byte| match byte {
        0 => 0.0,
        _ => 1.0 / (1.0 + factor * (STEPS / byte as f32 - 1.0)),
    })
}

/// Reads nodes with counts, ascending, off gaps; ends where they make no sense.
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
        let count = if gap & 1 == 0 { 1 } else { u32::try_from(take(self.bytes)?).ok()?.checked_add(2)? };
        let node = self.next.checked_add(u32::try_from(gap >> 1).ok()?)?;
        self.next = node.checked_add(1)?;
        Some((node, count))
    }
}
