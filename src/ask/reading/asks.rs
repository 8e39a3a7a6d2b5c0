//! Decides from the phrases of a question whether the answer must be computed over many nodes or
//! may be a list of nodes. Also reads questions that ask for the nodes that satisfy conditions
//! (`which products cost over 50 dollars`), or ask whether such nodes exist.

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Bound, Cue, is_beginning},
    mentions::{Mention, Mentions, What},
    plan::{Condition, Operation, Plan},
    reading::{Reading, operation::YES_NO},
    schema::Schema,
};
use agent_kb::{MetapathStep, TypeId, distinct};

/// Words before a type in a question that asks whether any node exists: `are there products`.
const ANY: [&str; 2] = ["there", "any"];

/// Returns the type that the first words of a question ask for, and the operation: `List` for its
/// nodes, `Exists` for whether there are any. `None` for other questions.
pub(super) fn listed(schema: &Schema, mentions: &Mentions) -> Option<(TypeId, Operation)> {
    let describes = |own: &&Mention| matches!(own.what, What::Filler | What::Cue(Cue::Filler));
    if YES_NO.contains(&mentions.word(0)) {
        let is_type = |mention: &&Mention| matches!(mention.what, What::Type(_));
        let is_any = |first: &&Mention| {
            (1..first.at.start).rev().find(|at| ANY.contains(&mentions.word(*at)))
        };
        let first = mentions.all.iter().find(is_type);
        let Some((first, any)) = first.and_then(|first| Some((first, is_any(&first)?))) else {
            return Some((type_of_first(schema, mentions)?, Operation::Exists));
        };
        // Only names and values may stand before the type: `any Swedish maker`.
        let mut between =
            mentions.all.iter().filter(|own| own.at.start > any && own.at.end <= first.at.start);
        return match first.what {
            What::Type(kind)
                if between.all(|own| describes(&own) || matches!(own.what, What::Thing(_))) =>
            {
                Some((kind, Operation::Exists))
            }
            _ => None,
        };
    }
    let mut said = mentions.all.iter().filter(|own| !describes(own)).map(|own| &own.what);
    let is_equal = |what: &&&What| matches!(what, What::Cue(Cue::Bound(Bound::Equal, _)));
    let first = said.next()?;
    // `which of our suppliers`
    let mut said = said.peekable();
    if *first == What::Cue(Cue::Which) {
        said.next_if(|what| is_equal(&what));
    }
    // Without `which`, the question may be a heading: `Swedish makers`.
    let heading = (*first != What::Cue(Cue::Which)).then_some(first);
    let mut said = heading.into_iter().chain(said);
    match said.find(|what| !matches!(what, What::Thing(_)))? {
        What::Type(kind) => Some((*kind, Operation::List)),
        _ => None,
    }
}

/// Returns the type of the nodes with which a yes-or-no question begins: `is Harbour Stout
/// discontinued`. `None` if it begins with anything else, or with a name of several types.
fn type_of_first(schema: &Schema, mentions: &Mentions) -> Option<TypeId> {
    let describes = |own: &&Mention| matches!(own.what, What::Filler | What::Type(_));
    let mut said = mentions.all.iter().skip(1).skip_while(describes);
    let What::Thing(thing) = &said.next()?.what else { return None };
    let kinds = thing.nodes.iter().map(|&node| schema.base.kb.node_type(node));
    <[TypeId; 1]>::try_from(distinct(kinds.collect())).ok().map(|[kind]| kind)
}

/// Whether the question has a phrase that asks for a result computed over many nodes, and that a
/// list of nodes cannot answer.
pub(super) fn asks_surely(mentions: &Mentions) -> bool {
    let is_sure = |own: &Mention| {
        let cue = own.cue().filter(|cue| asks(*cue) && *cue != Cue::Relate);
        cue.is_some() && !is_together(mentions, own)
    };
    mentions.all.iter().any(is_sure)
}

/// Whether the question is a yes-or-no question that compares names: `does A cost more than B`.
pub(super) fn compares_names(mentions: &Mentions) -> bool {
    let than =
        |own: &Mention| matches!(own.cue(), Some(Cue::Bound(Bound::Above | Bound::Below, false)));
    let is_thing = |own: &Mention| matches!(own.what, What::Thing(_));
    let Some(place) = mentions.all.iter().position(than) else { return false };
    let (before, behind) = mentions.all.split_at(place);
    YES_NO.contains(&mentions.word(0)) && before.iter().any(is_thing) && behind.iter().any(is_thing)
}

/// Returns the type whose nodes are counted by group, if the question has no word for counting:
/// `papers per venue`, `ICML papers per year`.
pub(super) fn counted_by_each(mentions: &Mentions) -> Option<TypeId> {
    let says = |own: &&Mention| !matches!(own.what, What::Filler | What::Relation);
    let each = mentions.all.iter().position(|own| own.what == What::Cue(Cue::Each))?;
    let (before, behind) = mentions.all.split_at(each);
    let mut before = before.iter().filter(says);
    let kind = before.find(|own| !matches!(own.what, What::Thing(_)))?;
    let What::Type(kind) = kind.what else { return None };
    // `tickets opened per year`
    let is_of_time = |own: &Mention| {
        matches!(own.what, What::Field(_)) && is_beginning(mentions.word(own.at.start))
    };
    if !before.all(is_of_time) {
        return None;
    }
    let is_part = ["year", "month"].contains(&mentions.word(mentions.all[each].at.end));
    let group = behind.iter().skip(1).find(says).map(|own| &own.what);
    (is_part || matches!(group, Some(What::Type(_) | What::Field(_)))).then_some(kind)
}

/// Whether a mention ends in `together` or `combined`, which may ask for a total or describe a verb
/// (`written together`).
fn is_together(mentions: &Mentions, mention: &Mention) -> bool {
    ["together", "combined"].contains(&mentions.word(mention.at.end.saturating_sub(1)))
}

/// Whether any phrase of the question asks for a result that is computed over many nodes.
pub(super) fn asks_for_many(mentions: &Mentions) -> bool {
    mentions.all.iter().filter_map(Mention::cue).any(asks)
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

impl Reading<'_> {
    /// Plans a question that asks for a list of nodes, or whether there are any.
    ///
    /// # Errors
    /// [`AskError::NoTable`] if the question asks for anything else, or sets no condition; other
    /// errors if a condition is unclear.
    pub(super) fn list(&mut self, kind: TypeId, operation: Operation) -> Result<Plan, AskError> {
        self.rows = kind;
        // `is X open` names the row itself.
        let first = self.beside_past(0, 1, |at| self.bound.contains_key(&at));
        let begins_with_row = first.and_then(|at| self.thing(at)).is_some();
        self.lists = operation == Operation::List || !begins_with_row;
        (self.columns, self.assumed) = (Vec::new(), Vec::new());
        let more = |cue: Cue| {
            !matches!(cue, Cue::Filler | Cue::Which | Cue::Bound(..) | Cue::OrMore(_) | Cue::Not)
        };
        let mut parts = self.parts(Kind::Aggregation)?;
        self.put_filled(&mut parts, false)?;
        let n_rows = parts.conditions.iter().filter(|(_, one)| one.steps.is_empty()).count();
        let conditions = parts.conditions.len() + parts.filters.len() - n_rows;
        // In `does X manage Y`, X is the row.
        let is_first = |(at, one): &(usize, Condition)| {
            operation == Operation::Exists && Some(*at) == first && !one.steps.is_empty()
        };
        if self.top.is_some()
            || conditions == 0
            || begins_with_row && parts.conditions.iter().any(is_first)
            || begins_with_row && parts.conditions.iter().any(|(_, one)| self.is_far(one))
            || !parts.measures.is_empty()
            || self.changed.contains(&true)
            || self.cues(false).any(|(_, cue)| more(cue))
            || parts.conditions.iter().any(|(at, one)| self.is_of_texts(*at, one))
        {
            return Err(AskError::NoTable);
        }
        self.refuse_unused(&parts, &operation, None)?;
        Ok(self.planned(Kind::Aggregation, parts, operation, None))
    }

    /// Whether a condition's metapath has several steps and the question mentions none of its
    /// relations: `is X in Norway` does not ask whether orders of X went to Norway.
    pub(super) fn is_far(&self, condition: &Condition) -> bool {
        let steps = &condition.steps;
        steps.len() > 1 && self.schema.said(steps, &self.said) <= 0
    }

    /// Whether a condition may be about the text of documents, as in `papers about "learning"`: its
    /// mention follows `about`, and no relation on its metapath has `about` in its name.
    fn is_of_texts(&self, at: usize, condition: &Condition) -> bool {
        const ABOUT: &str = "about";
        let is_called = |step: &MetapathStep| {
            self.schema.relation(step.relation).words.iter().any(|word| word == ABOUT)
        };
        self.word_before(at) == ABOUT && !condition.steps.iter().any(is_called)
    }
}
