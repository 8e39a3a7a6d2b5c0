//! What a question over many nodes asks for, before anything is looked up: which rows, which
//! columns, what is computed. Must not know: words of questions, SQL.

use crate::{
    kind::Kind,
    lexicon::{Bound, Function},
};
use agent_kb::{MetapathStep, NodeId, TypeId, table::ColumnSpec};

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The kind of the question.
    pub kind: Kind,
    /// The type of which each node may be a row.
    pub rows: TypeId,
    /// What the rows must be linked to, or be.
    pub conditions: Vec<Condition>,
    /// What their cells must be.
    pub filters: Vec<Test>,
    /// The columns of the table, each once; the places below are places in it.
    pub columns: Vec<ColumnSpec>,
    /// What is computed.
    pub operation: Operation,
    /// What is supposed; the same is computed once more with it.
    pub supposed: Option<Change>,
    /// Whether it is asked if two are the same, so that a difference is a no.
    pub asks_same: bool,
    /// Whether it is asked if the first of two varies more, or less.
    pub asks_more: Option<bool>,
    /// What the question leaves open, and how it was taken.
    pub assumed: Vec<String>,
}

/// Rows that named nodes lead to, or that are named themselves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    /// The nodes of the name; any of them will do.
    pub nodes: Vec<NodeId>,
    /// From them to the rows; empty where they are rows.
    pub steps: Vec<MetapathStep>,
    /// The name.
    pub name: String,
}

/// Something that is so of a row or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// A number within bounds.
    Number {
        /// Place of the column.
        column: usize,
        /// How it is bounded.
        bound: Bound,
        /// By what.
        number: f64,
        /// The other end of an interval.
        to: Option<f64>,
    },
    /// A category of this value, normalised.
    Value {
        /// Place of the column.
        column: usize,
        /// The value.
        key: String,
    },
    /// A link to one of these nodes.
    Linked {
        /// Place of the column of names.
        column: usize,
        /// The nodes.
        nodes: Vec<NodeId>,
    },
    /// The row is one of these nodes.
    Is(Vec<NodeId>),
    /// Any value.
    Filled {
        /// Place of the column.
        column: usize,
    },
    /// Not this, which is so of rows of which it is not known too.
    Not(Box<Test>),
    /// Any of these.
    Any(Vec<Test>),
}

impl Test {
    /// Places of the columns that it looks at.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Self::Number { column, .. }
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
    /// Places of the columns of values without which it is not known whether it is so.
    pub(crate) fn valued(&self) -> Vec<usize> {
        match self {
            Self::Number { column, .. } | Self::Value { column, .. } => vec![*column],
            Self::Linked { .. } | Self::Is(_) | Self::Filled { .. } => Vec::new(),
            Self::Not(test) => test.valued(),
            Self::Any(tests) => tests.iter().flat_map(Self::valued).collect(),
        }
    }

    /// Places of columns of names with the nodes that are looked for in them, and of columns that are
    /// looked at otherwise.
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
    /// All tests.
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

    /// The nodes that are looked for in a column of names; none if it is looked at otherwise.
    pub(crate) fn looked_for(&self, column: usize) -> Option<Vec<NodeId>> {
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
    /// Those that are compared; none for most.
    pub(crate) fn subjects(&self) -> &[Subject] {
        match self {
            Self::Compare { subjects, .. } | Self::SpreadAmong { subjects, .. } => subjects,
            _ => &[],
        }
    }

    /// Places of the columns that it looks at, but for what tells its subjects.
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

    /// Places of the columns that it looks at.
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

/// What is computed of several rows: a function of a column, or how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measure {
    /// Rows.
    Rows,
    /// A function of the numbers in a column.
    Of(Function, usize),
}

/// One of those that are compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subject {
    /// Its name.
    pub name: String,
    /// Which rows are its own.
    pub test: Test,
}

/// What is computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operation {
    /// One number of all rows.
    Number(Measure),
    /// The share of the rows that are so as well, in percent.
    Share(Vec<Test>),
    /// A number for each value of a column, most first.
    Groups {
        /// Place of the column whose values part the rows.
        group: usize,
        /// What is computed of each part.
        measure: Measure,
        /// The first of them alone: by the greatest or the least, so many.
        first: Option<(bool, usize)>,
    },
    /// The rows with the greatest or least number.
    First {
        /// Place of the column.
        column: usize,
        /// Whether the greatest.
        high: bool,
        /// How many.
        top: usize,
    },
    /// One number of each subject.
    Compare {
        /// The subjects, two or more.
        subjects: Vec<Subject>,
        /// What is computed of each.
        measure: Measure,
        /// Whether the greater is asked for.
        high: bool,
        /// Whether it is asked of the first subject, to be answered with yes or no.
        yes_no: bool,
    },
    /// Whether a column's numbers are normal.
    Normal(usize),
    /// Whether two columns go together.
    Correlate {
        /// Place of one column.
        one: usize,
        /// Place of the other.
        other: usize,
        /// Whether by their ranks.
        ranks: bool,
        /// Whether it is asked if one rises with the other, or falls.
        rises: Option<bool>,
    },
    /// Whether two columns vary as much.
    Spread(usize, usize),
    /// Whether a column varies as much in the parts of another, or of the subjects if there are
    /// any.
    SpreadAmong {
        /// Place of the column of numbers.
        measure: usize,
        /// Place of the column whose values part the rows.
        group: Option<usize>,
        /// Else the subjects.
        subjects: Vec<Subject>,
    },
    /// How one column stands to another.
    Relate(usize, usize),
}

/// What is supposed to be otherwise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Rows that satisfy all of these are not there.
    LeaveOut(Vec<Test>),
    /// Only rows that satisfy all of these are there.
    Only(Vec<Test>),
    /// The numbers of a column are multiplied, and something is added.
    Scale {
        /// Place of the column.
        column: usize,
        /// By what.
        times: f64,
        /// What is added.
        plus: f64,
    },
}

/// A metapath the other way, from its end to the type where it begins.
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
