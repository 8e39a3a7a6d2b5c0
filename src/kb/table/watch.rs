//! Watches a running statement: its deadline, the heap that it takes beside the loaded
//! tables, and what it may read.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::hooks::AuthAction;

use crate::{
    sqlite,
    table::{SqlError, database::FUNCTIONS, functions, texts},
};

/// Bytes of heap of one statement: sorters, groups and temporary tables. Sorting that much, which
/// SQLite does in one piece, takes about a second.
pub(super) const MAX_HEAP: i64 = 128 << 20;
/// Beginnings of names of SQLite's built-in tables.
const BUILT_IN: [&str; 7] = ["sqlite", "json", "pragma_", "dbstat", "fts", "rtree", "geopoly"];

/// A running statement.
struct Running {
    /// None: beyond what a clock can tell.
    deadline: Option<Instant>,
    time: Duration,
    /// Heap of its thread when it began.
    heap: i64,
}

impl Running {
    /// Why it is to be stopped. SQLite asks on the thread on which the statement runs.
    fn excess(&self) -> Option<SqlError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(SqlError::Deadline(self.time));
        }
        let grown = sqlite::heap() - self.heap;
        (grown > MAX_HEAP).then_some(SqlError::TooMuchMemory(MAX_HEAP.unsigned_abs()))
    }
}

/// What a connection may do now.
#[derive(Default)]
pub(super) struct Watch {
    /// Names of the tables that statements may read; none while they are loaded.
    tables: Mutex<Option<Vec<String>>>,
    running: Mutex<Option<Running>>,
    /// Why the last statement was refused or stopped.
    reason: Mutex<Option<SqlError>>,
}

/// Held while a statement runs.
pub(super) struct Turn<'a>(&'a Watch);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.running) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    /// From now on statements may read these tables, and do nothing else.
    pub(super) fn restrict_to(&self, tables: Vec<String>) {
        *lock(&self.tables) = Some(tables);
    }

    /// Begins a statement that may run for `time`.
    pub(super) fn begin(&self, time: Duration) -> Turn<'_> {
        *lock(&self.reason) = None;
        let deadline = Instant::now().checked_add(time);
        *lock(&self.running) = Some(Running { deadline, time, heap: sqlite::heap() });
        Turn(self)
    }

    /// Whether the running statement is to be stopped; notes why.
    pub(super) fn is_to_stop(&self) -> bool {
        let excess = lock(&self.running).as_ref().and_then(Running::excess);
        let stops = excess.is_some();
        if let Some(excess) = excess {
            lock(&self.reason).get_or_insert(excess);
        }
        stops
    }

    /// Takes why the last statement was refused or stopped.
    pub(super) fn reason(&self) -> Option<SqlError> {
        lock(&self.reason).take()
    }

    /// Whether an action is allowed; notes why not.
    pub(super) fn allows(&self, action: &AuthAction<'_>) -> bool {
        let tables = lock(&self.tables);
        let Some(tables) = tables.as_ref() else { return true };
        let Some(what) = forbidden(action, tables) else { return true };
        lock(&self.reason).get_or_insert(SqlError::Refused(what));
        false
    }
}

/// Why an action is refused; none for reading.
fn forbidden(action: &AuthAction<'_>, tables: &[String]) -> Option<String> {
    match action {
        AuthAction::Select => None,
        AuthAction::Read { table_name, column_name } => {
            let loaded = tables.iter().any(|table| table.eq_ignore_ascii_case(table_name));
            let lower = table_name.to_ascii_lowercase();
            // Where no column is read, it may be the name of a part of the statement.
            let is_part =
                column_name.is_empty() && !BUILT_IN.iter().any(|of| lower.starts_with(of));
            (!loaded && !is_part).then(|| format!("it reads {table_name}"))
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_lowercase();
            let known = FUNCTIONS.iter().chain(&functions::NAMES).chain(&texts::NAMES);
            let allowed = known.into_iter().any(|known| *known == name);
            (!allowed).then(|| format!("it calls {function_name}"))
        }
        AuthAction::Recursive => Some("it is recursive".to_owned()),
        AuthAction::Pragma { pragma_name, .. } => Some(format!("it uses pragma {pragma_name}")),
        AuthAction::Attach { .. } => Some("it attaches a file".to_owned()),
        other => {
            let written = format!("{other:?}");
            let what = written.split([' ', '{', '(']).next().unwrap_or_default().to_lowercase();
            Some(format!("it does more than read ({what})"))
        }
    }
}
