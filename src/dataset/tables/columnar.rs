//! Reads columns and rows of Parquet files; no other module depends on the format. Files are not
//! trusted: every defect is returned as an error.
//!
//! Rows are read one by one; one page of each column is held in memory. A byte array becomes a text
//! if it is UTF-8, and is omitted otherwise.

use std::{
    fs::File,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use parquet::{
    errors::ParquetError,
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row as Record},
};
use serde_json::{Map, Number, Value};

use crate::{
    DatasetError, Result,
    error::Problems,
    tables::rows::{Row, RowHandler, is_empty},
};
use agent_ground::files;

fn damaged(path: &Path) -> impl Fn(&str) -> DatasetError + '_ {
    move |why: &str| {
        let message =
            format!("cannot read the Parquet file: {why}; write it again, or convert it to CSV");
        DatasetError::bad_input(path, message)
    }
}

/// Calls the Parquet engine, and converts its errors and panics to errors about the file.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(damaged(path)(&error.to_string())),
        Err(_) => Err(damaged(path)("it is damaged")),
    }
}

fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    let file = files::open(path).map_err(DatasetError::io("read", path))?;
    guarded(path, || SerializedFileReader::new(file))
}

/// Returns the names of the columns in file order.
pub(super) fn columns(path: &Path) -> Result<Vec<String>> {
    let reader = open(path)?;
    let fields = reader.metadata().file_metadata().schema().get_fields();
    Ok(fields.iter().map(|field| field.name().to_owned()).collect())
}

/// Passes all rows to `on_row`, in file order.
pub(super) fn each(
    path: &Path,
    problems: &mut Problems,
    on_row: &mut RowHandler<'_>,
) -> Result<()> {
    let reader = open(path)?;
    let mut rows = guarded(path, || reader.get_row_iter(None))?;
    let mut line = 0;
    while let Some(record) = guarded(path, || rows.next().transpose())? {
        line += 1;
        if !on_row(problems, Row { line, cells: cells(&record) })? {
            break;
        }
    }
    Ok(())
}

/// Returns the cells of a record by column name, without empty values and without bytes that are
/// not UTF-8.
fn cells(record: &Record) -> Map<String, Value> {
    let value = |(name, field): (&String, &Field)| Some((name.clone(), value(field)?));
    record.get_column_iter().filter_map(value).filter(|(_, value)| !is_empty(value)).collect()
}

fn value(field: &Field) -> Option<Value> {
    let float = |number: f64| Number::from_f64(number).map(Value::Number);
    match field {
        Field::Null => None,
        Field::Bool(truth) => Some((*truth).into()),
        Field::Byte(number) => Some((*number).into()),
        Field::Short(number) => Some((*number).into()),
        Field::Int(number) => Some((*number).into()),
        Field::Long(number) => Some((*number).into()),
        Field::UByte(number) => Some((*number).into()),
        Field::UShort(number) => Some((*number).into()),
        Field::UInt(number) => Some((*number).into()),
        Field::ULong(number) => Some((*number).into()),
        Field::Float16(number) => float(number.to_f64()),
        // Via the shortest decimal form, so that 0.1 stays 0.1 in double precision.
        Field::Float(number) => float(number.to_string().parse().ok()?),
        Field::Double(number) => float(*number),
        Field::Str(text) => Some(text.as_str().into()),
        Field::Bytes(bytes) => Some(std::str::from_utf8(bytes.data()).ok()?.into()),
        Field::Group(record) => Some(Value::Object(cells(record))),
        Field::ListInternal(list) => {
            Some(Value::Array(list.elements().iter().filter_map(value).collect()))
        }
        Field::MapInternal(map) => {
            let entry = |(key, of): &(Field, Field)| Some((text(key)?, value(of)?));
            Some(Value::Object(map.entries().iter().filter_map(entry).collect()))
        }
        // Decimals, dates and times, as text.
        other => Some(other.to_string().into()),
    }
}

/// Converts the key of a map to text; `None` unless the key is a text or a number.
fn text(key: &Field) -> Option<String> {
    match value(key)? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
