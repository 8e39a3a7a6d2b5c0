//! The open files of a run: one database connection that the journal and its replies share, and its
//! state after failed writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::journal::{
    JournalError,
    lock::{FileLocation, Lock},
    reserve::Reserve,
    store::Store,
};

/// The files of a run, shared within this process.
#[derive(Clone, Debug)]
pub(super) struct SharedFiles(Arc<Mutex<Files>>);

impl SharedFiles {
    pub(super) fn new(files: Files) -> Self {
        Self(Arc::new(Mutex::new(files)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of a run.
#[derive(Debug)]
pub(super) struct Files {
    // The first field, so that it is closed before the lock is released.
    pub(super) store: Store,
    /// `None` if opened for reading.
    pub(super) writer: Option<Writer>,
}

/// State of a writer.
#[derive(Debug)]
pub(super) struct Writer {
    /// Files that must not be moved: lock, database, write-ahead log.
    pub(super) locations: Vec<FileLocation>,
    pub(super) state: State,
    /// Disk space for the last results.
    pub(super) reserve: Reserve,
    /// Released when dropped.
    pub(super) _lock: Lock,
}

/// Which results may still be written.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// All results.
    Open,
    /// Only paid results, as far as they fit; with the cause.
    Full(String),
    /// No results; with the cause.
    Failed(String),
}

impl Files {
    /// Fails if the result of a new step could not be stored.
    pub(super) fn check_writable(&self) -> Result<(), JournalError> {
        match &self.writer()?.state {
            State::Open => self.check_locations(),
            State::Full(cause) | State::Failed(cause) => Err(self.stopped(cause)),
        }
    }

    /// Fails if a result that was paid for could not be stored.
    pub(super) fn check_keeps_paid(&self) -> Result<(), JournalError> {
        match &self.writer()?.state {
            State::Open | State::Full(_) => self.check_locations(),
            State::Failed(cause) => Err(self.stopped(cause)),
        }
    }

    /// Runs `write`, one transaction. On a full disk, frees the reserve and tries once more. After
    /// any other failure nothing more is written. After a full disk, paid results are still
    /// written, because that failure happens on writing, not on syncing.
    pub(super) fn write(
        &mut self,
        mut write: impl FnMut(&mut Store) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
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

    fn writer(&self) -> Result<&Writer, JournalError> {
        let path = || self.store.path().to_owned();
        self.writer.as_ref().ok_or_else(|| JournalError::ReadOnly { path: path() })
    }

    fn stopped(&self, cause: &str) -> JournalError {
        JournalError::Stopped { path: self.store.path().to_owned(), cause: cause.to_owned() }
    }

    /// Fails if a file of the writer was removed or replaced.
    pub(super) fn check_locations(&self) -> Result<(), JournalError> {
        self.writer.iter().flat_map(|writer| &writer.locations).try_for_each(FileLocation::check)
    }
}
