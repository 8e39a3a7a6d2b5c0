//! Answers a question with a language model, which reads the question, chooses columns, reads cells
//! from texts, and writes SQL.
//!
//! Replies are verified: types, nodes, metapaths and columns must exist in the base, otherwise the
//! reply is unusable. An authorizer permits statements only to read the table; a failed statement
//! is returned to the model once with its error. Tests are computed here. The steps are those of
//! SRAG, with the metapaths of the base instead of SPARQL.
//!
//! Independent of how models are reached, of the cost of replies and of the rules.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value as Json, json};

use crate::{
    answer::{Answered, LEVEL, LeftOut, Outcome, shown, shown_value},
    kind::Kind,
    mentions::{Mentions, What},
    plan::{Condition, Measure, Operation, Plan, reversed},
    run::{self, MAX_FIRST, ROWS, words::yes_or_no},
    schema::Schema,
};
use agent_index::{IndexedBase, excerpt::text_about};
use agent_infer::RequestBounds;
use agent_kb::{
    Kb, NodeId, TypeId,
    table::{
        Cell, Column, ColumnKind, ColumnSpec, Database, Limits, MAX_COLUMNS, Rows, SqlValue, Table,
        of_texts, read,
        statistics::{self, TestResult},
        with_literals,
    },
};
use agent_llm::{LlmError, RoleSpec};
use agent_tools::{Assistant, AssistantError, schema_text};

/// The role that answers questions over many nodes.
pub const ASK_ROLE: RoleSpec = RoleSpec {
    name: "ask",
    summary: "answers questions over many nodes",
    temperature: Some(0.0),
    max_tokens: 2_048,
};

/// The prompts.
const READ: &str = "ask/read";
const COLUMNS: &str = "ask/columns";
const CELLS: &str = "ask/cells";
const SQL: &str = "ask/sql";
/// Maximum number of rows whose cells are read from texts.
const MAX_READ: usize = 500;
/// Number of rows whose texts are in one request.
const ROWS_A_REQUEST: usize = 10;
/// Three replies, each with its repair; a failed statement, also with a repair; cells.
pub const ASK_ASKS: RequestBounds = RequestBounds {
    role: ASK_ROLE,
    prompt: SQL,
    later: None,
    min: 3,
    max: 2 * 4 + 2 * (MAX_READ / ROWS_A_REQUEST),
};
/// Maximum number of offered nodes.
const MAX_NAMES: usize = 20;
/// Maximum number of offered columns.
const MAX_OFFERED: usize = 80;
/// Maximum number of columns read from texts.
const MAX_TEXTS: usize = 3;
/// Maximum length of a document whose cells are read, characters.
const DOCUMENT_CHARS: usize = 1_500;
/// Maximum length of a name, characters.
const NAME_CHARS: usize = 100;
/// Maximum length of an example, characters.
const EXAMPLE_CHARS: usize = 60;
/// Number of rows of the table in a prompt.
const SHOWN_ROWS: usize = 5;
/// Number of values of a category in a prompt.
const SHOWN_VALUES: usize = 8;

/// Why a model has no answer.
pub(super) enum Failed {
    /// A reply is unusable, with the reason.
    Unusable(String),
    /// The model replies that the question is not about many nodes, or that the base cannot answer
    /// it.
    Declined,
    /// The service gave no reply, or a ceiling is reached.
    Ends(LlmError),
    /// A prompt cannot be rendered.
    Prompt(String),
}

impl From<AssistantError> for Failed {
    fn from(error: AssistantError) -> Self {
        match error {
            AssistantError::Llm(error @ LlmError::Reply { .. }) => {
                Self::Unusable(error.to_string())
            }
            AssistantError::Llm(error) => Self::Ends(error),
            AssistantError::Prompt(error) => Self::Prompt(error.to_string()),
        }
    }
}

/// The error for a reply that refers to something missing from the base.
fn unusable(why: impl Into<String>) -> Failed {
    Failed::Unusable(why.into())
}

#[derive(Deserialize)]
struct ReadReply {
    kind: Kind,
    rows: Option<String>,
    conditions: Vec<NamedCondition>,
}

#[derive(Deserialize)]
struct NamedCondition {
    name: usize,
    relations: Vec<String>,
}

#[derive(Deserialize)]
struct ColumnsReply {
    columns: Vec<usize>,
    texts: Vec<TextColumn>,
}

/// A column whose cells are read from texts.
#[derive(Deserialize)]
struct TextColumn {
    name: String,
    description: String,
}

#[derive(Deserialize)]
struct CellsReply {
    rows: Vec<CellsOfRow>,
}

#[derive(Deserialize)]
struct CellsOfRow {
    n: usize,
    values: Vec<Option<String>>,
}

#[derive(Deserialize)]
struct SqlReply {
    sql: String,
    answer: Form,
    test: Option<TestName>,
    asks_same: bool,
}

/// Form of a result.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Number,
    Names,
    YesNo,
    Table,
    Test,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TestName {
    Normality,
    Pearson,
    Spearman,
    F,
    BrownForsythe,
    KruskalWallis,
    ChiSquare,
}

/// Answers one question with a model.
pub(super) struct Questioner<'a> {
    pub(super) base: &'a IndexedBase,
    pub(super) schema: &'a Schema,
    pub(super) assistant: &'a Arc<Assistant>,
    pub(super) mentions: &'a Mentions,
    pub(super) question: &'a str,
}

/// Item `n` of a list, from 1.
fn nth<T>(all: &[T], n: usize) -> Option<&T> {
    all.get(n.checked_sub(1)?)
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

impl Questioner<'_> {
    /// Answers the question.
    pub(super) fn answer(&self) -> Result<Answered, Failed> {
        let plan = self.read()?;
        let nodes = run::rows(&self.base.kb, &plan).map_err(|error| unusable(error.to_string()))?;
        let ColumnsReply { columns, texts } = self.columns(&plan)?;
        let mut table = Table { rows: nodes, columns: Vec::new() };
        let column = |table: &Table, spec: &ColumnSpec| {
            read(&self.base.kb, plan.rows, &table.rows, spec)
                .map_err(|error| unusable(error.to_string()))
        };
        table.add(column(&table, &ColumnSpec::Name)?);
        let offered = self.offered(plan.rows);
        for n in columns {
            let none = || unusable(format!("no column {n} was offered"));
            let (spec, _) = nth(&offered, n).ok_or_else(none)?;
            if table.columns.len() + texts.len().min(MAX_TEXTS) < MAX_COLUMNS {
                table.add(column(&table, spec)?);
            }
        }
        let mut left_out = Vec::new();
        if let Some(texts) = texts.get(..texts.len().min(MAX_TEXTS)).filter(|all| !all.is_empty()) {
            self.read_cells(&mut table, texts, &mut left_out)?;
        }
        self.by_sql(&plan, table, left_out)
    }

    /// The reply to a prompt, in the requested form.
    fn ask<T: DeserializeOwned>(&self, prompt: &str, inputs: Json) -> Result<T, Failed> {
        let reply = self.assistant.json(ASK_ROLE.role(), prompt, inputs)?;
        serde_json::from_value(reply).map_err(|error| unusable(error.to_string()))
    }

    /// Nodes of one type that the question may name: spelled-out ones, then linked ones.
    fn names(&self) -> Vec<(String, TypeId, Vec<NodeId>)> {
        let kb = &self.base.kb;
        let mut names: Vec<(String, TypeId, Vec<NodeId>)> = Vec::new();
        for mention in &self.mentions.all {
            let What::Thing(thing) = &mention.what else { continue };
            let mut kinds: Vec<TypeId> = thing.nodes.iter().map(|&one| kb.node_type(one)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            for kind in kinds {
                let own = thing.nodes.iter().copied().filter(|&one| kb.node_type(one) == kind);
                let own: Vec<NodeId> = own.collect();
                let name = match own.as_slice() {
                    [node] => kb.name(*node).to_owned(),
                    _ => thing.text.clone(),
                };
                names.push((name, kind, own));
            }
        }
        let linked = self.base.entities.link(kb, self.question, &[], MAX_NAMES);
        for (node, _) in linked.ranking() {
            if !names.iter().any(|(_, _, nodes)| nodes.contains(&node)) {
                names.push((kb.name(node).to_owned(), kb.node_type(node), vec![node]));
            }
        }
        names.truncate(MAX_NAMES);
        names
    }

    /// The kind, the rows and their conditions, all of them verified against the base.
    fn read(&self) -> Result<Plan, Failed> {
        let kb = &self.base.kb;
        let names = self.names();
        let shown = (1..).zip(&names).map(|(n, (name, kind, nodes))| {
            let several =
                if nodes.len() > 1 { format!(", {} nodes", nodes.len()) } else { String::new() };
            let name = cut(name, NAME_CHARS);
            json!({"n": n, "text": format!("{name} ({}{several})", kb.type_name(*kind))})
        });
        let inputs = json!({
            "schema": schema_text(kb),
            "names": shown.collect::<Vec<Json>>(),
            "question": self.question,
        });
        let ReadReply { kind, rows, conditions } = self.ask(READ, inputs)?;
        let Some(rows) = rows else { return Err(Failed::Declined) };
        let none = || unusable(format!("the base has no type {rows:?}"));
        let rows = kb.type_id(&rows).ok_or_else(none)?;
        let condition = |NamedCondition { name, relations }: NamedCondition| {
            let none = || unusable(format!("no node {name} was offered"));
            let (text, kind, nodes) = nth(&names, name).ok_or_else(none)?;
            let steps = match relations.is_empty() && *kind == rows {
                true => Vec::new(),
                false => {
                    let said =
                        self.mentions.tokens.iter().map(|token| token.stem.clone()).collect();
                    let paths = self.schema.paths(rows, *kind, &said);
                    let is = |steps: &[agent_kb::MetapathStep]| {
                        let own = steps.iter().map(|step| kb.relation_name(step.relation));
                        relations.is_empty() || own.eq(relations.iter().map(String::as_str))
                    };
                    let none = || {
                        let way = relations.join(", ");
                        unusable(format!("no relations {way:?} lead from rows to {text:?}"))
                    };
                    let steps = paths.into_iter().find(|steps| is(steps)).ok_or_else(none)?;
                    reversed(rows, &steps)
                }
            };
            Ok(Condition { nodes: nodes.clone(), steps, name: text.clone() })
        };
        Ok(Plan {
            kind,
            rows,
            conditions: conditions.into_iter().map(condition).collect::<Result<_, Failed>>()?,
            filters: Vec::new(),
            columns: Vec::new(),
            operation: Operation::Number(Measure::Rows),
            supposed: None,
            asks_same: false,
            asks_more: None,
            assumed: vec![
                "the language model chose rows and columns, and wrote the SQL".to_owned(),
            ],
        })
    }

    /// The possible columns of a table of a type, each in words.
    fn offered(&self, rows: TypeId) -> Vec<(ColumnSpec, String)> {
        let kb = &self.base.kb;
        let mut offered = Vec::new();
        for sample in self.schema.samples(self.base, rows) {
            let values = sample.values.iter().take(SHOWN_VALUES);
            let values: Vec<String> = values.map(|value| cut(value, EXAMPLE_CHARS)).collect();
            let text = format!(
                "{}: {}{}, in {} of {} rows{}{}",
                kb.field_name(sample.field),
                kind_name(sample.kind),
                sample.unit.as_deref().map_or(String::new(), |unit| format!(" in {unit}")),
                sample.filled,
                sample.seen,
                if values.is_empty() { "" } else { ": " },
                values.join(" | ")
            );
            offered.push((ColumnSpec::Field(sample.field), text));
        }
        let mut paths: Vec<Vec<_>> =
            self.schema.steps(rows).into_iter().map(|step| vec![step]).collect();
        let said = self.mentions.tokens.iter().map(|token| token.stem.clone()).collect();
        for kind in (0..kb.types().len()).map(|kind| TypeId(kind as u16)) {
            let best = self.schema.paths(rows, kind, &said).into_iter().next();
            paths.extend(best.filter(|steps| steps.len() > 1));
        }
        for steps in paths {
            for spec in [ColumnSpec::Names(steps.clone()), ColumnSpec::Count(steps.clone())] {
                let what =
                    if matches!(spec, ColumnSpec::Names(_)) { "names at the end of " } else { "" };
                let text = format!("{what}{}", spec.source(kb, rows));
                offered.push((spec, text));
            }
        }
        offered.truncate(MAX_OFFERED);
        offered
    }

    /// The columns that the model chooses.
    fn columns(&self, plan: &Plan) -> Result<ColumnsReply, Failed> {
        let offered = self.offered(plan.rows);
        let shown = (1..).zip(&offered).map(|(n, (_, text))| json!({"n": n, "text": text}));
        let inputs = json!({
            "kind": plan.kind.name(),
            "rows": self.base.kb.type_name(plan.rows),
            "columns": shown.collect::<Vec<Json>>(),
            "question": self.question,
        });
        self.ask(COLUMNS, inputs)
    }

    /// Adds columns whose cells the model reads from the rows' documents. Cells that no document
    /// states, or that no usable reply contains, are empty and reported.
    fn read_cells(
        &self,
        table: &mut Table,
        texts: &[TextColumn],
        left_out: &mut Vec<LeftOut>,
    ) -> Result<(), Failed> {
        let columns: Vec<Json> = (1..)
            .zip(texts)
            .map(|(n, one)| json!({"n": n, "text": format!("{}: {}", one.name, one.description)}))
            .collect();
        let wanted: Vec<&str> = texts.iter().map(|one| one.description.as_str()).collect();
        let wanted = wanted.join(" ");
        let rows = table.rows.get(..table.rows.len().min(MAX_READ)).unwrap_or_default();
        let inputs = rows.chunks(ROWS_A_REQUEST).map(|nodes| {
            let text = |(n, &node): (usize, &NodeId)| {
                let name = self.base.kb.name(node);
                let text = text_about(self.base, node, &wanted, DOCUMENT_CHARS);
                json!({"n": n, "text": format!("{name}\n{text}")})
            };
            let texts: Vec<Json> = (1..).zip(nodes).map(text).collect();
            json!({"columns": columns, "texts": texts})
        });
        let replies = self.assistant.json_all(ASK_ROLE.role(), CELLS, inputs.collect());
        let mut cells: Vec<Vec<String>> = vec![vec![String::new(); table.rows.len()]; texts.len()];
        let mut unread = 0;
        for ((at, reply), nodes) in (0..).zip(replies).zip(rows.chunks(ROWS_A_REQUEST)) {
            let reply = match reply.map_err(Failed::from) {
                Ok(reply) => serde_json::from_value::<CellsReply>(reply).ok(),
                Err(Failed::Unusable(_)) => None,
                Err(error) => return Err(error),
            };
            let Some(reply) = reply else {
                unread += nodes.len();
                continue;
            };
            for CellsOfRow { n, values } in reply.rows {
                let Some(place) = n.checked_sub(1).filter(|place| *place < nodes.len()) else {
                    continue;
                };
                for (column, value) in cells.iter_mut().zip(values) {
                    let value = value.unwrap_or_default();
                    if let Some(cell) = column.get_mut(at * ROWS_A_REQUEST + place) {
                        *cell = cut(value.trim(), NAME_CHARS);
                    }
                }
            }
        }
        let why = "the reply of the language model that was to read them is unusable";
        note(left_out, unread, why.to_owned());
        let beyond = table.rows.len() - rows.len();
        note(left_out, beyond, format!("behind the first {MAX_READ}, whose texts are read"));
        for (TextColumn { name, .. }, cells) in texts.iter().zip(cells) {
            let texts: Vec<&str> = cells.iter().map(String::as_str).collect();
            let source = format!("{name}, read from the document by the language model");
            let empty = texts.iter().filter(|text| text.is_empty()).count() - unread - beyond;
            note(left_out, empty, format!("no {name} in the document"));
            let column = of_texts(name, &texts, &texts, source);
            note(left_out, column.unfit, format!("{name} is not a value of its column"));
            table.add(column);
        }
        Ok(())
    }

    /// Result of the model's statement; a failed statement is returned to the model once.
    fn by_sql(
        &self,
        plan: &Plan,
        table: Table,
        left_out: Vec<LeftOut>,
    ) -> Result<Answered, Failed> {
        let database =
            Database::load(&[("t", &table)]).map_err(|error| unusable(error.to_string()))?;
        let mut failed = String::new();
        for _ in 0..2 {
            let mut reply: SqlReply = self.ask(SQL, self.sql_inputs(plan, &table, &failed))?;
            let limits = if reply.test.is_some() { ROWS } else { Limits::default() };
            let names: Vec<&str> = ["t", "id", "key", "value"]
                .into_iter()
                .chain(table.columns.iter().map(|column| column.name.as_str()))
                .collect();
            let (sql, texts) = with_literals(&reply.sql, &names);
            reply.sql = sql;
            match database.query(&reply.sql, &limits) {
                Ok(rows) => {
                    let mut answered = self.answered(plan, table, left_out, reply, rows)?;
                    let told = |text| format!("\"{text}\" in the statement taken as a text");
                    answered.assumed.extend(texts.into_iter().map(told));
                    return Ok(answered);
                }
                Err(error) => failed = format!("{}\n{error}", reply.sql),
            }
        }
        Err(unusable(failed))
    }

    /// Prompt inputs that describe a table.
    fn sql_inputs(&self, plan: &Plan, table: &Table, failed: &str) -> Json {
        let mut columns = vec![json!({"text": "t.id: integer, the node of the row"})];
        for column in &table.columns {
            let filled = column.cells.len() - column.n_empty();
            let unit = column.unit.as_deref().map_or(String::new(), |unit| format!(" in {unit}"));
            let (name, n) = (&column.name, column.cells.len());
            let several = column.cells.iter().any(|cell| matches!(cell, Cell::Many(_)));
            let own = if several {
                format!("; its values are in t_{name}(id, key, value), id that of t")
            } else {
                String::new()
            };
            let kind = kind_name(column.kind);
            let values = examples(column);
            columns.push(json!({"text":
                format!("t.{name}: {kind}{unit}, {filled} of {n} filled{own}{values}")}));
        }
        let mut lines = vec![
            ["id"]
                .into_iter()
                .chain(table.columns.iter().map(|one| one.name.as_str()))
                .collect::<Vec<_>>()
                .join(" | "),
        ];
        for (at, node) in table.rows.iter().enumerate().take(SHOWN_ROWS) {
            let cells = table.columns.iter().filter_map(|column| column.cells.get(at));
            let cells = cells.map(|cell| cut(&shown_cell(cell), EXAMPLE_CHARS));
            lines.push([node.to_string()].into_iter().chain(cells).collect::<Vec<_>>().join(" | "));
        }
        json!({
            "kind": plan.kind.name(),
            "rows": format!("{}, {} rows", self.base.kb.type_name(plan.rows), table.rows.len()),
            "columns": columns,
            "samples": lines.join("\n"),
            "failed": failed,
            "question": self.question,
        })
    }

    fn answered(
        &self,
        plan: &Plan,
        table: Table,
        left_out: Vec<LeftOut>,
        reply: SqlReply,
        rows: Rows,
    ) -> Result<Answered, Failed> {
        let kb = &self.base.kb;
        let SqlReply { sql, answer, test, asks_same } = reply;
        let tested = test.map(|test| tested(test, &rows)).transpose()?;
        let (outcome, told, result) = match tested {
            Some(tested) => {
                let normal = matches!(test, Some(TestName::Normality));
                let yes = (tested.p < LEVEL) != (normal || asks_same);
                let (result, told) = run::words::test_in_words(tested);
                (Outcome::Truth(yes), format!("{} ({told})", yes_or_no(yes)), result)
            }
            None => {
                let (outcome, told) = read_as(kb, answer, &rows, &table)?;
                (outcome, told, rows)
            }
        };
        Ok(Answered {
            kind: plan.kind,
            outcome,
            told,
            path: run::path(kb, plan),
            plan: None,
            counted: None,
            sql: vec![sql],
            statistic: tested,
            result,
            row_type: kb.type_name(plan.rows).to_owned(),
            table,
            left_out,
            assumed: plan.assumed.clone(),
            unassisted: None,
        })
    }
}

fn note(left_out: &mut Vec<LeftOut>, rows: usize, why: String) {
    left_out.extend((rows > 0).then_some(LeftOut { rows, why }));
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::Number => "number",
        ColumnKind::Year => "year",
        ColumnKind::Date => "date",
        ColumnKind::Category => "category",
        ColumnKind::Categories => "several values",
        ColumnKind::Text => "text",
    }
}

fn shown_cell(cell: &Cell) -> String {
    match cell {
        Cell::Empty => "NULL".to_owned(),
        Cell::Number(number) => shown(*number),
        Cell::Text(text) => text.replace(['\n', '\r'], " "),
        Cell::Many(named) => {
            let names = named.iter().take(SHOWN_VALUES).map(|one| &*one.name);
            names.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Some values of a category, as written.
fn examples(column: &Column) -> String {
    let mut values: Vec<&str> = Vec::new();
    for cell in &column.cells {
        match cell {
            Cell::Text(text) if column.kind == ColumnKind::Category => values.push(text),
            Cell::Many(named) => values.extend(named.iter().map(|one| &*one.name)),
            _ => {}
        }
        values.sort_unstable();
        values.dedup();
        if values.len() >= SHOWN_VALUES {
            break;
        }
    }
    let values: Vec<String> =
        values.iter().take(SHOWN_VALUES).map(|value| cut(value, EXAMPLE_CHARS)).collect();
    if values.is_empty() { String::new() } else { format!("; such as {}", values.join(" | ")) }
}

/// A result in the form that the model states.
fn read_as(kb: &Kb, form: Form, rows: &Rows, table: &Table) -> Result<(Outcome, String), Failed> {
    let first = || rows.rows.first().ok_or_else(|| unusable("the statement gives no row"));
    Ok(match form {
        Form::Number => {
            let value = first()?.iter().find_map(SqlValue::number);
            let value = value.ok_or_else(|| unusable("the statement gives no number"))?;
            (Outcome::Number { value, unit: None }, shown(value))
        }
        Form::YesNo => {
            let value = first()?.first().and_then(SqlValue::number);
            let value = value.ok_or_else(|| unusable("the statement gives no truth value"))?;
            (Outcome::Truth(value != 0.0), yes_or_no(value != 0.0).to_owned())
        }
        Form::Names => {
            let is_id = rows.columns.first().is_some_and(|name| name == "id");
            let name = |row: &Vec<SqlValue>| match row.first()? {
                SqlValue::Int(id) if is_id => {
                    let node = NodeId::try_from(*id).ok()?;
                    table.rows.binary_search(&node).ok().map(|_| kb.name(node).to_owned())
                }
                SqlValue::Null => None,
                value => Some(shown_value(value)),
            };
            let names: Vec<String> = rows.rows.iter().filter_map(name).take(MAX_FIRST).collect();
            let value = first()?.iter().skip(1).find_map(SqlValue::number);
            let told = match value {
                Some(value) => format!("{}: {}", names.join(", "), shown(value)),
                None => names.join(", "),
            };
            if names.is_empty() {
                return Err(unusable("the statement gives no name"));
            }
            (
                Outcome::Names { names, value: SqlValue::Real(value.unwrap_or(0.0)), unit: None },
                told,
            )
        }
        Form::Table => (Outcome::Table, format!("{} rows", rows.rows.len())),
        Form::Test => return Err(unusable("a test is asked for and none is named")),
    })
}

/// Applies a test to the values of a statement.
fn tested(test: TestName, rows: &Rows) -> Result<TestResult, Failed> {
    let column = |at: usize| -> Vec<f64> {
        rows.rows.iter().filter_map(|row| row.get(at)?.number()).collect()
    };
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for row in &rows.rows {
        let numbers =
            (row.first().and_then(SqlValue::number), row.get(1).and_then(SqlValue::number));
        if let (Some(a), Some(b)) = numbers {
            one.push(a);
            other.push(b);
        }
    }
    let samples = || -> Vec<Vec<f64>> {
        let mut sorted = rows.clone();
        sorted.rows.sort_by_cached_key(|row| row.first().map(shown_value));
        run::by_key(&sorted).into_iter().map(|(_, own)| own).collect()
    };
    let found = match test {
        TestName::Normality => statistics::normality(&column(0)),
        TestName::Pearson => statistics::pearson(&one, &other),
        TestName::Spearman => statistics::spearman(&one, &other),
        TestName::F => statistics::f_test(&column(0), &column(1)),
        TestName::BrownForsythe => {
            let mut samples = samples();
            samples.retain(|sample| sample.len() > 1);
            statistics::brown_forsythe(&samples)
        }
        TestName::KruskalWallis => statistics::kruskal_wallis(&samples()),
        TestName::ChiSquare => {
            let counts = run::contingency(rows).map_err(|error| unusable(error.to_string()))?;
            statistics::chi_square(&counts)
        }
    };
    found.map_err(|error| unusable(error.to_string()))
}
