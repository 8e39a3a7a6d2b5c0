//! Writes the SQL statements that run a plan over the table `t`.
//!
//! Values are written as literals. Names of columns come from [`column_name`]; all other words are
//! fixed.
//!
//! [`column_name`]: agent_kb::table::column_name
//!
//! Neither reads questions nor interprets results.

use crate::{
    lexicon::{Bound, Function},
    plan::{DatePart, Measure, Subject, Test},
};
use agent_kb::{
    distinct,
    table::{Cell, Column, ColumnKind, Table, quoted, value::category},
};

/// The keywords of SQLite, separated by spaces. A column that is named like one of them must be
/// quoted.
const KEYWORDS: &str = "\
    abort action add after all alter always analyze and as asc attach autoincrement before begin \
    between by cascade case cast check collate column commit conflict constraint create cross \
    current current_date current_time current_timestamp database default deferrable deferred \
    delete desc detach distinct do drop each else end escape except exclude exclusive exists \
    explain fail filter first following for foreign from full generated glob group groups having \
    if ignore immediate in index indexed initially inner insert instead intersect into is isnull \
    join key last left like limit match materialized natural no not nothing notnull null nulls of \
    offset on or order others outer over partition plan pragma preceding primary query raise range \
    recursive references regexp reindex release rename replace restrict returning right rollback \
    row rows savepoint select set table temp temporary then ties to transaction trigger unbounded \
    union unique update using vacuum values view virtual when where window with without";

/// Writes SQL statements over one table. Methods take the index of a column in the plan.
pub(crate) struct Writer<'a> {
    /// The table, which has only the columns that the plan uses.
    pub table: &'a Table,
    /// The plan's filters, which every statement includes in its `WHERE` clause.
    pub filters: &'a [Test],
    /// For each column of the plan, its index in `table`; `None` if the plan does not use the
    /// column.
    pub columns: &'a [Option<usize>],
    /// The assumption that a column's numbers are scaled: the column's index in the plan, the
    /// factor, and the constant that is then added.
    pub scale: Option<(usize, f64, f64)>,
    /// Further conditions in SQL that every statement includes in its `WHERE` clause.
    pub extra: Vec<String>,
}

/// Writes the name of a column or table in SQL, quoted if it is a keyword.
fn name(name: &str) -> String {
    if KEYWORDS.split(' ').any(|keyword| keyword == name) { quoted(name) } else { name.to_owned() }
}

/// Writes a text as an SQL literal, without NUL characters.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', "''"))
}

/// Writes a number as an SQL literal.
fn number(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        format!("{number:.0}")
    } else {
        format!("{number:?}")
    }
}

impl Writer<'_> {
    /// Returns the column of the table for a column of the plan; `None` if the plan does not use
    /// it.
    pub(crate) fn column(&self, at: usize) -> Option<&Column> {
        self.table.columns.get((*self.columns.get(at)?)?)
    }

    fn written(&self, at: usize) -> String {
        self.column(at).map_or_else(|| "NULL".to_owned(), |column| name(&column.name))
    }

    /// Writes the expression for the value of a column, scaled if the assumption changes this
    /// column.
    fn value(&self, at: usize) -> String {
        let written = self.written(at);
        let Some((_, times, plus)) = self.scale.filter(|(scaled, ..)| *scaled == at) else {
            return written;
        };
        let times = if times == 1.0 { written } else { format!("{written} * {}", number(times)) };
        let plus = if plus == 0.0 { String::new() } else { format!(" + {}", number(plus)) };
        format!("({times}{plus})")
    }

    /// Whether a column holds numbers.
    pub(crate) fn is_number(&self, at: usize) -> bool {
        self.column(at).is_some_and(|column| column.kind.is_number())
    }

    /// Writes the expression that is compared with a number: the value of a column, or, in a column
    /// of dates, the year.
    fn bounded(&self, at: usize) -> String {
        match self.column(at).map(|column| column.kind) {
            Some(ColumnKind::Date) => format!("year({})", self.written(at)),
            _ => self.value(at),
        }
    }

    /// Returns the name of the further table that has one row for each value in a column's cells;
    /// `None` if no cell can hold several values.
    fn long(&self, at: usize) -> Option<String> {
        let column = self.column(at)?;
        let many = column.cells.iter().any(|cell| matches!(cell, Cell::Many(_)));
        many.then(|| name(&format!("t_{}", column.name)))
    }

    /// Writes a test as a condition in SQL.
    pub(crate) fn test(&self, test: &Test) -> String {
        match test {
            Test::Number { column, bound: Bound::Between, number: from, to } => {
                let (from, to) = (*from, to.unwrap_or(*from));
                let (from, to) = (from.min(to), from.max(to));
                format!("{} BETWEEN {} AND {}", self.bounded(*column), number(from), number(to))
            }
            Test::Number { column, bound, number: by, .. } => {
                format!("{} {} {}", self.bounded(*column), bound.sql(), number(*by))
            }
            Test::Date { column, bound, date } if self.is_number(*column) => {
                format!("{} {} {date}", self.value(*column), bound.sql())
            }
            Test::Date { column, bound, date } => {
                let cut = format!("substr({}, 1, {})", self.written(*column), date.len());
                format!("{cut} {} {}", bound.sql(), literal(date))
            }
            Test::Value { column, key } => match self.long(*column) {
                Some(long) => format!("id IN (SELECT id FROM {long} WHERE key = {})", literal(key)),
                None => {
                    format!("{} = {}", self.written(*column), literal(&self.spelling(*column, key)))
                }
            },
            Test::Linked { column, nodes } => match self.long(*column) {
                Some(long) => {
                    format!("id IN (SELECT id FROM {long} WHERE key IN ({}))", ids(nodes))
                }
                // A column without any links: no row passes.
                None => "0".to_owned(),
            },
            Test::Is(nodes) => format!("id IN ({})", ids(nodes)),
            Test::Filled { column } => known(&self.written(*column)),
            Test::Not(test) => format!("NOT coalesce(({}), 0)", self.test(test)),
            Test::Any(tests) => format!("({})", self.tests(tests).join(" OR ")),
        }
    }

    /// Writes tests as conditions in SQL.
    pub(crate) fn tests(&self, tests: &[Test]) -> Vec<String> {
        tests.iter().map(|test| self.test(test)).collect()
    }

    /// Returns the first spelling in a column whose normalised form is `key`; `key` itself if there
    /// is none.
    fn spelling(&self, at: usize, key: &str) -> String {
        let mut cells = self.column(at).into_iter().flat_map(|column| &column.cells);
        let spelled = cells.find_map(|cell| match cell {
            Cell::Text(text) if category(text) == key => Some(text.to_string()),
            _ => None,
        });
        spelled.unwrap_or_else(|| key.to_owned())
    }

    /// Writes the `WHERE` clause for filters, for [`extra`](Self::extra) and for the conditions
    /// `others`; empty if there are none.
    fn where_all(&self, others: &[String]) -> String {
        let all = [self.tests(self.filters).as_slice(), &self.extra, others].concat();
        if all.is_empty() { String::new() } else { format!(" WHERE {}", all.join(" AND ")) }
    }

    /// Writes the statement that returns the ids of the rows that satisfy the filters, ascending.
    pub(crate) fn satisfying(&self) -> String {
        format!("SELECT id FROM t{} ORDER BY 1", self.where_all(&[]))
    }

    /// Writes the expressions of a measure: its number, and the count of values behind it. Also
    /// writes the condition that a row has a value; `None` if the measure reads no column.
    fn measure(&self, measure: Measure) -> (String, Option<String>) {
        let Measure::Of(function, at) = measure else {
            return ("count(*) AS n".to_owned(), None);
        };
        let value = self.value(at);
        let plain = self.column(at).map_or("", |column| column.name.as_str());
        let distinct = if function == Function::Distinct { "DISTINCT " } else { "" };
        let (name, label) = (function.sql(), function.label());
        let of = format!("{name}({distinct}{value}) AS {label}_{plain}, count({value}) AS n");
        (of, Some(known(&value)))
    }

    /// Writes the statement that computes one number over all rows that satisfy the filters.
    pub(crate) fn number(&self, measure: Measure) -> String {
        let (of, _) = self.measure(measure);
        format!("SELECT {of} FROM t{}", self.where_all(&[]))
    }

    /// Writes the statement that computes the percentage of rows that satisfy all `tests`, among
    /// the rows that satisfy the filters and have the values that the tests read.
    pub(crate) fn share(&self, tests: &[Test]) -> String {
        let part = self.tests(tests).join(" AND ");
        let n = format!("sum(CASE WHEN {part} THEN 1 ELSE 0 END)");
        let valued = distinct(tests.iter().flat_map(Test::valued).collect()).into_iter();
        let known: Vec<String> = valued.map(|at| known(&self.value(at))).collect();
        let all = self.where_all(&known);
        format!(
            "SELECT 100.0 * {n} / nullif(count(*), 0) AS percent, {n} AS n, count(*) AS of_rows FROM t{all}"
        )
    }

    /// Writes the statement that computes a number for each value of a column, or for each `part`
    /// of its dates. Returns at most `limit` groups, the largest number first if `high`, else the
    /// smallest; equal numbers are ordered by the group's value.
    pub(crate) fn groups(
        &self,
        (group, part): (usize, Option<DatePart>),
        measure: Measure,
        high: bool,
        limit: usize,
    ) -> String {
        let (of, others) = self.measure(measure);
        let order = if high { "DESC" } else { "ASC NULLS LAST" };
        let order = format!("ORDER BY 2 {order}, 1 LIMIT {limit}");
        let written = self.written(group);
        let mut others: Vec<String> = others.into_iter().collect();
        let Some(long) = self.long(group) else {
            others.push(known(&written));
            let all = self.where_all(&others);
            let value = match part {
                None => written,
                Some(part) => format!("substr({written}, 1, {}) AS part", part as usize),
            };
            return format!("SELECT {value}, {of} FROM t{all} GROUP BY 1 {order}");
        };
        let all = self.where_all(&others);
        if all.is_empty() && measure == Measure::Rows {
            return format!(
                "SELECT min(value) AS {written}, {of} FROM {long} GROUP BY key {order}"
            );
        }
        format!(
            "SELECT min(v_value) AS {written}, {of} FROM (SELECT id AS v_id, key AS v_key, value AS v_value \
             FROM {long}) JOIN t ON t.id = v_id{all} GROUP BY v_key {order}"
        )
    }

    /// Writes the statement that returns at most `limit` rows, ordered by the value in a column:
    /// largest first if `high`, else smallest first; ties by id.
    pub(crate) fn first(&self, at: usize, high: bool, limit: usize) -> String {
        let value = self.value(at);
        let plain = self.written(at);
        let label = if value == plain { value.clone() } else { format!("{value} AS {plain}") };
        let all = self.where_all(&[known(&value)]);
        let order = if high { "DESC" } else { "ASC" };
        format!("SELECT id, {label} FROM t{all} ORDER BY 2 {order}, 1 LIMIT {limit}")
    }

    /// Writes the statement that computes a number for each subject, in the order of the subjects.
    pub(crate) fn compare(&self, subjects: &[Subject], measure: Measure) -> String {
        let of = |subject: &Subject| {
            let (of, _) = self.measure(measure);
            let all = self.where_all(&[self.test(&subject.test)]);
            format!("SELECT {} AS name, {of} FROM t{all}", literal(&subject.name))
        };
        subjects.iter().map(of).collect::<Vec<_>>().join(" UNION ALL ")
    }

    /// Writes the statement that returns the values in `columns`, from the rows that satisfy the
    /// filters and have a value in all these columns.
    pub(crate) fn values(&self, columns: &[usize]) -> String {
        let values: Vec<String> = columns.iter().map(|&at| self.value(at)).collect();
        let known: Vec<String> = values.iter().map(|value| known(value)).collect();
        let all = self.where_all(&known);
        format!("SELECT {} FROM t{all}", values.join(", "))
    }

    /// Writes the statement that returns the ids of the rows that satisfy the filters, each with
    /// its value in a column, or with each of its values; ascending by id and value. Rows without a
    /// value are left out.
    pub(crate) fn row_values(&self, at: usize) -> String {
        let Some(long) = self.long(at) else {
            let value = self.value(at);
            let all = self.where_all(&[known(&value)]);
            return format!("SELECT id, {value} FROM t{all} ORDER BY 1");
        };
        let all = self.where_all(&[]);
        format!(
            "SELECT id, v_value FROM t JOIN (SELECT id AS v_id, value AS v_value FROM {long}) \
             ON v_id = id{all} ORDER BY 1, 2"
        )
    }

    /// Returns the expression for the values of a column that groups rows, and the `JOIN` clause
    /// that the expression needs, or an empty text; `alias` is a prefix for names in the clause.
    fn parting(&self, at: usize, alias: &str) -> (String, String) {
        let Some(long) = self.long(at) else { return (self.written(at), String::new()) };
        let join = format!(
            " JOIN (SELECT id AS {alias}_id, key AS {alias}_key FROM {long}) ON {alias}_id = t.id"
        );
        (format!("{alias}_key"), join)
    }

    /// Writes the statement that returns pairs of a value of `group` and a number of `measure`,
    /// ascending by the value.
    pub(crate) fn grouped_values(&self, measure: usize, group: usize) -> String {
        let value = self.value(measure);
        let (key, join) = self.parting(group, "v");
        let all = self.where_all(&[known(&value), known(&key)]);
        format!("SELECT {key}, {value} FROM t{join}{all} ORDER BY 1")
    }

    /// Writes the statement that counts the rows for each pair of values in two columns.
    pub(crate) fn pairs(&self, one: usize, other: usize) -> String {
        let ((one, first), (other, second)) = (self.parting(one, "v"), self.parting(other, "w"));
        let all = self.where_all(&[known(&one), known(&other)]);
        format!("SELECT {one}, {other}, count(*) FROM t{first}{second}{all} GROUP BY 1, 2")
    }

    /// Writes the statement that counts the rows that satisfy the filters but have no value in a
    /// column.
    pub(crate) fn missing(&self, at: usize) -> String {
        let all = self.where_all(&[format!("{} IS NULL", self.written(at))]);
        format!("SELECT count(*) FROM t{all}")
    }
}

/// Writes the condition that an expression has a value.
fn known(value: &str) -> String {
    format!("{value} IS NOT NULL")
}

fn ids(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
