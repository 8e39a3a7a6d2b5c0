//! A run that waits for its service: it is paused, nothing is frozen, and it says why beside its
//! journal until a process goes on with it. Must not know what a run does.

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

/// Notes that a run is paused, as its service gives no answer.
///
/// # Errors
/// That the file cannot be written.
pub(super) fn note(run: &Run, outage: &OptimizeError) -> Result<Paused> {
    let pause = Pause { why: outage.to_string() };
    write(&run.dir.join(PAUSE_FILE), |file| Ok(serde_json::to_writer(file, &pause)?))?;
    Ok(Paused { dataset: run.dataset.clone(), run: run.dir.clone(), why: pause.why })
}

/// Notes that somebody goes on with the run in a directory.
pub(super) fn lift(dir: &Path) {
    // A file that cannot be removed is in a directory that cannot be written, as the run finds out.
    let _ = fs::remove_file(dir.join(PAUSE_FILE));
}
