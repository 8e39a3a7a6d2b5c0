//! Errors on their way to the user: cause chain, hints, exit status. Must not print by itself.

use std::fmt::Display;

use crate::{Exit, printer::Printer};
use agent_dataset::{DatasetError, ProblemReport};
use agent_systems::SystemError;

/// What commands return.
pub(super) type Result<T> = std::result::Result<T, CommandError>;

/// Installed names that a hint lists at most.
const MAX_LISTED: usize = 20;

/// Stdout was closed by its reader: no failure.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(super) struct ClosedPipe;

/// Why a command ends early.
#[derive(Debug)]
pub(super) struct CommandError {
    error: anyhow::Error,
    hints: Vec<String>,
    usage: bool,
}

impl CommandError {
    /// The command line is wrong in a way that its grammar cannot say.
    pub(super) fn usage(error: anyhow::Error) -> CommandError {
        CommandError { error, hints: Vec::new(), usage: true }
    }

    /// The error alone, for a line of a report.
    pub(super) fn message(&self) -> String {
        chain(&self.error).join(": ")
    }

    /// Writes it to stderr and says how the program ends.
    pub(super) fn report(self, printer: &Printer, stopped: bool) -> Exit {
        if self.error.downcast_ref::<ClosedPipe>().is_some() {
            return Exit::Done;
        }
        if stopped {
            printer.error(&format!("interrupted: {}", self.message()));
            return Exit::Interrupted;
        }
        if let Some(DatasetError::Problems(wrong)) = self.error.downcast_ref::<DatasetError>() {
            report_wrong(wrong, printer);
            self.hints.iter().for_each(|hint| printer.hint(hint));
            return Exit::Failed;
        }
        let (head, further) = match self.error.downcast_ref::<DatasetError>() {
            Some(DatasetError::UnknownName { name, installed, nearest }) => {
                (vec![format!("no dataset \"{name}\" is installed")], unknown(installed, nearest))
            }
            _ => (chain(&self.error), Vec::new()),
        };
        let system = self.error.downcast_ref::<SystemError>();
        let usage = self.usage || system.is_some_and(SystemError::is_usage);
        let further = further.into_iter().chain(system.and_then(SystemError::hint));
        let mut lines = head.into_iter();
        printer.error(&lines.next().unwrap_or_default());
        lines.for_each(|cause| printer.cause(&cause));
        self.hints.iter().cloned().chain(further).for_each(|hint| printer.hint(&hint));
        if usage { Exit::Usage } else { Exit::Failed }
    }
}

/// Writes all that is wrong with an input, each with its place, the part that is wrong and the
/// remedy.
fn report_wrong(wrong: &ProblemReport, printer: &Printer) {
    for problem in &wrong.first {
        printer.error(&format!("{}: {}", problem.location(), problem.message));
        if !problem.excerpt.is_empty() {
            printer.aside("here", &problem.excerpt);
        }
        printer.aside("hint", &problem.hint);
    }
    if let Some(rest) = wrong.rest() {
        printer.error(&rest);
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

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> CommandError {
        CommandError { error: error.into(), hints: Vec::new(), usage: false }
    }
}

/// Adds what is known at the command line to a result.
pub(super) trait Explain<T> {
    /// Adds a line that says what to do.
    fn hint(self, hint: impl Display) -> Result<T>;
}

impl<T, E: Into<CommandError>> Explain<T> for std::result::Result<T, E> {
    fn hint(self, hint: impl Display) -> Result<T> {
        self.map_err(|error| {
            let mut error = error.into();
            error.hints.push(hint.to_string());
            error
        })
    }
}
