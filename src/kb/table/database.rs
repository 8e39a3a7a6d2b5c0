//! In-memory tables for read-only SQL: runs untrusted statements within limits.
//!
//! A table `t` has the column `id`, the node, and one column for each of its own. If a cell of a
//! column may hold several values, `t` has them joined, up to 32 KiB, and a table `t_COLUMN(id,
//! key, value)` has one row per value, where `key` identifies the value.
//!
//! # Restrictions
//!
//! A statement begins with `select` or `with` and has no comments. The authorizer permits only
//! reads of the loaded tables and harmless functions, so writes, `attach`, `pragma` and recursion
//! are refused before anything runs. A statement ends by a deadline; its rows and their bytes are
//! limited.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{
    Connection, ErrorCode, ToSql,
    config::DbConfig,
    hooks::{AuthAction, AuthContext, Authorization},
    limits::Limit,
    types::{ToSqlOutput, ValueRef},
};

use crate::table::{Cell, Key, NamedValue, Table, functions};

/// Instructions of SQLite's virtual machine between two checks of the deadline.
const STEPS_AT_ONCE: i32 = 10_000;
/// Maximum size of one text, and of one row, bytes.
const MAX_TEXT: i32 = 1 << 20;
/// Maximum size of the joined values of one cell, bytes; a row of 16 such columns stays within
/// [`MAX_TEXT`].
const MAX_JOINED: usize = 1 << 15;
/// Maximum length of a statement, bytes.
const MAX_SQL: usize = 20_000;
/// Maximum depth of an expression.
const MAX_DEPTH: i32 = 100;
/// Maximum number of parts of a compound statement.
const MAX_COMPOUND: i32 = 20;
/// Maximum length of a pattern, characters.
const MAX_PATTERN: i32 = 200;
/// Maximum number of instructions of a compiled statement.
const MAX_INSTRUCTIONS: i32 = 50_000;
/// Maximum size of all rows of a result, bytes.
const MAX_RESULT: usize = 16 << 20;
/// Maximum number of 4 KiB pages of all tables of a database: 1 GiB.
const MAX_PAGES: u32 = 262_144;
/// SQLite functions that statements may call, beside those of `functions`.
pub(super) const FUNCTIONS: [&str; 37] = [
    "abs",
    "avg",
    "coalesce",
    "concat",
    "count",
    "current_date",
    "current_timestamp",
    "date",
    "dense_rank",
    "format",
    "group_concat",
    "ifnull",
    "iif",
    "instr",
    "length",
    "like",
    "lower",
    "ltrim",
    "max",
    "min",
    "ntile",
    "nullif",
    "percent_rank",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "strftime",
    "substr",
    "substring",
    "sum",
    "total",
    "trim",
    "typeof",
    "upper",
];

/// Limits of one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall time from the start to the last row.
    pub time: Duration,
    /// Maximum number of rows of the result.
    pub rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(2), rows: 10_000 }
    }
}

/// Why a statement or the loading of tables failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The statement is too long.
    #[error("the statement has {0} bytes, more than {MAX_SQL}")]
    TooLong(usize),
    /// The statement is not read-only.
    #[error("the statement is refused: {0}")]
    Refused(String),
    /// Invalid SQL.
    #[error("the statement is wrong: {0}")]
    Wrong(String),
    /// The deadline passed.
    #[error("the statement was stopped after {} ms; request less at a time", .0.as_millis())]
    Deadline(Duration),
    /// The result is too large.
    #[error("the statement gives more than {rows} rows or {MAX_RESULT} bytes; group or limit them")]
    TooMuch {
        /// The limit.
        rows: usize,
    },
    /// The tables exceed the memory limit, or another SQLite error.
    #[error("the tables cannot be held in memory: {0}")]
    Load(String),
}

/// One value of a result.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum SqlValue {
    /// Null.
    Null,
    /// An integer.
    Int(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
}

impl SqlValue {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Real(number) => Some(*number),
            Self::Null | Self::Text(_) => None,
        }
    }
}

/// Result of a statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<SqlValue>>,
}

/// State of the authorizer and the deadline.
#[derive(Default)]
struct Watch {
    /// Whether this module is loading tables.
    loading: AtomicBool,
    /// Reason of the last refusal.
    refused: Mutex<Option<String>>,
    /// Deadline of the running statement.
    deadline: Mutex<Option<Instant>>,
}

/// Loaded tables.
pub struct Database {
    connection: Connection,
    watch: Arc<Watch>,
}

impl Database {
    /// Loads tables by name. About one microsecond per cell.
    ///
    /// # Errors
    /// [`SqlError::Load`] if they exceed the memory limit.
    pub fn load(tables: &[(&str, &Table)]) -> Result<Self, SqlError> {
        let watch = Arc::new(Watch::default());
        let opened = || -> rusqlite::Result<Database> {
            let mut connection = Connection::open_in_memory()?;
            harden(&mut connection, &watch)?;
            watch.loading.store(true, Ordering::SeqCst);
            let loaded = tables.iter().try_for_each(|(name, table)| fill(&connection, name, table));
            loaded?;
            connection.pragma_update(None, "query_only", true)?;
            watch.loading.store(false, Ordering::SeqCst);
            Ok(Database { connection, watch: watch.clone() })
        };
        opened().map_err(|error| SqlError::Load(error.to_string()))
    }

    /// Runs a statement and returns its rows in order.
    ///
    /// # Errors
    /// [`SqlError`].
    pub fn query(&self, sql: &str, limits: &Limits) -> Result<Rows, SqlError> {
        is_one_reading_statement(sql)?;
        let started = Instant::now();
        let lock = |deadline| {
            *self.watch.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
        };
        self.refusal();
        lock(started.checked_add(limits.time));
        let found = self.rows(sql, limits);
        lock(None);
        found.map_err(|error| match error {
            Stopped::Limit(error) => error,
            Stopped::Sqlite(error) => self.sql_error(&error, started, limits),
        })
    }

    fn rows(&self, sql: &str, limits: &Limits) -> Result<Rows, Stopped> {
        let mut statement = self.connection.prepare(sql)?;
        if !statement.readonly() {
            return Err(SqlError::Refused("it changes something".to_owned()).into());
        }
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let mut found = Rows { columns, rows: Vec::new() };
        let mut bytes = 0;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let values = (0..found.columns.len()).map(|at| Ok(value(row.get_ref(at)?)));
            let values: Vec<SqlValue> = values.collect::<rusqlite::Result<_>>()?;
            let text =
                |value: &SqlValue| if let SqlValue::Text(text) = value { text.len() } else { 8 };
            bytes += values.iter().map(text).sum::<usize>();
            found.rows.push(values);
            if found.rows.len() > limits.rows || bytes > MAX_RESULT {
                return Err(SqlError::TooMuch { rows: limits.rows }.into());
            }
        }
        Ok(found)
    }

    /// Takes the reason of the last refusal.
    fn refusal(&self) -> Option<String> {
        self.watch.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn sql_error(&self, error: &rusqlite::Error, started: Instant, limits: &Limits) -> SqlError {
        if let Some(reason) = self.refusal() {
            return SqlError::Refused(reason);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) if started.elapsed() >= limits.time => {
                SqlError::Deadline(limits.time)
            }
            _ => SqlError::Wrong(error.to_string()),
        }
    }
}

/// Why a statement returned no rows.
enum Stopped {
    Limit(SqlError),
    Sqlite(rusqlite::Error),
}

impl From<SqlError> for Stopped {
    fn from(error: SqlError) -> Self {
        Self::Limit(error)
    }
}

impl From<rusqlite::Error> for Stopped {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
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

/// An identifier of SQL in quotation marks.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Limits, functions, authorizer and deadline of a connection.
fn harden(connection: &mut Connection, watch: &Arc<Watch>) -> rusqlite::Result<()> {
    functions::register(connection)?;
    connection.pragma_update(None, "max_page_count", MAX_PAGES)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // A column that is not there is an error, and no text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_TEXT),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL as i32),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, MAX_DEPTH),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, MAX_COMPOUND),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN),
        (Limit::SQLITE_LIMIT_VDBE_OP, MAX_INSTRUCTIONS),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    let seen = watch.clone();
    connection.authorizer(Some(move |context: AuthContext<'_>| {
        if seen.loading.load(Ordering::SeqCst) {
            return Authorization::Allow;
        }
        let Some(what) = forbidden(&context.action) else { return Authorization::Allow };
        let mut refused = seen.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get_or_insert(what);
        Authorization::Deny
    }))?;
    let seen = watch.clone();
    connection.progress_handler(
        STEPS_AT_ONCE,
        Some(move || {
            let deadline = *seen.deadline.lock().unwrap_or_else(PoisonError::into_inner);
            deadline.is_some_and(|deadline| Instant::now() >= deadline)
        }),
    )
}

/// Why an action is refused; none for reading.
fn forbidden(action: &AuthAction<'_>) -> Option<String> {
    match action {
        AuthAction::Select => None,
        AuthAction::Read { table_name, .. } if table_name.starts_with("sqlite_") => {
            Some(format!("it reads {table_name}"))
        }
        AuthAction::Read { .. } => None,
        AuthAction::Function { function_name } => {
            let name = function_name.to_lowercase();
            let known = FUNCTIONS.iter().chain(&functions::NAMES);
            let allowed = known.into_iter().any(|known| *known == name);
            (!allowed).then(|| format!("it calls {function_name}"))
        }
        AuthAction::Recursive => Some("it is recursive".to_owned()),
        AuthAction::Pragma { pragma_name, .. } => Some(format!("it uses pragma {pragma_name}")),
        AuthAction::Attach { .. } => Some("it attaches a file".to_owned()),
        other => {
            let written = format!("{other:?}");
            let what = written.split([' ', '{', '(']).next().unwrap_or_default().to_lowercase();
            Some(format!("it is not a read-only statement ({what})"))
        }
    }
}

/// Checks by its words that a text is one read-only statement.
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
            None if c == ';' => return refused("there is more than one"),
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

/// A cell as a bound parameter.
struct Bound<'a>(&'a Cell);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Cell::Empty => ToSqlOutput::Borrowed(ValueRef::Null),
            Cell::Number(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
                ToSqlOutput::Borrowed(ValueRef::Integer(*number as i64))
            }
            Cell::Number(number) => ToSqlOutput::Borrowed(ValueRef::Real(*number)),
            Cell::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Cell::Many(named) => {
                let mut joined = String::new();
                for one in named.iter() {
                    if joined.len() + one.name.len() > MAX_JOINED {
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

/// Writes a table, and one further table for each column with several values in a cell.
fn fill(connection: &Connection, name: &str, table: &Table) -> rusqlite::Result<()> {
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
        let long = quoted(&format!("{name}_{}", column.name));
        connection.execute_batch(&format!(
            "CREATE TABLE {long} (id INTEGER, key, value TEXT, PRIMARY KEY (key, id)) WITHOUT ROWID"
        ))?;
        let mut insert = connection.prepare(&format!("INSERT INTO {long} VALUES (?, ?, ?)"))?;
        let mut all: Vec<(&NamedValue, i64)> = Vec::new();
        for (node, cell) in table.rows.iter().zip(&column.cells) {
            let Cell::Many(named) = cell else { continue };
            all.extend(named.iter().map(|one| (one, i64::from(*node))));
        }
        // In the order of its key, a table is written without a search, and grouped without a sort.
        all.sort_unstable_by(|one, other| (&one.0.key, one.1).cmp(&(&other.0.key, other.1)));
        for (one, node) in all {
            insert.raw_bind_parameter(1, node)?;
            match &one.key {
                Key::Node(other) => insert.raw_bind_parameter(2, i64::from(*other))?,
                Key::Value(value) => insert.raw_bind_parameter(2, &**value)?,
            }
            insert.raw_bind_parameter(3, &*one.name)?;
            insert.raw_execute()?;
        }
    }
    transaction.commit()
}
