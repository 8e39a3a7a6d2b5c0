//! The value of an answer: ranked nodes, a single value, or a table.
//!
//! As JSON an answer is one of
//!
//! ```text
//! {"nodes": [[17, 0.93], [3, 0.4]]}                        node id, score; best first
//! {"value": 4.62, "unit": "stars"}                         the unit may be left out
//! {"columns": ["brand", "mean"], "rows": [["Umbra", 4.41]]}
//! ```
//!
//! and a cell is `null`, `true` or `false`, a finite number, or text.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::NodeId;

/// Maximum number of columns of a table.
pub const MAX_COLUMNS: usize = 100;
/// Maximum number of rows of a table.
pub const MAX_ROWS: usize = 10_000;
/// Maximum size in bytes of a cell's text, a column's name and a unit.
pub const MAX_CELL_BYTES: usize = 64 << 10;
/// Whole numbers up to this absolute value, 2^53, are exact; they are written without a fraction.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The value of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AnswerValue {
    /// Nodes that answer the question, ranked.
    Nodes {
        /// Pairs (node id, score), best first: by descending score, ties by ascending id; each node
        /// once.
        nodes: Vec<(NodeId, f32)>,
    },
    /// One value, such as a count or a name, with its unit.
    Single(Single),
    /// A table of values, with named columns.
    Table(Table),
}

/// A single value, such as 4.62 stars.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Single {
    /// The value that answers the question.
    pub value: Cell,
    /// Unit of the value, such as `kg`; `None` for a plain number or a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A table of cells; every row has one cell for each column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Parts")]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One value of a table, or a single value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a cell is null, a truth value, a number or text")]
pub enum Cell {
    /// No value.
    #[default]
    Empty,
    /// A truth value.
    Bool(bool),
    /// A finite number.
    Number(#[serde(serialize_with = "write_number")] f64),
    /// Text.
    Text(String),
}

/// Why an answer is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A row has fewer or more cells than there are columns.
    #[error("row {row} of the table has {found} cells; expected {columns}, one per column")]
    Ragged {
        /// Number of the row in the table, from 1.
        row: usize,
        /// Number of cells in the row.
        found: usize,
        /// Number of columns of the table.
        columns: usize,
    },
    /// A table has too many rows or columns.
    #[error("the table has {found} {what}, more than {limit}; ask for fewer")]
    TooMany {
        /// `rows` or `columns`.
        what: &'static str,
        /// Number of rows or columns in the table.
        found: usize,
        /// Maximum number of rows or columns.
        limit: usize,
    },
    /// Two columns of a table have the same name; holds this name.
    #[error("two columns of the table are called {0:?}; give them different names")]
    SameColumn(String),
    /// A text is too long; holds its size in bytes.
    #[error("a text of the answer has {0} bytes, more than {MAX_CELL_BYTES}")]
    LongText(usize),
    /// A number is infinite or not a number.
    #[error("an answer contains a number that is not finite; leave the cell empty")]
    NotFinite,
    /// The text has none of the forms of an answer; holds the beginning of the text.
    #[error(
        "{0:?} is not an answer; write a number, a text, {{\"value\": 3, \"unit\": \"kg\"}} or \
         {{\"columns\": [...], \"rows\": [[...]]}}"
    )]
    Unreadable(String),
}

impl AnswerValue {
    /// Creates an answer of ranked nodes.
    pub fn nodes(nodes: Vec<(NodeId, f32)>) -> Self {
        Self::Nodes { nodes }
    }

    /// Returns the ranked nodes; `None` if the answer is not nodes.
    pub fn as_nodes(&self) -> Option<&[(NodeId, f32)]> {
        match self {
            Self::Nodes { nodes } => Some(nodes),
            _ => None,
        }
    }

    /// Reads a labelled answer, for example from a file. A text that begins with `{` is read as
    /// JSON, `"..."` as the quoted text and a number as a single number; any other text is the
    /// answer itself.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn read(text: &str) -> Result<Self, ValueError> {
        let text = text.trim();
        let unreadable = |_| ValueError::Unreadable(text.chars().take(100).collect());
        let value = match text.chars().next() {
            Some('{') => serde_json::from_str(text).map_err(unreadable)?,
            Some('"') => Self::from(serde_json::from_str::<Cell>(text).map_err(unreadable)?),
            _ => Self::from(Cell::read(text)),
        };
        value.check()?;
        Ok(value)
    }

    /// Checks the answer against the limits of this module.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn check(&self) -> Result<(), ValueError> {
        match self {
            Self::Nodes { nodes } => match nodes.iter().all(|pair| pair.1.is_finite()) {
                true => Ok(()),
                false => Err(ValueError::NotFinite),
            },
            Self::Single(Single { value, unit }) => {
                value.check()?;
                check_text(unit.as_deref().unwrap_or_default())
            }
            Self::Table(table) => table.check(),
        }
    }
}

impl Default for AnswerValue {
    /// Returns an answer of ranked nodes, without any node.
    fn default() -> Self {
        Self::nodes(Vec::new())
    }
}

impl From<Cell> for AnswerValue {
    fn from(value: Cell) -> Self {
        Self::Single(Single { value, unit: None })
    }
}

impl Table {
    /// Creates a table.
    ///
    /// # Errors
    /// [`ValueError`] if the length of a row differs from the number of columns, two columns have
    /// the same name, or a limit of this module is exceeded.
    pub fn new(columns: Vec<String>, rows: Vec<Vec<Cell>>) -> Result<Self, ValueError> {
        let table = Self { columns, rows };
        table.check()?;
        Ok(table)
    }

    /// Returns the names of the columns, in order.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the rows, in order; each has one cell for each column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    fn check(&self) -> Result<(), ValueError> {
        for (what, found, limit) in
            [("columns", self.columns.len(), MAX_COLUMNS), ("rows", self.rows.len(), MAX_ROWS)]
        {
            if found > limit {
                return Err(ValueError::TooMany { what, found, limit });
            }
        }
        for (at, name) in self.columns.iter().enumerate() {
            check_text(name)?;
            if self.columns.iter().take(at).any(|other| other == name) {
                return Err(ValueError::SameColumn(name.clone()));
            }
        }
        for (at, row) in self.rows.iter().enumerate() {
            if row.len() != self.columns.len() {
                let (row, found, columns) = (at + 1, row.len(), self.columns.len());
                return Err(ValueError::Ragged { row, found, columns });
            }
            row.iter().try_for_each(Cell::check)?;
        }
        Ok(())
    }
}

/// A table as read from JSON, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parts {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl TryFrom<Parts> for Table {
    type Error = ValueError;

    fn try_from(Parts { columns, rows }: Parts) -> Result<Self, ValueError> {
        Self::new(columns, rows)
    }
}

fn check_text(text: &str) -> Result<(), ValueError> {
    match text.len() {
        n if n > MAX_CELL_BYTES => Err(ValueError::LongText(n)),
        _ => Ok(()),
    }
}

impl Cell {
    /// Reads a cell: a number if the text is a finite number, empty if the text is empty, otherwise
    /// the text.
    pub fn read(text: &str) -> Self {
        match text.parse::<f64>() {
            _ if text.is_empty() => Self::Empty,
            Ok(number) if number.is_finite() => Self::Number(number),
            _ => Self::Text(text.to_owned()),
        }
    }

    /// Whether the cell has no value.
    pub fn is_empty(&self) -> bool {
        *self == Self::Empty
    }

    /// Returns the number in the cell; `None` if the cell holds no number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text in the cell; `None` if the cell holds no text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn check(&self) -> Result<(), ValueError> {
        match self {
            Self::Number(number) if !number.is_finite() => Err(ValueError::NotFinite),
            Self::Text(text) => check_text(text),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Cell {
    /// Writes the cell for people: `-` if it is empty, numbers with at most four decimal places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("-"),
            Self::Bool(truth) => truth.fmt(f),
            Self::Number(number) if number.fract() == 0.0 => write!(f, "{number:.0}"),
            Self::Number(number) => write!(f, "{number:.4}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Writes a number; a whole number that is exact has no fraction.
fn write_number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match number.fract() == 0.0 && number.abs() <= MAX_EXACT {
        true => serializer.serialize_i64(*number as i64),
        false => serializer.serialize_f64(*number),
    }
}

impl From<bool> for Cell {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<f64> for Cell {
    /// Creates a cell with this number; an empty cell if the number is not finite.
    fn from(number: f64) -> Self {
        if number.is_finite() { Self::Number(number) } else { Self::Empty }
    }
}

impl From<f32> for Cell {
    /// Creates a cell with the number that the shortest decimal form of `number` stands for, such
    /// as 0.1 for `0.1_f32`; an empty cell if the number is not finite.
    fn from(number: f32) -> Self {
        number.to_string().parse::<f64>().map_or(Self::Empty, Self::from)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Number(number as f64)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Table {
        let rows = vec![vec!["Umbra".into(), 4.41.into()], vec!["Lark".into(), Cell::Empty]];
        Table::new(vec!["brand".into(), "mean".into()], rows).unwrap()
    }

    #[test]
    fn every_form_is_read_and_written() {
        let single = |value: Cell, unit: Option<&str>| {
            AnswerValue::Single(Single { value, unit: unit.map(str::to_owned) })
        };
        for (text, expected) in [
            ("42", single(42usize.into(), None)),
            (" -4.5e1 ", single((-45.0).into(), None)),
            ("Northpeak", single("Northpeak".into(), None)),
            ("\"42\"", single("42".into(), None)),
            ("nan", single("nan".into(), None)),
            (r#"{"value": 1.5, "unit": "kg"}"#, single(1.5.into(), Some("kg"))),
            (r#"{"value": true}"#, single(true.into(), None)),
            (
                r#"{"columns":["brand","mean"],"rows":[["Umbra",4.41],["Lark",null]]}"#,
                AnswerValue::Table(table()),
            ),
            (
                r#"{"nodes": [[17, 0.5], [3, 0.25]]}"#,
                AnswerValue::nodes(vec![(17, 0.5), (3, 0.25)]),
            ),
        ] {
            let read = AnswerValue::read(text).unwrap();
            assert_eq!(read, expected, "{text}");
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(AnswerValue::read(&written).unwrap(), expected, "{written}");
        }
        let written = serde_json::to_value(single(42usize.into(), None)).unwrap();
        assert_eq!(written, json!({"value": 42}), "a whole number has no fraction");
        assert_eq!(Cell::from(0.1f32), Cell::Number(0.1));
        assert_eq!(Cell::from(f32::NAN), Cell::Empty);
    }

    #[test]
    fn what_is_no_answer_is_refused_with_its_reason() {
        for text in [
            "{",
            "\"open",
            "{}",
            r#"{"value": [1]}"#,
            r#"{"value": 1, "units": "kg"}"#,
            r#"{"columns": ["a"], "rows": [[1, 2]]}"#,
            r#"{"columns": ["a", "a"], "rows": []}"#,
        ] {
            let error = AnswerValue::read(text).unwrap_err();
            assert!(matches!(error, ValueError::Unreadable(_)), "{text}: {error}");
        }
        let ragged = Table::new(vec!["a".into()], vec![vec![1usize.into()], vec![]]).unwrap_err();
        assert_eq!(
            ragged.to_string(),
            "row 2 of the table has 0 cells; expected 1, one per column"
        );
        let many = Table::new(vec!["a".into()], vec![vec![Cell::Empty]; MAX_ROWS + 1]).unwrap_err();
        assert!(many.to_string().contains("10001 rows, more than 10000"), "{many}");
        let long = AnswerValue::read(&"x".repeat(MAX_CELL_BYTES + 1)).unwrap_err();
        assert_eq!(long, ValueError::LongText(MAX_CELL_BYTES + 1));
        let infinite = AnswerValue::from(Cell::Number(f64::INFINITY));
        assert_eq!(infinite.check(), Err(ValueError::NotFinite));
    }
}
