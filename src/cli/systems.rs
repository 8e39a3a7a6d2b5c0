//! Opens a system by its name on the command line: a baseline, a bundle or a program. The only
//! place that knows which names exist, and where programs get their threads and cache.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;

use crate::{
    bundle::{Bundle, BundleError},
    cli::{
        Context,
        failure::{CommandError, Explain, Result},
        llm::Opened,
        printer::Printer,
    },
    files,
    index::IndexedBase,
    infer::{BundleRetriever, ParamValues, ProgramRetriever, React, Rerank, Runtime},
    program::Program,
    retrieve::{self, OpenError, Retriever, System},
    sandbox::{Limits, Origin, Place, SandboxOptions, Trust, Workers},
    tools::{Assistant, ToolCache},
};

/// The system whose ranking stands in for one that failed.
pub(super) const STAND_IN: System = System::Hybrid;
/// Begins the name of a system that is a bundle.
pub(super) const BUNDLE: &str = "bundle:";
/// The reranker with its default shortlist, or, followed by `:` and a system, with that one's.
const RERANK: &str = "rerank";
/// The system whose calls a language model chooses.
const REACT: &str = "react";
/// Memory for answers of tool calls, bytes.
const CACHE_BYTES: usize = 256 << 20;
/// Ends the name of a file that holds a module.
const WASM_SUFFIX: &str = "wasm";

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
    #[arg(long, value_name = "NAME", value_enum)]
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
pub(super) struct Means {
    /// The language model, where one is configured: answers the tools of programs, reranks, calls
    /// tools.
    pub(super) assistant: Option<Arc<Assistant>>,
    /// How far a bundle leans on it.
    pub(super) effort: Effort,
    /// Where programs run.
    pub(super) places: Places,
    /// Set when programs are to end.
    pub(super) stop: Arc<AtomicBool>,
}

impl Means {
    /// A language model that may have been opened, and where programs run; no effort.
    pub(super) fn new(opened: Option<&Opened>, places: Places, ctx: &Context) -> Means {
        let assistant = opened.map(|opened| opened.assistant.clone());
        Means { assistant, effort: Effort::default(), places, stop: ctx.stop.clone() }
    }
}

/// How far a bundle leans on a language model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Effort {
    /// Not at all, but for programs that ask one
    #[default]
    #[value(name = "0")]
    None,
    /// It reads the query: it chooses the category
    #[value(name = "1")]
    Reads,
    /// It also judges the first twenty answers
    #[value(name = "2")]
    Judges,
}

/// Opens a system over a base; programs and bundles may ask the language model.
///
/// # Errors
/// That there is no such system, that its file cannot be used on this base, or that it needs a
/// language model and there is none.
pub(super) fn open_system(
    name: &str,
    base: &Arc<IndexedBase>,
    means: &Means,
) -> Result<Box<dyn Retriever>> {
    if name == REACT {
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        return Ok(Box::new(React::new(base.clone(), needed(name, means)?, Some(cache))));
    }
    if let Some(shortlist) = name.strip_prefix(RERANK) {
        let shortlist = match shortlist.strip_prefix(':') {
            None if shortlist.is_empty() => Some(STAND_IN.name()),
            named => named,
        };
        if let Some(shortlist) = shortlist {
            let assistant = needed(name, means)?;
            let shortlist = open_baseline(shortlist, base)?;
            return Ok(Box::new(Rerank::new(base.clone(), shortlist, assistant)));
        }
    }
    if let Some(file) = name.strip_prefix(BUNDLE) {
        let bundle = read_bundle(Path::new(file))?;
        bundle.check_base(base).hint("`agent query --force` answers with it all the same")?;
        return Ok(open_bundle(&bundle, base, means)?.answers);
    }
    if let Some(file) = name.strip_prefix("program:") {
        let program = read_program(Path::new(file)).map_err(|error| anyhow!(error.to_string()))?;
        let runtime = open_runtime(base, all_threads(), means, Origin::Elsewhere)?;
        let opened = ProgramRetriever::new(runtime, &program, ParamValues::new())
            .with_context(|| format!("{file} cannot be run"))?;
        return Ok(Box::new(opened));
    }
    open_baseline(name, base)
}

/// Opens a system that needs no file and no language model.
fn open_baseline(name: &str, base: &Arc<IndexedBase>) -> Result<Box<dyn Retriever>> {
    retrieve::open(base, name).map_err(|error| match error {
        OpenError::Unknown(_) => CommandError::usage(anyhow!(
            "{error}, rerank, rerank:SYSTEM, react, bundle:FILE, program:FILE"
        )),
        OpenError::Retrieve(error) => error.into(),
    })
}

/// The language model that a system cannot do without.
fn needed(name: &str, means: &Means) -> Result<Arc<Assistant>> {
    let missing = || anyhow!("{name} needs a language model, and none is configured");
    means
        .assistant
        .clone()
        .ok_or_else(missing)
        .hint("name a model with --model, and a service if needed")
}

/// As many threads as the machine offers.
pub(super) fn all_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// What programs of one origin run on, with this many threads and a cache.
///
/// # Errors
/// That the system refuses the threads.
pub(super) fn open_runtime(
    base: &Arc<IndexedBase>,
    threads: usize,
    means: &Means,
    origin: Origin<'_>,
) -> Result<Arc<Runtime>> {
    let workers = Workers::new(threads).context("cannot start threads for programs")?;
    let cache = Arc::new(ToolCache::new(CACHE_BYTES));
    let options = means.places.of(origin);
    let runtime = Runtime::in_sandbox(base.clone(), Arc::new(workers), Some(cache), &options);
    Ok(Arc::new(runtime.with_assistant(means.assistant.clone()).stoppable(means.stop.clone())))
}

/// Reads a bundle and checks its digest.
///
/// # Errors
/// That it cannot be read or was changed.
pub(super) fn read_bundle(file: &Path) -> Result<Bundle> {
    match Bundle::read(file) {
        Err(error @ BundleError::Changed { .. }) => {
            Err(error).hint("take the file from the run's directory again, or optimize again")
        }
        read => Ok(read?),
    }
}

/// A bundle on a base.
pub(super) struct OpenedBundle {
    /// Its programs and its router.
    pub(super) routed: Arc<BundleRetriever>,
    /// What answers: the same, or what a language model makes of its answers.
    pub(super) answers: Box<dyn Retriever>,
}

/// The bundle as a retriever; whether it was made for this base is the caller's to check.
///
/// # Errors
/// That one of its programs does not compile, or that the effort needs a language model and there
/// is none.
pub(super) fn open_bundle(
    bundle: &Bundle,
    base: &Arc<IndexedBase>,
    means: &Means,
) -> Result<OpenedBundle> {
    let origin = Origin::Bundle(&bundle.digest);
    let runtime = open_runtime(base, all_threads(), means, origin)?;
    let mut routed = BundleRetriever::new(runtime, bundle).context("the bundle cannot be run")?;
    if means.effort >= Effort::Reads {
        routed = routed.routed_by(needed("--effort 1", means)?);
    }
    let routed = Arc::new(routed);
    let answers: Box<dyn Retriever> = match means.effort {
        Effort::Judges => {
            let assistant = needed("--effort 2", means)?;
            Box::new(Rerank::new(base.clone(), Box::new(routed.clone()), assistant))
        }
        _ => Box::new(routed.clone()),
    };
    Ok(OpenedBundle { routed, answers })
}

/// Why a file is no program.
pub(super) enum NoProgram {
    /// It cannot be read.
    Unreadable(String, io::Error),
    /// It is longer than the sandbox takes, bytes.
    TooLong(String, usize),
    /// It is no text.
    NotUtf8(String),
    /// It holds nothing.
    Empty(String),
}

impl fmt::Display for NoProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(file, error) => write!(f, "cannot read {file}: {error}"),
            Self::TooLong(file, most) => {
                write!(f, "{file} has more than {most} bytes; shorten the program")
            }
            Self::NotUtf8(file) => write!(f, "{file} is not UTF-8 text; save it as UTF-8"),
            Self::Empty(file) => write!(f, "{file} is empty; define fn retrieve in it"),
        }
    }
}

/// Reads a program; never more than the sandbox takes.
///
/// # Errors
/// [`NoProgram`].
pub(super) fn read_program(file: &Path) -> std::result::Result<Program, NoProgram> {
    let name = || file.display().to_string();
    let limits = Limits::default();
    let is_module = file.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case(WASM_SUFFIX));
    let most = if is_module { limits.module_bytes } else { limits.source_bytes };
    let bytes = files::read(file, most as u64).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => NoProgram::TooLong(name(), most),
        _ => NoProgram::Unreadable(name(), error),
    })?;
    if is_module {
        return Ok(Program::module(&bytes));
    }
    let source = String::from_utf8(bytes).map_err(|_| NoProgram::NotUtf8(name()))?;
    if source.trim().is_empty() {
        return Err(NoProgram::Empty(name()));
    }
    Ok(Program::new(&source))
}
