//! Reads [`PAUSE_FILE`] in a run's directory. While a run is paused, this file says why the service
//! of its language model was unavailable. A missing or damaged file is ignored.

use std::path::Path;

use serde::{Deserialize, Serialize};

use agent_ground::files;

/// Name of the file, in the run's directory, that marks a run as paused.
pub const PAUSE_FILE: &str = "paused.json";
/// Maximum size in bytes of [`PAUSE_FILE`].
const MAX_BYTES: u64 = 64 << 10;

/// Content of [`PAUSE_FILE`].
#[derive(Debug, Serialize, Deserialize)]
pub struct Pause {
    /// Why the service of the language model was unavailable.
    pub why: String,
}

/// Returns why the run in a directory is paused; `None` if it is not.
pub fn why(dir: &Path) -> Option<String> {
    let bytes = files::read(&dir.join(PAUSE_FILE), MAX_BYTES).ok()?;
    let pause: Pause = serde_json::from_slice(&bytes).ok()?;
    Some(pause.why)
}
