//! Decides from the phrases of a question whether the answer must be computed over many nodes, or
//! whether a list of nodes may be the answer.
//!
//! Reads nothing from the base.

use crate::{
    lexicon::{Bound, Cue},
    mentions::{Mention, Mentions, What},
    reading::operation::YES_NO,
};
use agent_kb::TypeId;

/// Whether the question has a phrase that only a result computed over many nodes can answer, never
/// a list of nodes.
pub(super) fn asks_surely(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| match mention.what {
        What::Cue(cue) => asks(cue) && cue != Cue::Relate && !is_together(mentions, mention),
        _ => false,
    })
}

/// Whether the question is a yes-or-no question that compares names: `does A cost more than B`.
pub(super) fn compares_names(mentions: &Mentions) -> bool {
    let begins = mentions.tokens.first().is_some_and(|token| YES_NO.contains(&token.word.as_str()));
    let than = |mention: &Mention| {
        matches!(mention.what, What::Cue(Cue::Bound(Bound::Above | Bound::Below, false)))
    };
    let is_thing = |mention: &Mention| matches!(mention.what, What::Thing(_));
    let place = mentions.all.iter().position(than);
    begins
        && place.is_some_and(|place| {
            let (before, behind) = mentions.all.split_at(place);
            before.iter().any(is_thing) && behind.iter().any(is_thing)
        })
}

/// Returns the type whose nodes are counted by group, if the question has no word for counting:
/// `papers per venue`.
pub(super) fn counted_by_each(mentions: &Mentions) -> Option<TypeId> {
    let said = |mention: &&Mention| !matches!(mention.what, What::Filler | What::Relation);
    let mut said = mentions.all.iter().filter(said).map(|mention| &mention.what);
    match (said.next()?, said.next()?, said.next()?) {
        (What::Type(kind), What::Cue(Cue::Each), What::Type(_) | What::Field(_)) => Some(*kind),
        _ => None,
    }
}

/// Whether a mention ends in `together` or `combined`, which may ask for a total or say how
/// something was done (`written together`).
fn is_together(mentions: &Mentions, mention: &Mention) -> bool {
    let said = mentions.tokens.get(mention.at.clone()).unwrap_or_default();
    said.last().is_some_and(|token| ["together", "combined"].contains(&token.word.as_str()))
}

/// Whether any phrase of the question asks for a result that is computed over many nodes.
pub(super) fn asks_for_many(mentions: &Mentions) -> bool {
    mentions.all.iter().any(|mention| matches!(mention.what, What::Cue(cue) if asks(cue)))
}

/// Whether a phrase asks for a result that is computed over many nodes.
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

/// Whether any phrase asks for a number or a statistical test, so that no list of nodes can answer
/// the question.
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
