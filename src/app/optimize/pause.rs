//! Marks runs as paused: if a service does not reply, nothing is frozen, and a file beside the
//! journal holds the reason until a process continues the run. The file stays if the attempt to
//! resume the run is refused.

use std::{fs, path::Path};

use super::{Paused, run::Run};
use crate::{App, Result, output::write};
use agent_optimize::{
    OptimizeError,
    record::pause::{PAUSE_FILE, Pause},
};

/// Writes a file into the run's directory that marks the run as paused because a service does not
/// reply, and states the reason.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn note(run: &Run, outage: &OptimizeError, app: &App) -> Result<Paused> {
    let pause = Pause { why: outage.to_string() };
    write(&run.dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))?;
    let dir = app.shown_path(&run.dir).to_owned();
    Ok(Paused { dataset: run.dataset.clone(), run: dir, why: pause.why })
}

/// Removes the file that marks the run in `dir` as paused, when the run is resumed.
pub(super) fn lift(dir: &Path) {
    // If the directory is not writable, the run itself fails.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}
