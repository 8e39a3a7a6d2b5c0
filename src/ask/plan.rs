//! The plan of a question about many nodes: rows, columns, computation. Every answer has its plan
//! as JSON (`document`), which can be edited and run again.
//!
//! Independent of the words of questions and of SQL.

mod document;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::{
    kind::Kind,
    lexicon::{Bound, Function},
};
use agent_kb::{MetapathStep, NodeId, TypeId, table::ColumnSpec};

/// The plan of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The kind of the question.
    pub kind: Kind,
    /// Type of the rows.
    pub rows: TypeId,
    /// Conditions that the rows must satisfy by their links or as nodes.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Tests that the cells of a row must pass.
    #[serde(default)]
    pub filters: Vec<Test>,
    /// The columns of the table, each once; all column indexes below refer to this list.
    #[serde(default)]
    pub columns: Vec<ColumnSpec>,
    /// Columns that a language model reads; their indexes follow those of `columns`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<TextColumn>,
    /// The computation.
    pub operation: Operation,
    /// An assumption; the computation is repeated with it.
    #[serde(default)]
    pub supposed: Option<Change>,
    /// Whether the question asks if values are the same, so that a difference means no.
    #[serde(default)]
    pub asks_same: bool,
    /// Whether the question asks if the first of two samples varies more (true) or less.
    #[serde(default)]
    pub asks_more: Option<bool>,
    /// Assumptions about the question, in words.
    #[serde(skip)]
    pub assumed: Vec<String>,
}

/// A column whose cells a language model reads from the documents of the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextColumn {
    /// Name of the column.
    pub name: String,
    /// Description of the cells, for the language model.
    pub description: String,
}

/// A condition on rows: each is at the end of a metapath from given nodes, or is one of them.
pub(crate) use agent_kb::table::Reachable as Condition;

/// A test of one row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Test {
    /// Compares a number; in a column of dates, the year.
    Number {
        /// Index of the column.
        column: usize,
        /// The comparison.
        bound: Bound,
        /// The number to compare with.
        number: f64,
        /// The other end of an interval, for [`Bound::Between`].
        to: Option<f64>,
    },
    /// Compares the year, month or day of a date, whichever `date` has. In a column of numbers,
    /// `date` is a year.
    Date {
        /// Index of the column.
        column: usize,
        /// The comparison.
        bound: Bound,
        /// The date to compare with, year first; the cell is cut to its length.
        date: String,
    },
    /// The cell has this category.
    Value {
        /// Index of the column.
        column: usize,
        /// The normalised value.
        key: String,
    },
    /// The cell has a link to one of these nodes.
    Linked {
        /// Index of the column of names.
        column: usize,
        /// The nodes.
        nodes: Vec<NodeId>,
    },
    /// The row is one of these nodes.
    Is(Vec<NodeId>),
    /// The cell has a value.
    Filled {
        /// Index of the column.
        column: usize,
    },
    /// The negated test; also true for rows with a missing value.
    Not(Box<Test>),
    /// At least one of these tests.
    Any(Vec<Test>),
}

impl Test {
    /// Returns the indexes of the columns that the test reads.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Number { column, .. }
            | Self::Date { column, .. }
            | Self::Value { column, .. }
            | Self::Linked { column, .. }
            | Self::Filled { column } => vec![*column],
            Self::Is(_) => Vec::new(),
            Self::Not(test) => test.columns(),
            Self::Any(tests) => tests.iter().flat_map(Self::columns).collect(),
        }
    }
}

impl Test {
    /// Returns the indexes of the columns that must have a value for the test to be decided.
    pub(crate) fn valued(&self) -> Vec<usize> {
        match self {
            Self::Number { column, .. }
            | Self::Date { column, .. }
            | Self::Value { column, .. } => vec![*column],
            Self::Linked { .. } | Self::Is(_) | Self::Filled { .. } => Vec::new(),
            Self::Not(test) => test.valued(),
            Self::Any(tests) => tests.iter().flat_map(Self::valued).collect(),
        }
    }

    /// Adds the columns in which nodes are searched, with these nodes, to `names`, and the columns
    /// that are read in another way to `others`.
    pub(crate) fn looks_for<'a>(
        &'a self,
        names: &mut Vec<(usize, &'a [NodeId])>,
        others: &mut Vec<usize>,
    ) {
        match self {
            Self::Linked { column, nodes } => names.push((*column, nodes.as_slice())),
            Self::Not(test) => test.looks_for(names, others),
            Self::Any(tests) => tests.iter().for_each(|test| test.looks_for(names, others)),
            other => others.extend(other.columns()),
        }
    }
}

impl Plan {
    /// Returns all tests: filters, and tests of the assumption, the subjects and the share.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &Test> {
        let supposed = match &self.supposed {
            Some(Change::LeaveOut(tests) | Change::Only(tests)) => tests.as_slice(),
            _ => &[],
        };
        let subjects = self.operation.subjects().iter().map(|subject| &subject.test);
        let shared = match &self.operation {
            Operation::Share(tests) => tests.as_slice(),
            _ => &[],
        };
        self.filters.iter().chain(supposed).chain(subjects).chain(shared)
    }

    /// Returns the indexes of the columns that the plan reads, ascending, each once.
    pub(crate) fn used(&self) -> Vec<usize> {
        let mut used = match self.operation {
            Operation::Sql { .. } => (0..self.columns.len() + self.texts.len()).collect(),
            _ => self.operation.columns(),
        };
        used.extend(self.filters.iter().flat_map(Test::columns));
        match &self.supposed {
            Some(Change::LeaveOut(tests) | Change::Only(tests)) => {
                used.extend(tests.iter().flat_map(Test::columns));
            }
            Some(Change::Scale { column, .. }) => used.push(*column),
            None => {}
        }
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Returns the nodes that tests search in a column, ascending; `None` if the column is also
    /// read in another way.
    pub(crate) fn looked_for(&self, column: usize) -> Option<Vec<NodeId>> {
        if matches!(self.operation, Operation::Sql { .. }) {
            return None;
        }
        let (mut names, mut others) = (Vec::new(), self.operation.own_columns());
        self.tests().for_each(|test| test.looks_for(&mut names, &mut others));
        if others.contains(&column) {
            return None;
        }
        let own = names.iter().filter(|(at, _)| *at == column).flat_map(|(_, nodes)| *nodes);
        let mut nodes: Vec<NodeId> = own.copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Some(nodes)
    }
}

impl Operation {
    /// Returns the compared subjects; empty for most operations.
    pub(crate) fn subjects(&self) -> &[Subject] {
        match self {
            Self::Compare { subjects, .. } | Self::SpreadAmong { subjects, .. } => subjects,
            _ => &[],
        }
    }

    /// Returns the indexes of the columns that it reads outside of tests.
    fn own_columns(&self) -> Vec<usize> {
        match self {
            Self::Compare { measure: Measure::Of(_, column), .. } => vec![*column],
            Self::Compare { measure: Measure::Rows, .. } => Vec::new(),
            Self::SpreadAmong { measure, group, .. } => {
                [*measure].into_iter().chain(*group).collect()
            }
            Self::Share(_) => Vec::new(),
            other => other.columns(),
        }
    }

    /// Returns the indexes of the columns that the operation reads.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let of = |measure: &Measure| match measure {
            Measure::Rows => None,
            Measure::Of(_, column) => Some(*column),
        };
        let of_subjects = |subjects: &[Subject]| {
            subjects.iter().flat_map(|subject| subject.test.columns()).collect()
        };
        match self {
            Self::Number(measure) => of(measure).into_iter().collect(),
            Self::Share(tests) => tests.iter().flat_map(Test::columns).collect(),
            Self::Groups { group, measure, .. } => {
                of(measure).into_iter().chain([*group]).collect()
            }
            Self::List | Self::Exists | Self::Sql { .. } => Vec::new(),
            Self::First { column, .. } | Self::Normal(column) => vec![*column],
            Self::Compare { subjects, measure, .. } => {
                let mut columns: Vec<usize> = of_subjects(subjects);
                columns.extend(of(measure));
                columns
            }
            Self::Correlate { one, other, .. }
            | Self::Spread(one, other)
            | Self::Relate(one, other) => {
                vec![*one, *other]
            }
            Self::SpreadAmong { measure, group, subjects } => {
                let mut columns: Vec<usize> = of_subjects(subjects);
                columns.push(*measure);
                columns.extend(group);
                columns
            }
        }
    }
}

/// An aggregate over several rows: a function of a column, or the number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Measure {
    /// The number of rows.
    Rows,
    /// A function of the values in a column.
    Of(Function, usize),
}

/// The part of a date that groups rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DatePart {
    /// The year.
    Year,
    /// Year and month.
    Month,
}

impl DatePart {
    /// Returns the length of this part at the start of a date, year first, bytes.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Year => 4,
            Self::Month => 7,
        }
    }
}

/// A subject that is compared with others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    /// Name of the subject.
    pub name: String,
    /// The test that its rows pass.
    pub test: Test,
}

/// A computation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Operation {
    /// One number over all rows.
    Number(Measure),
    /// The share of the rows that satisfy all of these tests, percent.
    Share(Vec<Test>),
    /// A number for each value of a column; largest first, unless `first` asks for the smallest.
    Groups {
        /// Index of the column whose values group the rows.
        group: usize,
        /// The part of a date that groups the rows, if the column holds dates.
        #[serde(default)]
        part: Option<DatePart>,
        /// The measure of each group.
        measure: Measure,
        /// Whether the largest (true) or the smallest groups are requested, and how many; `None`
        /// for all groups.
        first: Option<(bool, usize)>,
    },
    /// The rows with the largest or smallest number.
    First {
        /// Index of the column.
        column: usize,
        /// Whether the largest number comes first.
        high: bool,
        /// Number of rows.
        top: usize,
    },
    /// Compares one number of each subject.
    Compare {
        /// The subjects, at least two.
        subjects: Vec<Subject>,
        /// The measure of each subject.
        measure: Measure,
        /// Whether the subject with the largest number is requested, else the smallest.
        high: bool,
        /// Whether the question asks if this is the first subject, with the answer yes or no.
        yes_no: bool,
    },
    /// Whether a column's numbers are normally distributed.
    Normal(usize),
    /// Whether two columns are correlated.
    Correlate {
        /// Index of one column.
        one: usize,
        /// Index of the other.
        other: usize,
        /// Whether to use rank correlation (Spearman), else Pearson's.
        ranks: bool,
        /// Whether the question asks if one rises (true) or falls with the other; `None` if
        /// neither.
        rises: Option<bool>,
    },
    /// Whether two columns have equal variance.
    Spread(usize, usize),
    /// Whether a column has equal spread in the groups of another column, or in the subjects if
    /// there are any.
    SpreadAmong {
        /// Index of the column of numbers.
        measure: usize,
        /// Index of the column whose values group the rows.
        group: Option<usize>,
        /// The subjects, if there is no group column.
        subjects: Vec<Subject>,
    },
    /// Whether two columns are related, by a test that fits their kinds.
    Relate(usize, usize),
    /// The names of the rows.
    List,
    /// Whether there is a row.
    Exists,
    /// An SQL statement, which may only read the table.
    Sql {
        /// The statement.
        statement: String,
        /// How to read the result.
        answer: Form,
    },
}

/// How to read the result of an SQL statement as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// The first number of the first row.
    Number,
    /// The first column; if it is called `id`, the names of its nodes.
    Names,
    /// The first cell: 0 is no, other numbers are yes.
    YesNo,
    /// The whole result.
    Table,
}

/// An assumption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Change {
    /// Rows that satisfy all of these tests are removed.
    LeaveOut(Vec<Test>),
    /// Only rows that satisfy all of these tests remain.
    Only(Vec<Test>),
    /// The numbers of a column are multiplied by a factor, then increased by a constant.
    Scale {
        /// Index of the column.
        column: usize,
        /// The factor.
        times: f64,
        /// The added constant.
        plus: f64,
    },
}

/// Reverses a metapath that starts at type `from`.
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
