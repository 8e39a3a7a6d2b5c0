//! What the command line gives to [`systems`]: where programs run, with how many threads, how far
//! a language model is leant on; and `agent systems`. Must not know which systems there are.

mod list;

use crate::choice::{Choice, Choices};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use clap::ValueEnum;

pub(super) use self::list::{Args, run};
use crate::{Context, failure::Result, llm::Opened, named, printer::Printer};
use agent_index::IndexedBase;
pub(super) use agent_infer::STAND_IN;
use agent_infer::{Runtime, bundle::Bundle};
use agent_retrieve::Retriever;
use agent_sandbox::{Origin, Place, SandboxOptions, Trust};
use agent_systems::{self as systems, Opener, SystemError};
pub(super) use agent_systems::{
    bundle::{Effort, OpenedBundle},
    program::read as read_program,
};
use agent_tools::Assistant;

/// Where programs in Rhai run, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SandboxName {
    /// In this process: for programs that you trust
    Rhai,
    /// Inside WebAssembly: for programs of anybody
    Wasm,
}

/// The option of all commands that run programs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct SandboxArgs {
    /// Where programs in Rhai run; modules always run inside WebAssembly [default: rhai for what the
    /// search actor wrote and froze here, wasm for all else]
    #[arg(long, value_name = "NAME", value_enum, help_heading = "Sandbox")]
    sandbox: Option<SandboxName>,
}

/// Where the programs of one command run.
#[derive(Clone)]
pub(super) struct Places {
    said: Option<Place>,
    trust: Trust,
    code_dir: Option<PathBuf>,
    printer: Arc<Printer>,
}

impl SandboxArgs {
    /// What the user said, and what holds where nothing was said.
    pub(super) fn places(self, ctx: &Context) -> Places {
        let said = self.sandbox.map(|name| match name {
            SandboxName::Rhai => Place::Process,
            SandboxName::Wasm => Place::Wasm,
        });
        let (trust, code_dir) = (ctx.private.trust(), ctx.private.code_dir());
        Places { said, trust, code_dir, printer: ctx.printer.clone() }
    }
}

impl Places {
    /// How programs of this origin are run: as the user said, or else by the rule of trust.
    pub(super) fn of(&self, origin: Origin<'_>) -> SandboxOptions {
        let place = self.said.unwrap_or_else(|| self.trust.place(origin));
        self.printer.detail(match place {
            Place::Process => "programs in Rhai run in this process",
            Place::Wasm => "programs run inside WebAssembly",
        });
        SandboxOptions { place, code_dir: self.code_dir.clone() }
    }
}

/// What systems get beside the base.
#[derive(Clone)]
pub(super) struct Resources {
    /// The language model, where one is configured: answers the tools of programs, reranks, calls
    /// tools.
    pub(super) assistant: Option<Arc<Assistant>>,
    /// How far a bundle leans on it.
    pub(super) effort: Effort,
    /// Where programs run.
    pub(super) places: Places,
    /// The queries that will be asked, by id, where they are known beforehand.
    pub(super) queries: Arc<[(i64, String)]>,
    /// Set when programs are to end.
    pub(super) stop: Arc<AtomicBool>,
}

impl Resources {
    /// A language model that may have been opened, and where programs run; no effort.
    pub(super) fn new(opened: Option<&Opened>, places: Places, ctx: &Context) -> Resources {
        let assistant = opened.map(|opened| opened.assistant.clone());
        let (effort, queries) = (Effort::default(), Arc::default());
        Resources { assistant, effort, places, queries, stop: ctx.stop.clone() }
    }
}

impl Choices for Effort {
    const ALL: &'static [Choice<Self>] =
        &[Choice(Self::None), Choice(Self::Reads), Choice(Self::Judges)];

    fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("0", "Not at all, but for programs that ask one"),
            Self::Reads => {
                ("1", "It reads the query: category, linked entities, wanted type, constraints")
            }
            Self::Judges => (
                "2",
                "It also judges the first 20 answers, or the first 50 if none of them is good",
            ),
        }
    }
}

/// As many threads as the machine offers.
pub(super) fn all_threads() -> usize {
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
        threads,
        sandbox: &|origin| resources.places.of(origin),
        queries: &resources.queries,
        notice: &|told| resources.places.printer.notice(told),
        stop: &resources.stop,
        level: 0,
    })?)
}

/// Opens a system over a base; programs and bundles may ask the language model.
///
/// # Errors
/// As [`systems::open`].
pub(super) fn open_system(
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
pub(super) fn open_runtime(
    base: &Arc<IndexedBase>,
    threads: usize,
    resources: &Resources,
    origin: Origin<'_>,
) -> Result<Arc<Runtime>> {
    with_opener(base, threads, resources, |opener| opener.runtime(origin))
}

/// Reads a bundle, named as [`named::bundle_file`] says, and checks its digest.
///
/// # Errors
/// That it cannot be read or was changed.
pub(super) fn read_bundle(given: &Path, ctx: &Context) -> Result<Bundle> {
    let file = named::bundle_file(given, &ctx.home)?;
    let bundle = Bundle::read(&file).map_err(SystemError::from)?;
    if named::is_latest(given) {
        let run = file.parent().and_then(Path::file_name).unwrap_or_default().display();
        ctx.printer.notice(&format!("latest: {run}, made for \"{}\"", bundle.dataset.name));
    }
    Ok(bundle)
}

/// The bundle as a retriever; whether it was made for this base is the caller's to check.
///
/// # Errors
/// As [`systems::bundle::open`].
pub(super) fn open_bundle(
    bundle: &Bundle,
    base: &Arc<IndexedBase>,
    resources: &Resources,
) -> Result<OpenedBundle> {
    with_opener(base, all_threads(), resources, |opener| systems::bundle::open(bundle, opener))
}
