//! Resolves the meaning of ambiguous mentions by the words and mentions around them.

use crate::{
    lexicon::{Cue, is_anything, is_person},
    mentions::{ARTICLES, COUNTS, Mention, Token, What, word},
    schema::Schema,
};
use agent_index::IndexedBase;
use agent_kb::TypeId;

/// Replaces the meaning of each ambiguous mention in `all` by its meaning in context.
pub(super) fn settle(base: &IndexedBase, schema: &Schema, tokens: &[Token], all: &mut [Mention]) {
    let word = |at: usize| word(tokens, at);
    // In `the most genes are associated with`, the word is a relation, not a test.
    let counts =
        |mention: &Mention| matches!(mention.cue(), Some(Cue::HowMany | Cue::Most | Cue::Fewest));
    let first = all.iter().position(counts).unwrap_or(all.len());
    for mention in all.iter_mut().skip(first) {
        let links =
            tokens.get(mention.at.start).is_some_and(|own| schema.is_of_relation(&own.stem));
        if links && mention.cue() == Some(Cue::Relate) {
            mention.what = What::Relation;
        }
    }
    // In a test, `how many` is a number: `related to how many genes there are`.
    let test = all.iter().position(is_test).unwrap_or(all.len());
    for mention in all.iter_mut().skip(test) {
        if mention.cue() == Some(Cue::HowMany) {
            mention.what = What::Cue(Cue::NumberOf);
        }
    }
    if let Some(mention) = all.first_mut().filter(|mention| mention.at.len() == 1)
        && (word(mention.at.start) == "say"
            || ["had", "were"].contains(&word(mention.at.start)) && says(tokens, &["would"]))
    {
        mention.what = What::Cue(Cue::Suppose);
    }
    let around = Around::new(base, schema, tokens, all);
    for at in 0..all.len() {
        if let (Some(what), Some(mention)) = (around.settled(all, at), all.get_mut(at)) {
            mention.what = what;
        }
    }
}

/// Facts about the whole question that determine the meaning of ambiguous words.
struct Around<'a> {
    base: &'a IndexedBase,
    tokens: &'a [Token],
    /// Whether the question makes an assumption.
    supposes: bool,
    /// Whether the question compares values.
    differs: bool,
    /// Whether the question asks for a statistical test.
    tests: bool,
    /// Whether the question contains `would`.
    would: bool,
    /// The type that `who` refers to; `None` if unclear.
    people: Option<TypeId>,
}

impl<'a> Around<'a> {
    fn new(base: &'a IndexedBase, schema: &Schema, tokens: &'a [Token], all: &[Mention]) -> Self {
        let says = |words: &[&str]| says(tokens, words);
        let supposes = all.iter().any(|own| own.cue() == Some(Cue::Suppose))
            || says(&["would", "be", "left", "remain", "remained", "remaining", "still"]);
        let differs = |own: &Mention| {
            matches!(own.cue(), Some(Cue::Differ | Cue::More(_) | Cue::Comparative(..)))
        };
        let (differs, tests) = (all.iter().any(differs), all.iter().any(is_test));
        let (would, people) = (says(&["would"]), people(schema, all));
        Self { base, tokens, supposes, differs, tests, would, people }
    }

    fn word(&self, at: usize) -> &'a str {
        word(self.tokens, at)
    }

    /// Returns the new meaning of the mention with index `at` in its context; `None` if its meaning
    /// does not change.
    fn settled(&self, all: &[Mention], at: usize) -> Option<What> {
        let mention = all.get(at)?;
        let (start, end) = (mention.at.start, mention.at.end);
        let (ahead, behind) = (all.get(..at)?, all.get(at + 1..)?);
        let mut ahead = ahead.iter().rev().map(|own| &own.what);
        let before = ahead
            .find(|own| !matches!(own, What::Filler | What::Relation | What::Cue(Cue::Filler)));
        let next = behind.first().map(|next| &next.what);
        let named = behind.iter().map(|own| &own.what).find(|own| !matches!(own, What::Filler));
        match &mention.what {
            // `drugs without any indication` negates if there is no assumption.
            What::Cue(Cue::LeaveOut) if self.word(start) == "without" && !self.supposes => {
                let open = matches!(named, Some(What::Type(_) | What::Field(_) | What::Links(_)));
                open.then_some(What::Cue(Cue::Not))
            }
            // Counted: `the number of targets`, `a target`, `target counts`. Otherwise a link.
            What::Links(_) => {
                let article =
                    start.checked_sub(1).is_some_and(|at| ARTICLES.contains(&self.word(at)));
                let listed = COUNTS.contains(&self.word(end))
                    || self.word(end) == "and" && matches!(named, Some(What::Links(_)));
                let of_thing = matches!(next, Some(What::Thing(_) | What::NoThing(_)));
                // `not written in C` denies C, not the link.
                let denies = before == Some(&What::Cue(Cue::Not))
                    && matches!(named, Some(What::Thing(_) | What::NoThing(_) | What::Type(_)));
                let counted =
                    before.is_some_and(counts) && !denies || (article || listed) && !of_thing;
                (!counted).then_some(What::Relation)
            }
            // `used papers`, `this year`, `are significant`: a condition that the base cannot decide.
            What::Filler
                if self.word(start) == "used" && matches!(next, Some(What::Type(_)))
                    || ["month", "year"].contains(&self.word(start))
                        && self.word(start.wrapping_sub(1)) == "this"
                    || self.word(start).starts_with("significant")
                        && !self.tests
                        && !self.differs =>
            {
                Some(What::Unknown(self.word(start).to_owned()))
            }
            // `stopped` removes rows only in an assumption.
            What::Cue(Cue::LeaveOut)
                if self.word(start).starts_with("stop")
                    && !self.would
                    && !all.iter().any(|own| own.cue() == Some(Cue::Suppose)) =>
            {
                Some(What::Unknown(self.word(start).to_owned()))
            }
            // `how many things`: nodes of the candidate type, if there is only one.
            What::Filler | What::Unknown(_) if is_anything(self.word(start)) => {
                let counted = matches!(
                    before,
                    Some(What::Cue(Cue::HowMany | Cue::NumberOf | Cue::Most | Cue::More(_)))
                );
                match self.base.kb.candidate_types() {
                    &[kind] if counted => Some(What::Type(kind)),
                    _ => Some(What::Filler),
                }
            }
            // `author list`, `reference counts`
            What::Filler | What::Unknown(_) | What::Cue(Cue::HowMany)
                if COUNTS.contains(&self.word(start))
                    && all.get(at.wrapping_sub(1)).is_some_and(|own| {
                        matches!(own.what, What::Type(_) | What::Links(_) | What::Field(_))
                    }) =>
            {
                Some(What::Filler)
            }
            What::Cue(Cue::Which) if self.word(start) == "who" => self.people.map(What::Type),
            _ => None,
        }
    }
}

/// Whether the links of a relation are counted if this meaning stands before the relation: `most`.
fn counts(what: &What) -> bool {
    matches!(
        what,
        What::Number(..)
            | What::Cue(
                Cue::HowMany
                    | Cue::NumberOf
                    | Cue::Most
                    | Cue::Fewest
                    | Cue::More(_)
                    | Cue::Not
                    | Cue::Of(_)
                    | Cue::Correlate
                    | Cue::Bound(_, false)
            )
    )
}

/// Whether a mention is a phrase that asks for a statistical test.
fn is_test(mention: &Mention) -> bool {
    mention.cue().is_some_and(Cue::is_test)
}

fn says(tokens: &[Token], words: &[&str]) -> bool {
    tokens.iter().any(|token| words.contains(&token.word.as_str()))
}

/// Returns the type that `who` refers to: the only type of people in the base, if the question asks
/// for a maximum or minimum, has at most one name and does not mention the type. `None` otherwise.
fn people(schema: &Schema, all: &[Mention]) -> Option<TypeId> {
    let things = all.iter().filter(|own| matches!(own.what, What::Thing(_))).count();
    let extreme = all.iter().any(|own| {
        matches!(
            own.what,
            What::Cue(Cue::Most | Cue::Fewest | Cue::High | Cue::Low | Cue::Best(..))
        )
    });
    let types = (0..).map(TypeId).zip(&schema.types);
    let mut people = types.filter(|(_, own)| own.words.iter().any(|word| is_person(word)));
    let (kind, _) = people.next().filter(|_| extreme && things < 2)?;
    let is_said = all.iter().any(|own| own.what == What::Type(kind));
    (people.next().is_none() && !is_said).then_some(kind)
}
