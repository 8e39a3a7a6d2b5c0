//! Reads columns, declared keys and rows of the tables of an SQLite database.
//!
//! The database is not trusted: it is opened read-only, its views and triggers are never run, and a
//! value may have at most `MAX_LINE_BYTES` bytes.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, OpenFlags, config::DbConfig, limits::Limit, types::ValueRef};
use serde_json::{Map, Number, Value};

use crate::{
    DatasetError, ProblemKind, Result,
    error::{Fault, Problems},
    lines::MAX_LINE_BYTES,
    tables::rows::{Row, RowHandler, Table},
};
use agent_ground::files;
use agent_kb::sqlite;

/// First bytes of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Maximum number of tables of a database.
const MAX_TABLES: usize = 1_000;

/// Suffixes of the shadow tables that hold the data of virtual tables: full-text indexes (versions
/// 3 to 5) and R-trees.
const SHADOWS: [&str; 11] = [
    "config", "content", "data", "docsize", "idx", "node", "parent", "rowid", "segdir", "segments",
    "stat",
];

/// Keys that the schema declares for a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeclaredKeys {
    /// Names of the columns of the primary key, in the order of the key.
    pub(super) key: Vec<String>,
    /// Foreign keys of the table.
    pub(super) links: Vec<Reference>,
}

/// A foreign key: columns that refer to a column of another table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// Names of the columns with the foreign key; at least one.
    pub(super) columns: Vec<String>,
    /// Name of the referenced table.
    pub(super) table: String,
    /// Name of the referenced column, or of the first if there are several; `None` for the primary
    /// key.
    pub(super) target_column: Option<String>,
}

impl Reference {
    /// Whether the foreign key refers to `table`. The table must be in the same database file.
    pub(super) fn targets(&self, table: &Table) -> bool {
        table.name().is_some_and(|name| name.eq_ignore_ascii_case(&self.table))
    }
}

/// Whether a file begins with the first bytes of an SQLite database.
pub(super) fn is_database(path: &Path) -> bool {
    use std::io::Read;
    let mut begin = [0; 16];
    let read = files::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == MAGIC
}

fn damaged(path: &Path) -> impl Fn(rusqlite::Error) -> DatasetError + '_ {
    move |error| {
        let message = format!("cannot read the database: {error}; check it with `sqlite3`");
        DatasetError::bad_input(path, message)
    }
}

/// Quotes a name for SQL.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// An open database. The schema is read once, however many tables the database has.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
}

impl Database {
    /// Opens a database for reading.
    ///
    /// # Errors
    /// [`DatasetError::BadInput`] if the file is not a readable database.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = sqlite::connect(path, flags).and_then(|connection| {
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
            connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
            connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_LINE_BYTES as i32)?;
            connection.pragma_update(None, "cell_size_check", true)?;
            Ok(connection)
        });
        Ok(Self { path: path.to_path_buf(), connection: opened.map_err(damaged(path))? })
    }

    /// Returns the names of the tables, sorted; virtual tables and their shadow tables are left
    /// out.
    pub(super) fn tables(&self) -> Result<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection.prepare(
                "SELECT name, sql LIKE 'CREATE VIRTUAL%' FROM sqlite_schema WHERE type = 'table' \
                 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND sql IS NOT NULL ORDER BY name",
            )?;
            let all = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let all = all.collect::<rusqlite::Result<Vec<(String, bool)>>>()?;
            // `pragma table_list` marks shadow tables, but loads untrusted virtual tables.
            let shadows: HashSet<String> = all
                .iter()
                .filter(|(_, is_virtual)| *is_virtual)
                .flat_map(|(name, _)| SHADOWS.map(|end| format!("{name}_{end}").to_lowercase()))
                .collect();
            let names = all.into_iter().filter(|(_, is_virtual)| !is_virtual).map(|(name, _)| name);
            let names = names.filter(|name| !shadows.contains(&name.to_lowercase()));
            Ok(names.take(MAX_TABLES).collect())
        };
        read().map_err(damaged(&self.path))
    }

    /// Returns the names of the views, sorted; at most [`MAX_TABLES`].
    pub(super) fn views(&self) -> Result<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let sql = "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name LIMIT ?1";
            let mut statement = self.connection.prepare(sql)?;
            statement.query_map([MAX_TABLES as i64], |row| row.get(0))?.collect()
        };
        read().map_err(damaged(&self.path))
    }

    /// Returns the names of a table's columns in order.
    pub(super) fn columns(&self, table: &str) -> Result<Vec<String>> {
        let columns = columns_of(&self.connection, table).map_err(damaged(&self.path))?;
        Ok(columns.into_iter().map(|(name, _)| name).collect())
    }

    /// Returns the keys that the schema declares for a table.
    pub(super) fn declared(&self, table: &str) -> Result<DeclaredKeys> {
        let read = || -> rusqlite::Result<DeclaredKeys> {
            let mut key = columns_of(&self.connection, table)?;
            key.retain(|(_, place)| *place > 0);
            key.sort_by_key(|(_, place)| *place);
            let mut statement = self.connection.prepare(
                "SELECT seq, \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?1) \
                 ORDER BY id DESC, seq",
            )?;
            let mut rows = statement.query([table])?;
            let mut links: Vec<Reference> = Vec::new();
            while let Some(row) = rows.next()? {
                let (seq, column): (u32, String) = (row.get(0)?, row.get(1)?);
                match links.last_mut().filter(|_| seq > 0) {
                    Some(reference) => reference.columns.push(column),
                    None => links.push(Reference {
                        columns: vec![column],
                        table: row.get(2)?,
                        target_column: row.get(3)?,
                    }),
                }
            }
            Ok(DeclaredKeys { key: key.into_iter().map(|(name, _)| name).collect(), links })
        };
        read().map_err(damaged(&self.path))
    }

    /// Passes all rows of a table to `on_row`, ordered by row id or, if the table has none, by
    /// primary key.
    pub(super) fn each(
        &self,
        table: &str,
        place: &Path,
        problems: &mut Problems,
        on_row: &mut RowHandler<'_>,
    ) -> Result<()> {
        let Self { path, connection } = self;
        let failed = damaged(path);
        let columns = columns_of(connection, table).map_err(&failed)?;
        let names: Vec<String> = columns.iter().map(|(name, _)| quoted(name)).collect();
        let (names, table) = (names.join(", "), quoted(table));
        // A table without row ids is stored in the order of its primary key.
        let numbered = connection.prepare(&format!("SELECT {names} FROM {table} ORDER BY rowid"));
        let plain = || connection.prepare(&format!("SELECT {names} FROM {table}"));
        let mut statement = numbered.or_else(|_| plain()).map_err(&failed)?;
        let mut rows = statement.query([]).map_err(&failed)?;
        let mut line = 0;
        while let Some(row) = rows.next().map_err(&failed)? {
            line += 1;
            let mut cells = Map::new();
            let mut is_text = true;
            for (at, (name, _)) in columns.iter().enumerate() {
                let value = match row.get_ref(at).map_err(&failed)? {
                    ValueRef::Integer(number) => Some(number.into()),
                    ValueRef::Real(number) => Number::from_f64(number).map(Value::Number),
                    ValueRef::Text(text) => {
                        let text = std::str::from_utf8(text);
                        is_text &= text.is_ok();
                        text.ok().filter(|text| !text.is_empty()).map(Value::from)
                    }
                    // Binary values are not imported.
                    ValueRef::Null | ValueRef::Blob(_) => None,
                };
                cells.extend(value.map(|value| (name.clone(), value)));
            }
            let row = Row { line, cells };
            if !is_text {
                let hint = "store texts as UTF-8";
                let fault =
                    Fault::new(ProblemKind::NotUtf8, "a text of the row is not UTF-8", hint);
                problems.add(place, line, fault.with_excerpt(&row.excerpt()));
                continue;
            }
            if !on_row(problems, row)? {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the names of a table's columns in order, each with its position in the primary key (from
/// 1; 0 for a column outside of the key).
fn columns_of(connection: &Connection, table: &str) -> rusqlite::Result<Vec<(String, u32)>> {
    let mut statement =
        connection.prepare("SELECT name, pk FROM pragma_table_info(?1) ORDER BY cid")?;
    let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    columns.collect()
}
