//! Opens systems, bundles and the runtime of programs, each with a sandbox, a number of threads
//! and, if needed, a language model.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use clap::ValueEnum;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{App, Explain, Result, Watch, llm::Opened, named, private::Private, refused};
use agent_index::IndexedBase;
pub use agent_infer::STAND_IN;
use agent_infer::{Runtime, bundle::Bundle};
use agent_retrieve::Retriever;
use agent_sandbox::{Origin, Place, SandboxOptions};
use agent_systems::{self as systems, Need, Opener, SystemError, SystemSpec};
pub use agent_systems::{
    bundle::{Effort, OpenedBundle},
    program::read as read_program,
};
use agent_tools::Assistant;

/// Where Rhai programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxName {
    /// In this process: for programs that you trust
    Rhai,
    /// Inside WebAssembly: for untrusted programs
    Wasm,
}

/// Options of all commands that run programs.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct SandboxArgs {
    /// Run Rhai programs here; modules always run inside WebAssembly [default: rhai for programs
    /// that the search actor wrote and froze here, else wasm]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Sandbox")]
    #[schema(inline)]
    sandbox: Option<SandboxName>,
}

/// Decides where the programs of one command run.
#[derive(Clone)]
pub struct Places {
    said: Option<Place>,
    private: Private,
    watch: Arc<dyn Watch>,
}

impl SandboxArgs {
    /// Returns the rule for where programs run: in the requested place; by default, according to
    /// the user's record of trusted runs and bundles.
    ///
    /// # Errors
    /// If a request over a network asks to run programs in this process.
    pub fn places(self, app: &App) -> Result<Places> {
        if self.sandbox == Some(SandboxName::Rhai) && app.network.is_some() {
            return refused("a request over a network cannot choose rhai")
                .hint("choose wasm, or leave it to the server");
        }
        let said = self.sandbox.map(|name| match name {
            SandboxName::Rhai => Place::Process,
            SandboxName::Wasm => Place::Wasm,
        });
        Ok(Places { said, private: app.private.clone(), watch: app.watch.clone() })
    }
}

impl Places {
    /// Returns the sandbox options for programs of an origin, such as a bundle. The programs run in
    /// the requested place; by default, in this process if the origin is trusted, else inside
    /// WebAssembly.
    pub fn of(&self, origin: Origin<'_>) -> SandboxOptions {
        let place = self.said.unwrap_or_else(|| self.private.trust().place(origin));
        self.watch.detail(match place {
            Place::Process => "programs in Rhai run in this process",
            Place::Wasm => "programs run inside WebAssembly",
        });
        SandboxOptions { place, code_dir: self.private.code.clone() }
    }
}

/// Resources that systems need besides the base.
#[derive(Clone)]
pub struct Resources {
    /// The language model, if one is open. Programs ask it through tools; some systems let it
    /// rerank nodes or call tools.
    pub assistant: Option<Arc<Assistant>>,
    /// How much bundles use the language model.
    pub effort: Effort,
    /// Whether to ignore answers that the language model suggests from its own knowledge when it
    /// reads a query.
    pub no_known_answers: bool,
    /// Decides where programs run.
    pub places: Places,
    /// Ids and texts of all queries that will be asked; empty if they are not known beforehand.
    pub queries: Arc<[(i64, String)]>,
    /// When set, programs stop.
    pub stop: Arc<AtomicBool>,
}

impl Resources {
    /// Returns resources with the lowest effort and without queries known beforehand.
    pub fn new(opened: Option<&Opened>, places: Places, app: &App) -> Resources {
        let assistant = opened.map(|opened| opened.assistant.clone());
        let (effort, queries) = (Effort::default(), Arc::default());
        let (no_known_answers, stop) = (false, app.stop.clone());
        Resources { assistant, effort, no_known_answers, places, queries, stop }
    }
}

/// Returns the number of threads that the machine offers, at least 1.
pub fn all_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `open` with an opener of systems whose programs run on all threads; returns its result.
fn with_opener<T>(
    base: &Arc<IndexedBase>,
    resources: &Resources,
    open: impl FnOnce(&Opener<'_>) -> Result<T, SystemError>,
) -> Result<T> {
    Ok(open(&Opener {
        base,
        assistant: resources.assistant.as_ref(),
        effort: resources.effort,
        no_known_answers: resources.no_known_answers,
        threads: all_threads(),
        sandbox: &|origin| resources.places.of(origin),
        queries: &resources.queries,
        notice: &|told| resources.places.watch.notice(told),
        stop: &resources.stop,
        level: 0,
    })?)
}

/// Replaces the bundle or model in the name of a system by its path. A request over a network may
/// only name bundles of runs in the home directory, and systems that need nothing but the base.
///
/// # Errors
/// As [`named::system`]. For a request over a network: if the run does not exist, or if the system
/// is not allowed.
pub fn system_name(given: &str, dataset: &str, app: &App) -> Result<String> {
    if app.network.is_none() {
        return named::system(given, Some(dataset), app);
    }
    if let Some(run) = given.strip_prefix(named::BUNDLE) {
        let file = named::bundle_file(Path::new(run), Some(dataset), app)?;
        return Ok(format!("{}{}", named::BUNDLE, file.display()));
    }
    check_served(given)?;
    Ok(given.to_owned())
}

/// Checks that requests over a network may use a system: it must need nothing but the base. A
/// system that wraps another system is refused if the inner system has arguments.
///
/// # Errors
/// If the system may not be used or does not exist.
pub fn check_served(name: &str) -> Result<(), SystemError> {
    let (spec, arguments) = systems::find(name)?;
    let has_inner = arguments.contains(':') && spec.arguments.contains("SYSTEM");
    match needs_base_alone(spec) && !has_inner {
        true => Ok(()),
        false => Err(SystemError::NotServed(name.to_owned())),
    }
}

/// Whether a system needs only parts of the base's index.
pub fn needs_base_alone(spec: &SystemSpec) -> bool {
    spec.needs.iter().all(|need| matches!(need, Need::Part(_)))
}

/// Opens the system with this name over a base. Programs and bundles may use the language model of
/// `resources`.
///
/// # Errors
/// As [`systems::open`].
pub fn open_system(
    name: &str,
    base: &Arc<IndexedBase>,
    resources: &Resources,
) -> Result<Box<dyn Retriever>> {
    with_opener(base, resources, |opener| systems::open(name, opener))
}

/// Opens a runtime for programs of one origin, such as a bundle, with threads and a tool cache of
/// its own.
///
/// # Errors
/// As [`Opener::runtime`].
pub fn open_runtime(
    base: &Arc<IndexedBase>,
    resources: &Resources,
    origin: Origin<'_>,
) -> Result<Arc<Runtime>> {
    with_opener(base, resources, |opener| opener.runtime(origin))
}

/// Reads the bundle that [`named::bundle_file`] finds, and checks its digest.
///
/// # Errors
/// As [`named::bundle_file`]; if the bundle cannot be read or was changed.
pub fn read_bundle(given: &Path, dataset: Option<&str>, app: &App) -> Result<Bundle> {
    let file = named::bundle_file(given, dataset, app)?;
    let bundle = Bundle::read(&file).map_err(SystemError::from)?;
    if named::is_latest(given) {
        let run = file.parent().and_then(Path::file_name).unwrap_or_default().display();
        app.watch.notice(&format!("latest: {run}, made for \"{}\"", bundle.dataset.name));
    }
    Ok(bundle)
}

/// Opens a bundle to answer questions over a base. The caller checks whether the bundle was made
/// for this base.
///
/// # Errors
/// As [`systems::bundle::open`].
pub fn open_bundle(
    bundle: &Bundle,
    base: &Arc<IndexedBase>,
    resources: &Resources,
) -> Result<OpenedBundle> {
    with_opener(base, resources, |opener| systems::bundle::open(bundle, opener))
}
