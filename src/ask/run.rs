//! Runs a plan: builds the table, runs SQL or a statistical test over the table, and states the
//! answer.
//!
//! Does not read the question.

mod apart;
mod statement;
pub(crate) mod words;

use self::{
    apart::{refuse_empty_whole, refuse_rows_apart},
    words::{MAX_LISTED, names_in_words, plural, spaced, test_in_words, yes_or_no},
};
use crate::{
    AskError,
    answer::{Answered, LEVEL, LeftOut, Outcome, shown, shown_value},
    lexicon::Function,
    missing,
    plan::{Change, Condition, DatePart, Measure, Operation, Plan, Subject, Test, reversed},
    sql::Writer,
};
use agent_ground::words::listed;
use agent_kb::{
    Kb, NodeId, distinct, metapath_in_words,
    table::{
        Budget, Column, ColumnKind, ColumnSpec, Database, Limits, MAX_COLUMNS, MAX_ROWS, Rows,
        SqlValue, Table, fulfilling, reached_from, read, read_named,
        statistics::{self, Moments, TestResult},
    },
};

/// Maximum number of groups in an answer, and of rows in an answer that lists rows.
const MAX_GROUPS: usize = 10_000;
/// Number of further rows or groups that a result keeps after the requested ones and all that tie
/// with the last of them.
const MAX_FIRST: usize = 50;
/// Maximum number of rows or groups that are read after the requested ones to find all that tie
/// with the last of them.
const MAX_TIED: usize = 1_000;
/// Limits on the time and the number of rows of SQL statements that operations need.
const ROWS: Limits = Limits { time: std::time::Duration::from_secs(2), rows: MAX_ROWS };
/// Maximum size of a contingency table: the product of the numbers of distinct values in its two
/// columns.
const MAX_PAIRS: usize = 4_000_000;
/// Minimum number of values that a group must have for its spread to be compared.
const MIN_OF_GROUP: usize = 2;

/// Runs a plan and returns its answer. `texts` holds the plan's text columns, whose cells a
/// language model has read; each has a cell for each of the plan's [`rows`].
///
/// # Errors
/// If the plan has too many columns, no rows or too many, or no values; if an SQL statement or a
/// statistical test fails.
pub(crate) fn run(kb: &Kb, plan: &Plan, texts: &[Column]) -> Result<Answered, AskError> {
    let width = plan.used().len();
    if width > MAX_COLUMNS {
        return Err(AskError::TooWide(width));
    }
    let budget = Budget::start();
    let nodes = rows(kb, plan, &budget)?;
    let (table, columns) = load(kb, plan, &nodes, (texts, &budget))?;
    let database = Database::load(&[("t", &table)], &budget)?;
    let mut run = Run {
        kb,
        plan,
        writer: Writer {
            table: &table,
            filters: &plan.filters,
            columns: &columns,
            scale: None,
            extra: Vec::new(),
        },
        database,
        sql: Vec::new(),
        statistic: None,
        left_out: Vec::new(),
        assumed: plan.assumed.clone(),
        result: Rows::default(),
    };
    let (outcome, told) = run.answer()?;
    let counted = run.counted()?;
    let Run { sql, statistic, mut left_out, assumed, result, .. } = run;
    for column in table.columns.iter().filter(|column| column.unfit > 0) {
        let kind = match column.kind {
            ColumnKind::Category | ColumnKind::Categories => "value",
            kind => kind.name(),
        };
        let why = format!("{} is not a {kind}", column.source);
        left_out.push(LeftOut { rows: column.unfit, why });
    }
    Ok(Answered {
        kind: plan.kind,
        outcome,
        told,
        path: path(kb, plan),
        plan: plan.document(kb),
        counted,
        sql,
        statistic,
        result,
        row_type: kb.type_name(plan.rows).to_owned(),
        left_out,
        assumed,
        table,
        unassisted: None,
    })
}

/// Describes the conditions, metapaths and fields of a plan in words, one per line, so that the
/// readings of a question can be told apart.
pub(crate) fn sources(kb: &Kb, plan: &Plan) -> Vec<String> {
    let used = plan.used().into_iter().filter_map(|at| plan.columns.get(at));
    let fields = used.filter(|spec| matches!(spec, ColumnSpec::Field(_)));
    let mut lines = path(kb, plan);
    lines.extend(fields.map(|spec| spec.source(kb, plan.rows)));
    lines
}

/// Describes the conditions of a plan and the metapaths of its columns in words, one per line.
/// Without conditions, the first line states that every node of the type is a row.
pub(super) fn path(kb: &Kb, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for Condition { nodes, steps, name } in &plan.conditions {
        let kind = nodes.first().map_or(plan.rows, |&node| kb.node_type(node));
        let path = metapath_in_words(kb, kind, steps.iter().copied());
        let rest = path.strip_prefix(kb.type_name(kind)).unwrap_or_default();
        lines.push(format!("{} {name:?}{rest}", kb.type_name(kind)));
    }
    if lines.is_empty() {
        lines.push(format!("every {}", kb.type_name(plan.rows)));
    }
    let used = plan.used().into_iter().filter_map(|at| plan.columns.get(at));
    let linked = used.filter(|spec| !spec.steps().is_empty());
    lines.extend(linked.map(|spec| spec.source(kb, plan.rows)));
    lines
}

/// Returns the nodes that are the rows of a plan's table, by ascending id; filters are not applied.
///
/// # Errors
/// If there are too many rows, or if there are none and the operation needs at least one; if the
/// budget is used up.
pub(super) fn rows(kb: &Kb, plan: &Plan, budget: &Budget) -> Result<Vec<NodeId>, AskError> {
    refuse_rows_apart(kb, plan)?;
    let known = fulfilling(kb, &plan.conditions, budget)?;
    let nodes = match (known, of_subjects(kb, plan, budget)?) {
        (Some(mut known), Some(own)) => {
            known.retain(|node| own.binary_search(node).is_ok());
            known
        }
        (Some(known), None) => known,
        (None, Some(own)) => own,
        (None, None) => kb.nodes_of_type(plan.rows).to_vec(),
    };
    if nodes.len() > MAX_ROWS {
        return missing(format!(
            "{} rows exceed the limit of {MAX_ROWS}; name a condition",
            nodes.len()
        ));
    }
    let counts = matches!(
        plan.operation,
        Operation::Number(Measure::Rows)
            | Operation::Compare { measure: Measure::Rows, .. }
            | Operation::List
            | Operation::Exists
    );
    if nodes.is_empty() && !counts {
        let conditions = plan.conditions.iter().map(|one| one.name.as_str());
        let subjects = plan.operation.subjects().iter().map(|one| one.name.as_str());
        let names: Vec<&str> = conditions.chain(subjects).collect();
        return Err(no_rows(kb.type_name(plan.rows), &names.join(", ")));
    }
    if nodes.is_empty() {
        refuse_empty_whole(kb, plan)?;
    }
    Ok(nodes)
}

/// Returns the error that no row of the type `kind` satisfies the conditions. `of` holds the names
/// of the conditions, separated by commas; empty if there are none.
fn no_rows(kind: &str, of: &str) -> AskError {
    AskError::Empty(match of {
        "" => format!("there is no {kind} that satisfies the conditions"),
        of => format!("no {kind} satisfies: {of}"),
    })
}

/// Returns the nodes of the rows that belong to any of the plan's subjects, ascending. `None` if
/// there are no subjects, or if a subject is not defined by nodes.
fn of_subjects(kb: &Kb, plan: &Plan, budget: &Budget) -> Result<Option<Vec<NodeId>>, AskError> {
    let subjects = plan.operation.subjects();
    let mut own: Vec<NodeId> = Vec::new();
    for Subject { test, name } in subjects {
        match test {
            Test::Is(nodes) => own.extend(nodes),
            Test::Linked { column, nodes } => {
                let Some(column) = plan.columns.get(*column) else { return Ok(None) };
                let back = reversed(plan.rows, column.steps());
                own.extend(reached_from(kb, nodes, &back, (budget, name))?);
            }
            _ => return Ok(None),
        }
    }
    Ok((!subjects.is_empty()).then(|| distinct(own)))
}

/// Builds the table with the rows `nodes` and the columns that the plan uses. Also returns, for
/// each column of the plan, its index in the table; `None` if it is not used.
fn load(
    kb: &Kb,
    plan: &Plan,
    nodes: &[NodeId],
    (texts, budget): (&[Column], &Budget),
) -> Result<(Table, Vec<Option<usize>>), AskError> {
    let mut table = Table { rows: nodes.to_vec(), columns: Vec::new() };
    let mut places = vec![None; plan.columns.len() + plan.texts.len()];
    for at in plan.used() {
        let Some(place) = places.get_mut(at) else { continue };
        *place = Some(table.columns.len());
        let Some(spec) = plan.columns.get(at) else {
            let read = texts.get(at - plan.columns.len());
            table.add(
                read.cloned().ok_or_else(|| {
                    AskError::Plan("text columns need a language model".to_owned())
                })?,
            );
            continue;
        };
        let named = plan.looked_for(at);
        table.add(match (spec, named) {
            (ColumnSpec::Names(steps), Some(named)) => {
                let back = reversed(plan.rows, steps);
                read_named(kb, plan.rows, nodes, (steps, &back, &named), budget)?
            }
            (spec, _) => read(kb, plan.rows, nodes, spec, budget)?,
        });
    }
    Ok((table, places))
}

/// An answer, and the answer as a sentence.
type Answer = Result<(Outcome, String), AskError>;

/// State of running one plan.
struct Run<'a> {
    kb: &'a Kb,
    plan: &'a Plan,
    writer: Writer<'a>,
    database: Database,
    sql: Vec<String>,
    statistic: Option<TestResult>,
    left_out: Vec<LeftOut>,
    assumed: Vec<String>,
    result: Rows,
}

impl Run<'_> {
    /// Runs an SQL statement, and records it in `sql`, which the answer shows.
    ///
    /// # Errors
    /// If the statement fails, or returns a number that is not finite.
    fn ask(&mut self, sql: String) -> Result<Rows, AskError> {
        let rows = finite(self.database.query(&sql, &ROWS)?)?;
        self.sql.push(sql);
        Ok(rows)
    }

    /// Returns the nodes of the rows that satisfy the plan's filters, ascending; `None` if the plan
    /// has no filters or makes an assumption.
    fn counted(&mut self) -> Result<Option<Vec<NodeId>>, AskError> {
        if self.plan.filters.is_empty() || self.plan.supposed.is_some() {
            return Ok(None);
        }
        let rows = self.database.query(&self.writer.satisfying(), &ROWS)?;
        Ok(Some(rows.rows.iter().filter_map(|row| node_in(row)).collect()))
    }

    fn rows_name(&self) -> &str {
        self.kb.type_name(self.plan.rows)
    }

    /// Formats a number of rows, such as `5 product rows`.
    fn rows_in_words(&self, n: f64) -> String {
        format!("{} {} {}", shown(n), self.rows_name(), plural(n))
    }

    fn unit(&self, column: usize) -> Option<String> {
        self.writer.column(column).and_then(|column| column.unit.clone())
    }

    fn name(&self, column: usize) -> String {
        let Some(Column { name, source, .. }) = self.writer.column(column) else {
            return String::new();
        };
        let (of, name) = match (source.strip_prefix("field "), name.strip_prefix("n_")) {
            (Some(field), _) => ("", field),
            (None, Some(counted)) => ("number of ", counted),
            (None, None) => ("", name.as_str()),
        };
        format!("{of}{}", name.replace('_', " "))
    }

    /// Names the number that a measure computes in words, such as `mean price`.
    fn measure_name(&self, measure: Measure) -> String {
        match measure {
            Measure::Rows => "number".to_owned(),
            Measure::Of(function, column) => format!("{} {}", function.name(), self.name(column)),
        }
    }

    fn measure_unit(&self, measure: Measure) -> Option<String> {
        match measure {
            Measure::Rows | Measure::Of(Function::Variance, _) => None,
            Measure::Of(_, column) => self.unit(column),
        }
    }

    /// Runs the plan's operation; returns the answer, also as a sentence. If the plan makes an
    /// assumption, the answer holds under the assumption; the sentence and the result also state
    /// the answer without it.
    fn answer(&mut self) -> Answer {
        let Some(change) = &self.plan.supposed else { return self.of_operation() };
        let (_, told_before) = self.of_operation()?;
        let mut before = std::mem::take(&mut self.result);
        self.left_out.clear();
        match change {
            Change::LeaveOut(tests) => {
                // A row with a missing value is kept.
                let left_out = self.writer.tests(tests).join(" AND ");
                self.writer.extra.push(format!("NOT coalesce(({left_out}), 0)"));
            }
            Change::Only(tests) => {
                let kept = self.writer.tests(tests);
                self.writer.extra.extend(kept);
            }
            Change::Scale { column, times, plus } => {
                self.writer.scale = Some((*column, *times, *plus))
            }
        }
        let (after, told_after) = self.of_operation()?;
        if before.columns == self.result.columns {
            self.result.columns.insert(0, "case".to_owned());
            for (rows, case) in [(&mut self.result, "supposed"), (&mut before, "as it is")] {
                rows.rows.iter_mut().for_each(|row| row.insert(0, SqlValue::Text(case.to_owned())));
            }
            self.result.rows.append(&mut before.rows);
        }
        Ok((after, format!("{told_after}; without the assumption: {told_before}")))
    }

    fn of_operation(&mut self) -> Answer {
        match &self.plan.operation {
            Operation::Number(measure) => self.number(*measure),
            Operation::Share(tests) => self.share(tests),
            Operation::Groups { group, part, measure, first } => {
                self.groups((*group, *part), *measure, *first)
            }
            Operation::First { column, high, top } => self.first(*column, *high, *top),
            Operation::Compare { subjects, measure, high, yes_no, by_how_much } => {
                self.compare(subjects, *measure, *high, (*yes_no, *by_how_much))
            }
            Operation::Normal(column) => self.normal(*column),
            Operation::Correlate { one, other, ranks, rises } => {
                self.correlate(*one, *other, *ranks, *rises)
            }
            Operation::Spread(one, other) => self.spread(*one, *other),
            Operation::SpreadAmong { measure, group, subjects } => {
                self.spread_among(*measure, *group, subjects)
            }
            Operation::Relate(one, other) => self.relate(*one, *other),
            Operation::List => self.list(),
            Operation::Values(column) => self.values(*column),
            Operation::Exists => self.exists(),
            Operation::Sql { statement, answer } => self.by_sql(statement, *answer),
        }
    }

    /// For each of these columns, records the number of rows that satisfy the filters but have no
    /// value in the column.
    fn note_left_out(&mut self, columns: impl IntoIterator<Item = usize>) -> Result<(), AskError> {
        for column in columns {
            let missing = self.writer.missing(column);
            let rows = self.database.query(&missing, &ROWS)?;
            let n = rows.rows.first().and_then(|row| number_in(row, 0)).unwrap_or(0.0);
            let why = format!("no {}", self.name(column));
            if n > 0.0 && !self.left_out.iter().any(|known| known.why == why) {
                self.left_out.push(LeftOut { rows: n as usize, why });
            }
        }
        Ok(())
    }

    /// Returns the error that no row has a value of `what`.
    fn no_values(&self, what: &str) -> AskError {
        AskError::Empty(format!("no matching {} has a value of {what}", self.rows_name()))
    }

    fn number(&mut self, measure: Measure) -> Answer {
        self.result = self.ask(self.writer.number(measure))?;
        let [value, n, _] = self.first_numbers();
        let Some(column) = measure.column() else {
            let n = value.unwrap_or(0.0);
            let told = format!("{} ({} {})", shown(n), self.rows_name(), plural(n));
            return Ok((Outcome::Number { value: n, unit: None }, told));
        };
        self.note_left_out([column])?;
        let value = value.ok_or_else(|| self.no_values(&self.name(column)))?;
        let (unit, what) = (self.measure_unit(measure), self.measure_name(measure));
        let number = format!("{}{}", shown(value), spaced(unit.as_deref()));
        let told = format!("{number} ({what} of {})", self.rows_in_words(n.unwrap_or(0.0)));
        Ok((Outcome::Number { value, unit }, told))
    }

    /// Returns the numbers in the first three columns of the result's first row.
    fn first_numbers(&self) -> [Option<f64>; 3] {
        let first = self.result.rows.first();
        [0, 1, 2].map(|column| number_in(first?, column))
    }

    fn share(&mut self, tests: &[Test]) -> Answer {
        self.result = self.ask(self.writer.share(tests))?;
        self.note_left_out(tests.iter().flat_map(Test::valued))?;
        let [Some(value), Some(n), Some(all)] = self.first_numbers() else {
            return Err(no_rows(self.rows_name(), ""));
        };
        let told = format!("{} % ({} of {})", shown(value), shown(n), self.rows_in_words(all));
        Ok((Outcome::Number { value, unit: Some("%".to_owned()) }, told))
    }

    /// Lists the names of the rows that satisfy the filters, in alphabetical order; rows with the
    /// same name are ordered by id.
    fn list(&mut self) -> Answer {
        let rows = self.ask(self.writer.satisfying())?;
        let mut nodes: Vec<NodeId> = rows.rows.iter().filter_map(|row| node_in(row)).collect();
        if nodes.len() > MAX_GROUPS {
            return missing(format!(
                "{} {} rows exceed the limit of {MAX_GROUPS}; ask how many there are",
                nodes.len(),
                self.rows_name()
            ));
        }
        nodes.sort_by_key(|node| (self.kb.name(*node), *node));
        let names: Vec<String> = nodes.iter().map(|node| self.kb.name(*node).to_owned()).collect();
        let rows = nodes.iter().map(|node| self.key_and_name(*node).to_vec()).collect();
        self.result = Rows { columns: ["key", "name"].map(str::to_owned).to_vec(), rows };
        let told = if names.is_empty() { "none".to_owned() } else { listed(&names, MAX_LISTED) };
        let told = format!("{told} ({})", self.rows_in_words(names.len() as f64));
        Ok((Outcome::Names { names, value: SqlValue::Null, unit: None }, told))
    }

    /// States the value of a column in each row. The answer is the value, or the values of one row;
    /// if several rows have different values, it is a table.
    fn values(&mut self, column: usize) -> Answer {
        let found = self.ask(self.writer.row_values(column))?;
        self.note_left_out([column])?;
        if found.rows.len() > MAX_GROUPS {
            return missing(format!(
                "{} values exceed the limit of {MAX_GROUPS}; ask how many there are",
                found.rows.len()
            ));
        }
        let in_row = |row: &Vec<SqlValue>| Some((node_in(row)?, row.get(1)?.clone()));
        let found: Vec<(NodeId, SqlValue)> = found.rows.iter().filter_map(in_row).collect();
        let (unit, of) = (self.unit(column), self.name(column));
        let Some((first, value)) = found.first().cloned() else {
            return Err(self.no_values(&of));
        };
        let row = |(node, value): &(NodeId, SqlValue)| {
            self.key_and_name(*node).into_iter().chain([value.clone()]).collect()
        };
        let columns = ["key", "name", "value"].map(str::to_owned).to_vec();
        self.result = Rows { columns, rows: found.iter().map(row).collect() };
        let is_one_row = found.iter().all(|(node, _)| *node == first);
        let rows = match is_one_row {
            true => self.kb.name(first).to_owned(),
            false => {
                self.rows_in_words(distinct(found.iter().map(|own| own.0).collect()).len() as f64)
            }
        };
        let is_one_value = found.iter().all(|(_, own)| *own == value);
        if !is_one_row && !is_one_value {
            let in_words = |(node, own): &(NodeId, SqlValue)| {
                format!("{}: {}{}", self.kb.name(*node), shown_value(own), spaced(unit.as_deref()))
            };
            let all: Vec<String> = found.iter().map(in_words).collect();
            return Ok((Outcome::Table, format!("{} ({of} of {rows})", listed(&all, MAX_LISTED))));
        }
        if let (true, Some(number)) = (is_one_value, value.number()) {
            let told = format!("{}{} ({of} of {rows})", shown(number), spaced(unit.as_deref()));
            return Ok((Outcome::Number { value: number, unit }, told));
        }
        let n = if is_one_value { 1 } else { found.len() };
        let names: Vec<String> = found.iter().take(n).map(|(_, own)| shown_value(own)).collect();
        let told = format!("{} ({of} of {rows})", listed(&names, MAX_LISTED));
        Ok((Outcome::Names { names, value: SqlValue::Null, unit: None }, told))
    }

    fn key_and_name(&self, node: NodeId) -> [SqlValue; 2] {
        [self.kb.key(node).into_owned(), self.kb.name(node).to_owned()].map(SqlValue::Text)
    }

    /// Answers whether any row satisfies the filters.
    fn exists(&mut self) -> Answer {
        let (found, told) = self.number(Measure::Rows)?;
        let yes = matches!(found, Outcome::Number { value, .. } if value > 0.0);
        Ok((Outcome::Truth(yes), format!("{}: {told}", yes_or_no(yes))))
    }

    /// Runs the statement that `written` returns for a maximum number of rows. The rows of the
    /// statement must be sorted by the second column. Returns the first `top` rows, all further
    /// rows with the same value as the last of them, and at most [`MAX_FIRST`] more.
    fn first_rows(
        &mut self,
        top: usize,
        written: impl Fn(&Writer<'_>, usize) -> String,
    ) -> Result<Rows, AskError> {
        for limit in [top + MAX_FIRST, top + MAX_TIED] {
            let sql = written(&self.writer, limit);
            let mut rows = self.database.query(&sql, &ROWS)?;
            let last = rows.rows.get(top.saturating_sub(1)).and_then(|row| row.get(1));
            let tied = rows.rows.iter().rposition(|row| last.is_some() && row.get(1) == last);
            if rows.rows.len() < limit || tied.is_some_and(|at| at + 1 < limit) {
                rows.rows.truncate(tied.map_or(limit, |at| at + 1 + MAX_FIRST));
                self.sql.push(sql);
                return Ok(rows);
            }
        }
        missing(format!(
            "more than {MAX_TIED} have the same number as the last requested row; ask how many \
             have it"
        ))
    }

    fn groups(
        &mut self,
        (group, part): (usize, Option<DatePart>),
        measure: Measure,
        first: Option<(bool, usize)>,
    ) -> Answer {
        let high = first.is_none_or(|(high, _)| high);
        let written =
            |writer: &Writer<'_>, limit| writer.groups((group, part), measure, high, limit);
        let rows = match first {
            Some((_, top)) => self.first_rows(top, written)?,
            None => self.ask(written(&self.writer, MAX_GROUPS + 1))?,
        };
        self.note_left_out([group].into_iter().chain(measure.column()))?;
        if first.is_none() && rows.rows.len() > MAX_GROUPS {
            return missing(format!(
                "there are more than {MAX_GROUPS} groups; ask which has the most or the highest"
            ));
        }
        let in_row = |row: &Vec<SqlValue>| {
            let value = number_in(row, 1)?;
            Some((shown_value(row.first()?), value, number_in(row, 2).unwrap_or(value)))
        };
        let ranked: Vec<(String, f64, f64)> = rows.rows.iter().filter_map(in_row).collect();
        self.result = rows;
        let Some(&(_, value, n)) = ranked.first() else {
            return Err(self.no_values(&self.name(measure.column().unwrap_or(group))));
        };
        let (what, rows_name) = (self.measure_name(measure), self.rows_name());
        let Some((_, top)) = first else {
            let n = ranked.len();
            let groups = if n == 1 { "group" } else { "groups" };
            let of = match part {
                None => "",
                Some(DatePart::Year) => "year of ",
                Some(DatePart::Month) => "month of ",
            };
            let told =
                format!("{n} {groups}: {what} of {rows_name} rows by {of}{}", self.name(group));
            return Ok((Outcome::Table, told));
        };
        let last = ranked.get(top.saturating_sub(1)).or(ranked.last()).map_or(value, |one| one.1);
        let in_first = |number: f64| if high { number >= last } else { number <= last };
        let (chosen, rest): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|(_, number, _)| in_first(*number));
        let (names, numbers): (Vec<String>, Vec<String>) =
            chosen.into_iter().map(|(name, number, _)| (name, shown(number))).unzip();
        let counts = measure == Measure::Rows;
        let next = rest.first().map_or(String::new(), |(name, number, n)| {
            let of = if counts { String::new() } else { format!(" of {}", shown(*n)) };
            format!("; next: {name} {}{of}", shown(*number))
        });
        let of = match counts {
            true => format!("number of {rows_name} rows"),
            false => format!("{what} of {}", self.rows_in_words(n)),
        };
        let unit = self.measure_unit(measure);
        let told = format!("{} ({of}{next})", names_in_words(&names, &numbers, unit.as_deref()));
        Ok((Outcome::Names { names, value: SqlValue::Real(value), unit }, told))
    }

    fn first(&mut self, column: usize, high: bool, top: usize) -> Answer {
        let rows = self.first_rows(top, |writer, limit| writer.first(column, high, limit))?;
        self.note_left_out([column])?;
        // In the order of the statement: the requested rows with all ties, then a few more.
        let in_row = |row: &Vec<SqlValue>| Some((node_in(row)?, row.get(1)?.clone()));
        let ranked: Vec<(NodeId, SqlValue)> = rows.rows.iter().filter_map(in_row).collect();
        let Some((_, value)) = ranked.first().cloned() else {
            return Err(self.no_values(&self.name(column)));
        };
        let last = ranked.get(top.saturating_sub(1)).or(ranked.last()).map(|one| &one.1);
        let tied = ranked.iter().rposition(|one| Some(&one.1) == last).unwrap_or(0);
        let (chosen, rest) = ranked.split_at(tied + 1);
        let own_name = rows.columns.get(1).cloned().unwrap_or_default();
        let columns = vec!["key".to_owned(), "name".to_owned(), own_name];
        let real = |value: &SqlValue| value.number().map_or_else(|| value.clone(), SqlValue::Real);
        let row = |(node, value): &(NodeId, SqlValue)| {
            self.key_and_name(*node).into_iter().chain([real(value)]).collect()
        };
        self.result = Rows { columns, rows: ranked.iter().map(row).collect() };
        let way = match (&value, high) {
            (SqlValue::Text(_), true) => "latest",
            (SqlValue::Text(_), false) => "earliest",
            (_, true) => "highest",
            (_, false) => "lowest",
        };
        let in_words = |(node, value): &(NodeId, SqlValue)| {
            (self.kb.name(*node).to_owned(), shown_value(value))
        };
        let (names, values): (Vec<String>, Vec<String>) = chosen.iter().map(in_words).unzip();
        let next = rest.first().map(in_words);
        let next = next.map_or(String::new(), |(name, value)| format!("; next: {name} {value}"));
        let unit = self.unit(column);
        let first = names_in_words(&names, &values, unit.as_deref());
        let told = format!("{first} ({way} {}{next})", self.name(column));
        Ok((Outcome::Names { names, value: real(&value), unit }, told))
    }

    fn compare(
        &mut self,
        subjects: &[Subject],
        measure: Measure,
        high: bool,
        (yes_no, by_how_much): (bool, bool),
    ) -> Answer {
        let rows = self.ask(self.writer.compare(subjects, measure))?;
        self.note_left_out(measure.column())?;
        let mut values = Vec::new();
        for (Subject { name, .. }, row) in subjects.iter().zip(&rows.rows) {
            match (number_in(row, 1), measure.column()) {
                (Some(value), _) => values.push((name.clone(), value)),
                (None, Some(column)) => {
                    return Err(self.no_values(&format!("{} of {name}", self.name(column))));
                }
                (None, None) => {}
            }
        }
        self.result = rows;
        let better = |one: f64, other: f64| if high { one > other } else { one < other };
        let Some((first, rest)) = values.split_first() else { return Err(AskError::NoTable) };
        let numbers = rest.iter().map(|(_, value)| *value);
        let best = numbers.fold(first.1, |best, own| if better(own, best) { own } else { best });
        let unit = self.measure_unit(measure);
        let of: Vec<String> =
            values.iter().map(|(name, value)| format!("{name} {}", shown(*value))).collect();
        let in_unit = unit.as_ref().map_or(String::new(), |unit| format!(" in {unit}"));
        let is_row = |own: &Subject| matches!(&own.test, Test::Is(nodes) if nodes.len() == 1);
        let what = match measure {
            // A single row has one value, so the value is not called a mean.
            Measure::Of(_, column) if subjects.iter().all(is_row) => self.name(column),
            _ => self.measure_name(measure),
        };
        let told = format!("({what}{in_unit}: {})", of.join(", "));
        if let (true, [(_, second), ..]) = (by_how_much, rest) {
            let value = if high { first.1 - second } else { second - first.1 };
            let told = format!("{}{} {told}", shown(value), spaced(unit.as_deref()));
            return Ok((Outcome::Number { value, unit }, told));
        }
        if yes_no {
            let yes = rest.iter().all(|(_, value)| better(first.1, *value));
            return Ok((Outcome::Truth(yes), format!("{} {told}", yes_or_no(yes))));
        }
        values.retain(|(_, value)| *value == best);
        let names: Vec<String> = values.into_iter().map(|(name, _)| name).collect();
        let told = format!("{} {told}", names.join(", "));
        Ok((Outcome::Names { names, value: SqlValue::Real(best), unit }, told))
    }

    /// Returns the numbers in `columns`, one list for each column, from the rows that satisfy the
    /// filters and have a number in all these columns.
    fn numbers<const N: usize>(&mut self, columns: [usize; N]) -> Result<[Vec<f64>; N], AskError> {
        let rows = self.ask(self.writer.values(&columns))?;
        self.note_left_out(columns)?;
        let mut numbers = [const { Vec::new() }; N];
        for row in &rows.rows {
            let own: Vec<f64> = row.iter().filter_map(SqlValue::number).collect();
            if own.len() == N {
                numbers.iter_mut().zip(own).for_each(|(column, number)| column.push(number));
            }
        }
        Ok(numbers)
    }

    /// Stores the result of a statistical test; returns the answer `yes`, with a sentence that
    /// names what was tested (`what`) and the finding.
    fn tested(&mut self, tested: TestResult, yes: bool, what: &str, finding: &str) -> Answer {
        let (result, told) = test_in_words(tested);
        (self.statistic, self.result) = (Some(tested), result);
        let told = format!("{}: {what}, {finding} ({told})", yes_or_no(yes));
        Ok((Outcome::Truth(yes), told))
    }

    fn normal(&mut self, column: usize) -> Answer {
        let [numbers] = self.numbers([column])?;
        let tested = statistics::normality(&numbers)?;
        let yes = tested.p >= LEVEL;
        let finding =
            if yes { "no significant deviation from a normal distribution" } else { "not normal" };
        self.tested(tested, yes, &self.name(column), finding)
    }

    fn correlate(&mut self, one: usize, other: usize, ranks: bool, rises: Option<bool>) -> Answer {
        let [ones, others] = self.numbers([one, other])?;
        let test = if ranks { statistics::spearman } else { statistics::pearson };
        let tested = test(&ones, &others)?;
        let found = tested.p < LEVEL;
        let is_up = tested.statistic > 0.0;
        let finding = match (found, is_up) {
            (true, true) => "correlate positively",
            (true, false) => "correlate negatively",
            (false, _) => "no significant correlation",
        };
        let what = format!("{} and {}", self.name(one), self.name(other));
        let yes = found && rises.is_none_or(|rises| rises == is_up);
        self.tested(tested, yes, &what, finding)
    }

    fn spread(&mut self, one: usize, other: usize) -> Answer {
        let ([ones], [others]) = (self.numbers([one])?, self.numbers([other])?);
        let tested = statistics::f_test(&ones, &others)?;
        let what = format!("{} and {}", self.name(one), self.name(other));
        self.spreads(tested, &what, &[ones, others])
    }

    fn spreads(&mut self, tested: TestResult, what: &str, samples: &[Vec<f64>]) -> Answer {
        let differ = tested.p < LEVEL;
        let (yes, finding) = match (samples, self.plan.asks_more) {
            _ if !differ => {
                (self.plan.asks_same, "no significant difference between the variances")
            }
            ([one, other], Some(more)) => {
                let is_more = Moments::of(one).variance() > Moments::of(other).variance();
                let finding =
                    if is_more { "the first varies more" } else { "the second varies more" };
                (is_more == more, finding)
            }
            _ => (!self.plan.asks_same, "the variances differ"),
        };
        self.tested(tested, yes, what, finding)
    }

    fn spread_among(
        &mut self,
        measure: usize,
        group: Option<usize>,
        subjects: &[Subject],
    ) -> Answer {
        let mut samples = Vec::new();
        let of = match group {
            Some(group) => {
                samples = self.samples(measure, group)?;
                let all = samples.len();
                samples.retain(|sample| sample.len() >= MIN_OF_GROUP);
                if samples.len() < all {
                    let why =
                        format!("fewer than {MIN_OF_GROUP} numbers in their {}", self.name(group));
                    self.left_out.push(LeftOut { rows: all - samples.len(), why });
                }
                format!("by {}", self.name(group))
            }
            None => {
                for subject in subjects {
                    self.writer.extra.push(self.writer.test(&subject.test));
                    let own = self.numbers([measure]);
                    self.writer.extra.pop();
                    samples.extend(own?);
                }
                let names: Vec<&str> =
                    subjects.iter().map(|subject| subject.name.as_str()).collect();
                format!("of {}", names.join(" and "))
            }
        };
        let tested = statistics::brown_forsythe(&samples)?;
        self.spreads(tested, &format!("{} {of}", self.name(measure)), &samples)
    }

    /// Returns the numbers in column `measure`, grouped by the values in column `group`; the groups
    /// ascend by value.
    fn samples(&mut self, measure: usize, group: usize) -> Result<Vec<Vec<f64>>, AskError> {
        let rows = self.ask(self.writer.grouped_values(measure, group))?;
        self.note_left_out([measure, group])?;
        let key = |row: &[SqlValue]| row.first().map(shown_value);
        let groups = rows.rows.chunk_by(|one, other| key(one) == key(other));
        let sample = |rows: &[Vec<SqlValue>]| {
            rows.iter().filter_map(|row| number_in(row, 1)).collect::<Vec<f64>>()
        };
        Ok(groups.map(sample).collect())
    }

    fn relate(&mut self, one: usize, other: usize) -> Answer {
        let tested = match (self.writer.is_number(one), self.writer.is_number(other)) {
            (true, true) => {
                let [ones, others] = self.numbers([one, other])?;
                statistics::spearman(&ones, &others)?
            }
            (true, false) => statistics::kruskal_wallis(&self.samples(one, other)?)?,
            (false, true) => statistics::kruskal_wallis(&self.samples(other, one)?)?,
            (false, false) => {
                let rows = self.ask(self.writer.pairs(one, other))?;
                self.note_left_out([one, other])?;
                statistics::chi_square(&contingency(&rows)?)?
            }
        };
        let related = tested.p < LEVEL;
        let finding = if related { "they are related" } else { "no significant relation" };
        let what = format!("{} and {}", self.name(one), self.name(other));
        self.tested(tested, related != self.plan.asks_same, &what, finding)
    }
}

/// Returns the rows of a result unchanged; fails if a number is not finite.
fn finite(rows: Rows) -> Result<Rows, AskError> {
    let mut numbers = rows.rows.iter().flatten().filter_map(SqlValue::number);
    match numbers.all(f64::is_finite) {
        true => Ok(rows),
        false => Err(AskError::Plan("a result is out of range; use smaller numbers".to_owned())),
    }
}

/// Returns the number in one column of a row.
fn number_in(row: &[SqlValue], column: usize) -> Option<f64> {
    row.get(column)?.number()
}

/// Returns the node whose id is in the first column of a row.
fn node_in(row: &[SqlValue]) -> Option<NodeId> {
    NodeId::try_from(number_in(row, 0)? as i64).ok()
}

/// Builds a contingency table: how often each value of the first column occurs with each value of
/// the second. The third column has the number of times that the row's pair occurs.
///
/// # Errors
/// If the contingency table would have more than [`MAX_PAIRS`] cells.
fn contingency(rows: &Rows) -> Result<Vec<Vec<u64>>, AskError> {
    let text = |row: &[SqlValue], at: usize| row.get(at).map(shown_value).unwrap_or_default();
    let keys = |at: usize| distinct(rows.rows.iter().map(|row| text(row, at)).collect());
    let (ones, others) = (keys(0), keys(1));
    if ones.len().saturating_mul(others.len()) > MAX_PAIRS {
        return missing(format!(
            "{} values by {} exceed the limit of {MAX_PAIRS} pairs; ask about fewer rows",
            ones.len(),
            others.len()
        ));
    }
    let mut counts = vec![vec![0; others.len()]; ones.len()];
    for row in &rows.rows {
        let places = (ones.binary_search(&text(row, 0)), others.binary_search(&text(row, 1)));
        if let (Ok(line), Ok(place)) = places {
            counts[line][place] += number_in(row, 2).map_or(0, |n| n as u64);
        }
    }
    Ok(counts)
}
