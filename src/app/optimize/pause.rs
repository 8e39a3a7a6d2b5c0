//! Marks runs as paused: if a service does not reply, nothing is frozen, and a file beside the
//! journal holds the reason until a process goes on with the run. A resumption that is refused
//! leaves the file.

use std::{fs, path::Path};

use crate::{
    App,
    error::Result,
    optimize::{Paused, run::Run},
    output::write,
};
use agent_optimize::{
    OptimizeError,
    record::pause::{PAUSE_FILE, Pause},
};

/// Writes a file into the run's directory that says that the run is paused, since a service does
/// not reply, and why.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn note(run: &Run, outage: &OptimizeError, app: &App) -> Result<Paused> {
    let pause = Pause { why: outage.to_string() };
    write(&run.dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))?;
    let dir = app.shown_path(&run.dir).to_owned();
    Ok(Paused { dataset: run.dataset.clone(), run: dir, why: pause.why })
}

/// Removes the file that says that the run in `dir` is paused, when a resumed run goes on.
pub(super) fn lift(dir: &Path) {
    // If the directory is not writable, the run itself fails.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}
