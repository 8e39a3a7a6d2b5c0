//! Paused runs: if a service does not reply, nothing is frozen, and a file beside the journal holds
//! the reason until a process resumes the run. Must not know what a run does.

use std::{fs, path::Path};

use crate::{
    error::Result,
    optimize::{Paused, run::Run},
    output::write,
};
use agent_optimize::{
    OptimizeError,
    record::pause::{PAUSE_FILE, Pause},
};

/// Writes that a run is paused because its service does not reply.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn note(run: &Run, outage: &OptimizeError) -> Result<Paused> {
    let pause = Pause { why: outage.to_string() };
    write(&run.dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))?;
    Ok(Paused { dataset: run.dataset.clone(), run: run.dir.clone(), why: pause.why })
}

/// Removes the note of a pause when a run is resumed.
pub(super) fn lift(dir: &Path) {
    // If the directory is not writable, the run itself fails.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}
