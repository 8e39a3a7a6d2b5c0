//! A run that waits for its service: it is paused, nothing is frozen, and it says why in
//! [`PAUSE_FILE`] in its directory, beside the journal, until a process goes on with it. A file
//! that is missing or damaged says nothing. Must not know what a run does.

use std::{
    fs::{self, File},
    io::Read,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::cli::{eval::write, failure::Result};

/// Name of the file in the run's directory.
const PAUSE_FILE: &str = "paused.json";
/// Bytes of it that are read.
const MAX_BYTES: u64 = 64 << 10;

/// What the file says.
#[derive(Debug, Serialize, Deserialize)]
struct Pause {
    /// Why the service gave no answer.
    why: String,
}

/// Notes that the run in a directory is paused.
///
/// # Errors
/// That the file cannot be written.
pub(super) fn note(dir: &Path, why: &str) -> Result<()> {
    let pause = Pause { why: why.to_owned() };
    write(&dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))
}

/// Notes that somebody goes on with the run in a directory.
pub(super) fn lift(dir: &Path) {
    // A file that cannot be removed is in a directory that cannot be written, as the run finds out.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}

/// Why the run in a directory is paused, if it is.
pub(in crate::cli) fn why(dir: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(dir.join(PAUSE_FILE)).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    let pause: Pause = serde_json::from_slice(&bytes).ok()?;
    Some(pause.why)
}
