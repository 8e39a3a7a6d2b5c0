//! `hybrid` and `hybrid:weighted[=A]`: words and embeddings in one ranking.

use crate::{
    retrieve::{Retriever, System},
    systems::{Opener, SystemError, SystemSpec, lexical::baseline},
};

/// Weight of `dense` unless the name says otherwise, in hundredths.
const DEFAULT_WEIGHT: u8 = 10;

pub(super) const BY_RANK: SystemSpec = SystemSpec {
    name: "hybrid",
    arguments: "",
    summary: "bm25+names and dense, fused by rank",
    needs: &[],
    open: |_, opener| baseline(System::Hybrid, opener),
};

pub(super) const BY_SCORE: SystemSpec = SystemSpec {
    name: "hybrid:weighted",
    arguments: "[=A]",
    summary: "bm25+names and dense, fused by score; A is the weight of dense, 0 to 1, 0.1 by default",
    needs: &[],
    open: weighted,
};

fn weighted(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let weight = match arguments.strip_prefix('=') {
        None => DEFAULT_WEIGHT,
        Some(weight) => hundredths(weight)
            .ok_or_else(|| BY_SCORE.wrong(arguments, "has no weight from 0 to 1"))?,
    };
    baseline(System::Weighted(weight), opener)
}

/// A weight in `0..=1`, rounded to hundredths.
fn hundredths(weight: &str) -> Option<u8> {
    let weight: f32 = weight.parse().ok()?;
    (0.0..=1.0).contains(&weight).then(|| (weight * 100.0).round() as u8)
}
