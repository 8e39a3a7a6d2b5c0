//! The open files of a run: one connection to the database, shared by the journal and its replies,
//! and what becomes of both when a write fails. Must not know what is written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::journal::{
    JournalError,
    lock::{Lock, Place},
    reserve::Reserve,
    store::Store,
};

/// The files of one run, shared by all who read and write them in this process.
#[derive(Clone, Debug)]
pub(super) struct SharedFiles(Arc<Mutex<Files>>);

impl SharedFiles {
    pub(super) fn new(files: Files) -> Self {
        Self(Arc::new(Mutex::new(files)))
    }

    /// Waits for the others.
    pub(super) fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The files of one run.
#[derive(Debug)]
pub(super) struct Files {
    // Closed before the lock is released: fields are dropped in this order.
    pub(super) store: Store,
    /// `None` when opened for reading.
    pub(super) writer: Option<Writer>,
}

/// What a writer holds.
#[derive(Debug)]
pub(super) struct Writer {
    /// The files that must stay where they are: lock, database, write-ahead log.
    pub(super) places: Vec<Place>,
    /// What may still be written.
    pub(super) state: State,
    /// Room for the last results on a disk that fills up.
    pub(super) reserve: Reserve,
    /// Held until dropped.
    pub(super) _lock: Lock,
}

/// What may still be written.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// Everything.
    Open,
    /// What was paid for already, as far as there is room; says why nothing else.
    Full(String),
    /// Nothing, and why.
    Failed(String),
}

impl Files {
    /// Fails if nothing new is to be begun, since its result could not be kept.
    pub(super) fn check_writable(&self) -> Result<(), JournalError> {
        match &self.writer()?.state {
            State::Open => self.check_places(),
            State::Full(cause) | State::Failed(cause) => Err(self.stopped(cause)),
        }
    }

    /// Fails if a result that was paid for cannot be kept.
    pub(super) fn check_keeps_paid(&self) -> Result<(), JournalError> {
        match &self.writer()?.state {
            State::Open | State::Full(_) => self.check_places(),
            State::Failed(cause) => Err(self.stopped(cause)),
        }
    }

    /// Writes in one transaction. On a full disk what is at hand takes the room kept for it. After
    /// a failure nothing is written any more, but what was paid for when it was the room that
    /// lacked: that failed while writing, not while syncing what was written.
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
        // What was written to a file without a name is lost.
        let written = written.and_then(|()| self.check_places());
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

    /// Fails if a file of the run was removed or replaced; a reader's may be.
    pub(super) fn check_places(&self) -> Result<(), JournalError> {
        self.writer.iter().flat_map(|writer| &writer.places).try_for_each(Place::check)
    }
}
