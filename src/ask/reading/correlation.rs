//! Reads questions about a correlation: which two columns of numbers, and in which direction.

use crate::{
    AskError,
    lexicon::Cue,
    missing,
    plan::Operation,
    reading::{Reading, operation::Parts},
};
use agent_kb::table::ColumnSpec;

/// Parts of phrases that indicate that one number rises with another.
const UP: [&str; 7] = ["higher", "more", "rise", "grow", "increase", "hand in hand", "up with"];
/// Parts of phrases that indicate that one number falls as another rises.
const DOWN: [&str; 7] = ["lower", "fewer", "less", "decrease", "fall", "drop", "down with"];

impl Reading<'_> {
    /// Builds the operation that tests whether the two mentioned columns of numbers are correlated.
    ///
    /// # Errors
    /// If the question does not ask for a correlation, or does not mention exactly two columns of
    /// numbers.
    pub(super) fn correlation(&mut self, parts: &mut Parts) -> Result<Operation, AskError> {
        let ranks = self.has(Cue::Ranks);
        let says = self.has(Cue::Correlate) || ranks;
        let ways = self.ways();
        if !says && (ways.len() < 2 || !parts.subjects.is_empty() || !self.is_yes_no()) {
            return Err(AskError::NoTable);
        }
        // `pricier products`: the word implies the field.
        let mut columns: Vec<(usize, usize)> = parts.measures.clone();
        for (at, names) in ways.iter().filter_map(|(at, _, names)| Some((*at, (*names)?))) {
            if let Some(field) = self.implied(self.rows, names) {
                let column = self.column(ColumnSpec::Field(field));
                if columns.iter().all(|(_, known)| *known != column) {
                    columns.push((at, column));
                }
            }
        }
        columns.sort_unstable();
        let words = self.own_words();
        let says_any = |of: &[&str]| words.iter().any(|word| of.contains(word));
        let falls = says_any(&["negatively", "negative", "inversely", "inverse"]);
        let rises = says_any(&["positively", "positive"]);
        let signs: Vec<bool> = ways.iter().map(|(_, high, _)| *high).collect();
        let rises = match (falls, rises, signs.as_slice()) {
            (true, ..) => Some(false),
            (_, true, _) => Some(true),
            (_, _, &[one, other]) => Some(one == other),
            (_, _, &[one]) if says => Some(one),
            _ => None,
        };
        match *columns.as_slice() {
            [(_, one), (_, other)] => Ok(Operation::Correlate { one, other, ranks, rises }),
            [_, _, _, ..] => missing("more than two numeric fields are named; ask about two"),
            _ => self.no_number(),
        }
    }

    /// Returns the words for a direction, in order: the index of the mention, up (true) or down
    /// (false), and the names that the field may have, if the word implies one (`pricier`).
    fn ways(&self) -> Vec<(usize, bool, Option<&'static [&'static str]>)> {
        let way = |(at, cue)| match cue {
            Cue::More(high) => Some((at, high, None)),
            Cue::Comparative(high, names) => Some((at, high, Some(names))),
            Cue::Raise => Some((at, true, None)),
            Cue::Lower => Some((at, false, None)),
            Cue::Correlate => {
                let said = self.said_at(at);
                let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
                let up = says(&UP);
                (up || says(&DOWN)).then_some((at, up, None))
            }
            _ => None,
        };
        self.cues(false).filter_map(way).collect()
    }
}
