//! Reads questions for the value of a field of named rows, or for the nodes that a relation leads
//! to from them: `the phone number of X`, `when was X released`, `the director of X`.

use crate::{
    AskError,
    kind::Kind,
    lexicon::{Bound, Cue, property, synonyms},
    mentions::{Thing, What},
    plan::{Operation, Plan},
    reading::{Reading, operation::Parts},
    schema::types_of,
};
use agent_ground::words::fold;
use agent_kb::{
    Direction, MetapathStep, TypeId, distinct,
    table::{ColumnKind, ColumnSpec},
};

/// Names of fields that hold the place of something, best first.
const PLACES: [&str; 8] =
    ["location", "place", "city", "town", "venue", "region", "country", "address"];
/// Names of fields that describe something, best first.
const TEXTS: [&str; 6] = ["synopsis", "description", "abstract", "summary", "plot", "text"];
/// Words that select one of several values by its position.
const ORDINALS: [&str; 6] = ["first", "last", "latest", "earliest", "next", "previous"];
/// Words that may only give the unit of the requested value: `year` in `what year was X born`.
const UNITS: [&str; 5] = ["year", "date", "day", "month", "time"];

/// Last words of field names that only give the unit.
const UNIT_WORDS: [&str; 12] =
    ["eur", "usd", "gbp", "chf", "kg", "km", "cm", "mm", "sqm", "pct", "hour", "minut"];

impl Reading<'_> {
    /// Plans a question for the value of a column in named rows.
    ///
    /// # Errors
    /// [`AskError::NoTable`] if the question asks for anything else, or names no rows; other errors
    /// if a condition is unclear.
    pub(super) fn value(&mut self) -> Result<Plan, AskError> {
        let rows = self.rows;
        let plan = self.value_in_rows();
        self.asked = None;
        plan.inspect_err(|_| self.rows = rows)
    }

    fn value_in_rows(&mut self) -> Result<Plan, AskError> {
        (self.columns, self.assumed) = (Vec::new(), Vec::new());
        self.lists = false;
        let is_other =
            |cue: Cue| !matches!(cue, Cue::Filler | Cue::Which | Cue::Bound(Bound::Equal, _));
        if self.is_yes_no()
            || self.top.is_some()
            || self.changed.contains(&true)
            || self.cues(false).any(|(_, cue)| is_other(cue))
            || self.own_words().iter().any(|word| ORDINALS.contains(word))
        {
            return Err(AskError::NoTable);
        }
        let joins = self.take_rows();
        let (asked, spec) = match self.mentioned_column() {
            Some((at, spec)) => (at, spec),
            None => (usize::MAX, self.implied_value(joins).ok_or(AskError::NoTable)?),
        };
        let column = self.column(spec);
        self.asked = Some(asked);
        let parts = self.parts(Kind::Aggregation)?;
        let mut filters = parts.filters.iter().flat_map(|(_, test)| test.columns());
        if parts.conditions.is_empty() && parts.filters.is_empty()
            || filters.any(|column| !self.columns[column].steps().is_empty())
            || !parts.measures.is_empty()
            || parts.conditions.iter().any(|(_, one)| self.is_far(one))
        {
            return Err(AskError::NoTable);
        }
        let operation = Operation::Values(column);
        self.refuse_unused(&parts, &operation, None)?;
        self.assume_row(&parts);
        Ok(self.planned(Kind::Aggregation, parts, operation, None))
    }

    /// Sets the row type to the type whose nodes join all named nodes, and returns whether there is
    /// such a type. If not, keeps the row type if it has a named node; otherwise takes a named
    /// node's type that has the requested column, if any: for the price of a medicine, the medicine
    /// rather than a treatment with it.
    fn take_rows(&mut self) -> bool {
        if let Some(joining) = self.joining() {
            self.rows = joining;
            return true;
        }
        let nodes = self.things().flat_map(|(_, thing)| thing.nodes.iter());
        let named = distinct(nodes.map(|&node| self.kb.node_type(node)).collect());
        let chosen = self.rows;
        if !named.contains(&chosen) {
            for kind in named {
                self.rows = kind;
                if self.mentioned_column().is_some() {
                    return false;
                }
            }
            self.rows = chosen;
        }
        false
    }

    /// Returns the first mention that asks for a column of the rows, and the column.
    fn mentioned_column(&self) -> Option<(usize, ColumnSpec)> {
        (0..self.mentions.all.len()).find_map(|at| Some((at, self.asked_at(at)?)))
    }

    /// Returns the type whose nodes join all named nodes, such as the enrolments of a student in a
    /// course; `None` if fewer than two are named, or if there is not exactly one such type.
    fn joining(&self) -> Option<TypeId> {
        let named: Vec<(usize, &Thing)> = self.things().collect();
        let joins = |kind: &TypeId| {
            let steps = self.schema.steps(*kind);
            let is_joined = |(_, thing): &(usize, &Thing)| {
                let mut nodes = thing.nodes.iter().map(|&node| self.kb.node_type(node));
                nodes.any(|own| steps.iter().any(|step| step.to == own))
                    || thing.values.iter().any(|value| value.kind == *kind)
            };
            named.len() > 1 && named.iter().all(is_joined)
        };
        let mut all = types_of(self.kb).filter(joins);
        all.next().filter(|_| all.next().is_none())
    }

    /// Notes that a named row shares its name with nodes of another type.
    fn assume_row(&mut self, parts: &Parts) {
        let mut notes = Vec::new();
        for (at, _) in parts.conditions.iter().filter(|(_, one)| one.steps.is_empty()) {
            let Some(thing) = self.thing(*at) else { continue };
            let kinds = thing.nodes.iter().map(|&node| self.kb.node_type(node));
            for kind in distinct(kinds.filter(|kind| *kind != self.rows).collect()) {
                let (name, kind) = (&thing.text, self.kb.type_name(kind));
                notes.push(format!("{name:?} is also the name of a {kind}"));
            }
        }
        self.assumed.append(&mut notes);
    }

    /// Whether a mention only names the unit of the requested value.
    pub(super) fn is_unit(&self, at: usize) -> bool {
        self.asked.is_some_and(|asked| {
            UNITS.contains(&self.said_at(at).as_str())
                && (asked.abs_diff(at) == 1 || self.cue_beside(at, -1) == Some(Cue::Which))
        })
    }

    /// Returns the column that a mention asks for: a field of the rows, or the nodes that a noun of
    /// a relation stands for.
    fn asked_at(&self, at: usize) -> Option<ColumnSpec> {
        if self.changed[at]
            || self.bound.contains_key(&at)
            || self.bounded.contains(&at)
            || self.denied.contains(&at)
        {
            return None;
        }
        // `drugs that target X` asks for drugs.
        let asks_rows = self.says_type(|kind| kind == self.rows);
        match self.what(at)? {
            // `open deviations` are no dates of opening.
            What::Field(fields)
                if fields.iter().all(|(_, share)| *share < 1.0)
                    && self.type_at(at + 1) == Some(self.rows) =>
            {
                None
            }
            What::Field(fields) => {
                let field = self
                    .field(fields, false)
                    .or_else(|| self.field_called(at, false))
                    .or_else(|| self.called(self.rows, synonyms(&self.said_at(at)), true))?;
                let mut stems = self.schema.field(field).stems.as_slice();
                // The unit in `list_price_eur` is not said.
                if let [name @ .., last] = stems
                    && !name.is_empty()
                    && UNIT_WORDS.contains(&last.as_str())
                {
                    stems = name;
                }
                let said = self.mentions.said(at);
                // `head vet` is not the field `head_vet_first_name`, and `institution_name` is not
                // the field `institution_kind`.
                let is_named = self.word_after(at) != "name"
                    && (stems.len() <= 2
                        || said.iter().any(|token| Some(&token.stem) == stems.last()));
                let is_flag = self.schema.truths(self.rows, field).is_some();
                (is_named && !is_flag).then_some(ColumnSpec::Field(field))
            }
            // The field `city` of the rows, where another type has links to cities.
            What::Type(kind) if *kind != self.rows && !asks_rows => {
                let name = fold(self.kb.type_name(*kind)).into_owned();
                let mut fields = self.schema.samples(self.rows).iter().map(|own| own.field);
                let field = fields.find(|field| self.schema.field(*field).joined == name)?;
                Some(ColumnSpec::Field(field))
            }
            What::Relation | What::Links(_) => {
                if let Some(step) = self.called_step(at) {
                    return Some(ColumnSpec::Names(vec![step]));
                }
                if asks_rows {
                    return None;
                }
                let step = self.only_step(at).or_else(|| self.superior(at))?;
                let asks_who = self.mentions.word(0) == "who" && self.schema.are_people(step.to);
                let is_noun = self.is_noun_of_step(at) && step.direction == Direction::Out;
                (asks_who || is_noun).then(|| ColumnSpec::Names(vec![step]))
            }
            _ => None,
        }
    }

    /// Returns the step to the row that a row links to, if a mention is a noun for it: the `boss`
    /// of an employee who reports to another one.
    fn superior(&self, at: usize) -> Option<MetapathStep> {
        let is_own = |step: &MetapathStep| {
            let words = &self.schema.relation(step.relation).stems;
            self.mentions.said(at).iter().any(|token| words.contains(&token.stem))
        };
        let mut steps = self.schema.steps(self.rows);
        steps.retain(|step| {
            (step.to, step.direction) == (self.rows, Direction::Out)
                && self.says(at, step.relation)
                && !is_own(step)
        });
        <[MetapathStep; 1]>::try_from(steps).ok().map(|[step]| step)
    }

    /// Returns the column that the first or last words of the question ask for without naming it.
    fn implied_value(&self, joins: bool) -> Option<ColumnSpec> {
        if joins && self.mentions.word(0) == "who" {
            let mut people = self.schema.steps(self.rows);
            people.retain(|step| self.schema.are_people(step.to));
            let [step] = <[MetapathStep; 1]>::try_from(people).ok()?;
            return Some(ColumnSpec::Names(vec![step]));
        }
        let named = |names: &[&str]| {
            names.iter().find_map(|name| {
                let samples = self.schema.samples(self.rows).iter();
                let mut fields = samples.map(|sample| sample.field);
                fields.find(|field| self.schema.is_called(self.schema.field(*field), &[*name]))
            })
        };
        let field = match *self.own_words().as_slice() {
            ["when", ..] => {
                let is_time = |kind| matches!(kind, ColumnKind::Year | ColumnKind::Date);
                let times = self.schema.samples(self.rows).iter();
                let times = times.filter(|own| is_time(own.kind));
                self.choose_said(times.map(|own| own.field).collect())
            }
            ["where", ..] => named(&PLACES),
            ["what", .., "about"] => named(&TEXTS),
            ["how", "much", ..] => self.implied(self.rows, property("price")),
            _ => None,
        };
        field.map(ColumnSpec::Field)
    }
}
