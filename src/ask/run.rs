//! Runs a plan: builds the table, runs SQL or a statistical test over the table, and states the
//! answer.
//!
//! Does not read the question.

mod lists;
mod statement;
pub(crate) mod words;

use self::words::{names_in_words, plural, spaced, test_in_words, yes_or_no};
use crate::{
    AskError,
    answer::{Answered, LEVEL, LeftOut, Outcome, shown, shown_value},
    lexicon::Function,
    plan::{Change, Condition, DatePart, Measure, Operation, Plan, Subject, Test, reversed},
    sql::Writer,
};
use agent_index::IndexedBase;
use agent_kb::{
    Kb, NodeId, metapath_in_words,
    table::{
        Column, ColumnKind, ColumnSpec, Database, Limits, MAX_COLUMNS, MAX_ROWS, Rows, SqlValue,
        Table, fulfilling, reached, read, read_named,
        statistics::{self, Moments, TestResult},
    },
};

/// Maximum number of groups in an answer, and of rows in an answer that lists rows.
const MAX_GROUPS: usize = 10_000;
/// Number of further rows or groups that a result keeps after the requested ones and those that tie
/// with the last of them.
const MAX_FIRST: usize = 50;
/// Maximum number of rows or groups that are read after the requested ones to find all that tie
/// with the last of them.
const MAX_TIED: usize = 1_000;
/// Limits on the SQL statements that a plan's operations need: time, and number of rows.
const ROWS: Limits = Limits { time: std::time::Duration::from_secs(2), rows: MAX_ROWS };
/// Maximum size of a contingency table: the number of distinct values in one column times that in
/// the other.
const MAX_PAIRS: usize = 4_000_000;
/// Minimum number of numbers that a group must have for its spread to be compared.
const MIN_OF_GROUP: usize = 2;

/// Runs a plan and returns its answer. `texts` holds the plan's text columns, whose cells a
/// language model has read; each has a cell for each of the plan's [`rows`].
///
/// # Errors
/// If the plan has too many columns, no rows or too many, or no values; if an SQL statement or a
/// statistical test fails.
pub(crate) fn run(base: &IndexedBase, plan: &Plan, texts: &[Column]) -> Result<Answered, AskError> {
    let width = plan.used().len();
    if width > MAX_COLUMNS {
        return Err(AskError::TooWide(width));
    }
    let nodes = rows(&base.kb, plan)?;
    let (table, columns) = load(&base.kb, plan, &nodes, texts)?;
    let database = Database::load(&[("t", &table)])?;
    let mut run = Run {
        kb: &base.kb,
        plan,
        writer: Writer { table: &table, columns: &columns, scale: None, extra: Vec::new() },
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
        let why = format!("{} is not a {} of its column", column.source, kind_name(column));
        left_out.push(LeftOut { rows: column.unfit, why });
    }
    Ok(Answered {
        kind: plan.kind,
        outcome,
        told,
        path: path(&base.kb, plan),
        plan: plan.document(&base.kb),
        counted,
        sql,
        statistic,
        result,
        row_type: base.kb.type_name(plan.rows).to_owned(),
        left_out,
        assumed,
        table,
        unassisted: None,
    })
}

fn kind_name(column: &Column) -> &'static str {
    match column.kind {
        ColumnKind::Number => "number",
        ColumnKind::Year => "year",
        ColumnKind::Date => "date",
        ColumnKind::Category | ColumnKind::Categories => "value",
        ColumnKind::Text => "text",
    }
}

/// Describes the conditions, metapaths and fields of a plan in words, one per line, so that the
/// readings of a question can be told apart.
pub(crate) fn sources(kb: &Kb, plan: &Plan) -> Vec<String> {
    let mut lines = path(kb, plan);
    for at in plan.used() {
        if let Some(spec @ ColumnSpec::Field(_)) = plan.columns.get(at) {
            lines.push(spec.source(kb, plan.rows));
        }
    }
    lines
}

/// Describes the conditions of a plan and the metapaths of its columns in words, one per line.
/// Without conditions, the first line says that every node of the type is a row.
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
    for at in plan.used() {
        if let Some(spec) = plan.columns.get(at).filter(|spec| !spec.steps().is_empty()) {
            lines.push(spec.source(kb, plan.rows));
        }
    }
    lines
}

/// Returns the nodes that are the rows of a plan's table, by ascending id; filters are not applied.
///
/// # Errors
/// If there are too many rows, or if there are none and the operation needs at least one.
pub(super) fn rows(kb: &Kb, plan: &Plan) -> Result<Vec<NodeId>, AskError> {
    let nodes = match (fulfilling(kb, &plan.conditions), of_subjects(kb, plan)) {
        (Some(mut known), Some(own)) => {
            known.retain(|node| own.binary_search(node).is_ok());
            known
        }
        (Some(known), None) => known,
        (None, Some(own)) => own,
        (None, None) => kb.nodes_of_type(plan.rows).to_vec(),
    };
    if nodes.len() > MAX_ROWS {
        return Err(AskError::Missing(format!(
            "{} rows exceed the limit of {MAX_ROWS}; name a condition",
            nodes.len()
        )));
    }
    let counts = matches!(
        plan.operation,
        Operation::Number(Measure::Rows)
            | Operation::Compare { measure: Measure::Rows, .. }
            | Operation::List
            | Operation::Exists
    );
    if nodes.is_empty() && !counts {
        let kind = kb.type_name(plan.rows);
        let conditions = plan.conditions.iter().map(|one| one.name.as_str());
        let subjects = plan.operation.subjects().iter().map(|one| one.name.as_str());
        let names: Vec<&str> = conditions.chain(subjects).collect();
        return Err(AskError::NoRows { kind: kind.to_owned(), of: names.join(", ") });
    }
    Ok(nodes)
}

/// Returns the nodes of the rows that belong to any of the plan's subjects, ascending. `None` if
/// there are no subjects, or if a subject is not defined by nodes.
fn of_subjects(kb: &Kb, plan: &Plan) -> Option<Vec<NodeId>> {
    let subjects = plan.operation.subjects();
    let mut own: Vec<NodeId> = Vec::new();
    for Subject { test, .. } in subjects {
        match test {
            Test::Is(nodes) => own.extend(nodes),
            Test::Linked { column, nodes } => {
                let back = reversed(plan.rows, plan.columns.get(*column)?.steps());
                own.extend(nodes.iter().flat_map(|&node| reached(kb, node, &back)));
            }
            _ => return None,
        }
    }
    own.sort_unstable();
    own.dedup();
    (!subjects.is_empty()).then_some(own)
}

/// Builds the table with the rows `nodes` and those columns of the plan that are used. Also
/// returns, for each column of the plan, its index in the table; `None` if it is not used.
fn load(
    kb: &Kb,
    plan: &Plan,
    nodes: &[NodeId],
    texts: &[Column],
) -> Result<(Table, Vec<Option<usize>>), AskError> {
    let mut table = Table { rows: nodes.to_vec(), columns: Vec::new() };
    let mut places = vec![None; plan.columns.len() + plan.texts.len()];
    for at in plan.used() {
        let Some(place) = places.get_mut(at) else { continue };
        *place = Some(table.columns.len());
        let Some(spec) = plan.columns.get(at) else {
            let read = texts.get(at - plan.columns.len());
            table.add(read.cloned().ok_or_else(|| {
                AskError::Plan("columns of texts need a language model".to_owned())
            })?);
            continue;
        };
        let named = plan.looked_for(at);
        table.add(match (spec, named) {
            (ColumnSpec::Names(steps), Some(named)) => {
                let back = reversed(plan.rows, steps);
                read_named(kb, plan.rows, nodes, (steps, &back), &named)
            }
            (spec, _) => read(kb, plan.rows, nodes, spec)?,
        });
    }
    Ok((table, places))
}

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
    fn ask(&mut self, sql: String, limits: &Limits) -> Result<Rows, AskError> {
        let rows = self.database.query(&sql, limits)?;
        self.sql.push(sql);
        Ok(rows)
    }

    /// Returns the nodes of the rows that satisfy the plan's filters, ascending; `None` if the plan
    /// has no filters or makes an assumption.
    fn counted(&mut self) -> Result<Option<Vec<NodeId>>, AskError> {
        if self.plan.filters.is_empty() || self.plan.supposed.is_some() {
            return Ok(None);
        }
        let rows = self.database.query(&self.writer.satisfying(&self.plan.filters), &ROWS)?;
        let id = |row: &Vec<SqlValue>| NodeId::try_from(row.first()?.number()? as i64).ok();
        Ok(Some(rows.rows.iter().filter_map(id).collect()))
    }

    fn rows_name(&self) -> &str {
        self.kb.type_name(self.plan.rows)
    }

    fn unit(&self, column: usize) -> Option<String> {
        self.writer.column(column).and_then(|column| column.unit.clone())
    }

    fn name(&self, column: usize) -> String {
        let Some(column) = self.writer.column(column) else { return String::new() };
        match column.source.strip_prefix("field ") {
            Some(field) => field.replace('_', " "),
            None => column.name.strip_prefix("n_").map_or_else(
                || column.name.replace('_', " "),
                |counted| format!("number of {}", counted.replace('_', " ")),
            ),
        }
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
    /// assumption, the answer is the one under the assumption; the sentence and the result also
    /// state the answer without it.
    fn answer(&mut self) -> Result<(Outcome, String), AskError> {
        let Some(change) = &self.plan.supposed else { return self.of_operation() };
        let (before, told_before) = self.of_operation()?;
        let result_before = std::mem::take(&mut self.result);
        self.left_out.clear();
        match change {
            Change::LeaveOut(tests) => {
                let written: Vec<String> =
                    tests.iter().map(|test| self.writer.test(test)).collect();
                // A row with a missing value is kept.
                self.writer.extra.push(format!("NOT coalesce(({}), 0)", written.join(" AND ")));
            }
            Change::Only(tests) => {
                let written: Vec<String> =
                    tests.iter().map(|test| self.writer.test(test)).collect();
                self.writer.extra.extend(written);
            }
            Change::Scale { column, times, plus } => {
                self.writer.scale = Some((*column, *times, *plus))
            }
        }
        let (after, told_after) = self.of_operation()?;
        let told = format!("{told_after}; as it is: {told_before}");
        if result_before.columns == self.result.columns {
            let mark = |rows: Rows, what: &str| {
                let with = move |mut row: Vec<SqlValue>| {
                    row.insert(0, SqlValue::Text(what.to_owned()));
                    row
                };
                rows.rows.into_iter().map(with).collect::<Vec<_>>()
            };
            let supposed = std::mem::take(&mut self.result);
            let mut columns = supposed.columns.clone();
            columns.insert(0, "case".to_owned());
            let mut rows = mark(supposed, "supposed");
            rows.extend(mark(result_before, "as it is"));
            self.result = Rows { columns, rows };
        }
        drop(before);
        Ok((after, told))
    }

    fn of_operation(&mut self) -> Result<(Outcome, String), AskError> {
        match &self.plan.operation {
            Operation::Number(measure) => self.number(*measure),
            Operation::Share(tests) => self.share(tests),
            Operation::Groups { group, part, measure, first } => {
                self.groups((*group, *part), *measure, *first)
            }
            Operation::First { column, high, top } => self.first(*column, *high, *top),
            Operation::Compare { subjects, measure, high, yes_no } => {
                self.compare(subjects, *measure, *high, *yes_no)
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
            Operation::Exists => self.exists(),
            Operation::Sql { statement, answer } => self.by_sql(statement, *answer),
        }
    }

    /// For each of these columns, records the number of rows that satisfy the filters but have no
    /// value in the column.
    fn note_left_out(&mut self, columns: &[usize]) -> Result<(), AskError> {
        for &column in columns {
            let missing = self.writer.missing(&self.plan.filters, column);
            let rows = self.database.query(&missing, &ROWS)?;
            let n = rows
                .rows
                .first()
                .and_then(|row| row.first())
                .and_then(SqlValue::number)
                .unwrap_or(0.0);
            let why = format!("no {}", self.name(column));
            if n > 0.0 && !self.left_out.iter().any(|known| known.why == why) {
                self.left_out.push(LeftOut { rows: n as usize, why });
            }
        }
        Ok(())
    }

    fn no_values(&self, column: usize) -> AskError {
        AskError::NoValues { kind: self.rows_name().to_owned(), what: self.name(column) }
    }

    fn number(&mut self, measure: Measure) -> Result<(Outcome, String), AskError> {
        let sql = self.writer.number(&self.plan.filters, measure);
        self.result = self.ask(sql, &ROWS)?;
        let at = |place: usize| {
            self.result.rows.first().and_then(|row| row.get(place)).and_then(SqlValue::number)
        };
        let (value, n) = (at(0), at(1));
        let unit = self.measure_unit(measure);
        let (value, told) = match measure {
            Measure::Rows => {
                let n = value.unwrap_or(0.0);
                (n, format!("{} ({} {})", shown(n), self.rows_name(), plural(n)))
            }
            Measure::Of(_, column) => {
                self.note_left_out(&[column])?;
                let value = value.ok_or_else(|| self.no_values(column))?;
                let n = n.unwrap_or(0.0);
                let told = format!(
                    "{}{} ({} of {} {} {})",
                    shown(value),
                    spaced(unit.as_deref()),
                    self.measure_name(measure),
                    shown(n),
                    self.rows_name(),
                    plural(n)
                );
                (value, told)
            }
        };
        Ok((Outcome::Number { value, unit }, told))
    }

    fn share(&mut self, tests: &[Test]) -> Result<(Outcome, String), AskError> {
        let sql = self.writer.share(&self.plan.filters, tests);
        self.result = self.ask(sql, &ROWS)?;
        let known: Vec<usize> = tests.iter().flat_map(Test::valued).collect();
        self.note_left_out(&known)?;
        let row = self.result.rows.first();
        let at = |place: usize| row.and_then(|row| row.get(place)).and_then(SqlValue::number);
        let (Some(value), Some(n), Some(all)) = (at(0), at(1), at(2)) else {
            return Err(AskError::NoRows { kind: self.rows_name().to_owned(), of: String::new() });
        };
        let told = format!(
            "{} % ({} of {} {} {})",
            shown(value),
            shown(n),
            shown(all),
            self.rows_name(),
            plural(all)
        );
        Ok((Outcome::Number { value, unit: Some("%".to_owned()) }, told))
    }

    /// Runs the statement that `written` writes for a maximum number of rows, and whose rows are
    /// sorted by the second column. Returns the first `top` rows, all further rows with the same
    /// value as the last of them, and at most [`MAX_FIRST`] more.
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
        Err(AskError::Missing(format!(
            "more than {MAX_TIED} have the same number as the last requested row; ask how many \
             have it"
        )))
    }

    fn groups(
        &mut self,
        (group, part): (usize, Option<DatePart>),
        measure: Measure,
        first: Option<(bool, usize)>,
    ) -> Result<(Outcome, String), AskError> {
        let high = first.is_none_or(|(high, _)| high);
        let filters = &self.plan.filters;
        let rows = match first {
            Some((_, top)) => self.first_rows(top, |writer, limit| {
                writer.groups(filters, (group, part), measure, high, limit)
            })?,
            None => {
                let sql = self.writer.groups(filters, (group, part), measure, high, MAX_GROUPS + 1);
                self.ask(sql, &ROWS)?
            }
        };
        self.note_left_out(&[group])?;
        if let Measure::Of(_, column) = measure {
            self.note_left_out(&[column])?;
        }
        let text = |row: &[SqlValue]| row.first().map(shown_value).unwrap_or_default();
        let number = |row: &[SqlValue], at: usize| row.get(at).and_then(SqlValue::number);
        let ranked: Vec<(String, f64, f64)> = rows
            .rows
            .iter()
            .filter_map(|row| {
                let value = number(row, 1)?;
                Some((text(row), value, number(row, 2).unwrap_or(value)))
            })
            .collect();
        if first.is_none() && rows.rows.len() > MAX_GROUPS {
            return Err(AskError::Missing(format!(
                "there are more than {MAX_GROUPS} groups; ask which has the most or the highest"
            )));
        }
        self.result = rows;
        let unit = self.measure_unit(measure);
        let Some((_, value, n)) = ranked.first().cloned() else {
            return Err(match measure {
                Measure::Of(_, column) => self.no_values(column),
                Measure::Rows => self.no_values(group),
            });
        };
        let what = self.measure_name(measure);
        let rows_name = self.rows_name().to_owned();
        let Some((_, top)) = first else {
            let n = ranked.len();
            let groups = if n == 1 { "group" } else { "groups" };
            let of = match part {
                None => self.name(group),
                Some(DatePart::Year) => format!("year of {}", self.name(group)),
                Some(DatePart::Month) => format!("month of {}", self.name(group)),
            };
            let told = format!("{n} {groups}: {what} of {rows_name} rows by {of}");
            return Ok((Outcome::Table, told));
        };
        let last = ranked.get(top.saturating_sub(1)).or(ranked.last()).map_or(value, |one| one.1);
        let in_first = |number: f64| if high { number >= last } else { number <= last };
        let (chosen, rest): (Vec<_>, Vec<_>) =
            ranked.into_iter().partition(|(_, number, _)| in_first(*number));
        let names: Vec<String> = chosen.iter().map(|(name, ..)| name.clone()).collect();
        let next = rest.first().map(|(name, number, n)| match measure {
            Measure::Rows => format!("; next: {name} {}", shown(*number)),
            Measure::Of(..) => format!("; next: {name} {} of {}", shown(*number), shown(*n)),
        });
        let of = match measure {
            Measure::Rows => format!("number of {rows_name} rows"),
            Measure::Of(..) => format!("{what} of {} {rows_name} {}", shown(n), plural(n)),
        };
        let numbers: Vec<String> = chosen.iter().map(|one| shown(one.1)).collect();
        let told = format!(
            "{} ({of}{})",
            names_in_words(&names, &numbers, unit.as_deref()),
            next.unwrap_or_default()
        );
        let value = SqlValue::Real(value);
        Ok((Outcome::Names { names, value, unit }, told))
    }

    fn first(
        &mut self,
        column: usize,
        high: bool,
        top: usize,
    ) -> Result<(Outcome, String), AskError> {
        let filters = &self.plan.filters;
        let rows =
            self.first_rows(top, |writer, limit| writer.first(filters, column, high, limit))?;
        self.note_left_out(&[column])?;
        // In the order of the statement: the requested rows with all ties, then a few more.
        let ranked: Vec<(NodeId, SqlValue)> = rows
            .rows
            .iter()
            .filter_map(|row| {
                let node = NodeId::try_from(row.first()?.number()? as i64).ok()?;
                self.kb.contains(node).then_some((node, row.get(1)?.clone()))
            })
            .collect();
        let Some((_, value)) = ranked.first().cloned() else { return Err(self.no_values(column)) };
        let last = ranked.get(top.saturating_sub(1)).or(ranked.last()).map(|one| &one.1);
        let tied = ranked.iter().rposition(|one| Some(&one.1) == last).unwrap_or(0);
        let (chosen, rest) = ranked.split_at((tied + 1).min(ranked.len()));
        let names: Vec<String> =
            chosen.iter().map(|(node, _)| self.kb.name(*node).to_owned()).collect();
        let columns = vec![
            "key".to_owned(),
            "name".to_owned(),
            rows.columns.get(1).cloned().unwrap_or_default(),
        ];
        let named = ranked.iter().map(|(node, value)| {
            let name = SqlValue::Text(self.kb.name(*node).to_owned());
            let value = value.number().map_or_else(|| value.clone(), SqlValue::Real);
            vec![SqlValue::Text(self.kb.key(*node).into_owned()), name, value]
        });
        self.result = Rows { columns, rows: named.collect() };
        let unit = self.unit(column);
        let way = match (&value, high) {
            (SqlValue::Text(_), true) => "latest",
            (SqlValue::Text(_), false) => "earliest",
            (_, true) => "highest",
            (_, false) => "lowest",
        };
        let next = rest
            .first()
            .map(|(node, value)| format!("; next: {} {}", self.kb.name(*node), shown_value(value)));
        let values: Vec<String> = chosen.iter().map(|one| shown_value(&one.1)).collect();
        let told = format!(
            "{} ({way} {}{})",
            names_in_words(&names, &values, unit.as_deref()),
            self.name(column),
            next.unwrap_or_default()
        );
        let value = value.number().map_or(value, SqlValue::Real);
        Ok((Outcome::Names { names, value, unit }, told))
    }

    fn compare(
        &mut self,
        subjects: &[Subject],
        measure: Measure,
        high: bool,
        yes_no: bool,
    ) -> Result<(Outcome, String), AskError> {
        let sql = self.writer.compare(&self.plan.filters, subjects, measure);
        let rows = self.ask(sql, &ROWS)?;
        if let Measure::Of(_, column) = measure {
            self.note_left_out(&[column])?;
        }
        let mut values = Vec::new();
        for (subject, row) in subjects.iter().zip(&rows.rows) {
            let Some(value) = row.get(1).and_then(SqlValue::number) else {
                let Measure::Of(_, column) = measure else { continue };
                let what = format!("{} of {}", self.name(column), subject.name);
                return Err(AskError::NoValues { kind: self.rows_name().to_owned(), what });
            };
            values.push((subject.name.clone(), value));
        }
        self.result = rows;
        let better = |one: f64, other: f64| if high { one > other } else { one < other };
        let Some((first, rest)) = values.split_first() else { return Err(AskError::NoTable) };
        let best = rest
            .iter()
            .fold(first.1, |best, (_, value)| if better(*value, best) { *value } else { best });
        let unit = self.measure_unit(measure);
        let of: Vec<String> =
            values.iter().map(|(name, value)| format!("{name} {}", shown(*value))).collect();
        let what = format!(
            "{}{}",
            self.measure_name(measure),
            unit.as_deref().map_or(String::new(), |unit| format!(" in {unit}"))
        );
        let listed = of.join(", ");
        if yes_no {
            let yes = rest.iter().all(|(_, value)| better(first.1, *value));
            let told = format!("{} ({what}: {listed})", if yes { "yes" } else { "no" });
            return Ok((Outcome::Truth(yes), told));
        }
        let names: Vec<String> = values
            .iter()
            .filter(|(_, value)| *value == best)
            .map(|(name, _)| name.clone())
            .collect();
        let told = format!("{} ({what}: {listed})", names.join(", "));
        Ok((Outcome::Names { names, value: SqlValue::Real(best), unit }, told))
    }

    /// Returns the numbers in `columns`, one list for each column, from the rows that satisfy the
    /// filters and have a number in all these columns.
    fn numbers(&mut self, columns: &[usize]) -> Result<Vec<Vec<f64>>, AskError> {
        let sql = self.writer.values(&self.plan.filters, columns);
        let rows = self.ask(sql, &ROWS)?;
        self.note_left_out(columns)?;
        let mut numbers = vec![Vec::with_capacity(rows.rows.len()); columns.len()];
        for row in &rows.rows {
            let own: Vec<f64> = row.iter().filter_map(SqlValue::number).collect();
            if own.len() == columns.len() {
                numbers.iter_mut().zip(own).for_each(|(column, number)| column.push(number));
            }
        }
        Ok(numbers)
    }

    /// Stores the result of a statistical test, and describes it in words.
    fn tested(&mut self, tested: TestResult) -> String {
        self.statistic = Some(tested);
        let (result, told) = test_in_words(tested);
        self.result = result;
        told
    }

    fn normal(&mut self, column: usize) -> Result<(Outcome, String), AskError> {
        let numbers = self.numbers(&[column])?;
        let numbers = numbers.first().map_or(&[][..], Vec::as_slice);
        let tested = statistics::normality(numbers)?;
        let yes = tested.p >= LEVEL;
        let what = self.name(column);
        let told = self.tested(tested);
        let finding = if yes { "nothing speaks against a normal" } else { "not normal" };
        Ok((Outcome::Truth(yes), format!("{}: {what}, {finding} ({told})", yes_or_no(yes))))
    }

    fn correlate(
        &mut self,
        one: usize,
        other: usize,
        ranks: bool,
        rises: Option<bool>,
    ) -> Result<(Outcome, String), AskError> {
        let numbers = self.numbers(&[one, other])?;
        let [ones, others] = numbers.as_slice() else { return Err(AskError::NoTable) };
        let tested = if ranks {
            statistics::spearman(ones, others)?
        } else {
            statistics::pearson(ones, others)?
        };
        let found = tested.p < LEVEL;
        let yes = found && rises.is_none_or(|rises| rises == (tested.statistic > 0.0));
        let way = if tested.statistic > 0.0 { "positively" } else { "negatively" };
        let finding =
            if found { format!("correlate {way}") } else { "no correlation is shown".to_owned() };
        let (one, other) = (self.name(one), self.name(other));
        let told = self.tested(tested);
        Ok((
            Outcome::Truth(yes),
            format!("{}: {one} and {other}, {finding} ({told})", yes_or_no(yes)),
        ))
    }

    fn spread(&mut self, one: usize, other: usize) -> Result<(Outcome, String), AskError> {
        let mut samples = Vec::new();
        for column in [one, other] {
            samples.extend(self.numbers(&[column])?);
        }
        let [ones, others] = samples.as_slice() else { return Err(AskError::NoTable) };
        let tested = statistics::f_test(ones, others)?;
        let what = format!("{} and {}", self.name(one), self.name(other));
        Ok(self.spreads(tested, &what, &samples))
    }

    fn spreads(
        &mut self,
        tested: TestResult,
        what: &str,
        samples: &[Vec<f64>],
    ) -> (Outcome, String) {
        let differ = tested.p < LEVEL;
        let (yes, finding) = match (samples, self.plan.asks_more) {
            _ if !differ => (self.plan.asks_same, "no difference of variances is shown"),
            ([one, other], Some(more)) => {
                let is_more = Moments::of(one).variance() > Moments::of(other).variance();
                let finding =
                    if is_more { "the first varies more" } else { "the second varies more" };
                (is_more == more, finding)
            }
            _ => (!self.plan.asks_same, "the variances differ"),
        };
        let told = self.tested(tested);
        (Outcome::Truth(yes), format!("{}: {what}, {finding} ({told})", yes_or_no(yes)))
    }

    fn spread_among(
        &mut self,
        measure: usize,
        group: Option<usize>,
        subjects: &[Subject],
    ) -> Result<(Outcome, String), AskError> {
        let (samples, what) = match group {
            Some(group) => {
                let mut samples = self.samples(measure, group)?;
                let all = samples.len();
                samples.retain(|(_, sample)| sample.len() >= MIN_OF_GROUP);
                if samples.len() < all {
                    let why =
                        format!("fewer than {MIN_OF_GROUP} numbers in their {}", self.name(group));
                    self.left_out.push(LeftOut { rows: all - samples.len(), why });
                }
                let samples = samples.into_iter().map(|(_, sample)| sample).collect();
                (samples, format!("{} by {}", self.name(measure), self.name(group)))
            }
            None => {
                let mut samples = Vec::new();
                for subject in subjects {
                    let test = self.writer.test(&subject.test);
                    self.writer.extra.push(test);
                    let own = self.numbers(&[measure]);
                    self.writer.extra.pop();
                    samples.extend(own?);
                }
                let names: Vec<&str> =
                    subjects.iter().map(|subject| subject.name.as_str()).collect();
                (samples, format!("{} of {}", self.name(measure), names.join(" and ")))
            }
        };
        let tested = statistics::brown_forsythe(&samples)?;
        Ok(self.spreads(tested, &what, &samples))
    }

    /// Returns the numbers in column `measure`, grouped by the values in column `group`; the groups
    /// ascend by value.
    fn samples(
        &mut self,
        measure: usize,
        group: usize,
    ) -> Result<Vec<(String, Vec<f64>)>, AskError> {
        let sql = self.writer.grouped_values(&self.plan.filters, measure, group);
        let rows = self.ask(sql, &ROWS)?;
        self.note_left_out(&[measure, group])?;
        Ok(by_key(&rows))
    }

    fn relate(&mut self, one: usize, other: usize) -> Result<(Outcome, String), AskError> {
        let is_number =
            |at: usize| self.writer.column(at).is_some_and(|column| column.kind.is_number());
        let names = (self.name(one), self.name(other));
        let tested = match (is_number(one), is_number(other)) {
            (true, true) => {
                let numbers = self.numbers(&[one, other])?;
                let [ones, others] = numbers.as_slice() else { return Err(AskError::NoTable) };
                statistics::spearman(ones, others)?
            }
            (true, false) => self.by_group(one, other)?,
            (false, true) => self.by_group(other, one)?,
            (false, false) => self.by_counts(one, other)?,
        };
        let related = tested.p < LEVEL;
        let yes = related != self.plan.asks_same;
        let finding = if related { "they are related" } else { "no relation is shown" };
        let told = self.tested(tested);
        Ok((
            Outcome::Truth(yes),
            format!("{}: {} and {}, {finding} ({told})", yes_or_no(yes), names.0, names.1),
        ))
    }

    fn by_group(&mut self, measure: usize, group: usize) -> Result<TestResult, AskError> {
        let samples: Vec<Vec<f64>> =
            self.samples(measure, group)?.into_iter().map(|(_, own)| own).collect();
        Ok(statistics::kruskal_wallis(&samples)?)
    }

    fn by_counts(&mut self, one: usize, other: usize) -> Result<TestResult, AskError> {
        let sql = self.writer.pairs(&self.plan.filters, one, other);
        let rows = self.ask(sql, &ROWS)?;
        self.note_left_out(&[one, other])?;
        Ok(statistics::chi_square(&contingency(&rows)?)?)
    }
}

/// Groups the numbers in the second column by the values in the first, which must be sorted.
pub(super) fn by_key(rows: &Rows) -> Vec<(String, Vec<f64>)> {
    let mut samples: Vec<(String, Vec<f64>)> = Vec::new();
    for row in &rows.rows {
        let (Some(key), Some(number)) = (row.first(), row.get(1).and_then(SqlValue::number)) else {
            continue;
        };
        let key = shown_value(key);
        match samples.last_mut() {
            Some((last, sample)) if *last == key => sample.push(number),
            _ => samples.push((key, vec![number])),
        }
    }
    samples
}

/// Builds a contingency table: how often each value of the first column occurs with each value of
/// the second. The third column, if there is one, says how often a row's pair occurs; otherwise,
/// each row counts once.
///
/// # Errors
/// If the contingency table would have more than [`MAX_PAIRS`] cells.
pub(super) fn contingency(rows: &Rows) -> Result<Vec<Vec<u64>>, AskError> {
    let text = |value: Option<&SqlValue>| value.map(shown_value).unwrap_or_default();
    let keys = |at: usize| {
        let mut keys: Vec<String> = rows.rows.iter().map(|row| text(row.get(at))).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    let (ones, others) = (keys(0), keys(1));
    if ones.len().saturating_mul(others.len()) > MAX_PAIRS {
        return Err(AskError::Missing(format!(
            "{} values by {} exceed the limit of {MAX_PAIRS} pairs; ask about fewer rows",
            ones.len(),
            others.len()
        )));
    }
    let mut counts = vec![vec![0; others.len()]; ones.len()];
    for row in &rows.rows {
        let places =
            (ones.binary_search(&text(row.first())), others.binary_search(&text(row.get(1))));
        if let (Ok(line), Ok(place)) = places {
            counts[line][place] += row.get(2).and_then(SqlValue::number).map_or(1, |n| n as u64);
        }
    }
    Ok(counts)
}
