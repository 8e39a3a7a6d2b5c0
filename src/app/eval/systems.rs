//! Opens several systems, each with its effort, which limits the use of a language model. Does not
//! depend on the purpose of the systems.

use std::sync::Arc;

use crate::{App, Effort, LlmArgs, Resources, Result, SandboxArgs, llm, open_system, system_name};
use agent_index::IndexedBase;
use agent_retrieve::Retriever;
use agent_systems::request_bounds;
use agent_tools::Assistant;

/// A system to open, with how much it may use a language model.
pub struct Chosen {
    /// Name of the system in results.
    pub label: String,
    /// Name by which the system is opened, such as `bundle:latest`.
    pub system: String,
    /// How much the system uses a language model.
    pub effort: Effort,
    /// Whether to ignore answers that the language model suggests from its own knowledge when it
    /// reads a query.
    pub no_known_answers: bool,
}

/// Opened systems, with the language model that they may use.
pub(crate) struct Opened {
    /// The systems, with their names in results.
    pub(crate) systems: Vec<(String, Box<dyn Retriever>)>,
    pub(crate) assistant: Option<Arc<Assistant>>,
}

/// Opens all systems on a base. `queries` holds the ids and texts of all queries that will be
/// asked.
///
/// # Errors
/// If a system cannot be opened, or needs a language model that is not configured.
pub(crate) fn open(
    chosen: &[Chosen],
    base: &Arc<IndexedBase>,
    queries: Arc<[(i64, String)]>,
    sandbox: SandboxArgs,
    llm: &LlmArgs,
    app: &App,
) -> Result<Opened> {
    let mut is_asked = false;
    for one in chosen {
        is_asked |= !request_bounds(&one.system, one.effort)?.is_empty();
    }
    let llm = llm::open_if_configured(llm, is_asked, app)?;
    let places = sandbox.places(app)?;
    let resources = Resources { queries, ..Resources::new(llm.as_ref(), places, app) };
    let open = |one: &Chosen| {
        let name = system_name(&one.system, base.name(), app)?;
        let resources = Resources {
            effort: one.effort,
            no_known_answers: one.no_known_answers,
            ..resources.clone()
        };
        Ok((one.label.clone(), open_system(&name, base, &resources)?))
    };
    let systems = chosen.iter().map(open).collect::<Result<Vec<_>>>()?;
    Ok(Opened { systems, assistant: resources.assistant })
}
