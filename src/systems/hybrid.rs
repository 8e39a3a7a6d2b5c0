//! The systems `hybrid`, `hybrid:weighted[=A]` and `hybrid:trained:FILE[:weight=A]`: fusion of
//! lexical and dense search.

use crate::{Need, Opener, SystemError, SystemSpec, file_of, lexical::baseline};
use agent_retrieve::{Retriever, System, Trained};

/// Default weight of `dense` in [`BY_SCORE`] with the built-in embedder, in hundredths. Chosen on
/// training and validation queries: docs/lab/2026-11-22-encoders.md.
const BUILTIN_WEIGHT: u8 = 10;
/// Default weight of `dense` in [`BY_SCORE`] with any other embedder, in hundredths. Chosen like
/// [`BUILTIN_WEIGHT`].
const ENCODER_WEIGHT: u8 = 30;

pub(super) const BY_RANK: SystemSpec =
    SystemSpec::plain("hybrid", "bm25f and dense, fused by rank", |_, opener| {
        baseline(System::Hybrid, opener)
    });

pub(super) const BY_SCORE: SystemSpec = SystemSpec {
    name: "hybrid:weighted",
    arguments: "[=A]",
    summary: "bm25f and dense, fused by score; A is the weight of dense, 0 to 1 [default: 0.1 \
              with the built-in embedder, else 0.3]",
    needs: &[],
    open: weighted,
};

pub(super) const TRAINED: SystemSpec = SystemSpec {
    name: "hybrid:trained",
    arguments: ":FILE[:weight=A]",
    summary: "bm25+names and bag:dpr or bag:ance, fused by score; A is the weight of the latter, 0 to 1 \
              [default: chosen on validation queries in training]",
    needs: &[Need::File],
    open: trained,
};

/// Text in the arguments of [`TRAINED`] between the model and its weight.
const WEIGHT: &str = ":weight=";

fn trained(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (dir, weight) = match arguments.split_once(WEIGHT) {
        None => (arguments, None),
        Some((dir, weight)) => {
            let weight = hundredths(weight)
                .ok_or_else(|| TRAINED.wrong(arguments, "needs a weight from 0 to 1"))?;
            (dir, Some(f32::from(weight) / 100.0))
        }
    };
    Ok(Box::new(Trained::open(opener.base, file_of(dir))?.fused(weight)))
}

fn weighted(arguments: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let weight = match arguments.strip_prefix('=') {
        None if opener.base.has_encoder() => ENCODER_WEIGHT,
        None => BUILTIN_WEIGHT,
        Some(weight) => hundredths(weight)
            .ok_or_else(|| BY_SCORE.wrong(arguments, "needs a weight from 0 to 1"))?,
    };
    baseline(System::Weighted(weight), opener)
}

/// Parses a weight from 0 to 1, and returns it in hundredths, rounded; `None` if the weight is
/// invalid.
fn hundredths(weight: &str) -> Option<u8> {
    let weight: f32 = weight.parse().ok()?;
    (0.0..=1.0).contains(&weight).then(|| (weight * 100.0).round() as u8)
}
