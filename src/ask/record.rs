//! JSON records of answers, of ambiguous questions and of errors.
//!
//! Does not depend on how answers are found or sent.

use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::{
    AskError, AskReading,
    answer::{Answered, LeftOut, Outcome},
    kind::Kind,
    row_json,
};
use agent_kb::{
    Kb, NodeId,
    table::{Column, SqlValue, statistics::TestResult},
};

/// JSON record of an answer, with the first rows of the table and the source of every column.
#[derive(Serialize)]
pub struct AskRecord<'a> {
    question: &'a str,
    kind: Kind,
    answer: &'a Outcome,
    told: &'a str,
    path: &'a [String],
    /// The plan as a JSON document, which can be run again.
    plan: &'a Json,
    sql: &'a [String],
    statistic: Option<TestResult>,
    result: Result<'a>,
    table: Table<'a>,
    left_out: &'a [LeftOut],
    assumed: &'a [String],
    ms: f64,
}

#[derive(Serialize)]
struct Result<'a> {
    columns: &'a [String],
    rows: &'a [Vec<SqlValue>],
    /// Total number of rows, including those not in `rows`.
    n_rows: usize,
}

#[derive(Serialize)]
struct Table<'a> {
    rows_are: &'a str,
    /// The columns. `source` describes how a cell is found from the node of its row; `empty` is the
    /// number of cells without a value.
    columns: Vec<Json>,
    /// The first rows of the table; rows that satisfy the filters come first.
    rows: Vec<Row<'a>>,
    /// Total number of rows, including those not in `rows`.
    n_rows: usize,
    /// Number of rows that satisfy the filters; all rows if there are no filters.
    counted: usize,
}

#[derive(Serialize)]
struct Row<'a> {
    id: NodeId,
    /// The id of the node in the user's data.
    key: String,
    name: &'a str,
    cells: Vec<Json>,
}

/// Returns the JSON record of an ambiguous question, with the readings of the question. There is no
/// single answer. `ms` is the time that the question took, in milliseconds.
pub fn readings_record(question: &str, readings: &[AskReading], ms: f64) -> Json {
    let reason = format!("the question has {} possible meanings", readings.len());
    json!({"question": question, "answer": null, "reason": reason, "readings": readings, "ms": ms})
}

/// Returns the JSON record of a question that has no answer; `error` is the error that answering it
/// caused.
pub fn refusal_record(question: &str, error: &AskError) -> Json {
    let not_understood: &[String] = match error {
        AskError::Unknown { words, .. } => words,
        _ => &[],
    };
    json!({
        "question": question,
        "answer": null,
        "reason": error.to_string(),
        "not_understood": not_understood,
    })
}

impl<'a> AskRecord<'a> {
    /// Builds the record of an answer. `rows` is the maximum number of rows to include of the table
    /// and of the result; `ms` is the time that the question took, in milliseconds.
    pub fn new(
        question: &'a str,
        answered: &'a Answered,
        kb: &'a Kb,
        rows: usize,
        ms: f64,
    ) -> Self {
        let Answered { table, result, .. } = answered;
        let column = |own: &Column| {
            let Column { name, source, unit, .. } = own;
            json!({"name": name, "source": source, "unit": unit, "empty": own.n_empty()})
        };
        let row = |at: usize| {
            let (id, cells) = (table.rows[at], row_json(table, at).collect());
            Row { id, key: kb.key(id).into_owned(), name: kb.name(id), cells }
        };
        Self {
            question,
            kind: answered.kind,
            answer: &answered.outcome,
            told: &answered.told,
            path: &answered.path,
            plan: &answered.plan,
            sql: &answered.sql,
            statistic: answered.statistic,
            result: Result {
                columns: &result.columns,
                rows: result.rows.get(..rows).unwrap_or(&result.rows),
                n_rows: result.rows.len(),
            },
            table: Table {
                rows_are: &answered.row_type,
                columns: table.columns.iter().map(column).collect(),
                rows: answered.row_order().into_iter().take(rows).map(row).collect(),
                n_rows: table.rows.len(),
                counted: answered.counted.as_ref().map_or(table.rows.len(), Vec::len),
            },
            left_out: &answered.left_out,
            assumed: &answered.assumed,
            ms,
        }
    }
}
