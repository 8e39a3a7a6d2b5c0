//! Tables of nodes: typed columns with a source for every cell, SQL over them, and statistics.
//!
//! A table has one row per node. Its columns come from fields, from the names at the ends of
//! metapaths, or from their counts. [`read`] makes columns and normalises values: numbers without
//! thousands separators and with their unit, years, dates, categories in one spelling. [`Database`]
//! holds tables in memory for read-only SQL within limits; [`statistics`] tests columns.
//!
//! # Limits
//!
//! | limit | unit | value | reason |
//! | --- | --- | --- | --- |
//! | [`MAX_ROWS`] | rows of a table | 1,000,000 | a cell is 24 bytes, plus its copy in SQLite |
//! | [`MAX_COLUMNS`] | columns of a table | 16 | a question names a few |
//! | [`MAX_VALUES`] | values of one cell | 100,000 | names that a metapath leads to |
//! | [`MAX_NAMED`] | names of one column | 10,000,000 | a name is 40 bytes, beside its text |

mod columns;
mod database;
pub mod dates;
mod functions;
mod literals;
pub mod statistics;
#[cfg(test)]
mod tests;
mod texts;
pub mod value;
mod watch;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use columns::{
    MAX_STEPS, Sample, TooManyNames, field_kind, has_value, of_texts, reached, read, read_named,
    sample,
};
pub use database::{Database, Limits, Rows, SqlError, SqlValue, quoted};
pub use literals::with_literals;

use crate::{FieldId, Kb, MetapathStep, NodeId, TypeId, metapath_in_words};

/// Maximum number of rows of a table.
pub const MAX_ROWS: usize = 1_000_000;
/// Maximum number of columns of a table.
pub const MAX_COLUMNS: usize = 16;
/// Maximum number of names of one column, over all cells.
pub const MAX_NAMED: usize = 10_000_000;
/// Maximum number of values of one cell; further values of a field are dropped.
pub const MAX_VALUES: usize = 100_000;

/// Source of the cells of a column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnSpec {
    /// The name of the row's node.
    Name,
    /// A field of the row's node.
    Field(FieldId),
    /// The names of the nodes at the ends of a metapath.
    Names(Vec<MetapathStep>),
    /// The number of nodes at the ends of a metapath; zero if there is none.
    Count(Vec<MetapathStep>),
    /// The number of nodes at the ends of a metapath that satisfy further conditions.
    CountAmong {
        /// The metapath; not empty.
        steps: Vec<MetapathStep>,
        /// Sets of nodes; a counted node is in all of them.
        among: Vec<Reachable>,
    },
    /// A field of the nodes at the ends of a metapath.
    FieldOf {
        /// The metapath; not empty.
        steps: Vec<MetapathStep>,
        /// The field.
        field: FieldId,
    },
}

/// The nodes at the ends of a metapath from any of the given nodes; without steps, the given nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reachable {
    /// Start nodes of the metapath.
    pub nodes: Vec<NodeId>,
    /// The metapath.
    pub steps: Vec<MetapathStep>,
    /// Display name of the nodes.
    pub name: String,
}

impl Reachable {
    /// The nodes at the ends, ascending, each once; start nodes that do not exist are skipped.
    pub fn nodes(&self, kb: &Kb) -> Vec<NodeId> {
        let known = self.nodes.iter().filter(|node| kb.contains(**node));
        let mut nodes: Vec<NodeId> =
            known.flat_map(|&node| reached(kb, node, &self.steps)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}

/// The nodes that satisfy all conditions, ascending; `None` without conditions.
pub fn fulfilling(kb: &Kb, conditions: &[Reachable]) -> Option<Vec<NodeId>> {
    conditions.iter().map(|condition| condition.nodes(kb)).reduce(|mut all, own| {
        all.retain(|node| own.binary_search(node).is_ok());
        all
    })
}

impl ColumnSpec {
    /// The source in words, such as `field price` or `product -has_brand-> brand`.
    pub fn source(&self, kb: &Kb, rows: TypeId) -> String {
        match self {
            Self::Name => "name".to_owned(),
            Self::Field(field) => format!("field {}", kb.field_name(*field)),
            Self::Names(steps) => metapath_in_words(kb, rows, steps.iter().copied()),
            Self::Count(steps) => {
                format!("number of {}", metapath_in_words(kb, rows, steps.iter().copied()))
            }
            Self::CountAmong { steps, among } => {
                let path = metapath_in_words(kb, rows, steps.iter().copied());
                let names: Vec<String> =
                    among.iter().map(|one| format!("{:?}", one.name)).collect();
                format!("number of {path}, those of {}", names.join(" and "))
            }
            Self::FieldOf { steps, field } => {
                let path = metapath_in_words(kb, rows, steps.iter().copied());
                format!("{} of {path}", kb.field_name(*field))
            }
        }
    }

    /// The metapath, if there is one.
    pub fn steps(&self) -> &[MetapathStep] {
        match self {
            Self::Names(steps)
            | Self::Count(steps)
            | Self::CountAmong { steps, .. }
            | Self::FieldOf { steps, .. } => steps,
            Self::Name | Self::Field(_) => &[],
        }
    }
}

/// Kind of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Numbers of one unit.
    Number,
    /// Years.
    Year,
    /// Dates, written year-month-day.
    Date,
    /// One of a few values.
    Category,
    /// Several of a few values.
    Categories,
    /// Other text.
    Text,
}

impl ColumnKind {
    /// Whether the cells are numbers that can be computed with.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Number | Self::Year)
    }

    /// Whether the cells can group rows.
    pub fn groups(self) -> bool {
        matches!(self, Self::Category | Self::Categories | Self::Year)
    }
}

/// One of several values of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedValue {
    /// Its identity: a node, or the normalised value.
    pub key: Key,
    /// Its display name.
    pub name: Arc<str>,
}

/// Identity of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A node.
    Node(NodeId),
    /// A normalised value.
    Value(Arc<str>),
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value, or none that fits the column.
    Empty,
    /// A finite number.
    Number(f64),
    /// A text, in the representative spelling of its value.
    Text(Arc<str>),
    /// Several values; at least one.
    Many(Arc<[NamedValue]>),
}

impl Cell {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name in SQL: lower case letters, digits and underscores, not a keyword.
    pub name: String,
    /// Kind of its cells.
    pub kind: ColumnKind,
    /// Unit of its numbers, if they have one.
    pub unit: Option<String>,
    /// Source of its cells, in words.
    pub source: String,
    /// One cell for each row.
    pub cells: Vec<Cell>,
    /// Number of cells that are empty because their text does not fit the column.
    pub unfit: usize,
}

impl Column {
    /// Number of cells without a value.
    pub fn n_empty(&self) -> usize {
        self.cells.iter().filter(|cell| cell.is_empty()).count()
    }
}

/// A table: one row per node.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The node of each row, ascending.
    pub rows: Vec<NodeId>,
    /// The columns; each has a cell for each row.
    pub columns: Vec<Column>,
}

impl Table {
    /// The column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Adds a column, renamed if its name is taken.
    pub fn add(&mut self, mut column: Column) {
        let plain = column.name.clone();
        let mut n = 2;
        while self.column(&column.name).is_some() || column.name == "id" {
            column.name = format!("{plain}_{n}");
            n += 1;
        }
        self.columns.push(column);
    }

    /// Source of a cell: the node, and the source of the column.
    pub fn source(&self, row: usize, column: usize) -> Option<(NodeId, &str)> {
        Some((*self.rows.get(row)?, self.columns.get(column)?.source.as_str()))
    }

    /// Keeps the rows that satisfy the predicate, by position.
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let kept: Vec<bool> = (0..self.rows.len()).map(&mut keep).collect();
        let mut flags = kept.iter();
        self.rows.retain(|_| *flags.next().unwrap_or(&false));
        for column in &mut self.columns {
            let mut flags = kept.iter();
            column.cells.retain(|_| *flags.next().unwrap_or(&false));
        }
    }
}

/// Converts a name to an SQL column name: lower case, each run of other characters than letters and
/// digits as one underscore; never empty, never beginning with a digit.
pub fn column_name(name: &str) -> String {
    let mut written = String::new();
    for c in agent_ground::words::fold(name).chars() {
        if c.is_ascii_alphanumeric() {
            written.push(c);
        } else if !written.ends_with('_') && !written.is_empty() {
            written.push('_');
        }
    }
    let written = written.trim_end_matches('_');
    match written.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => written.to_owned(),
        _ => format!("c_{written}"),
    }
}
