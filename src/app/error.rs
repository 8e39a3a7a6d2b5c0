//! Errors of operations on their way to a face: message, causes, hints, whether the request is wrong.

use std::fmt::{Debug, Display};

use agent_dataset::{DatasetError, ProblemReport};
use agent_systems::SystemError;

/// What operations return.
pub type Result<T> = std::result::Result<T, AppError>;

/// Installed names that a hint lists at most.
const MAX_LISTED: usize = 20;

/// Why an operation ends early.
#[derive(Debug)]
pub struct AppError {
    error: anyhow::Error,
    hints: Vec<String>,
    usage: bool,
}

impl AppError {
    /// The request is wrong in a way that its form cannot say.
    pub fn usage(error: anyhow::Error) -> AppError {
        AppError { error, hints: Vec::new(), usage: true }
    }

    /// The error, if it is one of this kind.
    pub fn of_kind<E: std::error::Error + Send + Sync + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// The message and its causes in one line.
    pub fn message(&self) -> String {
        chain(&self.error).join(": ")
    }

    /// The message, and behind it its causes that it does not name itself, outermost first.
    pub fn lines(&self) -> Vec<String> {
        match self.error.downcast_ref::<DatasetError>() {
            Some(DatasetError::UnknownName { name, .. }) => {
                vec![format!("no dataset \"{name}\" is installed")]
            }
            _ => chain(&self.error),
        }
    }

    /// What to do about it, the most specific hint first.
    pub fn hints(&self) -> Vec<String> {
        let further = match self.error.downcast_ref::<DatasetError>() {
            Some(DatasetError::UnknownName { installed, nearest, .. }) => {
                unknown(installed, nearest)
            }
            _ => self
                .error
                .downcast_ref::<SystemError>()
                .and_then(SystemError::hint)
                .into_iter()
                .collect(),
        };
        self.hints.iter().cloned().chain(further).collect()
    }

    /// Whether the request is wrong, rather than that it could not be carried out.
    pub fn is_usage(&self) -> bool {
        let system = self.error.downcast_ref::<SystemError>();
        self.usage || system.is_some_and(SystemError::is_usage)
    }

    /// All that is wrong with an imported input, where that is the error.
    pub fn wrong(&self) -> Option<&ProblemReport> {
        match self.error.downcast_ref::<DatasetError>() {
            Some(DatasetError::Problems(wrong)) => Some(wrong),
            _ => None,
        }
    }

    /// The error as it was raised.
    pub fn downcast_ref<E: Display + Debug + Send + Sync + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

/// Hints for a name that is not installed.
fn unknown(installed: &[String], nearest: &Option<String>) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(nearest) = nearest {
        hints.push(format!("did you mean \"{nearest}\"?"));
    }
    if installed.is_empty() {
        hints.push("none is installed; import one with `agent data import`".to_owned());
    } else {
        let shown = installed.iter().take(MAX_LISTED).map(String::as_str).collect::<Vec<_>>();
        let more = installed.len() - shown.len();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        hints.push(format!("installed: {}{rest}", shown.join(", ")));
    }
    hints
}

/// The error and its causes, outermost first, without those an outer message already tells.
fn chain(error: &anyhow::Error) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !lines.last().is_some_and(|last| last.contains(&text)) {
            lines.push(text);
        }
    }
    lines
}

impl<E: Into<anyhow::Error>> From<E> for AppError {
    fn from(error: E) -> AppError {
        AppError { error: error.into(), hints: Vec::new(), usage: false }
    }
}

/// Adds what is known at the command line to a result.
pub trait Explain<T> {
    /// Adds a line that says what to do.
    fn hint(self, hint: impl Display) -> Result<T>;
}

impl<T, E: Into<AppError>> Explain<T> for std::result::Result<T, E> {
    fn hint(self, hint: impl Display) -> Result<T> {
        self.map_err(|error| {
            let mut error = error.into();
            error.hints.push(hint.to_string());
            error
        })
    }
}
