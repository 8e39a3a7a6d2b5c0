//! Tables in memory on which untrusted, read-only SQL statements run within limits.
//!
//! A table `t` has a column `id`, the id of the row's node, followed by the columns of the table.
//! If cells of a column hold several values, the column in `t` has them joined, and a table
//! `t_COLUMN(id, key, value)` has one row for each value, where `key` identifies the value. Texts
//! in `t`, joined or not, are cut at 32 KiB.
//!
//! # Restrictions
//!
//! The input must be one statement that begins with `select` or `with`, without comments. An
//! authorizer allows only reads of the loaded tables and harmless functions, so writes, `attach`,
//! `pragma`, recursion and built-in tables are refused before anything runs. The number of rows,
//! their bytes and the heap are limited. A timer interrupts a statement at its deadline. SQLite
//! then stops at the next jump of its virtual machine, so the size of a text, the time of a
//! function call and the number of instructions are limited too.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, ErrorCode, ToSql,
    config::DbConfig,
    functions::FunctionFlags,
    hooks::{AuthContext, Authorization},
    limits::Limit,
    types::{ToSqlOutput, ValueRef},
};

use crate::{
    sqlite,
    table::{
        Budget, Cell, ColumnError, Key, MAX_NUMBERS, NamedValue, Table, calendar, functions, texts,
        watch::Watch,
    },
};

/// Number of instructions of SQLite's virtual machine between two checks of the deadline and the
/// heap.
const STEPS_AT_ONCE: i32 = 1_000;
/// Interval between interrupts after the deadline. Interrupts are repeated, because SQLite ignores
/// an interrupt that comes before the first instruction.
const AGAIN: Duration = Duration::from_millis(50);
/// Maximum size in bytes of a text or row while a statement runs.
pub(super) const MAX_TEXT: i32 = 64 << 10;
/// Maximum size in bytes of a row while tables are loaded.
const MAX_ROW: i32 = 1 << 20;
/// Maximum size in bytes of a cell (its text or its joined values); 16 columns of such cells fit
/// into [`MAX_ROW`].
const MAX_CELL: usize = 1 << 15;
/// Maximum size of the text of a statement, in bytes.
const MAX_SQL: usize = 20_000;
/// Maximum depth of nested expressions in a statement.
const MAX_DEPTH: i32 = 100;
/// Maximum number of `SELECT`s in a compound statement, joined for example by `UNION`.
const MAX_COMPOUND: i32 = 20;
pub(super) const MAX_PATTERN: i32 = 200;
/// Maximum number of instructions of SQLite's virtual machine in one compiled statement.
const MAX_INSTRUCTIONS: i32 = 3_000;
/// Maximum size of all rows of a result together, in bytes.
const MAX_RESULT: usize = 16 << 20;
/// Maximum number of pages of 4 KiB for all tables of a database together: 128 MiB.
const MAX_PAGES: u32 = 32_768;
/// SQLite's own functions that statements may call, in addition to those of `calendar`, `functions`
/// and `texts`, separated by spaces. Each takes time linear in the length of its texts, and none
/// depends on the time.
const FUNCTIONS: &str = "abs avg coalesce concat count dense_rank format group_concat \
    ifnull iif length lower max min ntile nullif percent_rank rank round row_number sign substr \
    substring sum total typeof upper";
/// Flags of the functions that are registered with a connection.
pub(super) const FLAGS: FunctionFlags = FunctionFlags::SQLITE_UTF8
    .union(FunctionFlags::SQLITE_DETERMINISTIC)
    .union(FunctionFlags::SQLITE_INNOCUOUS);

/// Limits of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum wall time from the start of the statement to its last row.
    pub time: Duration,
    /// Maximum number of rows that the statement returns; more rows are an error.
    pub rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(2), rows: 10_000 }
    }
}

/// Why a statement failed, or tables could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The text of the statement is too long; holds its size in bytes.
    #[error("the statement has {0} bytes; the limit is {MAX_SQL}")]
    TooLong(usize),
    /// The statement is refused because it would do more than read the loaded tables, or has a form
    /// that is not allowed; holds the reason.
    #[error("the statement is refused: {0}")]
    Refused(String),
    /// The SQL is invalid; holds SQLite's message.
    #[error("invalid SQL statement: {0}")]
    Wrong(String),
    /// The statement reached its time limit; holds the limit.
    #[error("the statement was stopped after {} ms; request less at a time", .0.as_millis())]
    Deadline(Duration),
    /// The result has too many rows or bytes.
    #[error(
        "the statement returns more than {rows} rows or {MAX_RESULT} bytes; group or limit them"
    )]
    TooMuch {
        /// Maximum number of rows.
        rows: usize,
    },
    /// The intermediate results of the statement take too much memory; holds the limit in bytes.
    #[error("the statement needs more than {} MiB of memory; group or limit its rows", .0 >> 20)]
    TooMuchMemory(u64),
    /// A function keeps too many numbers; holds the name of the function.
    #[error("{0} needs more than {MAX_NUMBERS} numbers in memory; group or limit the rows")]
    TooManyNumbers(&'static str),
    /// Copying the tables took too long.
    #[error(transparent)]
    Build(#[from] ColumnError),
    /// The tables do not fit into memory, or SQLite failed to load them; holds SQLite's message.
    #[error("the tables cannot be held in memory: {0}")]
    Load(String),
}

/// One value of the result of a statement.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum SqlValue {
    /// No value.
    Null,
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// A text.
    Text(String),
}

impl SqlValue {
    /// Returns the number; `None` for a text or null.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Null | Self::Text(_) => None,
        }
    }
}

/// The result of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns, in order.
    pub columns: Vec<String>,
    /// The rows, in order; each has one value for each column.
    pub rows: Vec<Vec<SqlValue>>,
}

/// Tables that are loaded into SQLite, on which statements run.
pub struct Database {
    connection: Connection,
    watch: Arc<Watch>,
}

impl Database {
    /// Loads tables, each under its name. Takes about one microsecond per cell.
    ///
    /// # Errors
    /// [`SqlError::Load`] if the tables exceed the memory limit or SQLite fails;
    /// [`SqlError::Build`] if no time is left.
    pub fn load(tables: &[(&str, &Table)], budget: &Budget) -> Result<Self, SqlError> {
        let watch = Arc::new(Watch::default());
        let opened = || -> Result<Database, Stopped> {
            let mut connection = sqlite::in_memory()?;
            harden(&mut connection, &watch)?;
            let mut names = Vec::new();
            for (name, table) in tables {
                names.extend(fill(&connection, name, table, budget)?);
            }
            connection.pragma_update(None, "query_only", true)?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT)?;
            connection.set_limit(Limit::SQLITE_LIMIT_VDBE_OP, MAX_INSTRUCTIONS)?;
            watch.restrict_to(names);
            Ok(Database { connection, watch: watch.clone() })
        };
        opened().map_err(|error| match error {
            Stopped::Limit(error) => error,
            Stopped::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                SqlError::Load(format!("they exceed {} MiB; ask about fewer rows", MAX_PAGES >> 8))
            }
            Stopped::Sqlite(error) => SqlError::Load(error.to_string()),
        })
    }

    /// Runs the statement `sql` and returns its rows in order.
    ///
    /// # Errors
    /// [`SqlError`] if the statement is refused, invalid or exceeds a limit.
    pub fn query(&self, sql: &str, limits: &Limits) -> Result<Rows, SqlError> {
        is_one_reading_statement(sql)?;
        let _turn = self.watch.begin(limits.time);
        let found = self.timed(sql, limits);
        let reason = self.watch.reason();
        found.map_err(|error| match (reason, error) {
            (Some(reason), _) => reason,
            (None, Stopped::Limit(error)) => error,
            (None, Stopped::Sqlite(error)) => match error.sqlite_error_code() {
                Some(ErrorCode::OperationInterrupted) => SqlError::Deadline(limits.time),
                // SQLite reports an exceeded limit of instructions this way.
                Some(ErrorCode::OutOfMemory) => SqlError::Wrong("it is too complex".to_owned()),
                _ => SqlError::Wrong(error.to_string()),
            },
        })
    }

    /// Returns the rows of a statement, which a timer interrupts at its deadline.
    fn timed(&self, sql: &str, limits: &Limits) -> Result<Rows, Stopped> {
        let (done, is_done) = mpsc::channel::<()>();
        let (handle, time) = (self.connection.get_interrupt_handle(), limits.time);
        thread::scope(|scope| {
            let timer = move || {
                let mut wait = time;
                while is_done.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
                    handle.interrupt();
                    wait = AGAIN;
                }
            };
            // If the thread cannot start, the progress handler still checks the deadline.
            let _timer = thread::Builder::new().spawn_scoped(scope, timer);
            let found = self.rows(sql, limits);
            drop(done);
            found
        })
    }

    fn rows(&self, sql: &str, limits: &Limits) -> Result<Rows, Stopped> {
        let mut statement = self.connection.prepare(sql)?;
        if !statement.readonly() {
            return Err(SqlError::Refused("it changes data".to_owned()).into());
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut found = Rows { columns, rows: Vec::new() };
        let mut bytes = 0;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..found.columns.len()).map(|at| Ok(value(row.get_ref(at)?)));
            let values: Vec<SqlValue> = values.collect::<rusqlite::Result<_>>()?;
            let size = |value: &SqlValue| {
                let text = if let SqlValue::Text(text) = value { text.len() } else { 0 };
                text.max(size_of::<SqlValue>())
            };
            bytes += values.iter().map(size).sum::<usize>();
            found.rows.push(values);
            if found.rows.len() > limits.rows || bytes > MAX_RESULT {
                return Err(SqlError::TooMuch { rows: limits.rows }.into());
            }
        }
        Ok(found)
    }
}

/// Why a statement returned no result.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Limit(#[from] SqlError),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

fn value(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) | ValueRef::Blob(text) => {
            SqlValue::Text(String::from_utf8_lossy(text).into_owned())
        }
    }
}

/// Writes a name as an SQL identifier in double quotes, such as `"price"`.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Sets the limits of a connection, and registers its functions, authorizer and progress handler.
fn harden(connection: &mut Connection, watch: &Arc<Watch>) -> rusqlite::Result<()> {
    functions::register(connection, watch)?;
    texts::register(connection, watch)?;
    calendar::register(connection, watch)?;
    connection.pragma_update(None, "max_page_count", MAX_PAGES)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // An unknown double-quoted column is an error, not a string literal.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_ROW),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL as i32),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, MAX_DEPTH),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, MAX_COMPOUND),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    let seen = watch.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if seen.allows(&context.action) { Authorization::Allow } else { Authorization::Deny }
    }))?;
    let seen = watch.clone();
    connection.progress_handler(STEPS_AT_ONCE, Some(move || seen.is_to_stop()))
}

/// Lists the names of all functions that statements may call.
pub(super) fn known_functions() -> impl Iterator<Item = &'static str> {
    let own = FUNCTIONS.split_whitespace().chain(functions::NAMES.split_whitespace());
    own.chain(calendar::NAMES).chain(texts::NAMES)
}

/// Checks, without parsing, that `sql` is one statement that begins with `select` or `with` and has
/// no comment.
fn is_one_reading_statement(sql: &str) -> Result<(), SqlError> {
    if sql.len() > MAX_SQL {
        return Err(SqlError::TooLong(sql.len()));
    }
    let refused = |what: &str| Err(SqlError::Refused(what.to_owned()));
    let text = sql.trim().trim_end_matches(';').trim_end();
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if !["select", "with"].iter().any(|word| first.eq_ignore_ascii_case(word)) {
        return refused("it does not begin with select or with");
    }
    let (mut quote, mut before) = (None, '\0');
    for c in text.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"' | '`') => quote = Some(c),
            None if c == '[' => quote = Some(']'),
            None if c == ';' => return refused("it contains more than one statement"),
            None if c == '\0' => return refused("it has a zero byte"),
            None if (before, c) == ('-', '-') || (before, c) == ('/', '*') => {
                return refused("it has a comment");
            }
            None => {}
        }
        before = c;
    }
    Ok(())
}

/// A cell as the parameter of an SQL statement that inserts a row.
struct Bound<'a>(&'a Cell);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Cell::Empty => ToSqlOutput::Borrowed(ValueRef::Null),
            Cell::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                ToSqlOutput::Borrowed(ValueRef::Integer(*number as i64))
            }
            Cell::Number(number) => ToSqlOutput::Borrowed(ValueRef::Real(*number)),
            Cell::Text(text) => {
                let end = text.floor_char_boundary(MAX_CELL);
                ToSqlOutput::Borrowed(ValueRef::Text(&text.as_bytes()[..end]))
            }
            Cell::Many(named) => {
                let mut joined = String::new();
                for one in named.iter() {
                    if joined.len() + one.name.len() > MAX_CELL {
                        joined += "; ...";
                        break;
                    }
                    joined += if joined.is_empty() { "" } else { "; " };
                    joined += &one.name;
                }
                ToSqlOutput::from(joined)
            }
        })
    }
}

/// Writes a table into SQLite, and one more table for each column with several values in a cell;
/// returns the names of the written tables.
fn fill(
    connection: &Connection,
    name: &str,
    table: &Table,
    budget: &Budget,
) -> Result<Vec<String>, Stopped> {
    let copied = || budget.step("copying the table").map_err(SqlError::from);
    let mut names = vec![name.to_owned()];
    let columns: Vec<String> = table.columns.iter().map(|column| quoted(&column.name)).collect();
    let declared: String = columns.iter().map(|column| format!(", {column}")).collect();
    let transaction = connection.unchecked_transaction()?;
    connection.execute_batch(&format!(
        "CREATE TABLE {} (id INTEGER PRIMARY KEY{declared}) WITHOUT ROWID",
        quoted(name)
    ))?;
    let marks = ", ?".repeat(columns.len());
    let insert = format!("INSERT INTO {} VALUES (?{marks})", quoted(name));
    let mut insert = connection.prepare(&insert)?;
    for (row, node) in table.rows.iter().enumerate() {
        copied()?;
        insert.raw_bind_parameter(1, i64::from(*node))?;
        for (at, column) in table.columns.iter().enumerate() {
            let cell = column.cells.get(row).unwrap_or(&Cell::Empty);
            insert.raw_bind_parameter(at + 2, Bound(cell))?;
        }
        insert.raw_execute()?;
    }
    drop(insert);
    for column in &table.columns {
        let has_many = column.cells.iter().any(|cell| matches!(cell, Cell::Many(_)));
        if !has_many {
            continue;
        }
        let long = format!("{name}_{}", column.name);
        names.push(long.clone());
        let long = quoted(&long);
        connection.execute_batch(&format!(
            "CREATE TABLE {long} (id INTEGER, key, value TEXT, PRIMARY KEY (key, id)) WITHOUT ROWID"
        ))?;
        let mut insert = connection.prepare(&format!("INSERT INTO {long} VALUES (?, ?, ?)"))?;
        let mut all: Vec<(&NamedValue, i64)> = Vec::new();
        for (node, cell) in table.rows.iter().zip(&column.cells) {
            let Cell::Many(named) = cell else { continue };
            all.extend(named.iter().map(|one| (one, i64::from(*node))));
        }
        // In primary key order, inserts need no search and grouping needs no sort.
        all.sort_unstable_by(|one, other| (&one.0.key, one.1).cmp(&(&other.0.key, other.1)));
        for (one, node) in all {
            copied()?;
            insert.raw_bind_parameter(1, node)?;
            match &one.key {
                Key::Node(other) => insert.raw_bind_parameter(2, i64::from(*other))?,
                Key::Value(value) => insert.raw_bind_parameter(2, &**value)?,
            }
            insert.raw_bind_parameter(3, &*one.name)?;
            insert.raw_execute()?;
        }
    }
    transaction.commit()?;
    Ok(names)
}
