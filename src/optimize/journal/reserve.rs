//! Reserves disk space, so that the current result can still be stored when the disk fills up: the
//! reserve is then freed for a result that was just paid for, and the run stops.
//!
//! The reserve is the file `reserve`, which is in the run directory while there is a writer.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use crate::journal::{JournalError, Result};

/// Name of the file in a run directory that reserves disk space.
pub(super) const RESERVE_FILE: &str = "reserve";
/// Size of the reserve in bytes. About thirty long replies with their prompts fit into it. Larger
/// results may be lost on a full disk; a resumed run computes them again.
pub(super) const RESERVE_BYTES: usize = 4 << 20;

/// The reserved disk space, which is held until released or dropped.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// Writes the file that reserves disk space in the run directory `dir`; fails if the disk is
    /// full.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        let reserve = Self { path: dir.join(RESERVE_FILE) };
        // Compressing file systems would not reserve space for zeros.
        let mut bytes = vec![0; RESERVE_BYTES];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        // A killed process leaves its file, and another program may have put a link here.
        reserve.release();
        let written = File::create_new(&reserve.path).and_then(|mut file| file.write_all(&bytes));
        written.map_err(JournalError::io("write", &reserve.path))?;
        Ok(reserve)
    }

    /// Frees the reserved disk space; returns false if there was none.
    pub(super) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        self.release();
    }
}
