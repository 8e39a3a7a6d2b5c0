//! The user's private directories: notes of trusted work, and compiled code. They are outside the
//! home directory, since users share home directories.

use std::path::PathBuf;

use crate::variable;
use agent_sandbox::{self as sandbox, Origin, SandboxOptions, Trust};

/// Returns the notes of this user's work, whose programs run in this process by default.
pub fn trust_of_user() -> Trust {
    Private::of_user().trust()
}

/// Returns the default sandbox options of an origin, the same as on the command line, for programs
/// that embed the library.
pub fn sandbox_of_user(origin: Origin<'_>) -> SandboxOptions {
    let private = Private::of_user();
    SandboxOptions { place: private.trust().place(origin), code_dir: private.code_dir() }
}

/// Environment variable with another location of both directories.
pub const VARIABLE: &str = "AGENT_STATE";

/// Two directories of this user; `None` if the platform has no place for them.
#[derive(Clone, Debug)]
pub struct Private {
    made: Option<PathBuf>,
    code: Option<PathBuf>,
}

impl Private {
    /// Returns the directories below `AGENT_STATE`, or else the platform's: the state directory for
    /// notes, the cache directory for code.
    pub fn of_user() -> Private {
        if let Some(state) = variable(VARIABLE).map(PathBuf::from) {
            return Private { made: Some(state.join("made")), code: Some(state.join("code")) };
        }
        let dirs = directories::ProjectDirs::from("", "", "agent");
        let state = |dirs: &directories::ProjectDirs| {
            // Without a state directory: not the data directory, which is the default home.
            dirs.state_dir().unwrap_or(dirs.cache_dir()).join("made")
        };
        Private {
            made: dirs.as_ref().map(state),
            code: dirs.as_ref().map(|dirs| dirs.cache_dir().join("code")),
        }
    }

    /// Returns the notes of this user's work.
    pub fn trust(&self) -> Trust {
        Trust::new(self.made.clone())
    }

    /// Returns why a directory is unusable; `None` if both are usable.
    pub fn unusable(&self) -> Option<String> {
        let [made, code] = [&self.made, &self.code].map(|dir| match dir {
            None => Some("this platform has no state or cache directory for the user".to_owned()),
            Some(dir) if sandbox::is_usable(dir) => None,
            Some(dir) => Some(format!(
                "{} cannot be used: it must be writable, and by nobody else",
                dir.display()
            )),
        });
        made.or(code)
    }

    /// Returns the directory of compiled code.
    pub fn code_dir(&self) -> Option<PathBuf> {
        self.code.clone()
    }
}
