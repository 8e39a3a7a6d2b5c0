//! The user's private directories: one records which runs and bundles this user made and may trust,
//! the other holds compiled code. They are outside the home directory, which several users may
//! share.

use std::path::PathBuf;

use crate::variable;
use agent_sandbox::{self as sandbox, Origin, SandboxOptions, Trust};

/// Returns the default sandbox options for programs of an origin, such as a bundle; the same as on
/// the command line. For software that embeds this library.
pub fn sandbox_of_user(origin: Origin<'_>) -> SandboxOptions {
    let private = Private::of_user();
    SandboxOptions { place: private.trust().place(origin), code_dir: private.code }
}

/// Environment variable that names another location for both directories.
pub const VARIABLE: &str = "AGENT_STATE";

/// The two private directories of this user; each is `None` if the platform has no place for it.
#[derive(Clone, Debug)]
pub struct Private {
    made: Option<PathBuf>,
    /// Directory of compiled code.
    pub code: Option<PathBuf>,
}

impl Private {
    /// Returns the directories: below `AGENT_STATE`, if this variable is set; else below the
    /// platform's state directory (for the record of trust) and cache directory (for compiled
    /// code).
    pub fn of_user() -> Private {
        if let Some(state) = variable(VARIABLE).map(PathBuf::from) {
            return Private { made: Some(state.join("made")), code: Some(state.join("code")) };
        }
        let dirs = directories::ProjectDirs::from("", "", "agent");
        let state = |dirs: &directories::ProjectDirs| {
            // Some platforms have no state directory. The cache directory then replaces it, since
            // the data directory is the default home.
            dirs.state_dir().unwrap_or(dirs.cache_dir()).join("made")
        };
        Private {
            made: dirs.as_ref().map(state),
            code: dirs.as_ref().map(|dirs| dirs.cache_dir().join("code")),
        }
    }

    /// Returns the record of the runs and bundles that this user made and may trust.
    pub fn trust(&self) -> Trust {
        Trust::new(self.made.clone())
    }

    /// Returns why one of the two directories is unusable; `None` if both are usable.
    pub fn unusable(&self) -> Option<String> {
        let [made, code] = [&self.made, &self.code].map(|dir| match dir {
            None => Some("this platform has no state or cache directory for the user".to_owned()),
            Some(dir) if sandbox::is_usable(dir) => None,
            Some(dir) => Some(format!(
                "{} cannot be used: it must be writable by you and nobody else",
                dir.display()
            )),
        });
        made.or(code)
    }
}
