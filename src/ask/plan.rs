//! The plan of a question about many nodes: the rows and columns of a table, and the computation
//! over the table. Every answer includes its plan as a JSON document (module `document`), which can
//! be edited and run again.
//!
//! Does not read the words of questions or write SQL.

mod document;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::{
    kind::Kind,
    lexicon::{Bound, Function},
};
use agent_kb::{MetapathStep, NodeId, TypeId, distinct, table::ColumnSpec};

/// Maximum number of first rows or groups that a plan may request.
pub(crate) const MAX_TOP: usize = 10_000;

/// The plan of a question: the rows, the columns, and the computation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The kind of the question.
    pub kind: Kind,
    /// Type of the rows.
    pub rows: TypeId,
    /// Conditions on the row's node itself or on its links; a row must satisfy all of them.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Tests on a row's cells; a row is counted only if it passes all of them.
    #[serde(default)]
    pub filters: Vec<Test>,
    /// The columns of the table, without duplicates. Column indexes in tests, operations and
    /// changes are positions in this list.
    #[serde(default)]
    pub columns: Vec<ColumnSpec>,
    /// Further columns, whose cells a language model reads from documents; their indexes follow the
    /// indexes of `columns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<TextColumn>,
    /// The computation over the rows.
    pub operation: Operation,
    /// An assumption, if the question makes one; the computation is then repeated under the
    /// assumption.
    #[serde(default)]
    pub supposed: Option<Change>,
    /// Whether the question asks if values are equal, so that the answer is no if they differ.
    #[serde(default)]
    pub asks_same: bool,
    /// Whether the question asks if the first of two samples varies more (true) or less (false)
    /// than the second; `None` if it asks neither.
    #[serde(default)]
    pub asks_more: Option<bool>,
    /// Assumptions made in reading the question, one sentence each.
    #[serde(skip)]
    pub assumed: Vec<String>,
}

/// A column whose cells a language model reads from the documents of the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextColumn {
    /// Name of the column.
    pub name: String,
    /// What the cells hold, described for the language model.
    pub description: String,
}

/// A condition on rows: the row's node must be at the end of a metapath from one of the given
/// nodes. If the metapath has no steps, it must be one of these nodes.
pub(crate) use agent_kb::table::Reachable as Condition;

/// A test that a row passes or fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Test {
    /// Compares the cell's number with a number; in a column of dates, compares the year.
    Number {
        /// Index of the column.
        column: usize,
        /// How the cell is compared.
        bound: Bound,
        /// The number that the cell is compared with.
        number: f64,
        /// For [`Bound::Between`], the other end of the interval.
        to: Option<f64>,
    },
    /// Compares the cell's date with `date`, to the year, month or day, as precisely as `date` is
    /// given. In a column of numbers, `date` is a year.
    Date {
        /// Index of the column.
        column: usize,
        /// How the cell is compared.
        bound: Bound,
        /// The date that the cell is compared with, such as `2020`, `2020-05` or `2020-05-31`; the
        /// cell is cut to the same length.
        date: String,
    },
    /// The cell is this category, or one of the cell's categories is.
    Value {
        /// Index of the column.
        column: usize,
        /// The normalised name of the category.
        key: String,
    },
    /// One of these nodes is among the linked nodes that the cell names.
    Linked {
        /// Index of the column, which holds names of linked nodes.
        column: usize,
        /// Ids of the nodes.
        nodes: Vec<NodeId>,
    },
    /// The row's node is one of these nodes.
    Is(Vec<NodeId>),
    /// The cell has a value.
    Filled {
        /// Index of the column.
        column: usize,
    },
    /// The row does not pass this test; also true if the row has no value to test.
    Not(Box<Test>),
    /// The row passes at least one of these tests.
    Any(Vec<Test>),
}

impl Test {
    /// Returns the tests that this test consists of: the tests within negations and alternatives,
    /// or the test itself.
    fn simple(&self) -> Vec<&Self> {
        match self {
            Self::Not(test) => test.simple(),
            Self::Any(tests) => tests.iter().flat_map(Self::simple).collect(),
            test => vec![test],
        }
    }

    /// Returns the index of the column that a simple test reads.
    fn column(&self) -> Option<usize> {
        match self {
            Self::Number { column, .. }
            | Self::Date { column, .. }
            | Self::Value { column, .. }
            | Self::Linked { column, .. }
            | Self::Filled { column } => Some(*column),
            Self::Is(_) | Self::Not(_) | Self::Any(_) => None,
        }
    }

    /// Returns the indexes of the columns that the test reads; a column may occur several times.
    pub(crate) fn columns(&self) -> Vec<usize> {
        self.simple().into_iter().filter_map(Self::column).collect()
    }

    /// Returns the indexes of the columns that must have a value in a row for the test to be
    /// decided.
    pub(crate) fn valued(&self) -> Vec<usize> {
        let valued = |test: &&Self| {
            matches!(test, Self::Number { .. } | Self::Date { .. } | Self::Value { .. })
        };
        self.simple().into_iter().filter(valued).filter_map(Self::column).collect()
    }
}

impl Plan {
    /// Returns all tests of the plan: the filters, and the tests in the assumption, the subjects
    /// and the share.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &Test> {
        let supposed = self.supposed.iter().flat_map(Change::tests);
        self.filters.iter().chain(supposed).chain(self.operation.tests())
    }

    /// Returns the indexes of the columns that the plan reads, ascending, without duplicates.
    pub(crate) fn used(&self) -> Vec<usize> {
        let mut used = match self.operation {
            Operation::Sql { .. } => (0..self.columns.len() + self.texts.len()).collect(),
            _ => self.operation.columns(),
        };
        used.extend(self.filters.iter().flat_map(Test::columns));
        used.extend(self.supposed.iter().flat_map(Change::columns));
        distinct(used)
    }

    /// Returns the nodes that [`Test::Linked`] tests look for in a column, ascending, without
    /// duplicates; `None` if the column is also read in another way.
    pub(crate) fn looked_for(&self, column: usize) -> Option<Vec<NodeId>> {
        let is_sql = matches!(self.operation, Operation::Sql { .. });
        if is_sql || self.operation.own_columns().contains(&column) {
            return None;
        }
        let mut found = Vec::new();
        for test in self.tests().flat_map(Test::simple) {
            match test {
                Test::Linked { column: own, nodes } if *own == column => found.extend(nodes),
                test if test.column() == Some(column) => return None,
                _ => {}
            }
        }
        Some(distinct(found))
    }
}

impl Operation {
    /// Returns the subjects that the operation compares; empty if it compares none.
    pub(crate) fn subjects(&self) -> &[Subject] {
        match self {
            Self::Compare { subjects, .. } | Self::SpreadAmong { subjects, .. } => subjects,
            _ => &[],
        }
    }

    /// Returns the tests of the subjects and of the share.
    fn tests(&self) -> impl Iterator<Item = &Test> {
        let shared = if let Self::Share(tests) = self { tests.as_slice() } else { &[] };
        self.subjects().iter().map(|subject| &subject.test).chain(shared)
    }

    /// Returns the indexes of the columns that the operation reads other than in its tests; empty
    /// for SQL statements.
    fn own_columns(&self) -> Vec<usize> {
        match self {
            Self::Number(measure) | Self::Compare { measure, .. } => {
                Vec::from_iter(measure.column())
            }
            Self::Groups { group, measure, .. } => {
                measure.column().into_iter().chain([*group]).collect()
            }
            Self::First { column, .. } | Self::Normal(column) | Self::Values(column) => {
                vec![*column]
            }
            Self::Correlate { one, other, .. }
            | Self::Spread(one, other)
            | Self::Relate(one, other) => vec![*one, *other],
            Self::SpreadAmong { measure, group, .. } => {
                [*measure].into_iter().chain(*group).collect()
            }
            Self::Share(_) | Self::List | Self::Exists | Self::Sql { .. } => Vec::new(),
        }
    }

    /// Returns the indexes of the columns that the operation or one of its tests reads; empty for
    /// SQL statements.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = self.own_columns();
        columns.extend(self.tests().flat_map(Test::columns));
        columns
    }
}

/// A number computed over several rows: a function of a column's values, or the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Measure {
    /// The number of rows.
    Rows,
    /// A function of the values in the column with this index.
    Of(Function, usize),
}

impl Measure {
    /// Returns the index of the column that the measure reads; `None` for [`Measure::Rows`].
    pub(crate) fn column(self) -> Option<usize> {
        match self {
            Self::Rows => None,
            Self::Of(_, column) => Some(column),
        }
    }
}

/// The part of a date by which rows are grouped, with its length in bytes at the start of a date
/// such as `2020-05-31`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DatePart {
    /// The year.
    Year = 4,
    /// The year and the month.
    Month = 7,
}

/// A group of rows that is compared with other groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    /// Name of the subject.
    pub name: String,
    /// The test that decides which rows belong to the subject.
    pub test: Test,
}

/// A computation over the rows that satisfy the plan's filters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Operation {
    /// Computes one number over all rows.
    Number(Measure),
    /// The percentage of rows that satisfy all of these tests.
    Share(Vec<Test>),
    /// A number for each group of rows with the same value in a column. The group with the largest
    /// number comes first, unless `first` asks for the smallest.
    Groups {
        /// Index of the column whose values group the rows.
        group: usize,
        /// The part of the date by which rows are grouped, if the column holds dates; `None` for
        /// the whole value.
        #[serde(default)]
        part: Option<DatePart>,
        /// The number that is computed for each group.
        measure: Measure,
        /// Whether the groups with the largest (true) or the smallest (false) numbers are
        /// requested, and how many groups; `None` for all groups.
        first: Option<(bool, usize)>,
    },
    /// The rows with the largest or smallest number or date in a column.
    First {
        /// Index of the column.
        column: usize,
        /// Whether the rows with the largest values (true) or the smallest (false) are requested.
        high: bool,
        /// Number of requested rows.
        top: usize,
    },
    /// Compares subjects by one number for each.
    Compare {
        /// The subjects; at least two.
        subjects: Vec<Subject>,
        /// The number that is computed for each subject.
        measure: Measure,
        /// Whether the subject with the largest number (true) or the smallest (false) is requested.
        high: bool,
        /// Whether the question asks if the first of `subjects` is the requested one, so that the
        /// answer is yes or no.
        yes_no: bool,
        /// Whether the question asks by how much the number of the first of two subjects is larger
        /// (smaller if `high` is false) than that of the second.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_how_much: bool,
    },
    /// Tests whether the numbers of the column with this index are normally distributed.
    Normal(usize),
    /// Tests whether two columns are correlated.
    Correlate {
        /// Index of one column.
        one: usize,
        /// Index of the other column.
        other: usize,
        /// Whether to compute Spearman's rank correlation (true) or Pearson's correlation (false).
        ranks: bool,
        /// Whether the question asks if one column rises (true) or falls (false) as the other
        /// rises; `None` if it asks neither.
        rises: Option<bool>,
    },
    /// Tests whether the columns with these two indexes have equal variance.
    Spread(usize, usize),
    /// Tests whether the numbers of a column have equal spread in all groups of rows. Rows are
    /// grouped by another column, or by subjects.
    SpreadAmong {
        /// Index of the column of numbers.
        measure: usize,
        /// Index of the column whose values group the rows; `None` if `subjects` group them.
        group: Option<usize>,
        /// The subjects; empty if `group` groups the rows.
        subjects: Vec<Subject>,
    },
    /// Tests whether the columns with these two indexes are related, by a statistical test that
    /// fits their kinds.
    Relate(usize, usize),
    /// Lists the names of the rows.
    List,
    /// States the value of the column with this index in each row.
    Values(usize),
    /// Determines whether there are any rows.
    Exists,
    /// Runs an SQL statement, which may only read the table.
    Sql {
        /// The SQL statement.
        statement: String,
        /// How to read the statement's result.
        answer: Form,
    },
}

/// How to read the result of an SQL statement as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// The answer is the first number in the first row.
    Number,
    /// The answer is the values of the first column; if the column is called `id`, the names of the
    /// nodes with these ids.
    Names,
    /// The answer is in the first cell: 0 is no, other numbers are yes.
    YesNo,
    /// The answer is the whole result.
    Table,
}

/// An assumption that a question makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Change {
    /// Rows that satisfy all of these tests are removed.
    LeaveOut(Vec<Test>),
    /// Rows that do not satisfy all of these tests are removed.
    Only(Vec<Test>),
    /// Each number in a column is multiplied by a factor; then a constant is added.
    Scale {
        /// Index of the column.
        column: usize,
        /// The factor by which the numbers are multiplied.
        times: f64,
        /// The constant that is then added.
        plus: f64,
    },
}

impl Change {
    fn tests(&self) -> &[Test] {
        match self {
            Self::LeaveOut(tests) | Self::Only(tests) => tests,
            Self::Scale { .. } => &[],
        }
    }

    /// Returns the indexes of the columns that the assumption reads or changes.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Scale { column, .. } => vec![*column],
            change => change.tests().iter().flat_map(Test::columns).collect(),
        }
    }
}

/// Reverses a metapath that starts at type `from`: the result leads from the end's type back to
/// `from`.
pub(crate) fn reversed(from: TypeId, steps: &[MetapathStep]) -> Vec<MetapathStep> {
    let begins = std::iter::once(from).chain(steps.iter().map(|step| step.to));
    let mut back: Vec<MetapathStep> = steps
        .iter()
        .zip(begins)
        .map(|(step, to)| MetapathStep { direction: step.direction.reversed(), to, ..*step })
        .collect();
    back.reverse();
    back
}
