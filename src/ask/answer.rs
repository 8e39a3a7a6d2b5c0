//! The answer to a question about many nodes, with its plan, table, SQL and test. Independent of
//! how it is found or printed.

use serde::Serialize;

use crate::kind::Kind;
use agent_kb::{
    NodeId,
    answer::{self, AnswerValue, Cell, Single},
    table::{Rows, SqlValue, Table, statistics::TestResult},
};
use agent_retrieve::AssistFailure;

/// Significance level of the statistical tests.
pub const LEVEL: f64 = 0.05;

/// The answer itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A number.
    Number {
        /// The number, which is finite.
        value: f64,
        /// Unit of the number, if it has one.
        unit: Option<String>,
    },
    /// The requested names, including those that tie with the last of them.
    Names {
        /// The names, in order.
        names: Vec<String>,
        /// The number or date of the first name.
        value: SqlValue,
        /// Unit of the number, if it has one.
        unit: Option<String>,
    },
    /// Yes or no.
    Truth(bool),
    /// The rows of [`Answered::result`].
    Table,
}

/// A number of rows that are left out of the answer for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Number of rows.
    pub rows: usize,
    /// Why the rows are left out.
    pub why: String,
}

/// An answer, with everything that it was computed from.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The kind of the question.
    pub kind: Kind,
    /// The answer.
    pub outcome: Outcome,
    /// The answer in a sentence.
    pub told: String,
    /// How the rows were found: one line for each condition or metapath.
    pub path: Vec<String>,
    /// The plan as a JSON document, which can be run again.
    pub plan: serde_json::Value,
    /// The rows that satisfy the filters, ascending. `None` if there are no filters, or if the
    /// question makes an assumption.
    pub counted: Option<Vec<NodeId>>,
    /// The SQL statements, in the order in which they ran.
    pub sql: Vec<String>,
    /// The statistical test, if there was one.
    pub statistic: Option<TestResult>,
    /// The rows of the result; for a statistical test, one row with the test's numbers.
    pub result: Rows,
    /// The type of the table's rows.
    pub row_type: String,
    /// The queried table.
    pub table: Table,
    /// Rows that are left out of the answer, with reasons.
    pub left_out: Vec<LeftOut>,
    /// Assumptions about the question, in words.
    pub assumed: Vec<String>,
    /// Why the rules answered instead of a language model; `None` if no model was requested, or if
    /// it answered.
    pub unassisted: Option<AssistFailure>,
}

impl Answered {
    /// Returns the positions of all rows of the table, those in `counted` first.
    pub fn row_order(&self) -> Vec<usize> {
        let is_counted = |at: &usize| match (&self.counted, self.table.rows.get(*at)) {
            (Some(counted), Some(node)) => counted.binary_search(node).is_ok(),
            _ => true,
        };
        let (mut first, rest): (Vec<usize>, Vec<usize>) =
            (0..self.table.rows.len()).partition(is_counted);
        first.extend(rest);
        first
    }

    /// Converts the answer to a value: a number with its unit, a truth value, a text or a table.
    pub fn value(&self) -> AnswerValue {
        match &self.outcome {
            Outcome::Number { value, unit } => {
                AnswerValue::Single(Single { value: Cell::from(*value), unit: unit.clone() })
            }
            Outcome::Truth(truth) => AnswerValue::from(Cell::from(*truth)),
            Outcome::Names { names, .. } => value_of_names(names),
            Outcome::Table => {
                let row = |row: &Vec<SqlValue>| row.iter().map(cell).collect();
                table_of(self.result.columns.clone(), self.result.rows.iter().map(row).collect())
            }
        }
    }
}

/// Converts names to a value: one to a text, several to a table of one column.
pub(crate) fn value_of_names(names: &[String]) -> AnswerValue {
    match names {
        [name] => AnswerValue::from(Cell::from(name.as_str())),
        names => {
            let rows = names.iter().map(|name| vec![Cell::from(name.as_str())]).collect();
            table_of(vec!["name".to_owned()], rows)
        }
    }
}

/// Converts a table to a value; the value is empty if the table is too large.
pub(crate) fn table_of(columns: Vec<String>, rows: Vec<Vec<Cell>>) -> AnswerValue {
    answer::Table::new(columns, rows)
        .map_or_else(|_| AnswerValue::from(Cell::Empty), AnswerValue::Table)
}

fn cell(value: &SqlValue) -> Cell {
    match value {
        SqlValue::Null => Cell::Empty,
        SqlValue::Int(number) => Cell::from(*number as f64),
        SqlValue::Real(number) => Cell::from(*number),
        SqlValue::Text(text) => Cell::from(text.as_str()),
    }
}

/// Formats a number for people: with at most 2 decimal places from 100 on, 8 below 0.001, and 4
/// between; whole numbers below 1e15 have none.
pub fn shown(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    let places = if number.abs() >= 100.0 {
        2
    } else if number.abs() >= 1e-3 {
        4
    } else {
        8
    };
    let text = format!("{number:.places$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a value of a result for people; `-` if it is null.
pub fn shown_value(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => "-".to_owned(),
        SqlValue::Int(number) => number.to_string(),
        SqlValue::Real(number) => shown(*number),
        SqlValue::Text(text) => text.clone(),
    }
}
