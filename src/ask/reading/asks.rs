//! Here is a question taken apart: do its phrases ask for many nodes together, or may nodes answer it?
//!
//! Must not know: what the base holds.

use crate::{
    lexicon::Cue,
    mentions::{Mention, Mentions, What},
};

/// Whether a phrase that no question for nodes has is said.
pub(super) fn asks_surely(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| match mention.what {
        What::Cue(cue) => asks(cue) && cue != Cue::Relate && !is_together(mentions, mention),
        _ => false,
    })
}

/// Whether a total may be how things are done: `together`.
fn is_together(mentions: &Mentions, mention: &Mention) -> bool {
    let said = mentions.tokens.get(mention.at.clone()).unwrap_or_default();
    said.last().is_some_and(|token| ["together", "combined"].contains(&token.word.as_str()))
}

/// Whether anything is said that only many nodes together can answer.
pub(super) fn asks_for_many(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| matches!(mention.what, What::Cue(cue) if asks(cue)))
}

/// Whether a phrase asks for what only many nodes together can answer.
fn asks(cue: Cue) -> bool {
    !matches!(
        cue,
        Cue::Filler
            | Cue::Which
            | Cue::Versus
            | Cue::Bound(..)
            | Cue::OrMore(_)
            | Cue::Only
            | Cue::Raise
            | Cue::Lower
            | Cue::Each
            | Cue::Differ
            | Cue::Suppose
            | Cue::LeaveOut
            | Cue::Not
    )
}

/// Whether anything is said that no node can answer: a number, a test, something supposed.
pub(super) fn counts(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| match mention.what {
        What::Cue(Cue::Of(_)) => !is_together(mentions, mention),
        What::Cue(cue) => matches!(
            cue,
            Cue::HowMany | Cue::NumberOf | Cue::Share | Cue::Normal | Cue::Correlate | Cue::Spread
        ),
        _ => false,
    })
}
