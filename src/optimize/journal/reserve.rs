//! Room on the disk that is kept free for the result at hand: what was paid for just before the
//! disk filled up is stored in its place, and then the run stops.
//!
//! The file `reserve` lies in the run directory while a writer has the run.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::journal::JournalError;

/// Name of the reserve in a run directory.
pub(super) const RESERVE_FILE: &str = "reserve";
/// Room kept, bytes. Some thirty times a long reply with its prompt; larger results may be lost on
/// a full disk, and are computed again after a resume.
pub(super) const RESERVE_BYTES: usize = 4 << 20;

/// The room, held until released or dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Takes the room, or says that the disk is full.
    pub(super) fn take(dir: &Path) -> Result<Self, JournalError> {
        let reserve = Self { path: dir.join(RESERVE_FILE) };
        // File systems that compress would keep no room for zeros.
        let mut bytes = vec![0; RESERVE_BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        fs::write(&reserve.path, bytes).map_err(JournalError::io("write", &reserve.path))?;
        Ok(reserve)
    }

    /// Gives the room back; whether there was any.
    pub(super) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.release();
    }
}
