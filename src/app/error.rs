//! Errors of operations. Each has a message, causes and hints, and records whether the request was
//! invalid or its execution failed.

use std::fmt::{Debug, Display};

use anyhow::anyhow;

use agent_dataset::{DatasetError, ProblemReport};
use agent_ground::words::listed;
use agent_systems::SystemError;

/// Result of an operation.
pub type Result<T, E = AppError> = std::result::Result<T, E>;

/// Maximum number of installed datasets that a hint lists.
const MAX_LISTED: usize = 20;

/// An error of an operation, with hints for the user.
#[derive(Debug)]
pub struct AppError {
    error: anyhow::Error,
    hints: Vec<String>,
    usage: bool,
}

impl AppError {
    /// Wraps `error` as an error of an invalid request, such as two options that contradict each
    /// other.
    pub fn usage(error: anyhow::Error) -> AppError {
        AppError { error, hints: Vec::new(), usage: true }
    }

    /// Returns the message and its causes in one line, joined by `: `.
    pub fn message(&self) -> String {
        chain(&self.error).join(": ")
    }

    /// Returns the message and its causes, one per line, outermost first. Leaves out a cause whose
    /// text the line before already contains.
    pub fn lines(&self) -> Vec<String> {
        match self.error.downcast_ref::<DatasetError>() {
            Some(DatasetError::UnknownName { name, .. }) => {
                vec![format!("no dataset \"{name}\" is installed")]
            }
            _ => chain(&self.error),
        }
    }

    /// Returns the hints: first the hints added by [`Explain::hint`], in the order in which they
    /// were added, then the hints that belong to the type of the error.
    pub fn hints(&self) -> Vec<String> {
        let of_system = self.downcast_ref::<SystemError>().and_then(SystemError::hint);
        let further = match self.downcast_ref::<DatasetError>() {
            Some(DatasetError::UnknownName { installed, nearest, .. }) => {
                unknown(installed, nearest)
            }
            _ => of_system.into_iter().collect(),
        };
        self.hints.iter().cloned().chain(further).collect()
    }

    /// Whether the request is invalid, rather than valid but failed.
    pub fn is_usage(&self) -> bool {
        let system = self.error.downcast_ref::<SystemError>();
        self.usage || system.is_some_and(SystemError::is_usage)
    }

    /// Returns the problems found in the imported files, if the error reports any.
    pub fn wrong(&self) -> Option<&ProblemReport> {
        match self.error.downcast_ref::<DatasetError>() {
            Some(DatasetError::Problems(wrong)) => Some(wrong),
            _ => None,
        }
    }

    /// Returns the error or one of its contexts as `E`; `None` if none has this type.
    pub fn downcast_ref<E: Display + Debug + Send + Sync + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

/// Fails because the request is invalid; `why` says what is wrong with it.
///
/// # Errors
/// Always: the function only returns this error.
pub fn refused<T>(why: impl Display) -> Result<T> {
    Err(AppError::usage(anyhow!("{why}")))
}

/// Returns the hints for a dataset name that is not installed: a similar name, if any, and the
/// installed names.
fn unknown(installed: &[String], nearest: &Option<String>) -> Vec<String> {
    let mut hints = Vec::new();
    if let Some(nearest) = nearest {
        hints.push(format!("did you mean \"{nearest}\"?"));
    }
    if installed.is_empty() {
        hints.push("no datasets are installed; import one with `agent data import`".to_owned());
    } else {
        hints.push(format!("installed: {}", listed(installed, MAX_LISTED)));
    }
    hints
}

/// Returns the error and its causes, one per line, outermost first. Leaves out a cause whose text
/// the line before already contains.
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

/// Lets a result add hints to its error.
pub trait Explain<T> {
    /// If the result is an error, adds a line of advice for the user to it.
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
