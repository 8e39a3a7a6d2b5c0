//! The registry of systems. A system ranks nodes for a query (or, as `ask` does, computes a value)
//! and has a name on the command line, such as `rerank:dense`. Help, errors, `agent systems` and
//! docs/systems.md are generated from [`SYSTEMS`].
//!
//! To add a system, add a file with a `SPEC` constant and a line in [`SYSTEMS`]. The file defines
//! the syntax of the system's name, what the system needs, and how it is opened; the ranking itself
//! is usually implemented in [`retrieve`](agent_retrieve) or [`infer`](agent_infer).

pub mod bundle;
pub mod mfar;
pub mod program;

mod answer;
mod ask;
mod asks;
mod dense;
mod expand;
mod graph;
mod hybrid;
mod late;
mod lexical;
mod multi;
mod page;
mod prf;
mod react;
mod rerank;
mod run;
#[cfg(test)]
mod tests;

use std::{
    fmt, io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

pub use self::{asks::request_bounds, page::reference_page};
use crate::{bundle::Effort, program::ProgramFileError};
use agent_ground::words;
use agent_index::{IndexedBase, Part};
use agent_infer::{Runtime, bundle::BundleError};
use agent_retrieve::{RetrieveError, Retriever};
use agent_sandbox::{Failure, Origin, SandboxOptions, Workers};
use agent_tools::{Assistant, ToolCache};
use agent_train::TrainError;

/// All systems, in display order.
pub static SYSTEMS: &[SystemSpec] = &[
    lexical::BM25,
    lexical::STARK,
    lexical::NAMES,
    lexical::FIELDS,
    dense::EXACT,
    dense::ANN,
    dense::BAG_DPR,
    dense::BAG_ANCE,
    dense::TRAINED,
    multi::MAX,
    multi::MEAN,
    multi::TOP3,
    late::SPEC,
    late::COLBERT,
    hybrid::BY_RANK,
    hybrid::BY_SCORE,
    hybrid::TRAINED,
    prf::SPEC,
    mfar::SPEC,
    graph::SPEC,
    graph::QAGNN,
    expand::GRAPH,
    expand::PRF,
    expand::HYDE,
    expand::RAR,
    expand::AGR,
    expand::KAR,
    rerank::SPEC,
    react::SPEC,
    answer::SPEC,
    bundle::SPEC,
    program::SPEC,
    run::SPEC,
    ask::SPEC,
];

/// Maximum size of the tool cache of a system, in bytes. Programs repeat calls mostly within one
/// query, so a larger cache is no faster.
pub const CACHE_BYTES: usize = 32 << 20;
/// Maximum number of nested systems; `rerank:dense` has 2.
const MAX_LEVELS: usize = 4;
/// Maximum edit distance between an unknown system name and a suggested one.
const MAX_DISTANCE: usize = 2;
/// Characters that separate the name of a system from its arguments.
const SEPARATORS: [char; 2] = [':', '='];

/// Specification of a system: its name, arguments, needs, and how it is opened.
#[derive(Clone, Copy, Debug)]
pub struct SystemSpec {
    /// Name of the system, without arguments; unique.
    pub name: &'static str,
    /// Syntax of the arguments, such as `:FILE`, or `[:SYSTEM]` for optional ones; empty if the
    /// system takes none.
    pub arguments: &'static str,
    /// Description of the system, in one line.
    pub summary: &'static str,
    /// What the system requires besides the indexes that every base has.
    pub needs: &'static [Need],
    /// Function that opens the system.
    open: Open,
}

/// Opens a system. The first argument holds the system's arguments with the separator before them,
/// such as `:FILE`; it is empty if there are none.
type Open = fn(&str, &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError>;

impl SystemSpec {
    /// Builds the specification of a system without arguments that needs only the base.
    const fn plain(name: &'static str, summary: &'static str, open: Open) -> SystemSpec {
        SystemSpec { name, arguments: "", summary, needs: &[], open }
    }

    /// Builds the specification of a system whose only argument is the file that it needs.
    const fn of_file(name: &'static str, summary: &'static str, open: Open) -> SystemSpec {
        SystemSpec { name, arguments: ":FILE", summary, needs: &[Need::File], open }
    }

    /// Returns the system's name with the syntax of its arguments, such as `bundle:FILE`.
    pub fn written(&self) -> String {
        format!("{}{}", self.name, self.arguments)
    }

    /// Returns the rest of `name` after this system's name; `None` if `name` does not begin with
    /// this system's name, or if the rest cannot be arguments of this system.
    fn arguments_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let arguments = name.strip_prefix(self.name)?;
        let first = arguments.chars().next();
        let fits = first.is_none_or(|c| SEPARATORS.contains(&c) && self.may_begin(c));
        fits.then_some(arguments)
    }

    /// Whether this system's arguments may begin with `separator`.
    fn may_begin(&self, separator: char) -> bool {
        self.arguments.starts_with(separator) || self.arguments.contains(&format!("[{separator}"))
    }

    /// Builds the error for invalid arguments; `why` describes the problem.
    fn wrong(&self, arguments: &str, why: &str) -> SystemError {
        let (name, written) = (format!("{}{arguments}", self.name), self.written());
        SystemError::Arguments { name, written, why: why.to_owned() }
    }
}

/// What a system requires besides the indexes that every base has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// An optional part of the index.
    Part(Part),
    /// A language model.
    Model,
    /// The file that the system's arguments name.
    File,
    /// Labelled queries, known before the system is opened.
    Queries,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => write!(f, "index part {part}"),
            Self::Model => f.write_str("language model"),
            Self::File => f.write_str("file"),
            Self::Queries => f.write_str("labelled queries"),
        }
    }
}

/// Resources and settings with which systems are opened.
#[derive(Clone, Copy)]
pub struct Opener<'a> {
    /// The base to search.
    pub base: &'a Arc<IndexedBase>,
    /// The language model, if one is configured.
    pub assistant: Option<&'a Arc<Assistant>>,
    /// How much a bundle or the system `ask` uses the language model.
    pub effort: Effort,
    /// Whether to ignore answers that the language model suggests from its own knowledge while it
    /// interprets a query.
    pub no_known_answers: bool,
    /// Number of threads that run programs.
    pub threads: usize,
    /// Returns the sandbox options for programs of an origin.
    pub sandbox: &'a dyn Fn(Origin<'_>) -> SandboxOptions,
    /// Ids and texts of the queries; empty if they are not known in advance.
    pub queries: &'a [(i64, String)],
    /// Function that shows the user a notice.
    pub notice: &'a dyn Fn(&str),
    /// Stop flag: programs end when the flag is set.
    pub stop: &'a Arc<AtomicBool>,
    /// Nesting level of the system to open; 0 for the outermost.
    pub level: usize,
}

impl Opener<'_> {
    /// Creates a runtime for programs of one origin; it has its own threads and tool cache.
    ///
    /// # Errors
    /// [`SystemError::Threads`] if threads cannot be started.
    pub fn runtime(&self, origin: Origin<'_>) -> Result<Arc<Runtime>, SystemError> {
        let workers = Workers::new(self.threads).map_err(SystemError::Threads)?;
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        let options = (self.sandbox)(origin);
        let runtime =
            Runtime::in_sandbox(self.base.clone(), Arc::new(workers), Some(cache), &options);
        Ok(Arc::new(runtime.with_assistant(self.assistant.cloned()).stoppable(self.stop.clone())))
    }

    /// Returns the language model; if none is configured, the error says that the system `name`
    /// needs one.
    fn model(&self, name: &str) -> Result<Arc<Assistant>, SystemError> {
        self.assistant.cloned().ok_or_else(|| SystemError::NoModel(name.to_owned()))
    }

    /// Opens the inner system `name`, one nesting level deeper; fails if that is too deep.
    fn inner(&self, name: &str) -> Result<Box<dyn Retriever>, SystemError> {
        let level = self.level + 1;
        if level >= MAX_LEVELS {
            return Err(SystemError::Nested);
        }
        open(name, &Opener { level, ..*self })
    }
}

/// Opens the system with the name and arguments `name`, such as `rerank:dense`.
///
/// # Errors
/// [`SystemError`] if the name is invalid, or if something that the system needs is missing or
/// cannot be used.
pub fn open(name: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (spec, arguments) = find(name)?;
    (spec.open)(arguments, opener)
}

/// Finds the system that `name` names. Returns its specification and its arguments with the
/// separator before them, such as `:dense` of `rerank:dense`.
///
/// # Errors
/// [`SystemError::Unknown`] if no system has the name; [`SystemError::Arguments`] if required
/// arguments are missing.
pub fn find(name: &str) -> Result<(&'static SystemSpec, &str), SystemError> {
    let fitting = |spec: &'static SystemSpec| Some((spec, spec.arguments_of(name)?));
    // The longest name wins: `multi:mean` also looks like `multi` with arguments.
    let longest = SYSTEMS.iter().filter_map(fitting).max_by_key(|(spec, _)| spec.name.len());
    let Some((spec, arguments)) = longest else {
        return Err(SystemError::Unknown { name: name.to_owned(), nearest: nearest(name) });
    };
    // A separator alone is not an argument.
    let optional = spec.arguments.is_empty() || spec.arguments.starts_with('[');
    if arguments.len() <= 1 && !optional {
        return Err(spec.wrong(arguments, "is not complete"));
    }
    Ok((spec, arguments))
}

/// Whether the system `name` answers with values instead of rankings.
pub fn answers_with_values(name: &str) -> bool {
    name == ask::SPEC.name
}

/// Whether the effort ([`Effort`]) determines how much the system `name` uses a language model.
pub fn uses_effort(name: &str) -> bool {
    name == ask::SPEC.name || bundle::is_within(name)
}

/// Returns the path in arguments of the form `:FILE`.
fn file_of(arguments: &str) -> &Path {
    Path::new(arguments.strip_prefix(':').unwrap_or_default())
}

/// Lists all systems with the syntax of their arguments, separated by commas.
pub fn names() -> String {
    SYSTEMS.iter().map(SystemSpec::written).collect::<Vec<_>>().join(", ")
}

/// Lists all systems, as [`names`] does, in a phrase for the help text of an option.
pub fn choices() -> String {
    format!("one of {} (`agent systems` describes each)", names())
}

/// Returns the name of the system that is most similar to the part of `name` before the first
/// separator or, if none is within [`MAX_DISTANCE`] edits, to all of `name`; `None` if none is
/// within that distance either.
fn nearest(name: &str) -> Option<&'static str> {
    let plain = name.split(SEPARATORS).next().unwrap_or_default();
    let near = |name| words::nearest(name, SYSTEMS.iter().map(|spec| spec.name), MAX_DISTANCE);
    near(plain).or_else(|| near(name))
}

/// Why a system cannot be found or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// No system has the name.
    #[error("no system {name:?}; use one of: {}", names())]
    Unknown {
        /// The name that was given.
        name: String,
        /// The most similar name of a system; `None` if no name is similar.
        nearest: Option<&'static str>,
    },
    /// The arguments are invalid.
    #[error("{name:?} {why}; write {written}")]
    Arguments {
        /// The name that was given, with its arguments.
        name: String,
        /// The name of the system with the syntax of its arguments.
        written: String,
        /// What is wrong with the arguments.
        why: String,
    },
    /// The name nests too many systems.
    #[error("more than {MAX_LEVELS} nested systems; nest fewer")]
    Nested,
    /// The system needs a language model, and none is configured; holds the name of the system or
    /// option.
    #[error("{0} needs a language model, and none is configured")]
    NoModel(String),
    /// The system needs something that a server does not provide.
    #[error("{0} needs a file, a model or labelled queries, which a server does not provide")]
    NotServed(String),
    /// Programs of a bundle ask a language model, and the server was started without one.
    #[error("programs of the bundle ask a language model, and the server was started without one")]
    NoServerModel,
    /// The system only answers queries that are known when it is opened, and none were given.
    #[error("{0} only answers labelled queries; measure it with `agent eval`")]
    NoQueries(String),
    /// A run file cannot be used.
    #[error("{file}: {why}")]
    Run {
        /// Path of the run file.
        file: String,
        /// What is wrong with the run file.
        why: String,
    },
    /// Threads cannot be started.
    #[error("cannot start threads for programs")]
    Threads(#[source] io::Error),
    /// A bundle cannot be read or used on this base.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A program file cannot be read or is not a program.
    #[error(transparent)]
    ProgramFileError(#[from] ProgramFileError),
    /// A program cannot be run, for example because it does not compile.
    #[error("{what} cannot be run")]
    Failed {
        /// What cannot be run: `the bundle`, or the path of the program's file.
        what: String,
        /// What is wrong with the program.
        source: Box<Failure>,
    },
    /// A part of the index cannot be used by the system.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
    /// A trained model cannot be used.
    #[error(transparent)]
    Model(#[from] TrainError),
}

impl SystemError {
    /// Whether the error is in the system's name or arguments, not in something that the system
    /// needs.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Arguments { .. } | Self::Nested)
    }

    /// Returns advice on what to do, to show below the error message; `None` if there is none.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { nearest, .. } => format!("did you mean {:?}?", (*nearest)?),
            Self::NoModel(_) => "name a model with --model, and a service if needed".to_owned(),
            Self::NoServerModel => "start the server with this bundle and --model".to_owned(),
            Self::Bundle(BundleError::Io { .. } | BundleError::Malformed { .. }) => {
                "give the bundle.json of a run".to_owned()
            }
            Self::Bundle(BundleError::Changed { .. }) => {
                "copy the file from the run's directory again, or optimize again".to_owned()
            }
            Self::Bundle(BundleError::OtherBase { .. }) => {
                "`agent query --force` uses it anyway".to_owned()
            }
            Self::Model(TrainError::OtherSystem { path, found, .. })
                if SYSTEMS.iter().any(|spec| spec.name == found) =>
            {
                format!("use {found}:{path}")
            }
            _ => return None,
        })
    }
}
