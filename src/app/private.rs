//! Where this user's own things are that must not come with a home directory, which people hand to
//! one another: notes of what was made here, and compiled code.

use std::path::PathBuf;

use crate::variable;
use agent_sandbox::{self as sandbox, Origin, SandboxOptions, Trust};

/// What this user made, which runs in the process by the rule of trust.
pub fn trust_of_user() -> Trust {
    Private::of_user().trust()
}

/// How programs of an origin run here, unless the user says otherwise: what programs that embed the
/// library share with the command line.
pub fn sandbox_of_user(origin: Origin<'_>) -> SandboxOptions {
    let private = Private::of_user();
    SandboxOptions { place: private.trust().place(origin), code_dir: private.code_dir() }
}

/// The variable that names another place, for both.
pub const VARIABLE: &str = "AGENT_STATE";

/// Two directories of this user; none where the platform has none.
#[derive(Clone, Debug)]
pub struct Private {
    made: Option<PathBuf>,
    code: Option<PathBuf>,
}

impl Private {
    /// Those that `AGENT_STATE` names, or else the platform's: state for the notes, cache for code.
    pub fn of_user() -> Private {
        if let Some(state) = variable(VARIABLE).map(PathBuf::from) {
            return Private { made: Some(state.join("made")), code: Some(state.join("code")) };
        }
        let dirs = directories::ProjectDirs::from("", "", "agent");
        let state = |dirs: &directories::ProjectDirs| {
            // Where there is none for state, the data directory is the default home.
            dirs.state_dir().unwrap_or(dirs.cache_dir()).join("made")
        };
        Private {
            made: dirs.as_ref().map(state),
            code: dirs.as_ref().map(|dirs| dirs.cache_dir().join("code")),
        }
    }

    /// What this user made.
    pub fn trust(&self) -> Trust {
        Trust::new(self.made.clone())
    }

    /// Why one of them cannot be used, if that is so.
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

    /// Where compiled code is kept.
    pub fn code_dir(&self) -> Option<PathBuf> {
        self.code.clone()
    }
}
