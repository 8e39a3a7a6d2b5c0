//! Enforces the limits of a running statement: its deadline, its heap beyond that of the loaded
//! tables, the numbers that its functions keep, and the tables and functions that it may use.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rusqlite::hooks::AuthAction;

use crate::{
    sqlite,
    table::{SqlError, database::known_functions},
};
use agent_ground::locks::locked;

/// Maximum heap of one statement, in bytes: for sorting, groups and temporary tables. Sorting that
/// much takes about a quarter of a second, during which SQLite does not check for interrupts.
pub const MAX_HEAP: i64 = 32 << 20;
/// Maximum number of numbers that the functions of one statement keep at the same time, for medians
/// and correlations: 16 MB outside the heap of SQLite, and two for each row of the largest table.
pub const MAX_NUMBERS: usize = 2_000_000;
/// Beginnings of the names of SQLite's built-in tables, in lower case.
const BUILT_IN: [&str; 7] = ["sqlite", "json", "pragma_", "dbstat", "fts", "rtree", "geopoly"];

/// The limits of a running statement.
struct Running {
    /// When the statement must stop; `None` if that time exceeds the range of [`Instant`].
    deadline: Option<Instant>,
    time: Duration,
    /// Heap in bytes of the thread when the statement began.
    heap: i64,
}

impl Running {
    /// Returns the limit that the statement has exceeded; `None` if there is none. Must be called
    /// on the thread of the statement.
    fn excess(&self) -> Option<SqlError> {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Some(SqlError::Deadline(self.time));
        }
        let grown = sqlite::heap() - self.heap;
        (grown > MAX_HEAP).then_some(SqlError::TooMuchMemory(MAX_HEAP.unsigned_abs()))
    }
}

/// The permissions of a connection and the limits of its running statement.
#[derive(Default)]
pub(super) struct Watch {
    /// Names of the tables that statements may read; `None` while tables are loaded, when
    /// everything is allowed.
    tables: Mutex<Option<Vec<String>>>,
    running: Mutex<Option<Running>>,
    /// Number of numbers that functions keep.
    numbers: AtomicUsize,
    /// Why the last statement was refused or stopped; `None` if it was not.
    reason: Mutex<Option<SqlError>>,
}

/// Held while a statement runs; when it is dropped, the limits of the statement end.
pub(super) struct Turn<'a>(&'a Watch);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *locked(&self.0.running) = None;
    }
}

impl Watch {
    /// Restricts all further statements: they may only read `tables` and call harmless functions.
    pub(super) fn restrict_to(&self, tables: Vec<String>) {
        *locked(&self.tables) = Some(tables);
    }

    /// Begins a statement that may run for `time`, and clears the reason why the last statement was
    /// refused or stopped.
    pub(super) fn begin(&self, time: Duration) -> Turn<'_> {
        *locked(&self.reason) = None;
        let deadline = Instant::now().checked_add(time);
        *locked(&self.running) = Some(Running { deadline, time, heap: sqlite::heap() });
        Turn(self)
    }

    /// Whether the running statement must stop because it exceeds a limit; if so, records that as
    /// the reason.
    pub(super) fn is_to_stop(&self) -> bool {
        let excess = locked(&self.running).as_ref().and_then(Running::excess);
        excess.map(|excess| self.stop(excess)).is_some()
    }

    /// Counts `n` more numbers that `function` keeps. Returns `false` if they exceed
    /// [`MAX_NUMBERS`], counts none of them, and records that as the reason to stop.
    pub(super) fn keeps(&self, n: usize, function: &'static str) -> bool {
        let fits = self.numbers.load(Ordering::Relaxed) + n <= MAX_NUMBERS;
        if fits {
            self.numbers.fetch_add(n, Ordering::Relaxed);
        } else {
            self.stop(SqlError::TooManyNumbers(function));
        }
        fits
    }

    /// Records why the running statement is refused or stopped, unless a reason is known already.
    pub(super) fn stop(&self, reason: SqlError) {
        locked(&self.reason).get_or_insert(reason);
    }

    /// Counts `n` numbers as no longer kept.
    pub(super) fn drops(&self, n: usize) {
        self.numbers.fetch_sub(n, Ordering::Relaxed);
    }

    /// Returns the reason why the last statement was refused or stopped, and forgets it; `None` if
    /// there is none.
    pub(super) fn reason(&self) -> Option<SqlError> {
        locked(&self.reason).take()
    }

    /// Whether a statement may perform an action; if not, records the reason.
    pub(super) fn allows(&self, action: &AuthAction<'_>) -> bool {
        let tables = locked(&self.tables);
        let Some(tables) = tables.as_ref() else { return true };
        let forbidden = forbidden(action, tables);
        forbidden.map(|what| self.stop(SqlError::Refused(what))).is_none()
    }
}

/// Returns the reason to refuse an action; `None` if the action is allowed.
fn forbidden(action: &AuthAction<'_>, tables: &[String]) -> Option<String> {
    match action {
        AuthAction::Select => None,
        AuthAction::Read { table_name, column_name } => {
            let loaded = tables.iter().any(|table| table.eq_ignore_ascii_case(table_name));
            let lower = table_name.to_ascii_lowercase();
            // Without a column, the name may be that of a subquery or a common table expression.
            let is_part =
                column_name.is_empty() && !BUILT_IN.iter().any(|of| lower.starts_with(of));
            (!loaded && !is_part).then(|| format!("it reads {table_name}"))
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_lowercase();
            let allowed = known_functions().any(|known| known == name);
            (!allowed).then(|| format!("it calls {function_name}"))
        }
        AuthAction::Recursive => Some("it is recursive".to_owned()),
        AuthAction::Pragma { pragma_name, .. } => Some(format!("it uses pragma {pragma_name}")),
        AuthAction::Attach { .. } => Some("it attaches a file".to_owned()),
        other => {
            let written = format!("{other:?}");
            let what = written.split([' ', '{', '(']).next().unwrap_or_default().to_lowercase();
            Some(format!("it does something other than read ({what})"))
        }
    }
}
