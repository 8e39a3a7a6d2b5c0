//! Opens systems, bundles and the runtime of programs: where programs run, on how many threads, and how
//! far they lean on a language model.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::anyhow;
use clap::ValueEnum;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{App, AppError, Explain, Result, Watch, llm::Opened, named};
use agent_index::IndexedBase;
pub use agent_infer::STAND_IN;
use agent_infer::{Runtime, bundle::Bundle};
use agent_retrieve::Retriever;
use agent_sandbox::{Origin, Place, SandboxOptions, Trust};
use agent_systems::{self as systems, Need, Opener, SystemError, SystemSpec};
pub use agent_systems::{
    bundle::{Effort, OpenedBundle},
    program::read as read_program,
};
use agent_tools::Assistant;

/// Where programs in Rhai run, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxName {
    /// In this process: for programs that you trust
    Rhai,
    /// Inside WebAssembly: for programs of anybody
    Wasm,
}

/// The option of all commands that run programs.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct SandboxArgs {
    /// Where programs in Rhai run; modules always run inside WebAssembly [default: rhai for what the
    /// search actor wrote and froze here, wasm for all else]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Sandbox")]
    #[serde(default)]
    #[schema(inline)]
    sandbox: Option<SandboxName>,
}

/// Where the programs of one command run.
#[derive(Clone)]
pub struct Places {
    said: Option<Place>,
    trust: Trust,
    code_dir: Option<PathBuf>,
    watch: Arc<dyn Watch>,
}

impl SandboxArgs {
    /// The place that the user named, and the rule of trust where none is named.
    ///
    /// # Errors
    /// That a request over a network names this process.
    pub fn places(self, app: &App) -> Result<Places> {
        if self.sandbox == Some(SandboxName::Rhai) && app.network.is_some() {
            return Err(AppError::usage(anyhow!("a request over a network cannot choose rhai")))
                .hint("choose wasm, or leave it to the server");
        }
        let said = self.sandbox.map(|name| match name {
            SandboxName::Rhai => Place::Process,
            SandboxName::Wasm => Place::Wasm,
        });
        let (trust, code_dir) = (app.private.trust(), app.private.code_dir());
        Ok(Places { said, trust, code_dir, watch: app.watch.clone() })
    }
}

impl Places {
    /// How programs of this origin are run: as the user said, or else by the rule of trust.
    pub fn of(&self, origin: Origin<'_>) -> SandboxOptions {
        let place = self.said.unwrap_or_else(|| self.trust.place(origin));
        self.watch.detail(match place {
            Place::Process => "programs in Rhai run in this process",
            Place::Wasm => "programs run inside WebAssembly",
        });
        SandboxOptions { place, code_dir: self.code_dir.clone() }
    }
}

/// What systems get beside the base.
#[derive(Clone)]
pub struct Resources {
    /// The language model, where one is configured: answers the tools of programs, reranks, calls
    /// tools.
    pub assistant: Option<Arc<Assistant>>,
    /// How far a bundle leans on it.
    pub effort: Effort,
    /// Whether answers that the model knows from memory are ignored where it reads a query.
    pub no_known_answers: bool,
    /// Where programs run.
    pub places: Places,
    /// The queries that will be asked, by id, where they are known beforehand.
    pub queries: Arc<[(i64, String)]>,
    /// Set when programs are to end.
    pub stop: Arc<AtomicBool>,
}

impl Resources {
    /// A language model that may have been opened, and where programs run; no effort.
    pub fn new(opened: Option<&Opened>, places: Places, app: &App) -> Resources {
        let assistant = opened.map(|opened| opened.assistant.clone());
        let (effort, queries) = (Effort::default(), Arc::default());
        let (no_known_answers, stop) = (false, app.stop.clone());
        Resources { assistant, effort, no_known_answers, places, queries, stop }
    }
}

/// As many threads as the machine offers.
pub fn all_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What systems over a base are opened with.
fn with_opener<T>(
    base: &Arc<IndexedBase>,
    threads: usize,
    resources: &Resources,
    open: impl FnOnce(&Opener<'_>) -> std::result::Result<T, SystemError>,
) -> Result<T> {
    Ok(open(&Opener {
        base,
        assistant: resources.assistant.as_ref(),
        effort: resources.effort,
        no_known_answers: resources.no_known_answers,
        threads,
        sandbox: &|origin| resources.places.of(origin),
        queries: &resources.queries,
        notice: &|told| resources.places.watch.notice(told),
        stop: &resources.stop,
        level: 0,
    })?)
}

/// The name of a system with the file or directory that it stands on; over a network, the bundle of an
/// installed run, or a system that needs nothing but the base.
///
/// # Errors
/// As [`named::system`]; that the system needs more than the base, or that there is no such run.
pub fn system_name(given: &str, dataset: &str, app: &App) -> Result<String> {
    if app.network.is_none() {
        return named::system(given, Some(dataset), &app.home);
    }
    if let Some(run) = given.strip_prefix(named::BUNDLE) {
        let file = named::bundle_of_run(Path::new(run), Some(dataset), &app.home)?;
        return Ok(format!("{}{}", named::BUNDLE, file.display()));
    }
    check_served(given)?;
    Ok(given.to_owned())
}

/// Refuses a system that needs more than the base, itself or by the system that it stands on.
///
/// # Errors
/// That it does, or that there is no such system.
pub fn check_served(name: &str) -> std::result::Result<(), SystemError> {
    let (spec, arguments) = systems::find(name)?;
    let has_inner = arguments.contains(':') && spec.arguments.contains("SYSTEM");
    match needs_base_alone(spec) && !has_inner {
        true => Ok(()),
        false => Err(SystemError::NotServed(name.to_owned())),
    }
}

/// Whether a system needs nothing but parts of the base's index.
pub fn needs_base_alone(spec: &SystemSpec) -> bool {
    spec.needs.iter().all(|need| matches!(need, Need::Part(_)))
}

/// Opens a system over a base; programs and bundles may ask the language model.
///
/// # Errors
/// As [`systems::open`].
pub fn open_system(
    name: &str,
    base: &Arc<IndexedBase>,
    resources: &Resources,
) -> Result<Box<dyn Retriever>> {
    with_opener(base, all_threads(), resources, |opener| systems::open(name, opener))
}

/// What programs of one origin run on, with this many threads and a cache.
///
/// # Errors
/// As [`Opener::runtime`].
pub fn open_runtime(
    base: &Arc<IndexedBase>,
    threads: usize,
    resources: &Resources,
    origin: Origin<'_>,
) -> Result<Arc<Runtime>> {
    with_opener(base, threads, resources, |opener| opener.runtime(origin))
}

/// The file of a bundle, named as [`named::bundle_file`] says; over a network, of an installed run.
///
/// # Errors
/// As [`named::bundle_file`] and [`named::bundle_of_run`].
pub fn bundle_file(given: &Path, app: &App) -> Result<PathBuf> {
    bundle_file_for(given, None, app)
}

/// As [`bundle_file`]; `latest` is that of the runs for the dataset, if one is given.
fn bundle_file_for(given: &Path, dataset: Option<&str>, app: &App) -> Result<PathBuf> {
    match app.network {
        None => named::bundle_for(given, dataset, &app.home),
        Some(_) => named::bundle_of_run(given, dataset, &app.home),
    }
}

/// Reads a bundle, named as [`named::bundle_file`] says, and checks its digest.
///
/// # Errors
/// That it cannot be read or was changed.
pub fn read_bundle(given: &Path, app: &App) -> Result<Bundle> {
    read_bundle_for(given, None, app)
}

/// As [`read_bundle`]; `latest` is that of the runs for the dataset, if one is given.
///
/// # Errors
/// As [`read_bundle`].
pub fn read_bundle_for(given: &Path, dataset: Option<&str>, app: &App) -> Result<Bundle> {
    let file = bundle_file_for(given, dataset, app)?;
    let bundle = Bundle::read(&file).map_err(SystemError::from)?;
    if named::is_latest(given) {
        let run = file.parent().and_then(Path::file_name).unwrap_or_default().display();
        app.watch.notice(&format!("latest: {run}, made for \"{}\"", bundle.dataset.name));
    }
    Ok(bundle)
}

/// The bundle as a retriever; whether it was made for this base is the caller's to check.
///
/// # Errors
/// As [`systems::bundle::open`].
pub fn open_bundle(
    bundle: &Bundle,
    base: &Arc<IndexedBase>,
    resources: &Resources,
) -> Result<OpenedBundle> {
    with_opener(base, all_threads(), resources, |opener| systems::bundle::open(bundle, opener))
}
