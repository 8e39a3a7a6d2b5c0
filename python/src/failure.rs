//! Errors as Python exceptions, and computing without the interpreter lock.

use std::panic::{AssertUnwindSafe, catch_unwind};

use agent::app::AppError;
use pyo3::{create_exception, exceptions::PyException, prelude::*};

create_exception!(
    agent_retriever,
    AgentError,
    PyException,
    "An error of the library, with the message of the command line; `hint` says how to fix it."
);
create_exception!(
    agent_retriever,
    InternalError,
    AgentError,
    "A bug in the library; please report it with its message."
);

/// An error on its way to Python.
pub(crate) enum Failure {
    /// An error of the library: its message, and all hints, the most specific first.
    Told(String, Option<String>),
    /// A bug in the library.
    Fault(String),
    /// An exception of Python: an interrupt, or one that a callback raised.
    Python(PyErr),
}

impl Failure {
    /// Makes an error of the library with a hint.
    pub(crate) fn hinted(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Told(message.into(), Some(hint.into()))
    }
}

impl<E: Into<AppError>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: AppError = error.into();
        let hints = error.hints();
        Self::Told(error.message(), (!hints.is_empty()).then(|| hints.join("\n")))
    }
}

/// Computes without the interpreter lock; an error or a panic becomes a Python exception.
pub(crate) fn without_gil<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    let failure = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Failure::Fault(text.unwrap_or("no message").to_owned())
        }
    };
    let (error, hint) = match failure {
        Failure::Told(message, hint) => (AgentError::new_err(message), hint),
        Failure::Fault(message) => {
            let told = format!("internal error: {message}");
            let hint = "this is a bug in the library; please report it with this message";
            (InternalError::new_err(told), Some(hint.to_owned()))
        }
        Failure::Python(error) => return Err(error),
    };
    error.value(py).setattr("hint", hint)?;
    Err(error)
}

/// Panics, so that a test can check the resulting exception.
#[pyfunction]
#[expect(clippy::panic, reason = "the test needs a panic")]
pub(crate) fn fail(py: Python<'_>, message: String) -> PyResult<()> {
    without_gil(py, || panic!("{message}"))
}
