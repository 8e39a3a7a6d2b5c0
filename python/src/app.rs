//! Operations by name, with requests and replies in JSON, the same as in the other interfaces.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use agent::{
    app::{self, Unwatched, operation::Operation},
    dataset::Home,
};
use pyo3::prelude::*;

use crate::failure::{Failure, without_gil};

/// Pause between checks for an interrupt of Python while an operation runs.
const SIGNAL_PAUSE: Duration = Duration::from_millis(20);

/// The operations over one home directory.
#[pyclass(frozen)]
pub(crate) struct App {
    app: app::App,
}

#[pymethods]
impl App {
    #[new]
    fn new(py: Python<'_>, home: Option<PathBuf>) -> PyResult<Self> {
        without_gil(py, || {
            let home = home.or_else(Home::platform_default).ok_or_else(|| {
                Failure::hinted(
                    "this platform has no data directory for the user",
                    "give home=DIR or set AGENT_HOME",
                )
            })?;
            Ok(Self { app: app::App::new(Home::new(home), Arc::new(Unwatched)) })
        })
    }

    /// Carries out an operation; request and reply are JSON. An interrupt ends it.
    fn call(&self, py: Python<'_>, name: String, request: String) -> PyResult<String> {
        without_gil(py, || {
            let operation = Operation::find(&name)
                .ok_or_else(|| Failure::Told(format!("there is no operation \"{name}\""), None))?;
            let request = serde_json::from_str(&request)?;
            // Each call has its own flag, so that an interrupt ends only this call.
            let app = app::App { stop: Arc::default(), ..self.app.clone() };
            let (sender, receiver) = mpsc::channel();
            let opened = &app;
            let (done, raised) = thread::scope(|scope| {
                let working = scope.spawn(move || {
                    // The receiver lives until this thread is joined; a panic drops the sender.
                    let _ = sender.send(operation.call(opened, request));
                });
                let mut raised = None;
                let done = loop {
                    match receiver.recv_timeout(SIGNAL_PAUSE) {
                        Err(RecvTimeoutError::Timeout) => {}
                        Ok(reply) => break Some(reply),
                        Err(RecvTimeoutError::Disconnected) => break None,
                    }
                    if let Err(error) = Python::attach(|py| py.check_signals()) {
                        app.stop.store(true, Ordering::Relaxed);
                        raised.get_or_insert(error);
                    }
                };
                (working.join().map(|()| done), raised)
            });
            match (done, raised) {
                (_, Some(error)) => Err(Failure::Python(error)),
                (Err(panic), None) => std::panic::resume_unwind(panic),
                (Ok(None), None) => Err(Failure::Fault("the operation gave no reply".to_owned())),
                (Ok(Some(reply)), None) => Ok(reply?),
            }
        })
    }
}
