//! Reads questions for a share: the percentage of the rows in the whole that are also in the part,
//! as in `what share of the papers of 2020 are reviews`.

use std::ops::Range;

use crate::{
    AskError, missing,
    plan::{Condition, Operation, Test, reversed},
    reading::{Reading, operation::Parts, things::Role},
};
use agent_kb::{TypeId, table::ColumnSpec};

/// Verbs that may separate the words for the whole from the words for the part: `what share of the
/// whole is the part`.
const VERBS: [&str; 19] = [
    "is", "are", "was", "were", "has", "have", "had", "do", "does", "did", "cost", "costs", "come",
    "comes", "belong", "belongs", "appeared", "be", "been",
];
/// Words with which a relative clause begins.
const RELATIVES: [&str; 4] = ["that", "which", "who", "whose"];
/// Words that may precede the words for the whole: `among`.
const WHOLES: [&str; 3] = ["among", "amongst", "amid"];

impl Reading<'_> {
    /// Builds the operation that computes the percentage of the rows in the whole that are also in
    /// the part. The conditions and filters of the whole stay in `parts`. `cue` is the index of the
    /// mention that asks for the share.
    ///
    /// # Errors
    /// If the question does not mention the part, or if it is unclear which words belong to the
    /// whole.
    pub(super) fn share(&mut self, cue: usize, parts: &mut Parts) -> Result<Operation, AskError> {
        // `what share of the parking spaces` asks for a share of a total, not of the rows.
        let whole = self.beside_past(cue, 1, |at| self.is_equal(at));
        if let Some(&(at, column)) = parts.measures.iter().find(|(at, _)| Some(*at) == whole)
            && matches!(self.columns[column], ColumnSpec::Field(_))
        {
            return missing(format!(
                "shares of a total such as {:?} are not supported; ask for the totals",
                self.said_at(at)
            ));
        }
        for (at, column) in parts.measures.drain(..).chain(parts.groups.drain(..)) {
            let test = self.presence(self.columns[column].clone(), true)?;
            parts.filters.push((at, test));
        }
        let mentions = self.mentions;
        let begin = |at: usize| mentions.range(at).start;
        let places = parts.conditions.iter().map(|(at, _)| *at);
        let places = places.chain(parts.filters.iter().map(|(at, _)| *at));
        let parting = self.parting_place(cue, &places.map(begin).collect::<Vec<_>>())?;
        let is_part = |at: usize| {
            parting.is_none_or(|(place, part_is_behind)| (begin(at) < place) != part_is_behind)
        };
        let conditions = parts.conditions.extract_if(.., |(at, _)| is_part(*at));
        let mut part: Vec<Test> = conditions.map(|(_, one)| self.test_of(one)).collect();
        let filters = parts.filters.extract_if(.., |(at, _)| is_part(*at));
        part.extend(filters.map(|(_, test)| test));
        if part.is_empty() {
            return missing("the condition of the share is missing");
        }
        Ok(Operation::Share(part))
    }

    /// Returns the position of the token that separates the words for the whole from the words for
    /// the part, and whether the part comes after it; `None` if all mentions belong to the part.
    /// `begins` are the positions of the first tokens of the mentions.
    fn parting_place(
        &self,
        cue: usize,
        begins: &[usize],
    ) -> Result<Option<(usize, bool)>, AskError> {
        let tokens = &self.mentions.tokens;
        let word = |at: usize| self.mentions.word(at);
        let Range { start: begin, end } = self.mentions.range(cue);
        let find = |from: usize, words: &[&str]| {
            (from..tokens.len()).find(|at| words.contains(&word(*at)))
        };
        let between =
            |from: usize, to: usize| begins.iter().any(|begin| (from..to).contains(begin));
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
            let mut behind = relative..tokens.len();
            let verb = behind.find(|&at| VERBS.contains(&word(at)) && between(relative, at));
            return Ok(Some((verb.unwrap_or(relative), true)));
        }
        if let Some(verb) = find(end, &VERBS) {
            return Ok(Some((verb, true)));
        }
        match begins {
            [] | [_] => Ok(None),
            _ => missing(
                "cannot tell which words name the whole; write \"what share of WHOLE are PART\"",
            ),
        }
    }

    /// Converts a condition on rows to a test of a row.
    pub(super) fn test_of(&mut self, condition: Condition) -> Test {
        let Condition { nodes, steps, .. } = condition;
        let end = steps.first().map_or(TypeId::NONE, |step| step.to);
        let from = nodes.first().map_or(end, |&node| self.kb.node_type(node));
        self.test(Role::Nodes { steps: reversed(from, &steps), nodes })
    }
}
