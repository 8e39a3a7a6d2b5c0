//! Reads questions for a share: how many of the rows in the whole are also in the part, as in `what
//! share of the papers of 2020 are reviews`.

use crate::{
    AskError,
    plan::{Condition, Operation, Test, reversed},
    reading::{Reading, operation::Parts},
};
use agent_kb::{TypeId, table::ColumnSpec};

/// Verbs that may stand between the words for the whole and those for the part: `what share of the
/// whole is the part`.
const VERBS: [&str; 19] = [
    "is", "are", "was", "were", "has", "have", "had", "do", "does", "did", "cost", "costs", "come",
    "comes", "belong", "belongs", "appeared", "be", "been",
];
/// Words with which a relative clause begins.
const RELATIVES: [&str; 4] = ["that", "which", "who", "whose"];
/// Words that may stand before those for the whole: `among`.
const WHOLES: [&str; 3] = ["among", "amongst", "amid"];

/// A condition or a test that selects rows, of the whole (denominator) or of the part (numerator).
enum Said {
    Condition(Condition),
    Test(Test),
}

impl Reading<'_> {
    /// Builds the operation that computes which share of the rows in the whole is also in the part.
    /// The requirements of the whole stay in `parts`. `cue` is the index of the mention that asks
    /// for the share.
    ///
    /// # Errors
    /// If the question does not mention the part, or if it is unclear which words belong to the
    /// whole.
    pub(super) fn share(&mut self, cue: usize, parts: &mut Parts) -> Result<Operation, AskError> {
        let mut said: Vec<(usize, Said)> = Vec::new();
        said.extend(parts.conditions.drain(..).map(|(at, one)| (at, Said::Condition(one))));
        said.extend(parts.filters.drain(..).map(|(at, one)| (at, Said::Test(one))));
        for (at, column) in parts.measures.drain(..).chain(parts.groups.drain(..)) {
            let test = self.has_some(column);
            said.push((at, Said::Test(test)));
        }
        let (whole, part): (Vec<_>, Vec<_>) = match self.parting_place(cue, &said)? {
            Some((place, part_is_behind)) => {
                said.into_iter().partition(|(at, _)| (self.begin_of(*at) < place) == part_is_behind)
            }
            None => (Vec::new(), said),
        };
        if part.is_empty() {
            return Err(AskError::Missing("the condition of the share is missing".to_owned()));
        }
        for (at, one) in whole {
            match one {
                Said::Condition(one) => parts.conditions.push((at, one)),
                Said::Test(one) => parts.filters.push((at, one)),
            }
        }
        let tests = part.into_iter().map(|(_, one)| match one {
            Said::Condition(one) => self.test_of(one),
            Said::Test(one) => one,
        });
        Ok(Operation::Share(tests.collect()))
    }

    /// Returns the position of the first token of the mention with index `at`.
    fn begin_of(&self, at: usize) -> usize {
        self.mentions.all.get(at).map_or(0, |mention| mention.at.start)
    }

    /// Returns the position of the token that separates the words for the whole from those for the
    /// part, and whether the part comes after it; `None` if all mentions belong to the part.
    fn parting_place(
        &self,
        cue: usize,
        said: &[(usize, Said)],
    ) -> Result<Option<(usize, bool)>, AskError> {
        let tokens = &self.mentions.tokens;
        let word = |at: usize| tokens.get(at).map_or("", |token| token.word.as_str());
        let (begin, end) =
            self.mentions.all.get(cue).map_or((0, 0), |mention| (mention.at.start, mention.at.end));
        let find = |from: usize, words: &[&str]| {
            (from..tokens.len()).find(|at| words.contains(&word(*at)))
        };
        let between = |from: usize, to: usize| {
            said.iter().any(|(at, _)| (from..to).contains(&self.begin_of(*at)))
        };
        if let Some(place) = find(end, &WHOLES) {
            return Ok(Some((place, false)));
        }
        // `of the products of A, what share is B`
        if word(0) == "of" {
            return Ok(Some((begin, true)));
        }
        // `A is what share of B`
        if between(0, begin) {
            return Ok(Some((begin, false)));
        }
        if let Some(relative) = find(end, &RELATIVES) {
            // A verb after the relative clause begins the part.
            let verb = (relative..tokens.len())
                .find(|&at| VERBS.contains(&word(at)) && between(relative, at));
            return Ok(Some((verb.unwrap_or(relative), true)));
        }
        if let Some(verb) = find(end, &VERBS) {
            return Ok(Some((verb, true)));
        }
        match said {
            [] | [_] => Ok(None),
            _ => Err(AskError::Missing(
                "the whole of the share is unclear; ask what share of the whole is the part"
                    .to_owned(),
            )),
        }
    }

    /// Converts a condition on rows to a test of a row.
    fn test_of(&mut self, condition: Condition) -> Test {
        if condition.steps.is_empty() {
            return Test::Is(condition.nodes);
        }
        let end = condition.steps.first().map_or(TypeId::NONE, |step| step.to);
        let from = condition.nodes.first().map_or(end, |&node| self.base.kb.node_type(node));
        let column = self.column(ColumnSpec::Names(reversed(from, &condition.steps)));
        Test::Linked { column, nodes: condition.nodes }
    }
}
