//! Decides from a question's phrases whether it asks for many nodes together, or whether nodes may
//! answer it.
//!
//! Independent of the content of the base.

use crate::{
    lexicon::Cue,
    mentions::{Mention, Mentions, What},
};

/// Whether a phrase occurs that no question for nodes has.
pub(super) fn asks_surely(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| match mention.what {
        What::Cue(cue) => asks(cue) && cue != Cue::Relate && !is_together(mentions, mention),
        _ => false,
    })
}

/// Whether a word for a total may mean a manner: `together`.
fn is_together(mentions: &Mentions, mention: &Mention) -> bool {
    let said = mentions.tokens.get(mention.at.clone()).unwrap_or_default();
    said.last().is_some_and(|token| ["together", "combined"].contains(&token.word.as_str()))
}

/// Whether any phrase asks for a result that only many nodes together can give.
pub(super) fn asks_for_many(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| matches!(mention.what, What::Cue(cue) if asks(cue)))
}

/// Whether a phrase asks for a result that only many nodes together can give.
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

/// Whether any phrase asks for a result that no node can give: a number, a test, an assumption.
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
