//! The answer to a question about many nodes, with the plan, table, SQL and statistical test that
//! it was computed from. Does not depend on how answers are found or printed.

use serde::Serialize;

use crate::kind::Kind;
use agent_kb::{
    NodeId,
    answer::{self, AnswerValue, Cell, Single},
    table::{Rows, SqlValue, Table, statistics::TestResult},
};
use agent_retrieve::AssistFailure;

/// Significance level of the statistical tests: a result is significant if its p-value is below
/// this level.
pub const LEVEL: f64 = 0.05;

/// The answer itself, without the plan and data that it was computed from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is a number.
    Number {
        /// The number; always finite.
        value: f64,
        /// Unit of the number; `None` if the number has none.
        unit: Option<String>,
    },
    /// The requested names; names that tie with the last one are included.
    Names {
        /// The names, in the order of the result.
        names: Vec<String>,
        /// The number or date that belongs to the first name.
        value: SqlValue,
        /// Unit of `value`; `None` if it has none.
        unit: Option<String>,
    },
    /// The answer is yes (true) or no (false).
    Truth(bool),
    /// The answer is the rows of [`Answered::result`].
    Table,
}

/// Number of rows that are left out of the answer for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Number of rows left out.
    pub rows: usize,
    /// Why these rows are left out, in words.
    pub why: String,
}

/// An answer, with the plan, table, SQL and test that it was computed from.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The kind of the question.
    pub kind: Kind,
    /// The answer.
    pub outcome: Outcome,
    /// The answer in a sentence.
    pub told: String,
    /// How the rows were found: one line for each condition, metapath or field.
    pub path: Vec<String>,
    /// The plan as a JSON document; [`Analyst::run_plan`](crate::Analyst::run_plan) runs it again.
    pub plan: serde_json::Value,
    /// The rows that satisfy the plan's filters, by ascending node id. `None` if the plan has no
    /// filters or makes an assumption.
    pub counted: Option<Vec<NodeId>>,
    /// The SQL statements, in the order in which they ran.
    pub sql: Vec<String>,
    /// The result of the statistical test; `None` if none was computed.
    pub statistic: Option<TestResult>,
    /// The rows that the computation returned; for a statistical test, one row with its numbers.
    pub result: Rows,
    /// Name of the type of the table's rows.
    pub row_type: String,
    /// The table that the SQL statements or the test read.
    pub table: Table,
    /// Numbers of rows that are left out of the answer, one entry for each reason.
    pub left_out: Vec<LeftOut>,
    /// Assumptions made in reading the question, one sentence each.
    pub assumed: Vec<String>,
    /// Why the rules answered instead of a language model; `None` if no model was requested, or if
    /// the model answered.
    pub unassisted: Option<AssistFailure>,
}

impl Answered {
    /// Returns the indexes of all rows of the table: first the rows in `counted`, then the other
    /// rows.
    pub fn row_order(&self) -> Vec<usize> {
        let is_counted = |at: &usize| match (&self.counted, self.table.rows.get(*at)) {
            (Some(counted), Some(node)) => counted.binary_search(node).is_ok(),
            _ => true,
        };
        let mut order: Vec<usize> = (0..self.table.rows.len()).collect();
        order.sort_by_cached_key(|at| !is_counted(at));
        order
    }

    /// Converts the answer to a value: a number with its unit, a truth value, a text (one name) or
    /// a table.
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

/// Converts names to a value: one name to a text, any other number of names to a table with the
/// column `name`.
pub(crate) fn value_of_names(names: &[String]) -> AnswerValue {
    match names {
        [name] => AnswerValue::from(Cell::from(name.as_str())),
        names => {
            let rows = names.iter().map(|name| vec![Cell::from(name.as_str())]).collect();
            table_of(vec!["name".to_owned()], rows)
        }
    }
}

/// Converts columns and rows to a table value; returns an empty value if the table is too large.
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

/// Formats a number for people. The maximum number of decimal places depends on the absolute value:
/// 2 from 100 on, 8 below 0.001, 4 between; whole numbers below 1e15 have none.
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

/// Formats one value of a result for people; null becomes `-`.
pub fn shown_value(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => "-".to_owned(),
        SqlValue::Int(number) => number.to_string(),
        SqlValue::Real(number) => shown(*number),
        SqlValue::Text(text) => text.clone(),
    }
}
