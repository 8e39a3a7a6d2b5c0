//! Reserves disk space for the current result. If the disk fills up, the reserve is freed for a
//! result that was just paid for, and then the run stops.
//!
//! The file `reserve` exists in the run directory while there is a writer.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::journal::JournalError;

/// Name of the reserve in a run directory.
pub(super) const RESERVE_FILE: &str = "reserve";
/// Size of the reserve, bytes: about thirty long replies with their prompts. Larger results may be
/// lost on a full disk; a resumed run computes them again.
pub(super) const RESERVE_BYTES: usize = 4 << 20;

/// The reserve, held until released or dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Writes the reserve; fails if the disk is full.
    pub(super) fn take(dir: &Path) -> Result<Self, JournalError> {
        let reserve = Self { path: dir.join(RESERVE_FILE) };
        // Compressing file systems would not reserve space for zeros.
        let mut bytes = vec![0; RESERVE_BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        fs::write(&reserve.path, bytes).map_err(JournalError::io("write", &reserve.path))?;
        Ok(reserve)
    }

    /// Frees the space; returns false if there was no reserve.
    pub(super) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.release();
    }
}
