//! Reads [`PAUSE_FILE`] in a run's directory, which states why the run waits for its service until
//! it is resumed. A missing or damaged file is ignored.

use std::path::Path;

use serde::{Deserialize, Serialize};

use agent_ground::files;

/// Name of the file in the run's directory.
pub const PAUSE_FILE: &str = "paused.json";
/// Maximum size of the file, bytes.
const MAX_BYTES: u64 = 64 << 10;

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pause {
    /// Why the service was unavailable.
    pub why: String,
}

/// Returns why the run in a directory is paused; `None` if it is not.
pub fn why(dir: &Path) -> Option<String> {
    let bytes = files::read(&dir.join(PAUSE_FILE), MAX_BYTES).ok()?;
    let pause: Pause = serde_json::from_slice(&bytes).ok()?;
    Some(pause.why)
}
