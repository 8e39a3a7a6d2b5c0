//! Builds the tests that a row has something or has nothing: a value of a field, a link, or a value
//! that means yes, no or nothing.

use crate::{
    AskError,
    lexicon::Bound,
    mentions::What,
    missing,
    plan::Test,
    reading::{LOOKED_AT, Reading, operation::count_is},
};
use agent_ground::words::fold;
use agent_kb::{
    FieldId, MetapathStep, NodeId,
    table::{ColumnSpec, Sample, reached, sampled, value::quantity},
};

impl Reading<'_> {
    /// Builds the test that the field in a mention is yes (if `holds`) or no: `branches with a
    /// café`, where `has_cafe` is Y or N. `None` if the field has other values, or if the rows are
    /// grouped by it.
    pub(super) fn flag_test(&mut self, at: usize, holds: bool) -> Option<Test> {
        let field = self.field(self.fields_at(at)?, false)?;
        let keys = self.schema.truths(self.rows, field).filter(|_| !self.is_parting(at))?;
        let key = keys[usize::from(!holds)].to_owned();
        Some(Test::Value { column: self.field_column(field), key })
    }

    /// Builds the test for a negated mention: rows without a value of the field, or without a link
    /// to the type or by the relation. `None` if the mention tests nothing.
    pub(super) fn without(&mut self, at: usize) -> Result<Option<Test>, AskError> {
        let rows = self.kb.type_name(self.rows);
        match self.what(at) {
            Some(What::Field(fields)) => match self.field(fields, false) {
                Some(field) => self.presence(ColumnSpec::Field(field), false).map(Some),
                None => Ok(None),
            },
            Some(What::Links(_)) => match self.number_column(at)? {
                Some(column) => Ok(Some(count_is(Bound::Equal, column))),
                None => missing(format!("no {rows} has a {:?}", self.said_at(at))),
            },
            Some(What::Type(kind)) if *kind != self.rows => {
                let steps = self.path_to(*kind)?;
                self.presence(ColumnSpec::Count(steps), false).map(Some)
            }
            Some(What::Type(_)) => {
                missing(format!("links from one {rows} to another cannot be negated"))
            }
            _ => Ok(None),
        }
    }

    /// Builds the test that the value to which `steps` lead from a row is a word for nothing, or,
    /// if `holds`, is not: `no parking`, where `parking` can be `none`. `None` if the steps do not
    /// lead to values, or if no value is such a word and some rows have no value.
    ///
    /// # Errors
    /// If every row has a value, and no value is a word for nothing.
    pub(super) fn value_test(
        &mut self,
        steps: &[MetapathStep],
        holds: bool,
    ) -> Result<Option<Test>, AskError> {
        const NOTHING: [&str; 4] = ["none", "no", "nothing", "n/a"];
        let [step] = steps else { return Ok(None) };
        if !self.schema.value_types.contains(&step.to) {
            return Ok(None);
        }
        let is_nothing = |node: &NodeId| NOTHING.contains(&&*fold(self.kb.name(*node)));
        let nodes: Vec<NodeId> =
            self.kb.nodes_of_type(step.to).iter().copied().filter(is_nothing).collect();
        if !nodes.is_empty() {
            let column = self.column(ColumnSpec::Names(steps.to_vec()));
            let test = Test::Linked { column, nodes };
            return Ok(Some(if holds { Test::Not(Box::new(test)) } else { test }));
        }
        let has_value = |node| !reached(self.kb, node, steps).is_empty();
        if !sampled(self.kb, self.rows, LOOKED_AT).all(has_value) {
            return Ok(None);
        }
        let (rows, values) = (self.kb.type_name(self.rows), self.kb.type_name(step.to));
        missing(format!("every {rows} has a {values}; name one of its values"))
    }

    /// Whether the value 0 of a field means that a row has nothing: some rows have the value 0, and
    /// no row lacks a value.
    ///
    /// # Errors
    /// If some rows have the value 0 and others have no value.
    pub(super) fn zero_is_none(&mut self, field: FieldId) -> Result<bool, AskError> {
        let is_zero = |node: NodeId| {
            let value = self.kb.field(node, field).and_then(quantity);
            value.is_some_and(|value| value.number == 0.0)
        };
        if !sampled(self.kb, self.rows, LOOKED_AT).any(is_zero) {
            return Ok(false);
        }
        let name = self.kb.field_name(field);
        let lacks = |sample: &Sample| sample.filled < sample.seen;
        if self.schema.sample(self.rows, field).is_none_or(lacks) {
            return missing(format!(
                "some rows have no {name:?} and others have 0; ask for {name} equal to 0 or above 0"
            ));
        }
        self.assumed.push(format!("a row has {name:?} if the value is not 0"));
        Ok(true)
    }

    /// Builds the test that the numeric field in a mention, such as `units_in_stock`, is over 0
    /// (`in stock`) or equals 0 (`out of stock`); reversed unless `holds`.
    pub(super) fn stock_test(&mut self, at: usize, holds: bool) -> Option<Test> {
        let field = self.field(self.fields_at(at)?, false)?;
        let said = self.mentions.range(at);
        let is_out = match self.mentions.word(said.start) {
            "out" => true,
            "in" | "on" => false,
            _ => return None,
        };
        // `the largest in_stock` means the number itself.
        let is_whole = said.len() == self.schema.field(field).words.len();
        if is_whole && (self.extreme().is_some() || self.function().is_some()) {
            return None;
        }
        self.kind_of(field).filter(|kind| kind.is_number())?;
        let bound = if is_out == holds { Bound::Equal } else { Bound::Above };
        Some(count_is(bound, self.field_column(field)))
    }

    /// Builds the test for rows with a value in a column, or with at least one link; if `holds` is
    /// false, for the other rows.
    ///
    /// # Errors
    /// If 0 may stand for a missing value of the column.
    pub(super) fn presence(&mut self, spec: ColumnSpec, holds: bool) -> Result<Test, AskError> {
        let bound = if holds { Bound::Above } else { Bound::Equal };
        match spec {
            ColumnSpec::Count(steps) | ColumnSpec::Names(steps) => {
                match self.value_test(&steps, holds)? {
                    Some(test) => Ok(test),
                    None => Ok(count_is(bound, self.column(ColumnSpec::Count(steps)))),
                }
            }
            ColumnSpec::Field(field) if self.zero_is_none(field)? => {
                Ok(count_is(bound, self.field_column(field)))
            }
            spec => {
                let test = Test::Filled { column: self.column(spec) };
                Ok(if holds { test } else { Test::Not(Box::new(test)) })
            }
        }
    }
}
