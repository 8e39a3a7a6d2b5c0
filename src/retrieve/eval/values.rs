//! Metrics of answers that are single values or tables.
//!
//! | metric | labels with the metric | value |
//! | --- | --- | --- |
//! | exact | all | 1 if the answer equals the label, else 0. Numbers may differ by a millionth of the larger, texts by case and spaces, tables by the order of rows; units must be equal |
//! | numeric | numbers | 1 if the answer is a number of the same unit with a relative error of at most 5 %, else 0 (relaxed accuracy: Methani et al., *PlotQA*, WACV 2020) |
//! | table F1 | tables | harmonic mean of the precision and recall of rows; repeated rows count as often as they occur |
//!
//! Columns of a table are matched by name, in any order; columns that the label lacks are ignored.
//! A label without a unit matches any unit. A missing answer, or an answer of another kind, counts
//! 0.

use std::collections::HashMap;

use serde::Serialize;

use crate::eval::{
    evaluation::EvalError,
    statistics::{Interval, bootstrap_interval},
};
use agent_kb::answer::{AnswerValue, Cell, Single, Table};

/// Maximum relative error of the metric `numeric`.
pub const TOLERANCE: f64 = 0.05;
/// Maximum relative difference of equal numbers; it absorbs the rounding of sums in another order.
const EQUALITY_TOLERANCE: f64 = 1e-6;

/// Metrics of the answer to one query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueResult {
    /// The query's id in its dataset.
    pub query_id: i64,
    /// 1 if the answer equals the label, else 0.
    pub exact: f64,
    /// 1 if the number is within [`TOLERANCE`] of the label, else 0; `None` if the label is not a
    /// number.
    pub numeric: Option<f64>,
    /// F1 of the rows, in `0..=1`; `None` if the label is not a table.
    pub table_f1: Option<f64>,
}

/// The mean of one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValueMean {
    /// Number of queries to whose labels the metric applies.
    pub n: usize,
    /// Mean over these queries, in `0..=1`.
    pub mean: f64,
    /// 95 % bootstrap interval of the mean.
    pub ci95: Interval,
}

/// The summary of one system on one set of queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValueEvaluation {
    /// Mean of `exact` over all queries.
    pub exact: ValueMean,
    /// Mean of `numeric` over the queries whose labels are numbers; `None` if there are none.
    pub numeric: Option<ValueMean>,
    /// Mean of the table F1 over the queries whose labels are tables; `None` if there are none.
    pub table_f1: Option<ValueMean>,
}

impl ValueResult {
    /// Compares an answer with the label `right`; `given` is `None` for a failed query.
    pub fn new(query_id: i64, given: Option<&AnswerValue>, right: &AnswerValue) -> Self {
        let exact = f64::from(given.is_some_and(|given| is_same(given, right)));
        let (mut numeric, mut table_f1) = (None, None);
        match right {
            AnswerValue::Single(Single { value: Cell::Number(right), unit }) => {
                let near = match given {
                    Some(AnswerValue::Single(Single {
                        value: Cell::Number(given),
                        unit: other,
                    })) => {
                        unit_matches(unit.as_deref(), other.as_deref())
                            && (given - right).abs() <= TOLERANCE * right.abs()
                    }
                    _ => false,
                };
                numeric = Some(f64::from(near));
            }
            AnswerValue::Table(right) => {
                table_f1 = Some(match given {
                    Some(AnswerValue::Table(given)) => rows_f1(given, right),
                    _ => 0.0,
                });
            }
            AnswerValue::Single(_) | AnswerValue::Nodes { .. } => {}
        }
        Self { query_id, exact, numeric, table_f1 }
    }

    /// Returns the F1 of the rows if the label is a table, else `exact`; in `0..=1`.
    pub fn score(&self) -> f64 {
        self.table_f1.unwrap_or(self.exact)
    }
}

/// Whether two numbers are equal up to rounding.
pub fn is_same_number(one: f64, other: f64) -> bool {
    (one - other).abs() <= EQUALITY_TOLERANCE * one.abs().max(other.abs())
}

impl ValueEvaluation {
    /// Summarises results in any order; `seed` seeds the bootstrap.
    ///
    /// # Errors
    /// [`EvalError::NoQueries`]; [`EvalError::Statistics`] if a metric is not finite.
    pub fn from_results(results: &[ValueResult], seed: u64) -> Result<Self, EvalError> {
        let mut sorted: Vec<&ValueResult> = results.iter().collect();
        sorted.sort_by_key(|result| result.query_id);
        let mean = |value: &dyn Fn(&ValueResult) -> Option<f64>| {
            let values: Vec<f64> = sorted.iter().filter_map(|result| value(result)).collect();
            if values.is_empty() {
                return Ok(None);
            }
            let n = values.len();
            let ci95 = bootstrap_interval(&values, seed)
                .map_err(|source| EvalError::Statistics { quantity: "values", source })?;
            Ok(Some(ValueMean { n, mean: values.iter().sum::<f64>() / n as f64, ci95 }))
        };
        Ok(Self {
            exact: mean(&|result| Some(result.exact))?.ok_or(EvalError::NoQueries)?,
            numeric: mean(&|result| result.numeric)?,
            table_f1: mean(&|result| result.table_f1)?,
        })
    }
}

fn is_same(given: &AnswerValue, right: &AnswerValue) -> bool {
    match (given, right) {
        (AnswerValue::Single(given), AnswerValue::Single(right)) => {
            is_same_cell(&given.value, &right.value)
                && unit_matches(right.unit.as_deref(), given.unit.as_deref())
        }
        (AnswerValue::Table(given), AnswerValue::Table(right)) => rows_f1(given, right) >= 1.0,
        (given, right) => given == right,
    }
}

fn is_same_cell(one: &Cell, other: &Cell) -> bool {
    match (one, other) {
        (Cell::Number(one), Cell::Number(other)) => is_same_number(*one, *other),
        (one, other) => key(one) == key(other),
    }
}

/// Whether the answer's unit matches the label's; any unit matches a label without a unit.
fn unit_matches(right: Option<&str>, given: Option<&str>) -> bool {
    right.is_none_or(|right| given.is_some_and(|given| folded(given) == folded(right)))
}

/// Returns the F1 of the rows of a table against the label `right`; 1 if both are empty.
fn rows_f1(given: &Table, right: &Table) -> f64 {
    let n_rows = given.rows().len() + right.rows().len();
    if n_rows == 0 {
        return 1.0;
    }
    let position =
        |name: &String| given.columns().iter().position(|column| folded(column) == folded(name));
    let Some(positions) = right.columns().iter().map(position).collect::<Option<Vec<usize>>>()
    else {
        return 0.0;
    };
    // Unmatched label rows by key; numbers are compared within a key.
    let mut open: HashMap<Vec<Key>, Vec<Vec<Cell>>> = HashMap::new();
    for row in right.rows() {
        open.entry(row.iter().map(key).collect()).or_default().push(row.clone());
    }
    let mut n_right = 0;
    for row in given.rows() {
        let cells: Vec<Cell> =
            positions.iter().map(|&column| row.get(column).cloned().unwrap_or_default()).collect();
        let Some(left) = open.get_mut(&cells.iter().map(key).collect::<Vec<_>>()) else { continue };
        let same = |known: &Vec<Cell>| known.iter().zip(&cells).all(|(a, b)| is_same_cell(a, b));
        if let Some(index) = left.iter().position(same) {
            left.swap_remove(index);
            n_right += 1;
        }
    }
    2.0 * f64::from(n_right) / n_rows as f64
}

/// Normalised cell for hashing: equal cells have equal keys. All numbers share one key, since
/// nearly equal numbers count as equal.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Empty,
    Bool(bool),
    Number,
    Text(String),
}

fn key(cell: &Cell) -> Key {
    match cell {
        Cell::Empty => Key::Empty,
        Cell::Bool(truth) => Key::Bool(*truth),
        Cell::Number(_) => Key::Number,
        Cell::Text(text) => Key::Text(folded(text)),
    }
}

/// Converts a text to lower case with single spaces.
fn folded(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> AnswerValue {
        AnswerValue::read(text).unwrap()
    }

    #[track_caller]
    fn scores(given: &str, right: &str, expected: (f64, Option<f64>, Option<f64>)) {
        let result = ValueResult::new(1, Some(&read(given)), &read(right));
        assert_eq!((result.exact, result.numeric, result.table_f1), expected, "{given} {right}");
    }

    #[test]
    fn single_values_are_compared_as_by_hand() {
        scores("4.0", "4", (1.0, Some(1.0), None));
        scores("0.30000000000000004", "0.3", (1.0, Some(1.0), None));
        scores("1000000.9", "1000000", (1.0, Some(1.0), None));
        scores("1000002", "1000000", (0.0, Some(1.0), None));
        scores("104", "100", (0.0, Some(1.0), None));
        scores("106", "100", (0.0, Some(0.0), None));
        scores("0.001", "0", (0.0, Some(0.0), None));
        scores("four", "4", (0.0, Some(0.0), None));
        scores("north  PEAK", "North Peak", (1.0, None, None));
        scores("true", "true", (1.0, None, None));
        scores(
            r#"{"value": 4, "unit": "KG"}"#,
            r#"{"value": 4, "unit": "kg"}"#,
            (1.0, Some(1.0), None),
        );
        scores(
            r#"{"value": 4, "unit": "g"}"#,
            r#"{"value": 4, "unit": "kg"}"#,
            (0.0, Some(0.0), None),
        );
        scores("4", r#"{"value": 4, "unit": "kg"}"#, (0.0, Some(0.0), None));
        scores(r#"{"value": 4, "unit": "kg"}"#, "4", (1.0, Some(1.0), None));
        scores(r#"{"nodes": [[4, 1.0]]}"#, "4", (0.0, Some(0.0), None));
        let failed = ValueResult::new(1, None, &read("4"));
        assert_eq!((failed.exact, failed.numeric), (0.0, Some(0.0)));
    }

    #[test]
    fn tables_are_sets_of_rows_by_column() {
        let right =
            r#"{"columns": ["brand", "mean"], "rows": [["Umbra", 4.5], ["Lark", 4], ["Lark", 4]]}"#;
        let turned = r#"{"columns": ["Mean", "n", "Brand"], "rows": [[4, 9, "lark"], [4, 9, "lark"], [4.5, 2, "umbra"]]}"#;
        scores(turned, right, (1.0, None, Some(1.0)));
        // Two of three are given, one of them once too often.
        let part = r#"{"columns": ["brand", "mean"], "rows": [["Umbra", 4.5], ["Umbra", 4.5], ["Lark", 4]]}"#;
        scores(part, right, (0.0, None, Some(4.0 / 6.0)));
        scores(r#"{"columns": ["brand"], "rows": [["Umbra"]]}"#, right, (0.0, None, Some(0.0)));
        scores("4", right, (0.0, None, Some(0.0)));
        let none = r#"{"columns": ["brand"], "rows": []}"#;
        scores(none, none, (1.0, None, Some(1.0)));
    }

    #[test]
    fn means_are_of_the_labels_that_have_the_metric() {
        let table = r#"{"columns": ["a"], "rows": [[1]]}"#;
        let results = [("4", "4"), ("104", "100"), ("x", "y"), (table, table)];
        let results: Vec<ValueResult> = (0..)
            .zip(results)
            .map(|(id, (given, right))| ValueResult::new(id, Some(&read(given)), &read(right)))
            .collect();
        let sums = ValueEvaluation::from_results(&results, 0).unwrap();
        assert_eq!((sums.exact.n, sums.exact.mean), (4, 0.5));
        assert_eq!(sums.numeric.map(|one| (one.n, one.mean)), Some((2, 1.0)));
        assert_eq!(sums.table_f1.map(|one| (one.n, one.mean)), Some((1, 1.0)));
        let texts = ValueEvaluation::from_results(&results[2..3], 0).unwrap();
        assert_eq!((texts.numeric, texts.table_f1), (None, None));
        assert_eq!(ValueEvaluation::from_results(&[], 0), Err(EvalError::NoQueries));
    }
}
