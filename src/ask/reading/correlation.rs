//! Reads questions about a correlation: the two numbers, and the direction.

use crate::{
    AskError,
    lexicon::Cue,
    plan::Operation,
    reading::{
        Reading,
        operation::{Parts, YES_NO},
    },
};
use agent_kb::table::ColumnSpec;

impl Reading<'_> {
    /// Reads a correlation of two columns of numbers.
    ///
    /// # Errors
    /// If the question does not ask for a correlation, or does not mention two numbers.
    pub(super) fn correlation(&mut self, parts: &mut Parts) -> Result<Operation, AskError> {
        let ranks = self.has(Cue::Ranks);
        let says = self.has(Cue::Correlate) || ranks;
        let ways = self.ways();
        if !says && (ways.len() < 2 || !parts.subjects.is_empty() || !self.begins_yes_no()) {
            return Err(AskError::NoTable);
        }
        // `pricier products`: the word implies the field.
        let mut columns: Vec<(usize, usize)> = parts.measures.clone();
        for (at, names) in ways.iter().filter_map(|(at, _, names)| Some((*at, (*names)?))) {
            if let Some(field) = self.implied(self.rows, names) {
                columns.push((at, self.column(ColumnSpec::Field(field))));
            }
        }
        columns.sort_unstable();
        let mut own: Vec<usize> = Vec::new();
        for (_, column) in columns {
            if !own.contains(&column) {
                own.push(column);
            }
        }
        let words = self.own_words();
        let falls = words
            .iter()
            .any(|word| ["negatively", "negative", "inversely", "inverse"].contains(word));
        let rises = words.iter().any(|word| ["positively", "positive"].contains(word));
        let signs: Vec<bool> = ways.iter().map(|(_, high, _)| *high).collect();
        let rises = match (falls, rises, signs.as_slice()) {
            (true, ..) => Some(false),
            (_, true, _) => Some(true),
            (_, _, &[one, other]) => Some(one == other),
            (_, _, &[one]) if says => Some(one),
            _ => None,
        };
        match *own.as_slice() {
            [one, other] => Ok(Operation::Correlate { one, other, ranks, rises }),
            [_, _, _, ..] => Err(AskError::Missing(
                "more than two numbers are named; ask whether two go together".to_owned(),
            )),
            _ => Err(self.no_number()),
        }
    }

    /// Returns the words for a direction: position, up (true) or down, and names of the field that
    /// the word implies, if any.
    fn ways(&self) -> Vec<(usize, bool, Option<&'static [&'static str]>)> {
        let way = |(at, cue)| match cue {
            Cue::More(high) => Some((at, high, None)),
            Cue::Comparative(high, names) => Some((at, high, Some(names))),
            Cue::Raise => Some((at, true, None)),
            Cue::Lower => Some((at, false, None)),
            Cue::Correlate => {
                let said = self.said_at(at);
                let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
                if says(&["higher", "more", "rise", "grow", "increase", "hand in hand", "up with"])
                {
                    Some((at, true, None))
                } else if says(&["lower", "fewer", "less", "decrease", "fall", "drop", "down with"])
                {
                    Some((at, false, None))
                } else {
                    None
                }
            }
            _ => None,
        };
        self.cues(false).filter_map(way).collect()
    }

    /// Whether the question begins with a word of yes-or-no questions.
    fn begins_yes_no(&self) -> bool {
        let first = self.mentions.tokens.first().map_or("", |token| token.word.as_str());
        YES_NO.contains(&first)
    }
}
