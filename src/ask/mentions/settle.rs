//! Resolves the meaning of ambiguous mentions by the words and mentions around them.

use crate::{
    lexicon::{Cue, Function, is_anything},
    mentions::{ARTICLES, COUNTS, Mention, Thing, Token, What, word},
    schema::Schema,
};
use agent_ground::words::is_question_word;
use agent_kb::{NodeId, RelationId, TypeId, hops};

/// Maximum number of words between the name of several nodes and the name that identifies which of
/// them is meant.
const MAX_BETWEEN: usize = 2;
/// Words for the rows that an assumption does not remove.
const LEFT: [&str; 5] = ["left", "remain", "remained", "remaining", "remains"];
/// Words for any link between nodes.
const LINKED: [&str; 4] = ["linked", "connected", "tied", "associated"];

/// Replaces the meaning of each ambiguous mention in `all` by its meaning in context.
pub(super) fn settle(schema: &Schema, tokens: &[Token], all: &mut [Mention]) {
    let word = |at: usize| word(tokens, at);
    // In `the most genes are associated with`, the word is a relation, not a test.
    let counts =
        |mention: &Mention| matches!(mention.cue(), Some(Cue::HowMany | Cue::Most | Cue::Fewest));
    let first = all.iter().position(counts).unwrap_or(all.len());
    for mention in all.iter_mut().skip(first) {
        let links = schema.is_of_relation(&tokens[mention.at.start].stem);
        if links && mention.cue() == Some(Cue::Relate) {
            mention.what = What::Relation;
        }
    }
    // `linked to the most genes` asks for a number of links, not for a test.
    if all.iter().any(|own| matches!(own.cue(), Some(Cue::Most | Cue::Fewest))) {
        for mention in all.iter_mut().filter(|own| own.cue() == Some(Cue::Relate)) {
            if LINKED.contains(&word(mention.at.start)) {
                mention.what = What::Filler;
            }
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
    narrow_namesakes(schema, tokens, all);
    let around = Around::new(schema, tokens, all);
    for at in 0..all.len() {
        if let Some(what) = around.settled(all, at) {
            all[at].what = what;
        }
    }
}

/// Keeps, of several nodes with the same name, only the nodes linked to a node whose name follows:
/// the animal in `Bella of Peter Kern`. The second name and the words between the names become
/// fillers.
fn narrow_namesakes(schema: &Schema, tokens: &[Token], all: &mut [Mention]) {
    let kb = &schema.base.kb;
    for at in 0..all.len() {
        let What::Thing(thing) = &all[at].what else { continue };
        let behind = all[at + 1..].iter().position(|own| matches!(own.what, What::Thing(_)));
        let Some(next) = behind.map(|behind| at + 1 + behind) else { continue };
        let What::Thing(owner) = &all[next].what else { continue };
        let between = &tokens[all[at].at.end..all[next].at.start];
        let says = |words: &[&str]| between.iter().any(|token| words.contains(&&*token.word));
        // `Bella not of Peter Kern` and `Bella or Rex of Peter Kern` mean something else.
        let is_of = says(&["of", "owner", "from", "by"]) && !says(&["not", "nor", "and", "or"]);
        if thing.nodes.len() < 2 || !is_of || between.len() > MAX_BETWEEN {
            continue;
        }
        let is_linked = |node: &NodeId| hops(kb, *node).any(|hop| owner.nodes.contains(&hop.node));
        let own: Vec<NodeId> = thing.nodes.iter().copied().filter(is_linked).collect();
        if own.is_empty() || own.len() == thing.nodes.len() {
            continue;
        }
        let text = format!("{} of {}", thing.text, owner.text);
        all[at].what = What::Thing(Thing { text, nodes: own, values: Vec::new() });
        all[at + 1..=next].iter_mut().for_each(|own| own.what = What::Filler);
    }
}

/// Facts about the whole question that determine the meaning of ambiguous words.
struct Around<'a> {
    schema: &'a Schema,
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
    fn new(schema: &'a Schema, tokens: &'a [Token], all: &[Mention]) -> Self {
        let says = |words: &[&str]| says(tokens, words);
        let supposes = all.iter().any(|own| own.cue() == Some(Cue::Suppose))
            || says(&["would", "be", "left", "remain", "remained", "remaining", "still"]);
        let differs = |own: &Mention| {
            matches!(own.cue(), Some(Cue::Differ | Cue::More(_) | Cue::Comparative(..)))
        };
        let (differs, tests) = (all.iter().any(differs), all.iter().any(is_test));
        let (would, people) = (says(&["would"]), people(schema, all));
        Self { schema, tokens, supposes, differs, tests, would, people }
    }

    /// Returns the new meaning of the mention with index `at` in its context; `None` if its meaning
    /// does not change.
    fn settled(&self, all: &[Mention], at: usize) -> Option<What> {
        let mention = &all[at];
        let word = |at: usize| word(self.tokens, at);
        let (start, end) = (mention.at.start, mention.at.end);
        let said = word(start);
        let mut ahead = all[..at].iter().rev().map(|own| &own.what);
        let before = ahead
            .find(|own| !matches!(own, What::Filler | What::Relation | What::Cue(Cue::Filler)));
        let mut behind = all[at + 1..].iter().map(|own| &own.what);
        let next = behind.clone().next();
        let named = behind.find(|own| !matches!(own, What::Filler));
        let is_name = |what: Option<&What>| matches!(what, Some(What::Thing(_) | What::NoThing(_)));
        let last = at.checked_sub(1).map(|at| &all[at].what);
        match &mention.what {
            // `drugs without any indication` negates if there is no assumption.
            What::Cue(Cue::LeaveOut) if said == "without" && !self.supposes => {
                let open = matches!(named, Some(What::Type(_) | What::Field(_) | What::Links(_)));
                open.then_some(What::Cue(Cue::Not))
            }
            // In `the number of targets`, `a target` and `target counts`, the links are counted.
            // Otherwise the word only refers to the relation.
            What::Links(relation) => {
                // `assigned tickets` are tickets, if tickets are not what the relation leads to.
                let describes = said.ends_with("ed")
                    && matches!(next, Some(What::Type(kind)) if !self.leads_to(*relation, *kind));
                let article = start > 0 && ARTICLES.contains(&word(start - 1));
                let listed = COUNTS.contains(&word(end))
                    || word(end) == "and" && matches!(named, Some(What::Links(_)));
                // `not written in C` negates C, not the link.
                let denies = before == Some(&What::Cue(Cue::Not))
                    && (is_name(named) || matches!(named, Some(What::Type(_))));
                let counted =
                    before.is_some_and(counts) && !denies || (article || listed) && !is_name(next);
                (describes || !counted).then_some(What::Relation)
            }
            // `how many shows` asks for a number of nodes that the base does not call so.
            What::Filler
                if self.is_undecided(all, start, next)
                    || said.ends_with('s')
                        && matches!(last, Some(What::Cue(Cue::HowMany | Cue::NumberOf)))
                        && !is_question_word(said)
                        && !is_anything(said) =>
            {
                Some(What::Unknown(said.to_owned()))
            }
            // With a field `total`, `total fees` still asks for a sum.
            What::Field(_)
                if said == "total" && matches!(next, Some(What::Field(_) | What::Type(_))) =>
            {
                Some(What::Cue(Cue::Of(Function::Sum)))
            }
            // `stopped` removes rows only in an assumption.
            What::Cue(Cue::LeaveOut)
                if said.starts_with("stop")
                    && !self.would
                    && !all.iter().any(|own| own.cue() == Some(Cue::Suppose)) =>
            {
                Some(What::Unknown(said.to_owned()))
            }
            // In `how many things`, the word stands for the candidate type, if there is only one.
            What::Filler | What::Unknown(_) if is_anything(said) => {
                let counted = matches!(
                    before,
                    Some(What::Cue(Cue::HowMany | Cue::NumberOf | Cue::Most | Cue::More(_)))
                );
                match self.schema.base.kb.candidate_types() {
                    &[kind] if counted => Some(What::Type(kind)),
                    _ => Some(What::Filler),
                }
            }
            // In `author list` and `reference counts`, the second word has no meaning of its own.
            What::Filler | What::Unknown(_) | What::Cue(Cue::HowMany)
                if COUNTS.contains(&said)
                    && matches!(last, Some(What::Type(_) | What::Links(_) | What::Field(_))) =>
            {
                Some(What::Filler)
            }
            // In `customers ordered X`, the word is a verb.
            What::Type(kind) if is_name(next) && self.is_verb(*kind, said) => Some(What::Relation),
            // The `phone number of X` is a field.
            What::Cue(Cue::NumberOf)
                if said == "number" && matches!(last, Some(What::Field(_))) =>
            {
                Some(What::Filler)
            }
            What::Cue(Cue::Which) if said == "who" => self.people.map(What::Type),
            _ => None,
        }
    }

    /// Whether the filler at token `start`, before `next`, states a condition that the base cannot
    /// decide: `used papers`, `this year`, `are significant`, `still with us`, and, without an
    /// assumption, `are left`.
    fn is_undecided(&self, all: &[Mention], start: usize, next: Option<&What>) -> bool {
        let said = word(self.tokens, start);
        let removes = |own: &Mention| matches!(own.cue(), Some(Cue::Suppose | Cue::LeaveOut));
        said == "used" && matches!(next, Some(What::Type(_)))
            || ["month", "year"].contains(&said)
                && start > 0
                && word(self.tokens, start - 1) == "this"
            || said.starts_with("significant") && !self.tests && !self.differs
            || said == "still" && !adds_nothing(all, next)
            || LEFT.contains(&said) && !self.would && !all.iter().any(removes)
    }

    /// Whether edges of a relation end at nodes of a type.
    fn leads_to(&self, relation: RelationId, kind: TypeId) -> bool {
        let mut tuples = self.schema.base.kb.tuples().iter();
        tuples.any(|tuple| (tuple.relation, tuple.target) == (relation, kind))
    }

    /// Whether a word is a verb made from the name of a type: `ordered` from `order`.
    fn is_verb(&self, kind: TypeId, said: &str) -> bool {
        let name = self.schema.types.get(usize::from(kind.0));
        let own = name.and_then(|own| own.words.last()).and_then(|own| said.strip_prefix(&**own));
        own == Some("ed")
    }
}

/// Whether `still` before a mention adds nothing to it, as in `still open`, or belongs to an
/// assumption.
fn adds_nothing(all: &[Mention], next: Option<&What>) -> bool {
    all.iter().any(|own| own.cue() == Some(Cue::Suppose))
        || matches!(
            next,
            Some(What::Thing(_) | What::Field(_) | What::Relation | What::Cue(Cue::Not))
        )
}

/// Whether a phrase with this meaning before a relation asks for the number of its links: `most`.
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
    let extreme = all.iter().filter_map(Mention::cue).any(Cue::is_extreme);
    let types = (0..schema.types.len() as u16).map(TypeId);
    let mut people = types.filter(|kind| schema.are_people(*kind));
    let kind = people.next().filter(|_| extreme && things < 2)?;
    let is_said = all.iter().any(|own| own.what == What::Type(kind));
    (people.next().is_none() && !is_said).then_some(kind)
}
