//! A run that waits for its service: it is paused, nothing is frozen, and it says why beside its
//! journal until a process goes on with it. Must not know what a run does.

use std::{fs, path::Path};

use crate::{error::Result, output::write};
use agent_optimize::record::pause::{PAUSE_FILE, Pause};

/// Notes that the run in a directory is paused.
///
/// # Errors
/// That the file cannot be written.
pub fn note(dir: &Path, why: &str) -> Result<()> {
    let pause = Pause { why: why.to_owned() };
    write(&dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))
}

/// Notes that somebody goes on with the run in a directory.
pub fn lift(dir: &Path) {
    // A file that cannot be removed is in a directory that cannot be written, as the run finds out.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}
