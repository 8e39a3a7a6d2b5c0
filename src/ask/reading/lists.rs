//! Reads questions for the nodes that satisfy conditions (`which products cost over 50 dollars`)
//! and questions whether there are any such nodes.

use super::operation::YES_NO;
use crate::{
    AskError,
    kind::Kind,
    lexicon::Cue,
    mentions::{Mention, Mentions, What},
    plan::{Condition, Operation, Plan},
    reading::Reading,
};
use agent_kb::{MetapathStep, TypeId};

/// First words of questions for a list of nodes: `list`.
const LISTS: [&str; 5] = ["list", "name", "show", "give", "find"];
/// Words before a type in a question that asks whether any node exists: `are there products`.
const ANY: [&str; 2] = ["there", "any"];

/// What a question requests that asks for no number, comparison or statistical test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// The nodes of this type that satisfy the conditions.
    Nodes(TypeId),
    /// Whether any node of this type satisfies the conditions.
    Any(TypeId),
}

/// Returns what the first words of a question request; `None` if they request neither a list of
/// nodes nor whether there are any.
pub(super) fn listed(mentions: &Mentions) -> Option<Listed> {
    let word = |at: usize| mentions.tokens.get(at).map_or("", |token| token.word.as_str());
    let is_said =
        |mention: &&Mention| !matches!(mention.what, What::Filler | What::Cue(Cue::Filler));
    let mut said = mentions.all.iter().filter(is_said);
    if YES_NO.contains(&word(0)) {
        let begins = |mention: &&Mention| matches!(mention.what, What::Type(_));
        let first = said.find(begins)?;
        let any = (1..first.at.start).rev().find(|at| ANY.contains(&word(*at)))?;
        // Only names and values may stand before the type: `any Swedish maker`.
        let between =
            mentions.all.iter().filter(|own| own.at.start > any && own.at.end <= first.at.start);
        let describes = |own: &Mention| {
            matches!(own.what, What::Thing(_) | What::Filler | What::Cue(Cue::Filler))
        };
        return match first.what {
            What::Type(kind) if between.into_iter().all(describes) => Some(Listed::Any(kind)),
            _ => None,
        };
    }
    let first = said.next()?;
    let kind = match first.what {
        What::Cue(Cue::Which) => &said.next()?.what,
        _ if LISTS.contains(&word(0)) => &first.what,
        _ => return None,
    };
    match kind {
        What::Type(kind) => Some(Listed::Nodes(*kind)),
        _ => None,
    }
}

impl Reading<'_> {
    /// Plans a question for a list of nodes, or for whether there are any.
    ///
    /// # Errors
    /// [`AskError::NoTable`] if the question asks for anything else, or sets no condition; other
    /// errors if a condition is unclear.
    pub(super) fn list(&mut self, listed: Listed) -> Result<Plan, AskError> {
        let operation;
        (self.rows, operation) = match listed {
            Listed::Nodes(kind) => (kind, Operation::List),
            Listed::Any(kind) => (kind, Operation::Exists),
        };
        (self.columns, self.assumed, self.lists) = (Vec::new(), Vec::new(), true);
        let more = |cue: Cue| {
            !matches!(cue, Cue::Filler | Cue::Which | Cue::Bound(..) | Cue::OrMore(_) | Cue::Not)
        };
        let mut parts = self.parts(Kind::Aggregation)?;
        self.put_filled(&mut parts, false)?;
        let conditions = parts.conditions.len() + parts.filters.len();
        if self.top.is_some()
            || conditions == 0
            || !parts.measures.is_empty()
            || self.changed.contains(&true)
            || self.cues(false).any(|(_, cue)| more(cue))
            || parts.conditions.iter().any(|(at, one)| self.is_of_texts(*at, one))
        {
            return Err(AskError::NoTable);
        }
        self.all_is_used(&parts, &operation, None)?;
        Ok(self.planned(Kind::Aggregation, parts, operation, None))
    }

    /// Whether a condition may be about the text of documents, as in `papers about "learning"`: its
    /// mention follows `about`, and no relation on its metapath has `about` in its name.
    fn is_of_texts(&self, at: usize, condition: &Condition) -> bool {
        const ABOUT: &str = "about";
        let start = self.mentions.all.get(at).map_or(0, |own| own.at.start);
        let before = start.checked_sub(1).and_then(|before| self.mentions.tokens.get(before));
        let is_called = |step: &MetapathStep| {
            let relation = self.schema.relations.get(usize::from(step.relation.0));
            relation.is_some_and(|own| own.words.iter().any(|word| word == ABOUT))
        };
        before.is_some_and(|token| token.word == ABOUT) && !condition.steps.iter().any(is_called)
    }
}
