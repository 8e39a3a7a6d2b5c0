//! The operation `optimize` on an open base: its events go to a callback, and an interrupt of
//! Python ends it.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use agent::{
    app::{
        App, Watch,
        optimize::{Reply, Request},
    },
    optimize::Event,
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    base::Base,
    failure::{Failure, without_gil},
};

/// Calls a Python function with each event. An exception or an interrupt ends the run.
struct Callback {
    progress: Option<Py<PyAny>>,
    stop: Arc<AtomicBool>,
    raised: Mutex<Option<PyErr>>,
}

impl Watch for Callback {
    fn optimization(&self, event: &Event<'_>) {
        let called = Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, (object(py, event)?,))?;
            }
            PyResult::Ok(())
        });
        if let Err(error) = called {
            self.stop.store(true, Ordering::Relaxed);
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// Converts an event to a dict for Python: `kind` first, then the values of that kind.
fn object<'py>(py: Python<'py>, event: &Event<'_>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    match event {
        Event::Progress { phase, done, total } => {
            dict.set_item("kind", "progress")?;
            dict.set_item("phase", phase)?;
            dict.set_item("done", done)?;
            dict.set_item("total", total)?;
        }
        Event::Category { name, n, mrr, .. } => {
            dict.set_item("kind", "category")?;
            dict.set_item("name", name)?;
            dict.set_item("n", n)?;
            dict.set_item("mrr", mrr)?;
        }
        Event::Message(text) => {
            dict.set_item("kind", "told")?;
            dict.set_item("text", text)?;
        }
        Event::Tested(decision) => {
            dict.set_item("kind", "tested")?;
            dict.set_item("name", &decision.category)?;
            dict.set_item("change", &decision.change)?;
            dict.set_item("difference", decision.difference)?;
            dict.set_item("p", decision.p)?;
            dict.set_item("accepted", decision.accepted)?;
        }
        Event::Milestone(_) => dict.set_item("kind", "better")?,
        Event::SequentialTest(_) => dict.set_item("kind", "sequential test")?,
    }
    Ok(dict)
}

/// Carries out an optimization on a base; request and reply are JSON. The reply of a finished run
/// also has the digest of the bundle.
#[pyfunction(name = "optimize")]
pub(crate) fn learn(
    py: Python<'_>,
    base: &Base,
    request: String,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    without_gil(py, || {
        let request: Request = serde_json::from_str(&request)?;
        if request.resume && request.run.is_none() {
            return Err(Failure::hinted("resume needs a run", "name it with run=DIR"));
        }
        let stop = Arc::<AtomicBool>::default();
        let watch = Arc::new(Callback { progress, stop: stop.clone(), raised: Mutex::default() });
        let app = App { stop, ..App::new(base.home.clone(), watch.clone()) };
        let done = request.perform_on(&base.installed, &base.indexed, &app);
        if let Some(error) = watch.raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Failure::Python(error));
        }
        let reply = done?;
        let mut told = serde_json::to_value(&reply)?;
        match &reply {
            Reply::Paused(paused) => paused.fail()?,
            Reply::Ended(ended) => told["digest"] = ended.outcome.bundle.digest.as_str().into(),
            Reply::Planned(_) => {}
        }
        Ok(told.to_string())
    })
}
