//! Reads questions for a maximum or minimum: determines the ranked items and the number to rank by.

use crate::{
    AskError,
    lexicon::{Cue, Function, is_beginning, is_frequency, property},
    missing,
    plan::{Measure, Operation},
    reading::{
        Reading,
        operation::{COUNTED_TWICE, Parts},
    },
};
use agent_kb::{Direction, FieldId, MetapathStep, TypeId, metapath_in_words, table::ColumnSpec};

/// Target of a question about a maximum or minimum.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    /// The rows with the extreme number: `which product is the cheapest`.
    Rows,
    /// The values of the column with this index, which group the rows: `which brand has the most
    /// products`.
    Group(usize),
    /// The extreme number itself: `what is the lowest price`.
    Number,
}

impl Reading<'_> {
    /// Builds the operation that finds the first rows, the first groups of rows, or the extreme
    /// number.
    ///
    /// # Errors
    /// If the question does not ask for a maximum or minimum, or mentions no known number.
    pub(super) fn superlative(&mut self, parts: &mut Parts) -> Result<Operation, AskError> {
        let Some((high, names)) = self.extreme().filter(|_| !self.asks_for_test()) else {
            return missing("no maximum or minimum is named");
        };
        self.ranks_another_type()?;
        let top = self.top.unwrap_or(1);
        let implied = self.implied(self.rows, names).map(ColumnSpec::Field);
        let implied = implied.or_else(|| self.linked_to()).or_else(|| self.published(parts));
        let size = if implied.is_none() { self.size(parts) } else { None };
        let is_size = size.is_some();
        let implied = match implied.or(size) {
            None if names == property("time") => Some(ColumnSpec::Field(self.age_field()?)),
            None if names.is_empty() => self.most_linked_to(parts),
            None => return self.no_property(names),
            found => found,
        };
        let asked = match self.asks_for_value(parts, implied.as_ref()) {
            true => Asked::Number,
            false if is_size => Asked::Rows,
            false => self.asked(parts),
        };
        let column = match implied {
            Some(spec) => Some(self.column(spec)),
            None => parts.measures.first().map(|(_, column)| *column),
        };
        if let Some(column) = column {
            self.refuse_length_of_date(&self.columns[column])?;
        }
        let extreme = if high { Function::Max } else { Function::Min };
        match (asked, column) {
            (Asked::Group(group), _)
                if column.is_some() || parts.counts_rows || self.is_frequency() =>
            {
                let measure = match (column, self.function()) {
                    (None, _) => Measure::Rows,
                    (Some(column), Some(function)) => Measure::Of(function, column),
                    // A node linked to several rows of a group would be counted more than once.
                    (Some(column), None)
                        if matches!(self.columns[column], ColumnSpec::Count(_)) =>
                    {
                        return missing(COUNTED_TWICE);
                    }
                    (Some(column), None) => {
                        self.refuse_part_of_name(parts)?;
                        let most = self.has(Cue::Most) || self.has(Cue::Fewest);
                        let function = if most { Function::Sum } else { extreme };
                        self.assumed.push(format!("read as the {} of each", function.name()));
                        Measure::Of(function, column)
                    }
                };
                let part = self.date_part(group);
                Ok(Operation::Groups { group, part, measure, first: Some((high, top)) })
            }
            (Asked::Number, Some(column)) => Ok(Operation::Number(Measure::Of(extreme, column))),
            (Asked::Rows, Some(column)) => Ok(Operation::First { column, high, top }),
            _ => self.no_number(),
        }
    }

    /// Returns the field that gives the size of a row, for a question that mentions no number:
    /// `the biggest venue`. Of several such fields, [`choose`](Self::choose) selects one.
    fn size(&mut self, parts: &Parts) -> Option<ColumnSpec> {
        const SIZES: [&str; 3] = ["biggest", "largest", "smallest"];
        let is_size = self.own_words().iter().any(|word| SIZES.contains(word));
        if !is_size || parts.counts_rows || !parts.measures.is_empty() {
            return None;
        }
        let sizes = self.all_called(self.rows, property("size"), false).map(|own| own.field);
        let field = self.choose(sizes.collect(), |own| self.field_in_words(own))?;
        self.assumed.push(format!("size is read as {:?}", self.kb.field_name(field)));
        Some(ColumnSpec::Field(field))
    }

    /// Returns the field of dates that gives the age of a row.
    ///
    /// # Errors
    /// If no field holds dates, or if the name of the field indicates no beginning and is not
    /// mentioned: the date of the last change does not give the age.
    fn age_field(&self) -> Result<FieldId, AskError> {
        let field = self.time_field()?;
        let name = self.schema.field(field);
        let is_said = name.stems.iter().any(|stem| self.said.contains(stem));
        if is_said || name.words.iter().any(|word| is_beginning(word)) {
            return Ok(field);
        }
        let (rows, field) = (self.kb.type_name(self.rows), self.kb.field_name(field));
        missing(format!("cannot tell the age of a {rows}; if you mean {field:?}, name it"))
    }

    /// Refuses to rank the nodes that the question counts to rank other nodes: drugs in `top
    /// enzymes by number of drugs`, where enzymes are not a type.
    fn ranks_another_type(&self) -> Result<(), AskError> {
        let is_measure = |at: usize| {
            let number = self.beside(at, -1).filter(|own| self.cue(*own) == Some(Cue::NumberOf));
            number.is_some_and(|number| self.follows_by(number))
        };
        let is_own = |(at, kind): (&usize, &TypeId)| *kind == self.rows && is_measure(*at);
        match self.counted.iter().any(is_own) {
            true => missing("cannot tell what is ranked; name its type"),
            false => Ok(()),
        }
    }

    /// Whether the rows themselves are requested by frequency: `the most common side effects`,
    /// where the rows are side effects.
    fn are_rows_frequent(&self) -> bool {
        self.cues(false).any(|(at, cue)| {
            // `which language is most common among tickets` asks for languages.
            let next = self.beside(at, 1).filter(|next| self.word_before(*next) != "among");
            let next = next.and_then(|next| self.type_at(next));
            matches!(cue, Cue::Most | Cue::Fewest)
                && is_frequency(&self.said_at(at))
                && next == Some(self.rows)
        })
    }

    /// Whether the question asks for the extreme value, not for the row that has it: `how much is
    /// the cheapest`, `in which year was the first`.
    fn asks_for_value(&self, parts: &Parts, implied: Option<&ColumnSpec>) -> bool {
        if self.mentions.word(self.begin()) == "how" && !self.has(Cue::HowMany) {
            return true;
        }
        let Some(next) = self.which().and_then(|which| self.beside(which, 1)) else {
            return false;
        };
        let said = parts.measures.iter().chain(&parts.groups).find(|(at, _)| *at == next);
        let said = said.map(|(_, column)| &self.columns[*column]);
        implied.is_some() && said == implied
    }

    /// Returns the index of the first `which`.
    pub(super) fn which(&self) -> Option<usize> {
        self.cues(false).find(|(_, cue)| *cue == Cue::Which).map(|(at, _)| at)
    }

    /// Returns the target of the question if [`asks_for_value`](Self::asks_for_value) is false;
    /// judged mainly by the words after `which`.
    fn asked(&self, parts: &Parts) -> Asked {
        let group_of =
            |at: usize| parts.groups.iter().find(|(own, _)| *own == at).map(|(_, column)| *column);
        let is_passed = |at: usize| match self.cue(at) {
            Some(Cue::Bound(..) | Cue::Only | Cue::Top) => true,
            // `what is the most common X`
            Some(Cue::Most | Cue::Fewest) => is_frequency(&self.said_at(at)),
            _ => self.is_number(at),
        };
        if self.are_rows_frequent() {
            return Asked::Rows;
        }
        let next = self.which().and_then(|which| self.beside_past(which, 1, is_passed));
        if let Some(group) = next.and_then(group_of) {
            return Asked::Group(group);
        }
        let begins_with_rows = next.and_then(|at| self.type_at(at)) == Some(self.rows);
        let best = self.cues(false).any(|(_, cue)| matches!(cue, Cue::Best(..)));
        let is_extreme = |cue| matches!(cue, Cue::High | Cue::Low | Cue::Most | Cue::Fewest);
        let extreme = self.cues(false).find(|(_, cue)| is_extreme(*cue));
        let extreme = extreme.map_or(usize::MAX, |(at, _)| at);
        let is_rows = |at: usize| self.type_at(at) == Some(self.rows);
        let mut said = (0..self.mentions.all.len()).take(extreme);
        let said_first = said.any(|at| is_rows(at) && !self.bound.contains_key(&at));
        let parts_rows = parts.groups.iter().any(|(at, _)| self.is_parting(*at));
        match parts.groups.first() {
            _ if begins_with_rows || best && !parts_rows => Asked::Rows,
            Some(&(at, group))
                if self.function().is_some()
                    || parts.counts_rows
                    || self.is_frequency()
                    || at < extreme =>
            {
                Asked::Group(group)
            }
            _ if said_first || self.top.is_some() => Asked::Rows,
            _ => Asked::Number,
        }
    }

    /// Returns the column that counts, for each row, the linked nodes of the type to which the rows
    /// have the most links; only for questions such as `who published the most`.
    fn published(&mut self, parts: &Parts) -> Option<ColumnSpec> {
        let most = self.has(Cue::Most) || self.has(Cue::Fewest);
        if !most || !parts.measures.is_empty() || !self.publishes() {
            return None;
        }
        let linked = self.schema.most_linked(self.rows)?;
        let steps = self.path_to(linked).ok()?;
        let (rows, linked) = (self.kb.type_name(self.rows), self.kb.type_name(linked));
        self.assumed.push(format!("taken as the number of {linked} of each {rows}"));
        Some(ColumnSpec::Count(steps))
    }

    /// Returns the column that counts each row's links by one step; only for questions such as `the
    /// most common side effect`. With `of drugs`, counts the linked drugs. Of several frequent
    /// steps, [`choose`](Self::choose) selects one.
    fn most_linked_to(&self, parts: &Parts) -> Option<ColumnSpec> {
        if let (true, &[(_, group)]) = (self.are_rows_frequent(), parts.groups.as_slice())
            && let ColumnSpec::Names(steps) = &self.columns[group]
        {
            return Some(ColumnSpec::Count(steps.clone()));
        }
        let counts = parts.counts_rows || !parts.measures.is_empty() || !parts.groups.is_empty();
        if counts || !self.is_frequency() || !self.says_type(|kind| kind == self.rows) {
            return None;
        }
        let steps = self.schema.frequent_steps(self.rows);
        let told = |step: &MetapathStep| metapath_in_words(self.kb, self.rows, [*step]);
        Some(ColumnSpec::Count(vec![self.choose(steps, told)?]))
    }

    /// Returns the column that counts each row's incoming links from other rows over the relation
    /// named in the superlative, as in `the most cited`; `None` if the superlative names no such
    /// relation.
    fn linked_to(&self) -> Option<ColumnSpec> {
        let best = self.cues(false).find(|(_, cue)| matches!(cue, Cue::Best(..)))?.0;
        let said = self.mentions.said(best);
        let step = self.schema.steps(self.rows).into_iter().find(|step| {
            let relation = self.schema.relation(step.relation);
            step.to == self.rows
                && step.direction == Direction::In
                && said.iter().any(|token| relation.says(&token.stem))
        })?;
        Some(ColumnSpec::Count(vec![step]))
    }
}
