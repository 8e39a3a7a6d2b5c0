//! Opens a system by its name on the command line. The only place that knows which names exist.

use std::sync::Arc;

use anyhow::anyhow;

use crate::{
    cli::failure::{CommandError, Explain, Result},
    index::IndexedBase,
    retrieve::{Baseline, Retriever, System},
};

/// The system whose ranking stands in for one that failed.
pub(super) const STAND_IN: System = System::Hybrid;

/// Opens a system over a base.
///
/// # Errors
/// That there is no such system.
pub(super) fn open_system(name: &str, base: &Arc<IndexedBase>) -> Result<Box<dyn Retriever>> {
    for kind in ["bundle:", "program:"] {
        if name.starts_with(kind) {
            return Err(anyhow!("systems of the form {kind}FILE are not built into this version"))
                .hint(format!("there are {}", System::ALL.map(System::name).join(", ")));
        }
    }
    let system: System = name.parse().map_err(|text: String| CommandError::usage(anyhow!(text)))?;
    Ok(Box::new(Baseline::new(base.clone(), system)))
}
