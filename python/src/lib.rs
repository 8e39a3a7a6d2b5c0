//! `agent_retriever._native`: the classes of the library that the Python package wraps.
//!
//! Every method lets go of the interpreter while it computes, so that threads work side by side. An
//! error becomes `AgentError` with the product's message and hint, a panic `InternalError`. Rankings
//! are given to NumPy without a copy; everything else that is told of an answer leaves as JSON, which
//! is that of the command line, and is read when it is asked for.
//!
//! Must not know: how anything is found, what Python makes of it.

mod app;
mod arrow;
mod base;
mod failure;
mod learn;
mod system;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("AgentError", module.py().get_type::<failure::AgentError>())?;
    module.add("InternalError", module.py().get_type::<failure::InternalError>())?;
    module.add_class::<app::App>()?;
    module.add_class::<base::Base>()?;
    module.add_class::<system::System>()?;
    module.add_class::<system::Answer>()?;
    module.add_class::<system::Measured>()?;
    module.add_function(wrap_pyfunction!(learn::learn, module)?)?;
    module.add_function(wrap_pyfunction!(base::all_systems, module)?)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_stream, module)?)?;
    module.add_function(wrap_pyfunction!(failure::fail, module)?)
}
