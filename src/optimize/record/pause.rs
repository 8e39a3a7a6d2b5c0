//! Why a run waits for its service, in [`PAUSE_FILE`] in its directory, beside the journal, until a
//! process goes on with it. A file that is missing or damaged says nothing. Must not know what a run
//! does, who writes the file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use agent_ground::files;

/// Name of the file in the run's directory.
pub const PAUSE_FILE: &str = "paused.json";
/// Bytes of it that are read.
const MAX_BYTES: u64 = 64 << 10;

/// What the file says.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pause {
    /// Why the service gave no answer.
    pub why: String,
}

/// Why the run in a directory is paused, if it is.
pub fn why(dir: &Path) -> Option<String> {
    let bytes = files::read(&dir.join(PAUSE_FILE), MAX_BYTES).ok()?;
    let pause: Pause = serde_json::from_slice(&bytes).ok()?;
    Some(pause.why)
}
