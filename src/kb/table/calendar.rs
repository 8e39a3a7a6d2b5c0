//! SQL functions `date` and `strftime` of SQLite that refuse the current time: the answer to a
//! question must not depend on the time of the question.

use std::sync::Arc;

use rusqlite::{
    Connection, Error, Result,
    functions::Context,
    params_from_iter,
    types::{ToSqlOutput, Value, ValueRef},
};

use crate::{
    sqlite,
    table::{SqlError, database::FLAGS, watch::Watch},
};

/// Names of the functions that this module replaces.
pub(super) const NAMES: [&str; 2] = ["date", "strftime"];
/// Texts that stand for the current time.
const NOW: [&str; 3] = ["now", "subsec", "subsecond"];

/// Registers the functions of this module with a connection, whose limits `watch` checks.
pub(super) fn register(connection: &Connection, watch: &Arc<Watch>) -> Result<()> {
    // Index of the time argument, from 0; in `strftime` the format comes first.
    for (time_at, name) in NAMES.into_iter().enumerate() {
        let (watch, own) = (watch.clone(), sqlite::in_memory()?);
        connection.create_scalar_function(name, -1, FLAGS, move |context| {
            if watch.is_to_stop() {
                return Err(Error::UserFunctionError("it is stopped".into()));
            }
            if is_now(context, time_at) {
                let what = format!("{name} reads the current time; give a date");
                watch.stop(SqlError::Refused(what));
                return Err(Error::UserFunctionError("it reads the current time".into()));
            }
            let marks = vec!["?"; context.len()].join(", ");
            let arguments = (0..context.len()).map(|at| ToSqlOutput::Borrowed(context.get_raw(at)));
            own.prepare_cached(&format!("SELECT {name}({marks})"))?
                .query_row(params_from_iter(arguments), |row| row.get::<_, Value>(0))
        })?;
    }
    Ok(())
}

/// Whether the time argument, whose position is `index` (from 0), stands for the current time. It
/// also does if it is the first missing argument. If the format of `strftime` is missing too, the
/// time is not read, and the result is null.
fn is_now(context: &Context<'_>, index: usize) -> bool {
    if index >= context.len() {
        return index == context.len();
    }
    let (ValueRef::Text(text) | ValueRef::Blob(text)) = context.get_raw(index) else {
        return false;
    };
    // SQLite reads a text up to its first zero byte.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    NOW.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}
