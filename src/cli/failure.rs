//! Prints the error that ended a command, and chooses the exit status for it.

use agent_app::AppError;
use agent_dataset::ProblemReport;

use crate::{Exit, printer::Printer};

/// Error for a write to stdout whose reader has closed it, such as `head`; the command does not
/// count as failed.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed")]
pub(crate) struct ClosedPipe;

/// Writes an error to stderr and returns the exit status for it. `stopped` is whether a signal
/// stopped the command.
pub(crate) fn report(error: &AppError, printer: &Printer, stopped: bool) -> Exit {
    if error.downcast_ref::<ClosedPipe>().is_some() {
        return Exit::Done;
    }
    if stopped {
        printer.error(&format!("interrupted: {}", error.message()));
        return Exit::Interrupted;
    }
    if let Some(wrong) = error.wrong() {
        report_wrong(wrong, printer);
    } else {
        let mut lines = error.lines().into_iter();
        printer.error(&lines.next().unwrap_or_default());
        lines.for_each(|cause| printer.aside("cause", &cause));
    }
    error.hints().iter().for_each(|hint| printer.hint(hint));
    if error.is_usage() { Exit::Usage } else { Exit::Failed }
}

/// Writes the first problems found in an input file, each with its location, excerpt and hint, then
/// the number of further problems.
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
