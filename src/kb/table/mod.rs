//! Tables of nodes: typed columns with a source for every cell, SQL over them, and statistics.
//!
//! A table has one row per node. A column comes from a field, from the names of the nodes at the
//! ends of a metapath, or from the number of these nodes. [`read`] makes columns and normalises
//! values: numbers without thousands separators and with their unit, years, dates, categories in
//! one spelling. [`Database`] holds tables in memory for read-only SQL within limits;
//! [`statistics`] tests columns.
//!
//! # Limits
//!
//! | limit | unit | value | reason |
//! | --- | --- | --- | --- |
//! | [`MAX_ROWS`] | rows of a table | 1,000,000 | four such columns fit into [`MAX_BYTES`] |
//! | [`MAX_COLUMNS`] | columns of a table | 16 | a question names only a few |
//! | [`MAX_VALUES`] | values of one cell | 100,000 | names that a metapath leads to |
//! | [`MAX_HEAP`] | heap of a statement | 32 MiB | sorting that much takes a quarter of a second |
//! | [`MAX_NUMBERS`] | numbers that functions keep | 2,000,000 | two per row of the largest table |
//! | [`MAX_BYTES`] | columns of a table | 96 MiB | a cell is 24 bytes, a name in it 40 |
//! | [`MAX_TIME`] | processor time for building a table | 4 s | limits the wait for an answer |

mod budget;
mod calendar;
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

pub use budget::{Budget, MAX_BYTES, MAX_TIME};
pub use columns::{
    ColumnError, MAX_STEPS, Sample, field_kind, has_value, of_texts, reached, reached_from, read,
    read_named, sample, sampled,
};
pub use database::{Database, Limits, Rows, SqlError, SqlValue, quoted};
pub use literals::with_literals;
pub use watch::{MAX_HEAP, MAX_NUMBERS};

use crate::{FieldId, Kb, MetapathStep, NodeId, TypeId, metapath_in_words};

/// Maximum number of rows of a table.
pub const MAX_ROWS: usize = 1_000_000;
/// Maximum number of columns of a table.
pub const MAX_COLUMNS: usize = 16;
/// Maximum number of values in one cell; of a field with more values, the later ones are dropped.
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
    /// The number of nodes at the ends of a metapath; zero if there are none.
    Count(Vec<MetapathStep>),
    /// The number of nodes at the ends of a metapath that satisfy further conditions.
    CountAmong {
        /// The metapath; not empty.
        steps: Vec<MetapathStep>,
        /// Sets of nodes; only nodes that are in all of these sets are counted.
        among: Vec<Reachable>,
    },
    /// A field of the nodes at the ends of a metapath. If there are several such nodes, the cell
    /// holds the categories of all of them.
    FieldOf {
        /// The metapath; not empty.
        steps: Vec<MetapathStep>,
        /// The field that is read.
        field: FieldId,
    },
}

/// A set of nodes: those at the ends of a metapath from at least one of the start nodes; without
/// steps, the start nodes themselves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reachable {
    /// The start nodes of the metapath.
    pub nodes: Vec<NodeId>,
    /// The metapath.
    pub steps: Vec<MetapathStep>,
    /// Name of the start nodes for people.
    pub name: String,
}

/// Returns the nodes that are in all of these sets, ascending; `None` if there are no sets. Start
/// nodes that do not exist are skipped.
///
/// # Errors
/// [`ColumnError::Time`].
pub fn fulfilling(
    kb: &Kb,
    conditions: &[Reachable],
    budget: &Budget,
) -> Result<Option<Vec<NodeId>>, ColumnError> {
    let mut all: Option<Vec<NodeId>> = None;
    for condition in conditions {
        let Reachable { nodes, steps, name } = condition;
        let own = reached_from(kb, nodes, steps, (budget, name))?;
        match &mut all {
            Some(all) => all.retain(|node| own.binary_search(node).is_ok()),
            None => all = Some(own),
        }
    }
    Ok(all)
}

impl ColumnSpec {
    /// Describes the source of the cells, such as `field price` or `product -has_brand-> brand`;
    /// `rows` is the type of the rows' nodes.
    pub fn source(&self, kb: &Kb, rows: TypeId) -> String {
        let path = || metapath_in_words(kb, rows, self.steps().iter().copied());
        match self {
            Self::Name => "name".to_owned(),
            Self::Field(field) => format!("field {}", kb.field_name(*field)),
            Self::Names(_) => path(),
            Self::Count(_) => format!("number of {}", path()),
            Self::CountAmong { among, .. } => {
                let names: Vec<String> =
                    among.iter().map(|one| format!("{:?}", one.name)).collect();
                format!("number of {}, those of {}", path(), names.join(" and "))
            }
            Self::FieldOf { field, .. } => format!("{} of {}", kb.field_name(*field), path()),
        }
    }

    /// Returns the steps of the metapath; none for a name or a field of the row's node.
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

/// Kind of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Numbers that all have the same unit, or none.
    Number,
    /// Years, as whole numbers.
    Year,
    /// Dates, written year-month-day, such as `2020-03-31`.
    Date,
    /// One value in each cell, and few distinct values in the column.
    Category,
    /// Several values in a cell, and few distinct values in the column.
    Categories,
    /// Texts of any other kind.
    Text,
}

impl ColumnKind {
    /// Returns the name of the kind, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Year => "year",
            Self::Date => "date",
            Self::Category => "category",
            Self::Categories => "several categories",
            Self::Text => "text",
        }
    }

    /// Whether the cells are numbers that can be computed with.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Number | Self::Year)
    }

    /// Whether rows can be grouped by cells of this kind: true for years and categories.
    pub fn groups(self) -> bool {
        matches!(self, Self::Category | Self::Categories | Self::Year)
    }
}

/// One of several values in a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedValue {
    /// Identity of the value: a node, or the value in its normal form.
    pub key: Key,
    /// The value as it is displayed.
    pub name: Arc<str>,
}

/// Identity of a value; different spellings of one value have the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The node whose name is the value.
    Node(NodeId),
    /// The value in its normal form; see [`value::category`].
    Value(Arc<str>),
}

/// One cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value, or no value that fits the kind of the column.
    Empty,
    /// A finite number.
    Number(f64),
    /// A text; a category is written in the commonest spelling of its value.
    Text(Arc<str>),
    /// One or more values, of a column whose cells may hold several.
    Many(Arc<[NamedValue]>),
}

impl Cell {
    /// Returns the number in the cell; `None` if the cell holds no number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// Whether the cell has no value.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

/// One column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name in SQL: lower case letters, digits and underscores, beginning with a letter.
    pub name: String,
    /// Kind of the values in the cells.
    pub kind: ColumnKind,
    /// Unit of the numbers in the cells; `None` if they have none.
    pub unit: Option<String>,
    /// Source of the cells, in words; see [`ColumnSpec::source`].
    pub source: String,
    /// The cells, one for each row, in the order of the rows.
    pub cells: Vec<Cell>,
    /// Number of cells that are empty because their text does not fit the kind of the column.
    pub unfit: usize,
}

impl Column {
    /// Returns the number of cells without a value.
    pub fn n_empty(&self) -> usize {
        self.cells.iter().filter(|cell| cell.is_empty()).count()
    }
}

/// A table: one row per node.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The node of each row, ascending.
    pub rows: Vec<NodeId>,
    /// The columns; each has one cell for each row.
    pub columns: Vec<Column>,
}

impl Table {
    /// Returns the column with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Adds a column, whose cells must belong to the rows of this table. If its name is taken, the
    /// column is renamed, such as from `price` to `price_2`.
    pub fn add(&mut self, mut column: Column) {
        let plain = column.name.clone();
        let mut n = 2;
        while self.column(&column.name).is_some() || column.name == "id" {
            column.name = format!("{plain}_{n}");
            n += 1;
        }
        self.columns.push(column);
    }

    /// Keeps the rows for which `keep` returns `true`, given the row's position (from 0).
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

/// Converts a name to an SQL column name, such as `Release date` to `release_date`: lower case, and
/// an underscore for each run of characters other than letters and digits. The result is never
/// empty and always begins with a letter.
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
