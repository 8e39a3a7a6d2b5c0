//! Watches a running statement: its deadline, the heap that it takes beside the loaded tables, and what
//! it may read.
//!
//! SQLite counts its heap for the whole process, so the heap of a statement is the growth since it
//! began, less what was loaded since, shared by all that run.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::{ffi, hooks::AuthAction};

use crate::table::{SqlError, database::FUNCTIONS, functions, texts};

/// Bytes of heap of one statement: sorters, groups and temporary tables. Sorting that much, which
/// SQLite does in one piece, takes about a second.
pub(super) const MAX_HEAP: u64 = 128 << 20;
/// Beginnings of names of SQLite's built-in tables.
const BUILT_IN: [&str; 7] = ["sqlite", "json", "pragma_", "dbstat", "fts", "rtree", "geopoly"];

/// Statements that run now.
static RUNNING: AtomicU64 = AtomicU64::new(0);
/// Bytes that loads may have taken, all since the start of the process.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Bytes of SQLite's heap, of all connections.
fn heap() -> u64 {
    // SAFETY: it has no arguments, may be called on any thread, and reads one counter under a lock.
    unsafe { ffi::sqlite3_memory_used() }.unsigned_abs()
}

/// Heap that a load of tables may take: all of its limit while it goes on, afterwards what it took.
pub(super) struct LoadedHeap {
    limit: u64,
}

impl LoadedHeap {
    /// A load of at most `limit` bytes.
    pub(super) fn begin(limit: u64) -> Self {
        LOADED.fetch_add(limit, Ordering::SeqCst);
        Self { limit }
    }

    /// The load took `bytes`.
    pub(super) fn end(self, bytes: u64) {
        LOADED.fetch_add(bytes, Ordering::SeqCst);
    }
}

impl Drop for LoadedHeap {
    fn drop(&mut self) {
        LOADED.fetch_sub(self.limit, Ordering::SeqCst);
    }
}

/// A running statement.
struct Running {
    /// None: beyond what a clock can tell.
    deadline: Option<Instant>,
    time: Duration,
    heap: u64,
    loaded: u64,
}

impl Running {
    /// Why it is to be stopped.
    fn excess(&self) -> Option<SqlError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(SqlError::Deadline(self.time));
        }
        let shared = MAX_HEAP.saturating_mul(RUNNING.load(Ordering::SeqCst));
        let loaded = LOADED.load(Ordering::SeqCst).saturating_sub(self.loaded);
        let grown = heap().saturating_sub(self.heap);
        (grown > shared.saturating_add(loaded)).then_some(SqlError::TooMuchMemory(MAX_HEAP))
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
        RUNNING.fetch_sub(1, Ordering::SeqCst);
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
        RUNNING.fetch_add(1, Ordering::SeqCst);
        *lock(&self.reason) = None;
        let (deadline, loaded) = (Instant::now().checked_add(time), LOADED.load(Ordering::SeqCst));
        *lock(&self.running) = Some(Running { deadline, time, heap: heap(), loaded });
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
