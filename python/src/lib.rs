//! `agent_retriever._native`: the classes of the library that the Python package wraps.
//!
//! Every method releases the interpreter lock while it computes, so that threads run in parallel.
//! An error becomes `AgentError` with the message and hint of the command line, a panic
//! `InternalError`. Rankings become NumPy arrays without a copy. All other parts of an answer are
//! passed as the JSON of the command line, which Python parses on first access.
//!
//! Must not know: how systems search, how Python uses the results.

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
