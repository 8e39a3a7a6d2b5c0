//! Reads columns and rows of a table in any supported file format.

use std::{
    cell::OnceCell,
    collections::{HashSet, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    path::{Path, PathBuf},
    rc::Rc,
};

use serde_json::{Map, Value};

use crate::{
    DatasetError, Result,
    encoding::Encoding,
    error::Problems,
    lines::Lines,
    tables::{
        Reading, Repair,
        cleaning::{Cleaning, JUDGED_ROWS, Judge},
        columnar, delimited, json,
        mapping::JSON_LIST,
        sqlite,
    },
};

/// Maximum number of columns (distinct keys) of a JSON table.
const MAX_COLUMNS: usize = 10_000;
/// A table that can be read repeatedly.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    kind: Kind,
    reading: Reading,
    /// How the table's cells are cleaned; set once the first rows have been inspected.
    cleaning: Rc<OnceCell<Cleaning>>,
}

#[derive(Clone, Debug)]
enum Kind {
    Delimited(Encoding),
    Json(Encoding),
    Parquet,
    /// The table with this name in a database.
    Sqlite(Rc<sqlite::Database>, String),
}

/// One row of a table.
pub(super) struct Row {
    /// Number of the row's first line (from 1); in a database or Parquet file, the number of the
    /// row.
    pub(super) line: u64,
    /// Cells by column name; empty and null cells are left out.
    pub(super) cells: Map<String, Value>,
}

/// Function that receives each row, and returns false to stop the reading.
pub(super) type RowHandler<'a> = dyn FnMut(&mut Problems, Row) -> Result<bool> + 'a;

impl Row {
    /// Returns a digest of the row's cells, which is the same in every run.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (column, value) in &self.cells {
            (column, value.to_string()).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Returns the texts of the row's cells, separated by spaces, for messages.
    pub(super) fn excerpt(&self) -> String {
        let cells = self.cells.values().map(|value| text_of_cell(value).unwrap_or_default());
        cells.collect::<Vec<_>>().join("  ")
    }

    /// Returns the trimmed text of a cell; `None` if the cell is empty, a list or an object.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        text_of_cell(self.cells.get(column)?)
    }

    /// Returns the texts of the items in a cell, which `separator` splits.
    pub(super) fn texts(&self, column: &str, separator: Option<&str>) -> Vec<String> {
        let Some(value) = self.cells.get(column) else { return Vec::new() };
        items(value, separator).iter().filter_map(text_of_cell).collect()
    }
}

/// Splits a cell into its items. Without a separator, only a JSON array has several items.
pub(super) fn items(value: &Value, separator: Option<&str>) -> Vec<Value> {
    match (value, separator) {
        (Value::Array(items), _) => items.clone(),
        (Value::String(text), Some(JSON_LIST)) => match serde_json::from_str(text) {
            Ok(Value::Array(items)) => items,
            _ => vec![value.clone()],
        },
        (Value::String(text), Some(separator)) if !separator.is_empty() => {
            let parts = text.split(separator).map(str::trim).filter(|part| !part.is_empty());
            parts.map(|part| Value::String(part.to_owned())).collect()
        }
        _ => vec![value.clone()],
    }
}

/// Returns the trimmed text of a value; `None` if it is empty, a list or an object.
pub(super) fn text_of_cell(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the lower-case extension of a file, ignoring `.gz` and `.zst`.
pub(super) fn extension(path: &Path) -> String {
    let name = file_name(path).to_lowercase();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    name.rsplit_once('.').map_or_else(String::new, |(_, extension)| extension.to_owned())
}

/// How the tables of a file are stored.
enum Format {
    Delimited,
    Json,
    Parquet,
    Database,
}

/// Returns the format of a file with tables, judged by its name or first bytes.
fn format(path: &Path) -> Option<Format> {
    match extension(path).as_str() {
        "db" | "sqlite" | "sqlite3" => Some(Format::Database),
        _ if sqlite::is_database(path) => Some(Format::Database),
        "csv" | "tsv" | "tab" => Some(Format::Delimited),
        "jsonl" | "ndjson" => Some(Format::Json),
        "json" if json::is_array(path) => Some(Format::Json),
        "parquet" => Some(Format::Parquet),
        _ => None,
    }
}

/// Whether a file is a supported table or database, judged by its name or first bytes; false for
/// hidden files.
pub(super) fn is_table(path: &Path) -> bool {
    !is_hidden(path) && format(path).is_some()
}

fn is_hidden(path: &Path) -> bool {
    file_name(path).starts_with('.')
}

/// Returns the name of a file without directories.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether a file is a table, a database or another known data file, supported or not, judged by
/// its name or first bytes.
pub fn holds_data(path: &Path) -> bool {
    is_table(path) || unsupported_hint(path).is_some()
}

/// Returns the remedy for a known but unsupported data file; `None` for other files.
pub(super) fn unsupported_hint(path: &Path) -> Option<&'static str> {
    match extension(path).as_str() {
        _ if is_hidden(path) => None,
        "arrow" | "feather" => Some(
            "this format is not supported; convert the file to CSV, for instance with `duckdb`",
        ),
        "json" if json::is_array(path) => None,
        "json" => Some("not an array of objects; convert it with `jq -c '.[]' x.json > x.jsonl`"),
        "xlsx" | "xls" | "ods" => Some("spreadsheets are not supported; save each sheet as CSV"),
        "nt" => Some("triples cannot be imported with tables; import the file alone"),
        _ => None,
    }
}

impl Table {
    /// Returns all tables of a file: several for a database, otherwise one.
    ///
    /// # Errors
    /// [`DatasetError::BadInput`] if the file is not a table or the database is damaged,
    /// [`DatasetError::Io`], [`DatasetError::Unreadable`].
    pub(super) fn all(path: &Path, reading: &Reading) -> Result<Vec<Table>> {
        let of = |kind| Table {
            path: path.to_path_buf(),
            kind,
            reading: reading.clone(),
            cleaning: Rc::default(),
        };
        let encoding = || reading.encoding.map_or_else(|| Lines::encoding_of(path), Ok);
        let kind = match format(path) {
            Some(Format::Database) => {
                let database = Rc::new(sqlite::Database::open(path)?);
                let tables = database.tables()?.into_iter();
                return Ok(tables.map(|table| of(Kind::Sqlite(database.clone(), table))).collect());
            }
            Some(Format::Delimited) => Kind::Delimited(encoding()?),
            Some(Format::Json) => Kind::Json(encoding()?),
            Some(Format::Parquet) => Kind::Parquet,
            None => {
                let other =
                    "not a table; tables are .csv, .tsv, .jsonl, .parquet and .sqlite files";
                return Err(DatasetError::bad_input(path, unsupported_hint(path).unwrap_or(other)));
            }
        };
        Ok(vec![of(kind)])
    }

    /// Returns the names of the views of the table's database, which are not read; none for other
    /// files.
    pub(super) fn views(&self) -> Result<Vec<String>> {
        match &self.kind {
            Kind::Sqlite(database, _) => database.views(),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the table called `name` among `all` tables of a file or, if `name` is `None`, the
    /// only table of a file that is not a database.
    ///
    /// # Errors
    /// A message for the user, which lists the tables that exist.
    pub(super) fn find(all: &[Table], name: Option<&str>) -> Result<Table, String> {
        let names = || all.iter().filter_map(Table::name).collect::<Vec<_>>().join(", ");
        match name {
            None if all.iter().any(|table| table.name().is_some()) => {
                Err(format!("it is a database, so a table must be named: {}", names()))
            }
            None => all.first().cloned().ok_or_else(|| "it has no table".to_owned()),
            Some(name) => {
                let found = all.iter().find(|table| table.name() == Some(name)).cloned();
                found.ok_or_else(|| format!("it has no table {name:?}; it has: {}", names()))
            }
        }
    }

    /// Returns the name of the table in its database; `None` for other files.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.kind {
            Kind::Sqlite(_, table) => Some(table),
            _ => None,
        }
    }

    /// Returns the path of the table's file; in a database, followed by the name of the table. For
    /// messages.
    pub(super) fn place(&self) -> PathBuf {
        match &self.kind {
            Kind::Sqlite(_, table) => PathBuf::from(format!("{}:{table}", self.path.display())),
            _ => self.path.clone(),
        }
    }

    /// Returns the name of the table's file without directories; in a database, followed by the
    /// name of the table. For messages.
    pub(super) fn label(&self) -> String {
        file_name(&self.place())
    }

    /// Returns the name of the table in its database; for other files, the file name without
    /// directory and extensions.
    pub(super) fn stem(&self) -> String {
        if let Some(name) = self.name() {
            return name.to_owned();
        }
        let name = file_name(&self.path);
        name.trim_start_matches('.').split('.').next().unwrap_or_default().to_owned()
    }

    /// Returns the names of the columns in order; for JSON, the keys of all rows.
    ///
    /// # Errors
    /// Errors of reading the table, and [`DatasetError::BadInput`] for more than [`MAX_COLUMNS`]
    /// keys of a JSON table.
    pub(super) fn columns(&self) -> Result<Vec<String>> {
        match &self.kind {
            Kind::Delimited(encoding) => delimited::columns(&self.path, *encoding),
            Kind::Parquet => columnar::columns(&self.path),
            Kind::Sqlite(database, table) => database.columns(table),
            Kind::Json(_) => {
                let (mut columns, mut known) = (Vec::new(), HashSet::new());
                // The import reports problems of rows.
                let mut ignored = Problems::new(true);
                self.each_raw(&mut ignored, &mut |_, row| {
                    for column in row.cells.keys().filter(|column| !known.contains(*column)) {
                        columns.push(column.clone());
                    }
                    known.extend(row.cells.into_iter().map(|cell| cell.0));
                    Ok(columns.len() <= MAX_COLUMNS)
                })?;
                if columns.len() > MAX_COLUMNS {
                    let message = format!(
                        "its rows have more than {MAX_COLUMNS} different keys; write the keys that \
                         differ between rows as values, {{\"key\": ..., \"value\": ...}}"
                    );
                    return Err(DatasetError::bad_input(self.place(), message));
                }
                Ok(columns)
            }
        }
    }

    /// Returns the primary and foreign keys that the database declares for the table; none if the
    /// file is not a database.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub(super) fn declared(&self) -> Result<sqlite::DeclaredKeys> {
        match &self.kind {
            Kind::Sqlite(database, table) => database.declared(table),
            _ => Ok(sqlite::DeclaredKeys::default()),
        }
    }

    /// Passes all rows, cleaned, to `on_row`, in file order. Adds a problem for each malformed row.
    ///
    /// # Errors
    /// Errors of reading the table, and errors of `on_row`.
    pub(super) fn each(&self, problems: &mut Problems, on_row: &mut RowHandler<'_>) -> Result<()> {
        let cleaning = self.cleaning()?;
        cleaning.restart();
        self.each_raw(problems, &mut |problems, mut row| {
            cleaning.clean(&mut row);
            on_row(problems, row)
        })
    }

    /// Returns how the table's cells are cleaned; the first call inspects the first rows.
    ///
    /// # Errors
    /// Errors of reading the table.
    pub(super) fn cleaning(&self) -> Result<&Cleaning> {
        if let Some(known) = self.cleaning.get() {
            return Ok(known);
        }
        let mut judge = Judge::new(&self.reading, matches!(self.kind, Kind::Delimited(_)));
        let mut n = 0;
        // The import reports problems of rows.
        self.each_raw(&mut Problems::new(true), &mut |_, row| {
            judge.see(&row);
            n += 1;
            Ok(n < JUDGED_ROWS)
        })?;
        Ok(self.cleaning.get_or_init(|| judge.cleaning()))
    }

    /// Returns the changes made to cells in the last reading; includes the encoding if it is not
    /// UTF-8.
    pub(super) fn repairs(&self) -> Vec<Repair> {
        let file = self.label();
        let encoding = match self.kind {
            Kind::Delimited(encoding) | Kind::Json(encoding) => encoding,
            _ => Encoding::Utf8,
        };
        let encoding = (encoding != Encoding::Utf8).then(|| Repair {
            file: file.clone(),
            kind: "encoding",
            count: 0,
            message: format!("read as {encoding}; use --encoding ENCODING for another encoding"),
        });
        let cells = self.cleaning.get().map(|cleaning| cleaning.repairs(&file));
        encoding.into_iter().chain(cells.unwrap_or_default()).collect()
    }

    fn each_raw(&self, problems: &mut Problems, on_row: &mut RowHandler<'_>) -> Result<()> {
        match &self.kind {
            Kind::Delimited(encoding) => delimited::each(&self.path, *encoding, problems, on_row),
            Kind::Json(encoding) => json::each(&self.path, *encoding, problems, on_row),
            Kind::Parquet => columnar::each(&self.path, problems, on_row),
            Kind::Sqlite(database, table) => database.each(table, &self.place(), problems, on_row),
        }
    }
}

/// Whether a value is empty; rows leave out cells with empty values.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
