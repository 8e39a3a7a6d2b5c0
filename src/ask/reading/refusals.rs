//! Refuses questions for which a plan would compute something other than the requested result, and
//! plans that ignore a part of their question.

use agent_ground::words::fold;
use agent_kb::{
    FieldId,
    table::{ColumnKind, ColumnSpec, sampled, value::quantity},
};

use crate::{
    AskError,
    lexicon::{Cue, is_beginning},
    mentions::{Thing, What},
    missing,
    plan::{Change, Operation},
    reading::{LOOKED_AT, Reading, numbers::is_year, operation::Parts},
};

/// Words that may refer to the whole base although they are names of fields.
const BASE: [&str; 6] = ["catalogue", "catalog", "collection", "database", "dataset", "data"];

impl Reading<'_> {
    /// Refuses a question for a `difference` if it does not name the two numbers that differ.
    pub(super) fn refuse_difference(&self) -> Result<(), AskError> {
        // `Is there a difference` asks for a test.
        let is_named = !self.is_yes_no()
            && !self.asks_for_test()
            && self.cues(false).any(|(at, _)| self.said_at(at) == "difference");
        match is_named {
            true => missing("the difference is ambiguous; ask how much more A has than B"),
            false => Ok(()),
        }
    }

    /// Refuses a word that is another form of the name of a field that all rows have: in `tickets
    /// that are still open`, `opened` is a date of every ticket.
    pub(super) fn refuse_form_of_all(&self, at: usize, field: FieldId) -> Result<(), AskError> {
        let sample = self.schema.sample(self.rows, field);
        let are_all = sample.is_some_and(|sample| sample.filled == sample.seen);
        let words = &self.schema.field(field).words;
        let mut said = self.mentions.said(at).iter();
        let is_known =
            said.any(|own| words.contains(&own.word) || self.schema.is_of_relation(&own.stem));
        match are_all && !is_known {
            true => missing(format!(
                "every {} has {:?}, so {:?} must mean something else; rephrase it",
                self.kb.type_name(self.rows),
                self.kb.field_name(field),
                self.said_at(at)
            )),
            false => Ok(()),
        }
    }

    /// Refuses a question for the longest or shortest date, because a date is a point in time.
    pub(super) fn refuse_length_of_date(&self, column: &ColumnSpec) -> Result<(), AskError> {
        let is_length =
            |(at, _): &(usize, Cue)| ["longest", "shortest"].contains(&self.said_at(*at).as_str());
        let ColumnSpec::Field(field) = column else { return Ok(()) };
        let texts = sampled(self.kb, self.rows, LOOKED_AT).map(|node| self.kb.field(node, *field));
        let mut numbers = texts.flatten().filter_map(quantity);
        let is_date = match self.kind_of(*field) {
            Some(ColumnKind::Number) => numbers.all(|quantity| is_year(quantity.number)),
            kind => matches!(kind, Some(ColumnKind::Date | ColumnKind::Year)),
        };
        match self.cues(false).find(is_length).filter(|_| is_date) {
            Some((at, _)) => missing(format!(
                "{:?} is a point in time; ask for the earliest or latest instead of the {}",
                self.kb.field_name(*field),
                self.said_at(at)
            )),
            None => Ok(()),
        }
    }

    /// Refuses a question for rows both with and without something, because these are two groups.
    pub(super) fn refuse_with_and_without(&self) -> Result<(), AskError> {
        let words = self.own_words();
        let mut windows = words.windows(3);
        match windows.any(|three| matches!(three, ["with", "and" | "or", "without"])) {
            true => missing("\"with and without\" names two groups; ask about one"),
            false => Ok(()),
        }
    }

    /// Refuses a negated name that is also the name of a field of the rows: `customers without
    /// email`, where `email` is a field and a way of contact.
    pub(super) fn refuse_field_or_name(&self, at: usize, thing: &Thing) -> Result<(), AskError> {
        let name = fold(&thing.text);
        let mut samples = self.schema.samples(self.rows).iter();
        // The field may also be called `e_mail`.
        let is_field = samples.any(|own| self.schema.field(own.field).joined == name);
        match self.denied.contains(&at) && is_field {
            true => missing(format!(
                "{:?} is both a field of {} and a name; add the type to the name",
                thing.text,
                self.kb.type_name(self.rows)
            )),
            false => Ok(()),
        }
    }

    /// Refuses a comparison with a property of the same row: `at another site than their manager`.
    pub(super) fn refuse_own_comparison(&self) -> Result<(), AskError> {
        for (at, cue) in self.cues(false) {
            let next = self.what_beside(at, 1);
            if cue == Cue::Versus
                && self.said_at(at) == "than"
                && !matches!(next, Some(What::Number(..) | What::Date(_)))
            {
                let behind = self.beside(at, 1).map_or(String::new(), |next| self.said_at(next));
                return missing(format!(
                    "a comparison with {behind:?} of each row is not supported; name what to \
                     compare with"
                ));
            }
        }
        Ok(())
    }

    /// Refuses a plan that ignores a type, field or name that the question mentions.
    pub(super) fn refuse_unused(
        &self,
        parts: &Parts,
        operation: &Operation,
        supposed: Option<&Change>,
    ) -> Result<(), AskError> {
        let mut used = operation.columns();
        used.extend(parts.filters.iter().flat_map(|(_, test)| test.columns()));
        used.extend(supposed.into_iter().flat_map(Change::columns));
        let passes = |at: usize| {
            let mut steps = used.iter().flat_map(|column| self.columns[*column].steps());
            self.type_at(at).is_some_and(|kind| steps.any(|step| step.to == kind))
                || self.is_on_the_way(at, parts)
        };
        let mut named = parts.groups.iter().chain(&parts.measures);
        let unused = named.find(|(at, column)| !used.contains(column) && !passes(*at));
        let unused = unused.map(|(at, _)| *at);
        // In `depend on a library and a package`, the rows are linked to other rows.
        let is_other = |at: &usize| {
            self.type_at(*at) == Some(self.rows)
                && !self.counted.contains_key(at)
                && self.beside(*at, -1).is_some_and(|before| {
                    self.type_at(before).is_some_and(|kind| kind != self.rows)
                        && self.is_said_between(before, *at, &["and"])
                })
        };
        let mut places = 0..self.mentions.all.len();
        if let Some(at) = unused.or_else(|| places.find(is_other)) {
            return self.unrelated(at);
        }
        self.refuse_unused_fields(&used, parts)?;
        // `which brand` is not answered by a number.
        if let (Operation::Number(_), Some(which)) = (operation, self.which())
            && matches!(self.what(which + 1), Some(What::Type(_) | What::Links(_) | What::Relation))
        {
            return self.unrelated(which + 1);
        }
        if supposed.is_none() && !matches!(operation, Operation::Correlate { .. }) {
            self.refuse_change()?;
        }
        if !parts.subjects.is_empty() {
            return missing("several names are given, but the question does not compare them");
        }
        Ok(())
    }

    fn unrelated(&self, at: usize) -> Result<(), AskError> {
        missing(format!("cannot tell how {:?} relates to the question", self.said_at(at)))
    }

    /// Refuses a field that no column in `used` holds, unless it describes a name, is bounded, or
    /// is the unit of the requested value.
    fn refuse_unused_fields(&self, used: &[usize], parts: &Parts) -> Result<(), AskError> {
        let field_in = |column: &usize| match &self.columns[*column] {
            ColumnSpec::Field(field) | ColumnSpec::FieldOf { field, .. } => Some(*field),
            _ => None,
        };
        let used: Vec<FieldId> = used.iter().filter_map(field_in).collect();
        for at in 0..self.mentions.all.len() {
            let Some(fields) = self.fields_at(at) else { continue };
            let said = self.mentions.said(at);
            let is_said = |field: &FieldId| {
                let stems = &self.schema.field(*field).stems;
                fields.iter().any(|(own, _)| own == field)
                    || said.iter().all(|token| stems.contains(&token.stem))
            };
            // In `still open`, part of the name `open_date` mentions no field.
            let is_part = fields.iter().all(|one| one.1 < 1.0) && self.word_before(at) == "still";
            let is_used = self.asked == Some(at)
                || self.is_unit(at)
                || self.is_followed(at, parts)
                || BASE.contains(&self.said_at(at).as_str())
                || used.iter().any(is_said);
            let is_bound = self.bound.contains_key(&at) || self.bounded.contains(&at);
            if is_bound || is_used && !is_part {
                continue;
            }
            if fields.iter().any(|(field, _)| self.kind_of(*field).is_some()) {
                return self.unrelated(at);
            }
            let rows = self.kb.type_name(self.rows);
            return missing(format!("{:?} is not a field of {rows}", self.said_at(at)));
        }
        Ok(())
    }

    /// Refuses a number that the question names by a part of its field's name only, without its
    /// type and without a function: `which lot had the most cases`, where deviations have
    /// `cases_aff`.
    pub(super) fn refuse_part_of_name(&self, parts: &Parts) -> Result<(), AskError> {
        let Some((at, _)) = parts.measures.first() else { return Ok(()) };
        let said =
            self.fields_at(*at).and_then(|fields| self.field(fields, true).zip(fields.first()));
        let rows = self.kb.type_name(self.rows);
        match said.filter(|(_, (_, share))| *share < 1.0 && !self.says_type(|of| of == self.rows)) {
            Some((field, _)) => missing(format!(
                "cannot tell whether {:?} means {:?} of {rows}; name the field or its type",
                self.said_at(*at),
                self.kb.field_name(field)
            )),
            None => Ok(()),
        }
    }

    /// Refuses a word for a change of values that the question does not assume, unless the word is
    /// in a name of the base: `how many products were lost`.
    fn refuse_change(&self) -> Result<(), AskError> {
        let is_known = |at: usize| {
            let mut said = self.mentions.said(at).iter();
            said.any(|token| self.schema.says(&token.stem) || is_beginning(&token.word))
        };
        let is_change = |(at, cue): &(usize, Cue)| {
            matches!(cue, Cue::Raise | Cue::Lower | Cue::Times(_)) && !is_known(*at)
        };
        match self.cues(false).find(is_change) {
            Some((at, _)) => missing(format!("cannot tell what {:?} refers to", self.said_at(at))),
            None => Ok(()),
        }
    }
}
