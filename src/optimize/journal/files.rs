//! The open files of a run: the database connection, which the journal and its replies share, and
//! whether results can still be written after a failed write.

use crate::journal::{
    JournalError, Result,
    lock::{FileLocation, Lock},
    reserve::Reserve,
    store::Store,
};

/// The open files of a run.
#[derive(Debug)]
pub(super) struct Files {
    // Declared first, so that the database is closed before the lock is released.
    pub(super) store: Store,
    /// The lock and the reserve of a writer; `None` if the run was opened for reading.
    pub(super) writer: Option<Writer>,
}

/// Resources that only the writer of a run holds.
#[derive(Debug)]
pub(super) struct Writer {
    /// Files that must not be removed or replaced: lock, database and write-ahead log.
    pub(super) locations: Vec<FileLocation>,
    pub(super) state: State,
    /// Reserved disk space for results that were paid for before the disk was full.
    pub(super) reserve: Reserve,
    /// The lock of the run, which is released when dropped.
    pub(super) _lock: Lock,
}

/// Results that a writer may still write, depending on whether an earlier write failed.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// All results; no write has failed.
    Open,
    /// The disk is full: only results that were paid for are still recorded, as far as they fit.
    /// Holds the error message.
    Full(String),
    /// No results. Holds the error message.
    Failed(String),
}

impl Files {
    /// Fails if a result could not be stored; the caller then must not compute it. `paid` states
    /// whether the result was paid for.
    pub(super) fn check_writable(&self, paid: bool) -> Result<()> {
        let path = || self.store.path().to_owned();
        let writer = self.writer.as_ref().ok_or_else(|| JournalError::ReadOnly(path()))?;
        match &writer.state {
            State::Full(_) if paid => self.check_locations(),
            State::Open => self.check_locations(),
            State::Full(cause) | State::Failed(cause) => {
                Err(JournalError::Stopped(path(), cause.clone()))
            }
        }
    }

    /// Calls `write`, which runs one transaction. If the disk is full, frees the reserve and calls
    /// `write` once more; after that, only results that were paid for are written. This is safe,
    /// because a full disk makes the writing fail, not the syncing. After any other failure nothing
    /// more is written.
    pub(super) fn write(&mut self, mut write: impl FnMut(&mut Store) -> Result<()>) -> Result<()> {
        let mut written = write(&mut self.store);
        let Some(writer) = &mut self.writer else { return written };
        if let Err(error @ JournalError::Full { .. }) = &written
            && writer.reserve.release()
        {
            writer.state = State::Full(error.to_string());
            written = write(&mut self.store);
        }
        // Data written to a removed file is lost.
        let written = written.and_then(|()| self.check_locations());
        if let (Err(error), Some(writer)) = (&written, &mut self.writer) {
            writer.state = match error {
                JournalError::Full { .. } => State::Full(error.to_string()),
                _ => State::Failed(error.to_string()),
            };
            // Closing must not copy a log whose last write failed.
            self.store.leave_log(true)?;
        }
        written
    }

    /// Fails if the lock, the database or the write-ahead log was removed or replaced since it was
    /// opened for writing.
    pub(super) fn check_locations(&self) -> Result<()> {
        self.writer.iter().flat_map(|writer| &writer.locations).try_for_each(FileLocation::check)
    }
}
