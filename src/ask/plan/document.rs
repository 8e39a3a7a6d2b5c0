//! Converts a plan to and from a JSON document. The document names types, relations and fields; it
//! gives nodes by id or by name.
//!
//! The document has the form of [`Plan`], which `docs/plan.schema.json` describes. Documents are
//! not trusted: everything in them is checked against the base before a plan runs.
//!
//! Does not depend on how plans are run.

use serde::Deserialize as _;
use serde_json::{Value as Json, json};

use crate::{
    lexicon::Function,
    plan::{Change, Condition, Measure, Operation, Plan, Test, TextColumn},
    schema::Schema,
};
use agent_index::IndexedBase;
use agent_kb::{
    Direction, FieldId, Kb, MetapathStep, RelationId, TypeId,
    table::{
        Column, ColumnKind, ColumnSpec, MAX_COLUMNS, MAX_STEPS, dates, has_value, value::category,
    },
};

/// Maximum number of conditions, of subjects, of tests, and of tests in one `any`; the limit
/// applies to each separately.
const MAX_PARTS: usize = 100;
/// Maximum number of nodes in one condition or test.
const MAX_NODES: usize = 1_000_000;
/// Maximum depth of tests within `not` and `any`; a test of the plan itself has depth 0.
const MAX_DEPTH: usize = 4;
/// Maximum number of first rows or groups that a plan may request.
const MAX_TOP: usize = 10_000;
/// Maximum number of text columns, whose cells a language model reads from documents.
const MAX_TEXTS: usize = 3;
/// Maximum length of a value, a name or a description, bytes.
const MAX_TEXT: usize = 1_000;
/// Maximum length of an SQL statement, bytes.
const MAX_STATEMENT: usize = 10_000;

impl Plan {
    /// Converts the plan to a JSON document.
    pub(crate) fn document(&self, kb: &Kb) -> Json {
        let mut document = serde_json::to_value(self).unwrap_or_default();
        put_names(kb, &mut document);
        document
    }

    /// Parses a JSON document as a plan, and checks the plan against the base.
    ///
    /// # Errors
    /// What is wrong, in words, if the document is not a plan, exceeds a limit, or names something
    /// that the base does not have.
    pub(crate) fn from_document(
        base: &IndexedBase,
        schema: &Schema,
        document: &Json,
    ) -> Result<Plan, String> {
        let mut document = document.clone();
        put_ids(base, &mut document)?;
        let plan = Plan::deserialize(document).map_err(|error| error.to_string())?;
        Checked { base, schema, plan: &plan, texts: &[] }.check()?;
        Ok(plan)
    }

    /// Checks the plan again with its text columns `texts`, whose kinds are known once their cells
    /// have been read.
    ///
    /// # Errors
    /// What is wrong, in words, if the kind of a text column does not fit the tests or the
    /// computation.
    pub(crate) fn check_texts(
        &self,
        base: &IndexedBase,
        schema: &Schema,
        texts: &[Column],
    ) -> Result<(), String> {
        Checked { base, schema, plan: self, texts }.check()
    }
}

/// Replaces the ids of types, relations and fields in a plan's document with their names.
fn put_names(kb: &Kb, document: &mut Json) {
    match document {
        Json::Array(items) => items.iter_mut().for_each(|item| put_names(kb, item)),
        Json::Object(entries) => {
            for (key, value) in entries {
                let id = value.as_u64().and_then(|id| u16::try_from(id).ok());
                match (key.as_str(), id) {
                    ("rows" | "type", Some(id)) => *value = json!(kb.type_name(TypeId(id))),
                    ("relation", Some(id)) => *value = json!(kb.relation_name(RelationId(id))),
                    ("field", Some(id)) => *value = json!(kb.field_name(FieldId(id))),
                    _ => put_names(kb, value),
                }
            }
        }
        _ => {}
    }
}

/// Replaces the names of types, relations, fields and nodes in a plan's document with their ids,
/// and normalises categories. Fails if the base lacks a name.
fn put_ids(base: &IndexedBase, document: &mut Json) -> Result<(), String> {
    let kb = &base.kb;
    match document {
        Json::Array(items) => items.iter_mut().try_for_each(|item| put_ids(base, item)),
        Json::Object(entries) => entries.iter_mut().try_for_each(|(key, value)| {
            let none = |what: &str| format!("the base has no {what} {value}");
            let id = match (key.as_str(), value.as_str()) {
                ("rows" | "type", Some(name)) => {
                    kb.type_id(name).map(|id| id.0).ok_or_else(|| none("type"))?
                }
                ("relation", Some(name)) => {
                    kb.relation_id(name).map(|id| id.0).ok_or_else(|| none("relation"))?
                }
                ("field", Some(name)) => {
                    kb.field_id(name).map(|id| id.0).ok_or_else(|| none("field"))?
                }
                ("rows" | "type" | "relation" | "field", None) => {
                    return Err(format!("{key:?} must be a name"));
                }
                ("nodes" | "is", _) => return put_nodes(base, value),
                ("key", Some(text)) => {
                    *value = json!(category(text));
                    return Ok(());
                }
                _ => return put_ids(base, value),
            };
            *value = json!(id);
            Ok(())
        }),
        _ => Ok(()),
    }
}

/// Replaces each name in a JSON list of nodes with the ids of all nodes of that name, ignoring
/// ASCII case; ids stay. Fails if no node has a name.
fn put_nodes(base: &IndexedBase, nodes: &mut Json) -> Result<(), String> {
    let Json::Array(items) = nodes else { return Err("nodes must be a list".to_owned()) };
    let mut ids = Vec::new();
    for item in items.iter() {
        let Some(name) = item.as_str() else {
            ids.push(item.clone());
            continue;
        };
        let quoted = format!("\"{}\"", name.replace('"', " "));
        let found = base.entities.exact_mentions(&quoted);
        let is_called = |node: &&u32| base.kb.name(**node).eq_ignore_ascii_case(name);
        let own: Vec<Json> = found
            .iter()
            .flat_map(|mention| mention.nodes.iter().filter(is_called))
            .map(|node| json!(node))
            .collect();
        if own.is_empty() {
            return Err(format!("the base has no node called {name:?}"));
        }
        ids.extend(own);
    }
    *items = ids;
    Ok(())
}

fn bound(n: usize, most: usize, what: &str) -> Result<(), String> {
    match n <= most {
        true => Ok(()),
        false => Err(format!("{n} {what} exceed the limit of {most}")),
    }
}

/// A plan that is being checked, with the base and schema that it must fit.
struct Checked<'a> {
    base: &'a IndexedBase,
    schema: &'a Schema,
    plan: &'a Plan,
    /// The plan's text columns; empty until a language model has read their cells.
    texts: &'a [Column],
}

impl Checked<'_> {
    fn check(&self) -> Result<(), String> {
        let plan = self.plan;
        bound(plan.columns.len() + plan.texts.len(), MAX_COLUMNS, "columns")?;
        bound(plan.texts.len(), MAX_TEXTS, "columns of texts")?;
        for TextColumn { name, description } in &plan.texts {
            bound(name.len().max(description.len()), MAX_TEXT, "bytes of a column of texts")?;
        }
        bound(plan.operation.subjects().len(), MAX_PARTS, "subjects")?;
        for column in &plan.columns {
            self.column(column)?;
        }
        self.conditions(&plan.conditions, plan.rows)?;
        let tests: Vec<&Test> = plan.tests().collect();
        bound(tests.len(), MAX_PARTS, "tests")?;
        tests.into_iter().try_for_each(|test| self.test(test, 0))?;
        if let Some(Change::Scale { column, times, plus }) = &plan.supposed {
            self.number(*column)?;
            if !(times.is_finite() && plus.is_finite()) {
                return Err("a supposed change must be finite".to_owned());
            }
        }
        self.operation()
    }

    /// Checks that there are not too many conditions, that their nodes exist, and that their
    /// metapaths end at type `of`.
    fn conditions(&self, conditions: &[Condition], of: TypeId) -> Result<(), String> {
        bound(conditions.len(), MAX_PARTS, "conditions")?;
        for Condition { nodes, steps, name } in conditions {
            bound(name.len(), MAX_TEXT, "bytes of a name")?;
            self.nodes(nodes)?;
            let kinds = nodes.iter().map(|&node| self.base.kb.node_type(node));
            for kind in kinds.collect::<std::collections::BTreeSet<_>>() {
                if self.path(kind, steps)? != of {
                    let of = self.base.kb.type_name(of);
                    return Err(format!("the steps of {name:?} do not end at a {of}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that the base has the steps of a metapath from type `from`; returns the type at the
    /// end.
    fn path(&self, from: TypeId, steps: &[MetapathStep]) -> Result<TypeId, String> {
        if steps.len() > MAX_STEPS {
            return Err(format!("{} steps exceed the limit of {MAX_STEPS}", steps.len()));
        }
        let mut at = from;
        for step in steps {
            let known = self.schema.steps(at);
            let is_either = step.direction == Direction::Any
                && known.iter().any(|own| (own.relation, own.to) == (step.relation, at));
            let is_known = known.contains(step) || is_either && step.to == at;
            if !is_known {
                let kb = &self.base.kb;
                return Err(format!(
                    "no edge of {:?} leads from {} to {}",
                    kb.relation_name(step.relation),
                    kb.type_name(at),
                    kb.type_name(step.to)
                ));
            }
            at = step.to;
        }
        Ok(at)
    }

    fn column(&self, column: &ColumnSpec) -> Result<(), String> {
        match column {
            ColumnSpec::Name => Ok(()),
            ColumnSpec::Field(field) => self.field(self.plan.rows, *field),
            _ if column.steps().is_empty() => Err("a column of links needs steps".to_owned()),
            ColumnSpec::CountAmong { steps, among } => {
                let end = self.path(self.plan.rows, steps)?;
                match among.is_empty() {
                    true => Err("a number among nodes needs a condition".to_owned()),
                    false => self.conditions(among, end),
                }
            }
            ColumnSpec::FieldOf { steps, field } => {
                self.field(self.path(self.plan.rows, steps)?, *field)
            }
            ColumnSpec::Names(steps) | ColumnSpec::Count(steps) => {
                self.path(self.plan.rows, steps).map(|_| ())
            }
        }
    }

    fn field(&self, of: TypeId, field: FieldId) -> Result<(), String> {
        let kb = &self.base.kb;
        let has = self.schema.sample(self.base, of, field).is_some();
        let none = || format!("no {} has a field {:?}", kb.type_name(of), kb.field_name(field));
        has.then_some(()).ok_or_else(none)
    }

    /// Returns the field whose values a column holds, and the type of the nodes that have the
    /// field; `None` if the column holds no field.
    fn field_of(&self, column: &ColumnSpec) -> Option<(TypeId, FieldId)> {
        match column {
            ColumnSpec::Field(field) => Some((self.plan.rows, *field)),
            ColumnSpec::FieldOf { steps, field } => Some((steps.last()?.to, *field)),
            _ => None,
        }
    }

    fn nodes(&self, nodes: &[u32]) -> Result<(), String> {
        if nodes.is_empty() || nodes.len() > MAX_NODES {
            return Err(format!("a condition must have 1 to {MAX_NODES} nodes"));
        }
        match nodes.iter().find(|node| !self.base.kb.contains(**node)) {
            Some(node) => Err(format!("the base has no node {node}")),
            None => Ok(()),
        }
    }

    fn kind(&self, at: usize) -> Result<Option<ColumnKind>, String> {
        Ok(match self.plan.columns.get(at) {
            None => match at.checked_sub(self.plan.columns.len()) {
                Some(text) if text < self.plan.texts.len() => {
                    self.texts.get(text).map(|column| column.kind)
                }
                _ => return Err(format!("there is no column {at}")),
            },
            Some(ColumnSpec::Name) => Some(ColumnKind::Text),
            Some(spec @ (ColumnSpec::Field(_) | ColumnSpec::FieldOf { .. })) => {
                let sample = |(of, field)| self.schema.sample(self.base, of, field);
                self.field_of(spec).and_then(sample).map(|sample| sample.kind)
            }
            Some(ColumnSpec::Count(_) | ColumnSpec::CountAmong { .. }) => Some(ColumnKind::Number),
            Some(ColumnSpec::Names(_)) => None,
        })
    }

    /// Checks that a column holds numbers; a text column that has not been read passes.
    fn number(&self, at: usize) -> Result<(), String> {
        let unread = at >= self.plan.columns.len() && self.texts.is_empty();
        match self.kind(at)?.map_or(unread, ColumnKind::is_number) {
            true => Ok(()),
            false => Err(format!("column {at} holds no numbers")),
        }
    }

    /// Checks that a column holds categories, and that some node has the category `key`; text
    /// columns pass.
    fn value(&self, at: usize, key: &str) -> Result<(), String> {
        let kind = self.kind(at)?;
        let Some(spec) = self.plan.columns.get(at) else { return Ok(()) };
        let kb = &self.base.kb;
        match (self.field_of(spec), kind) {
            (Some((of, field)), Some(kind)) if kind.groups() && !kind.is_number() => {
                match has_value(kb, of, field, kind, key) {
                    true => Ok(()),
                    false => {
                        let (of, field) = (kb.type_name(of), kb.field_name(field));
                        Err(format!("no {of} has the {field} {key:?}"))
                    }
                }
            }
            _ => Err(format!("column {at} holds no categories")),
        }
    }

    fn test(&self, test: &Test, depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("the depth of tests exceeds the limit of {MAX_DEPTH}"));
        }
        match test {
            Test::Number { column, number, to, .. } => {
                if !number.is_finite() || to.is_some_and(|to| !to.is_finite()) {
                    return Err("a number of a test must be finite".to_owned());
                }
                match self.kind(*column)? {
                    Some(ColumnKind::Date) => Ok(()),
                    _ => self.number(*column),
                }
            }
            Test::Date { column, date, .. } => {
                let fits = match self.kind(*column)? {
                    Some(ColumnKind::Date) => dates::is_part_of_date(date),
                    Some(kind) => kind.is_number() && date.parse::<u16>().is_ok(),
                    None => false,
                };
                let none = || format!("column {column} holds no dates, or {date:?} is not a date");
                fits.then_some(()).ok_or_else(none)
            }
            Test::Value { column, key } => match key.len() <= MAX_TEXT {
                true => self.value(*column, key),
                false => Err(format!("a value has more than {MAX_TEXT} bytes")),
            },
            Test::Linked { column, nodes } => {
                self.nodes(nodes)?;
                match self.plan.columns.get(*column) {
                    Some(ColumnSpec::Names(_)) => Ok(()),
                    _ => Err(format!("column {column} holds no names of nodes")),
                }
            }
            Test::Is(nodes) => self.nodes(nodes),
            Test::Filled { column } => self.kind(*column).map(|_| ()),
            Test::Not(test) => self.test(test, depth + 1),
            Test::Any(tests) if tests.is_empty() || tests.len() > MAX_PARTS => {
                Err(format!("\"any\" must have 1 to {MAX_PARTS} tests"))
            }
            Test::Any(tests) => tests.iter().try_for_each(|test| self.test(test, depth + 1)),
        }
    }

    fn measure(&self, measure: Measure) -> Result<(), String> {
        match measure {
            Measure::Rows => Ok(()),
            Measure::Of(Function::Distinct, column) => self.kind(column).map(|_| ()),
            Measure::Of(_, column) => self.number(column),
        }
    }

    fn operation(&self) -> Result<(), String> {
        let first = |top: usize| match (1..=MAX_TOP).contains(&top) {
            true => Ok(()),
            false => Err(format!("top {top} is not in 1 to {MAX_TOP}")),
        };
        match &self.plan.operation {
            Operation::Number(measure) => self.measure(*measure),
            Operation::List | Operation::Exists => Ok(()),
            Operation::Share(tests) if tests.is_empty() => Err("a share needs a test".to_owned()),
            Operation::Share(_) => Ok(()),
            Operation::Groups { group, part, measure, first: of } => {
                let is_date = self.kind(*group)? == Some(ColumnKind::Date);
                if part.is_some() && !is_date {
                    return Err(format!("column {group} holds no dates"));
                }
                of.map_or(Ok(()), |(_, top)| first(top))?;
                self.measure(*measure)
            }
            Operation::First { column, top, .. } => {
                first(*top)?;
                match self.kind(*column)? {
                    Some(ColumnKind::Date) => Ok(()),
                    _ => self.number(*column),
                }
            }
            Operation::Compare { subjects, measure, .. } => match subjects.len() {
                0 | 1 => Err("a comparison needs two or more subjects".to_owned()),
                _ => self.measure(*measure),
            },
            Operation::Normal(column) => self.number(*column),
            Operation::Correlate { one, other, .. } | Operation::Spread(one, other) => {
                self.number(*one)?;
                self.number(*other)
            }
            Operation::SpreadAmong { measure, group, subjects } => {
                self.number(*measure)?;
                match group {
                    Some(group) => self.kind(*group).map(|_| ()),
                    None if subjects.len() < 2 => {
                        Err("comparing spread needs two or more subjects".to_owned())
                    }
                    None => Ok(()),
                }
            }
            Operation::Relate(one, other) => {
                self.kind(*one)?;
                self.kind(*other).map(|_| ())
            }
            Operation::Sql { statement, .. } => {
                match self.plan.filters.is_empty() && self.plan.supposed.is_none() {
                    false => {
                        Err("a statement must not be combined with filters or a supposed change"
                            .to_owned())
                    }
                    true if statement.len() > MAX_STATEMENT => {
                        Err(format!("a statement has more than {MAX_STATEMENT} bytes"))
                    }
                    true => Ok(()),
                }
            }
        }
    }
}
