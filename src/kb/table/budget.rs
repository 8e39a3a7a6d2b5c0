//! Limits the memory and the processor time of building the table of one question.

use std::{cell::Cell, time::Duration};

use agent_ground::clock::Timer;

use crate::table::ColumnError;

/// Maximum size of the columns of a table, in bytes; SQLite holds a copy of about the same size.
pub const MAX_BYTES: usize = 96 << 20;
/// Maximum processor time for building a table: following its metapaths, and copying it.
pub const MAX_TIME: Duration = Duration::from_secs(4);
/// Number of steps between two readings of the clock. A step usually takes a few microseconds, but
/// some hundredths of a second if a node has very many edges.
const AT_ONCE: usize = 8;

/// Remaining memory and time for the table of one question. Used by one thread only.
pub struct Budget {
    timer: Timer,
    /// Bytes that are still free.
    bytes: Cell<usize>,
    /// Number of steps so far.
    steps: Cell<usize>,
}

impl Budget {
    /// Starts a budget of [`MAX_BYTES`] and [`MAX_TIME`].
    pub fn start() -> Self {
        Self { timer: Timer::start(MAX_TIME), bytes: Cell::new(MAX_BYTES), steps: Cell::new(0) }
    }

    /// Reserves `bytes` of memory; `source` describes the use of the memory in errors.
    ///
    /// # Errors
    /// [`ColumnError::Memory`] if fewer bytes are free.
    pub(super) fn take(&self, bytes: usize, source: &str) -> Result<(), ColumnError> {
        let too_much = || ColumnError::Memory(source.to_owned());
        self.bytes.set(self.bytes.get().checked_sub(bytes).ok_or_else(too_much)?);
        Ok(())
    }

    /// Counts one more step: a start node of a metapath, or a row. `source` describes in errors
    /// what the step is part of.
    ///
    /// # Errors
    /// [`ColumnError::Time`] if no time is left.
    pub(super) fn step(&self, source: &str) -> Result<(), ColumnError> {
        self.steps.set(self.steps.get() + 1);
        let is_late = self.steps.get().is_multiple_of(AT_ONCE) && self.timer.left().is_zero();
        if is_late { Err(ColumnError::Time(source.to_owned())) } else { Ok(()) }
    }
}
