//! Refuses questions for which a plan would compute something other than the requested result, and
//! plans that ignore a part of their question.

use agent_ground::words::fold;
use agent_kb::{
    FieldId,
    table::{ColumnKind, ColumnSpec, sampled, value::quantity},
};

use crate::{
    AskError,
    lexicon::{Cue, is_beginning, property},
    mentions::{Thing, What},
    missing,
    plan::{Change, Operation},
    reading::{LOOKED_AT, Reading, numbers::is_year, operation::Parts},
    schema::types_of,
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

    /// Refuses a question for better or worse values of a number that is not a rating: the best
    /// grade may be the lowest.
    pub(super) fn refuse_vague_extreme(&self) -> Result<(), AskError> {
        const VAGUE: [&str; 4] = ["best", "worst", "better", "worse"];
        let is_vague = |at: &usize| VAGUE.contains(&self.said_at(*at).as_str());
        let Some(vague) = self.cues(false).map(|(at, _)| at).find(is_vague) else { return Ok(()) };
        let is_number = |field: FieldId| {
            let samples = types_of(self.kb).filter_map(|kind| self.schema.sample(kind, field));
            samples.into_iter().any(|sample| sample.kind.is_number())
                && !self.schema.is_called(self.schema.field(field), property("rating"))
        };
        for at in 0..self.mentions.all.len() {
            if let Some([(field, _), ..]) = self.fields_at(at)
                && is_number(*field)
            {
                return missing(format!(
                    "cannot tell whether {:?} of {:?} means higher or lower; write \"highest\" or \"lowest\"",
                    self.said_at(vague),
                    self.said_at(at)
                ));
            }
        }
        Ok(())
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

    /// Refuses a question for a mean of single values: `which incident is the dearest on average`.
    pub(super) fn refuse_mean_of_one(&self) -> Result<(), AskError> {
        let mut mentions = 0..self.mentions.all.len();
        let is_number =
            |(field, _): &(FieldId, f32)| self.kind_of(*field).is_some_and(ColumnKind::is_number);
        let names_number =
            |at: usize| self.fields_at(at).is_some_and(|own| own.iter().any(is_number));
        let Some((_, names)) = self.extreme() else { return Ok(()) };
        let has_number =
            self.implied(self.rows, names).is_some() || mentions.clone().any(names_number);
        let is_several =
            |at: usize| self.is_group(at) || matches!(self.what(at), Some(What::Links(_)));
        let is_single = mentions.clone().any(|at| self.type_at(at) == Some(self.rows))
            && !mentions.any(is_several);
        // `the highest average rating` may be a field of averages.
        let is_mean = self.cues(false).any(|(at, _)| self.said_at(at) == "on average");
        match is_mean && has_number && is_single {
            true => missing(format!(
                "each {} has a single value, so there is no mean; name groups",
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
        // In `still open`, part of the name `open_date` mentions no field.
        let is_ignored = |at: &usize| {
            let is_part = self.fields_at(*at).is_some_and(|of| of.iter().all(|one| one.1 < 1.0));
            let is_bound = self.bound.contains_key(at) || self.bounded.contains(at);
            is_part && (used.is_empty() || self.word_before(*at) == "still") && !is_bound
        };
        let mut places = 0..self.mentions.all.len();
        if let Some(at) = unused.or_else(|| places.find(|at| is_other(at) || is_ignored(at))) {
            let said = self.said_at(at);
            return missing(format!("cannot tell how {said:?} relates to the question"));
        }
        if supposed.is_none() && !matches!(operation, Operation::Correlate { .. }) {
            self.refuse_change()?;
        }
        if !parts.subjects.is_empty() {
            return missing("several names are given, but the question does not compare them");
        }
        self.refuse_foreign_fields(parts)
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

    /// Refuses a field that the rows do not have, unless it describes a name, is bounded, or groups
    /// the rows.
    fn refuse_foreign_fields(&self, parts: &Parts) -> Result<(), AskError> {
        for at in 0..self.mentions.all.len() {
            let Some(fields) = self.fields_at(at) else { continue };
            let groups = parts.groups.iter().any(|(group, _)| *group == at);
            let is_said = groups || self.bound.contains_key(&at) || self.bounded.contains(&at);
            let is_of_rows = |(field, _): &(FieldId, f32)| self.kind_of(*field).is_some();
            let is_base = BASE.contains(&self.said_at(at).to_lowercase().as_str());
            let is_said = is_said || self.asked == Some(at) || self.is_unit(at);
            if !is_said && !is_base && !fields.iter().any(is_of_rows) {
                let rows = self.kb.type_name(self.rows);
                return missing(format!("{:?} is not a field of {rows}", self.said_at(at)));
            }
        }
        Ok(())
    }
}
