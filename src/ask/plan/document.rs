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
    lexicon::{Bound, Function},
    plan::{Change, Condition, MAX_TOP, Measure, Operation, Plan, Test, TextColumn},
    schema::Schema,
};
use agent_ground::words::cut;
use agent_kb::{
    Direction, FieldId, Kb, MetapathStep, RelationId, TypeId, distinct,
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
/// Maximum number of text columns, whose cells a language model reads from documents.
const MAX_TEXTS: usize = 3;
/// Maximum length in bytes of a value, a name or a description.
const MAX_TEXT: usize = 1_000;
/// Maximum length in bytes of an SQL statement.
const MAX_STATEMENT: usize = 10_000;
/// Maximum length in characters of a message about a document. Messages that repeat a long text of
/// the document are cut to this length.
const MAX_MESSAGE: usize = 500;

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
    /// A message, cut after [`MAX_MESSAGE`] characters, if the document is not a plan, exceeds a
    /// limit, or names something that the base does not have.
    pub(crate) fn from_document(schema: &Schema, document: &Json) -> Result<Plan, String> {
        let parsed = || -> Result<Plan, String> {
            let mut document = document.clone();
            put_ids(schema, &mut document)?;
            let plan = Plan::deserialize(document).map_err(|error| error.to_string())?;
            plan.check(schema, &[])?;
            Ok(plan)
        };
        parsed().map_err(|why| cut(&why, MAX_MESSAGE, "..."))
    }

    /// Checks the plan against a base. `texts` are the plan's text columns. Their kinds are known
    /// only after their cells have been read; before that, `texts` is empty.
    ///
    /// # Errors
    /// A message if the base lacks something that the plan refers to, if the plan exceeds a limit,
    /// or if the kind of a column does not fit the tests or the computation.
    pub(crate) fn check(&self, schema: &Schema, texts: &[Column]) -> Result<(), String> {
        Checked { schema, kb: &schema.base.kb, plan: self, texts }.check()
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
fn put_ids(schema: &Schema, document: &mut Json) -> Result<(), String> {
    let kb = &schema.base.kb;
    match document {
        Json::Array(items) => items.iter_mut().try_for_each(|item| put_ids(schema, item)),
        Json::Object(entries) => entries.iter_mut().try_for_each(|(key, value)| {
            let what = if key == "rows" { "type" } else { key };
            *value = match (what, value.as_str()) {
                ("type" | "relation" | "field", Some(name)) => {
                    let id = match what {
                        "type" => kb.type_id(name).map(|id| json!(id)),
                        "relation" => kb.relation_id(name).map(|id| json!(id)),
                        _ => kb.field_id(name).map(|id| json!(id)),
                    };
                    id.ok_or_else(|| format!("the base has no {what} {value}"))?
                }
                ("type" | "relation" | "field", None) => {
                    return Err(format!("{key:?} must be a name"));
                }
                ("nodes" | "is", _) => return put_nodes(schema, value),
                ("key", Some(text)) => json!(category(text)),
                _ => return put_ids(schema, value),
            };
            Ok(())
        }),
        _ => Ok(()),
    }
}

/// Replaces each name in a JSON list of nodes with the ids of all nodes of that name, ignoring
/// ASCII case; ids stay. Fails if no node has one of the names.
fn put_nodes(schema: &Schema, nodes: &mut Json) -> Result<(), String> {
    let Json::Array(items) = nodes else { return Err("nodes must be a list".to_owned()) };
    let mut ids = Vec::new();
    for item in items.iter() {
        let Some(name) = item.as_str() else {
            ids.push(item.clone());
            continue;
        };
        let mut own = schema.nodes_named(&name.replace('"', " "));
        own.retain(|&node| schema.base.kb.name(node).eq_ignore_ascii_case(name));
        require(!own.is_empty(), || format!("the base has no node called {name:?}"))?;
        ids.extend(own.into_iter().map(Json::from));
    }
    *items = ids;
    Ok(())
}

fn require(fits: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if fits { Ok(()) } else { Err(why()) }
}

fn bound(n: usize, most: usize, what: &str) -> Result<(), String> {
    require(n <= most, || format!("{n} {what} exceed the limit of {most}"))
}

/// A plan that is being checked, with the base and schema that it must fit.
struct Checked<'a> {
    kb: &'a Kb,
    schema: &'a Schema,
    plan: &'a Plan,
    /// The plan's text columns; empty until a language model has read their cells.
    texts: &'a [Column],
}

impl Checked<'_> {
    fn check(&self) -> Result<(), String> {
        let plan = self.plan;
        bound(plan.columns.len() + plan.texts.len(), MAX_COLUMNS, "columns")?;
        bound(plan.texts.len(), MAX_TEXTS, "text columns")?;
        for TextColumn { name, description } in &plan.texts {
            bound(
                name.len().max(description.len()),
                MAX_TEXT,
                "bytes in the name or description of a text column",
            )?;
        }
        bound(plan.operation.subjects().len(), MAX_PARTS, "subjects")?;
        for column in &plan.columns {
            self.column(column)?;
        }
        self.conditions(&plan.conditions, plan.rows)?;
        let tests: Vec<&Test> = plan.tests().collect();
        bound(tests.len(), MAX_PARTS, "tests")?;
        tests.into_iter().try_for_each(|test| self.test(test, 0))?;
        match &plan.supposed {
            Some(Change::Scale { column, times, plus }) => {
                self.number(*column)?;
                let is_finite = times.is_finite() && plus.is_finite();
                require(is_finite, || "\"times\" and \"plus\" must be finite".to_owned())?;
            }
            Some(Change::LeaveOut(tests)) => {
                require(!tests.is_empty(), || {
                    "\"leave_out\" must contain at least one test".to_owned()
                })?;
            }
            Some(Change::Only(_)) | None => {}
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
            for kind in distinct(nodes.iter().map(|&node| self.kb.node_type(node)).collect()) {
                let end = self.path(kind, steps)?;
                let of_name = self.kb.type_name(of);
                require(end == of, || format!("the steps of {name:?} do not end at a {of_name}"))?;
            }
        }
        Ok(())
    }

    /// Checks that the base has the steps of a metapath from type `from`; returns the type at the
    /// end.
    fn path(&self, from: TypeId, steps: &[MetapathStep]) -> Result<TypeId, String> {
        bound(steps.len(), MAX_STEPS, "steps")?;
        let mut at = from;
        for step in steps {
            let known = self.schema.steps(at);
            let is_either = step.direction == Direction::Any
                && known.iter().any(|own| (own.relation, own.to) == (step.relation, at));
            require(known.contains(step) || is_either && step.to == at, || {
                let kb = self.kb;
                let relation = kb.relation_name(step.relation);
                let (from, to) = (kb.type_name(at), kb.type_name(step.to));
                format!("no edge of {relation:?} leads from {from} to {to}")
            })?;
            at = step.to;
        }
        Ok(at)
    }

    fn column(&self, column: &ColumnSpec) -> Result<(), String> {
        let end = self.path(self.plan.rows, column.steps())?;
        match column {
            ColumnSpec::Name => Ok(()),
            ColumnSpec::Field(field) => self.field(end, *field),
            _ if column.steps().is_empty() => Err("a column of links needs steps".to_owned()),
            ColumnSpec::FieldOf { field, .. } => self.field(end, *field),
            ColumnSpec::CountAmong { among, .. } => {
                let why = || "\"count_among\" must contain at least one condition".to_owned();
                require(!among.is_empty(), why)?;
                self.conditions(among, end)
            }
            ColumnSpec::Names(_) | ColumnSpec::Count(_) => Ok(()),
        }
    }

    fn field(&self, of: TypeId, field: FieldId) -> Result<(), String> {
        let kb = self.kb;
        let has = self.schema.sample(of, field).is_some();
        require(has, || format!("no {} has a field {:?}", kb.type_name(of), kb.field_name(field)))
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
        let fits = (1..=MAX_NODES).contains(&nodes.len());
        require(fits, || format!("a condition or test must have 1 to {MAX_NODES} nodes"))?;
        let lost = nodes.iter().find(|node| !self.kb.contains(**node));
        lost.map_or(Ok(()), |node| Err(format!("the base has no node {node}")))
    }

    fn kind(&self, at: usize) -> Result<Option<ColumnKind>, String> {
        let Some(spec) = self.plan.columns.get(at) else {
            let text = at - self.plan.columns.len();
            require(text < self.plan.texts.len(), || format!("there is no column {at}"))?;
            return Ok(self.texts.get(text).map(|column| column.kind));
        };
        Ok(match spec {
            ColumnSpec::Name => Some(ColumnKind::Text),
            ColumnSpec::Field(_) | ColumnSpec::FieldOf { .. } => {
                let sample = |(of, field)| self.schema.sample(of, field);
                self.field_of(spec).and_then(sample).map(|sample| sample.kind)
            }
            ColumnSpec::Count(_) | ColumnSpec::CountAmong { .. } => Some(ColumnKind::Number),
            ColumnSpec::Names(_) => None,
        })
    }

    /// Checks that a column holds numbers; a text column that has not been read passes.
    fn number(&self, at: usize) -> Result<(), String> {
        let unread = at >= self.plan.columns.len() && self.texts.is_empty();
        let fits = self.kind(at)?.map_or(unread, ColumnKind::is_number);
        require(fits, || format!("column {at} holds no numbers"))
    }

    /// Checks that a column holds dates, or passes [`number`](Self::number).
    fn number_or_date(&self, at: usize) -> Result<(), String> {
        match self.kind(at)? {
            Some(ColumnKind::Date) => Ok(()),
            _ => self.number(at),
        }
    }

    /// Checks that a column holds categories, and that some node has the category `key`; text
    /// columns pass.
    fn value(&self, at: usize, key: &str) -> Result<(), String> {
        let kind = self.kind(at)?;
        let Some(spec) = self.plan.columns.get(at) else { return Ok(()) };
        let kb = self.kb;
        match (self.field_of(spec), kind) {
            (Some((of, field)), Some(kind)) if kind.groups() && !kind.is_number() => {
                require(has_value(kb, of, field, kind, key), || {
                    format!("no {} has the {} {key:?}", kb.type_name(of), kb.field_name(field))
                })
            }
            _ => Err(format!("column {at} holds no categories")),
        }
    }

    fn test(&self, test: &Test, depth: usize) -> Result<(), String> {
        let too_deep = || format!("the depth of tests exceeds the limit of {MAX_DEPTH}");
        require(depth <= MAX_DEPTH, too_deep)?;
        match test {
            Test::Number { column, bound, number, to } => {
                let has_end = *bound != Bound::Between || to.is_some();
                require(has_end, || "\"between\" needs an upper limit \"to\"".to_owned())?;
                let is_finite = number.is_finite() && to.is_none_or(f64::is_finite);
                require(is_finite, || "a number of a test must be finite".to_owned())?;
                self.number_or_date(*column)
            }
            Test::Date { bound: Bound::Between, .. } => {
                Err("a date cannot be \"between\"; write a test for each end".to_owned())
            }
            Test::Date { column, date, .. } => {
                let fits = match self.kind(*column)? {
                    Some(ColumnKind::Date) => dates::is_part_of_date(date),
                    Some(kind) => kind.is_number() && date.parse::<u16>().is_ok(),
                    None => false,
                };
                require(fits, || {
                    format!("column {column} holds no dates, or {date:?} is not a date")
                })
            }
            Test::Value { column, key } => {
                let too_long = || format!("a value has more than {MAX_TEXT} bytes");
                require(key.len() <= MAX_TEXT, too_long)?;
                self.value(*column, key)
            }
            Test::Linked { column, nodes } => {
                self.nodes(nodes)?;
                let fits = matches!(self.plan.columns.get(*column), Some(ColumnSpec::Names(_)));
                require(fits, || format!("column {column} holds no names of nodes"))
            }
            Test::Is(nodes) => self.nodes(nodes),
            Test::Filled { column } => self.kind(*column).map(drop),
            Test::Not(test) => self.test(test, depth + 1),
            Test::Any(tests) => {
                let fits = (1..=MAX_PARTS).contains(&tests.len());
                require(fits, || format!("\"any\" must have 1 to {MAX_PARTS} tests"))?;
                tests.iter().try_for_each(|test| self.test(test, depth + 1))
            }
        }
    }

    fn measure(&self, measure: Measure) -> Result<(), String> {
        match measure {
            Measure::Rows => Ok(()),
            Measure::Of(Function::Distinct, column) => self.kind(column).map(drop),
            Measure::Of(_, column) => self.number(column),
        }
    }

    fn operation(&self) -> Result<(), String> {
        let first = |top: usize| {
            let fits = (1..=MAX_TOP).contains(&top);
            require(fits, || format!("top {top} is not between 1 and {MAX_TOP}"))
        };
        match &self.plan.operation {
            Operation::Number(measure) => self.measure(*measure),
            Operation::List | Operation::Exists => Ok(()),
            Operation::Values(column) => self.kind(*column).map(drop),
            Operation::Share(tests) => {
                require(!tests.is_empty(), || "a share needs a test".to_owned())
            }
            Operation::Groups { group, part, measure, first: of } => {
                let fits = self.kind(*group)? == Some(ColumnKind::Date) || part.is_none();
                require(fits, || format!("column {group} holds no dates"))?;
                of.map_or(Ok(()), |(_, top)| first(top))?;
                self.measure(*measure)
            }
            Operation::First { column, top, .. } => {
                first(*top)?;
                self.number_or_date(*column)
            }
            Operation::Compare { subjects, measure, yes_no, by_how_much, .. } => {
                let why = || "a comparison needs two or more subjects".to_owned();
                require(subjects.len() > 1, why)?;
                let fits = !by_how_much || subjects.len() == 2 && !yes_no;
                let why = || "\"by_how_much\" needs two subjects and no \"yes_no\"".to_owned();
                require(fits, why)?;
                self.measure(*measure)
            }
            Operation::Normal(column) => self.number(*column),
            Operation::Correlate { one, other, .. } | Operation::Spread(one, other) => {
                self.number(*one)?;
                self.number(*other)
            }
            Operation::SpreadAmong { measure, group, subjects } => {
                self.number(*measure)?;
                match group {
                    Some(group) => self.kind(*group).map(drop),
                    None => require(subjects.len() > 1, || {
                        "comparing spread needs two or more subjects".to_owned()
                    }),
                }
            }
            Operation::Relate(one, other) => {
                self.kind(*one)?;
                self.kind(*other).map(drop)
            }
            Operation::Sql { statement, .. } => {
                let alone = self.plan.filters.is_empty() && self.plan.supposed.is_none();
                require(alone, || {
                    "an SQL statement must not be combined with filters or \"supposed\"".to_owned()
                })?;
                let too_long = || format!("a statement has more than {MAX_STATEMENT} bytes");
                require(statement.len() <= MAX_STATEMENT, too_long)
            }
        }
    }
}
