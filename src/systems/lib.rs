//! The registry of systems: everything that ranks nodes for a query, by its name on the command line.
//! Help, errors, `agent systems` and docs/systems.md are generated from [`SYSTEMS`].
//!
//! To add a system, add a file with a `SPEC` constant and a line in [`SYSTEMS`]. The file defines the
//! syntax of its name, its needs, and how it is opened; the ranking itself is implemented in
//! [`retrieve`](agent_retrieve) or [`infer`](agent_infer).

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
    hybrid::BY_RANK,
    hybrid::BY_SCORE,
    hybrid::TRAINED,
    prf::SPEC,
    mfar::SPEC,
    graph::SPEC,
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

/// Size of the tool cache, bytes.
const CACHE_BYTES: usize = 256 << 20;
/// Maximum nesting of systems, as in `rerank:SYSTEM`.
const MAX_LEVELS: usize = 4;
/// Maximum edit distance of a suggested name.
const MAX_DISTANCE: usize = 2;
/// Characters that separate a name from its arguments.
const SEPARATORS: [char; 2] = [':', '='];

/// Specification of a system.
#[derive(Clone, Copy, Debug)]
pub struct SystemSpec {
    /// Unique name, without arguments.
    pub name: &'static str,
    /// Syntax of the arguments, such as `:FILE`, or `[:SYSTEM]` if optional; empty if none.
    pub arguments: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Requirements beyond the indexes that every base has.
    pub needs: &'static [Need],
    /// Opens the system; see [`Open`].
    open: Open,
}

/// Opens a system. The first argument is the rest of its name from the separator on, or empty.
type Open = fn(&str, &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError>;

impl SystemSpec {
    /// Returns the name with the syntax of its arguments, such as `rerank[:SYSTEM]`.
    pub fn written(&self) -> String {
        format!("{}{}", self.name, self.arguments)
    }

    /// Returns the rest of `name` after this system's name; `None` if it cannot be arguments.
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

    /// Builds the error for invalid arguments.
    fn wrong(&self, arguments: &str, why: &str) -> SystemError {
        let (name, written) = (format!("{}{arguments}", self.name), self.written());
        SystemError::Arguments { name, written, why: why.to_owned() }
    }
}

/// A requirement of a system beyond the indexes that every base has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// An optional part of the index.
    Part(Part),
    /// A language model.
    Model,
    /// The file that the system's name contains.
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

/// Context for opening systems.
#[derive(Clone, Copy)]
pub struct Opener<'a> {
    /// The base to search.
    pub base: &'a Arc<IndexedBase>,
    /// The language model, if one is configured.
    pub assistant: Option<&'a Arc<Assistant>>,
    /// How much a bundle or `ask` uses the model.
    pub effort: Effort,
    /// Whether to ignore answers that the model knows from memory when it reads a query.
    pub no_known_answers: bool,
    /// Number of threads for programs.
    pub threads: usize,
    /// Sandbox options of programs by origin.
    pub sandbox: &'a dyn Fn(Origin<'_>) -> SandboxOptions,
    /// Ids and texts of the queries; empty if they are not known in advance.
    pub queries: &'a [(i64, String)],
    /// Shows the user a notice.
    pub notice: &'a dyn Fn(&str),
    /// Stop flag; programs end when it is set.
    pub stop: &'a Arc<AtomicBool>,
    /// Nesting level; 0 for the outermost system.
    pub level: usize,
}

impl Opener<'_> {
    /// Creates a runtime for programs of one origin, with a tool cache of its own.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn runtime(&self, origin: Origin<'_>) -> Result<Arc<Runtime>, SystemError> {
        let workers = Workers::new(self.threads).map_err(SystemError::Threads)?;
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        let options = (self.sandbox)(origin);
        let runtime =
            Runtime::in_sandbox(self.base.clone(), Arc::new(workers), Some(cache), &options);
        Ok(Arc::new(runtime.with_assistant(self.assistant.cloned()).stoppable(self.stop.clone())))
    }

    /// Returns the language model; the error says that the system `name` needs one.
    fn model(&self, name: &str) -> Result<Arc<Assistant>, SystemError> {
        self.assistant.cloned().ok_or_else(|| SystemError::NoModel(name.to_owned()))
    }

    /// Opens a nested system, one level deeper.
    fn inner(&self, name: &str) -> Result<Box<dyn Retriever>, SystemError> {
        let level = self.level + 1;
        if level >= MAX_LEVELS {
            return Err(SystemError::Nested);
        }
        open(name, &Opener { level, ..*self })
    }
}

/// Opens the system `name`, with its arguments.
///
/// # Errors
/// [`SystemError`].
pub fn open(name: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (spec, arguments) = find(name)?;
    (spec.open)(arguments, opener)
}

/// Finds the system of `name`; returns it with its arguments, including the separator.
///
/// # Errors
/// [`SystemError::Unknown`]; [`SystemError::Arguments`] if required arguments are missing.
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

/// Whether the system answers with values instead of a ranking.
pub fn answers_with_values(name: &str) -> bool {
    name == ask::SPEC.name
}

/// Whether the system's use of a language model depends on the effort.
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

/// Formats [`names`] for the help text of an option.
pub fn choices() -> String {
    format!("one of {} (`agent systems` describes each)", names())
}

/// Returns the system whose name is most similar to `name` without its arguments, else to all of
/// `name`; `None` if more than [`MAX_DISTANCE`] edits are needed.
fn nearest(name: &str) -> Option<&'static str> {
    let plain = name.split(SEPARATORS).next().unwrap_or_default();
    let near = |name| words::nearest(name, SYSTEMS.iter().map(|spec| spec.name), MAX_DISTANCE);
    near(plain).or_else(|| near(name))
}

/// Error of opening a system.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// The name is unknown.
    #[error("no system {name:?}; use one of: {}", names())]
    Unknown {
        /// The given name.
        name: String,
        /// The most similar known name, if there is one.
        nearest: Option<&'static str>,
    },
    /// The arguments are invalid.
    #[error("{name:?} {why}; write {written}")]
    Arguments {
        /// The given name.
        name: String,
        /// The name with the syntax of its arguments.
        written: String,
        /// What is wrong with it.
        why: String,
    },
    /// Systems are nested too deeply.
    #[error("more than {MAX_LEVELS} nested systems; name fewer")]
    Nested,
    /// The system needs a language model.
    #[error("{0} needs a language model, and none is configured")]
    NoModel(String),
    /// A server cannot provide what the system needs.
    #[error("{0} needs a file, a model or labelled queries, which a server does not provide")]
    NotServed(String),
    /// Programs of a bundle ask a language model, and the server has none.
    #[error("programs of the bundle ask a language model, and the server was started without one")]
    NoServerModel,
    /// The system only answers queries that are known in advance.
    #[error("{0} only answers labelled queries; measure it with `agent eval`")]
    NoQueries(String),
    /// A run file cannot be used.
    #[error("{file}: {why}")]
    Run {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// Threads cannot be started.
    #[error("cannot start threads for programs")]
    Threads(#[source] io::Error),
    /// A bundle cannot be read or used on this base.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A file is not a program.
    #[error(transparent)]
    ProgramFileError(#[from] ProgramFileError),
    /// A program does not compile.
    #[error("{what} cannot be run")]
    Failed {
        /// The bundle, or the program's file.
        what: String,
        /// What is wrong with the program.
        source: Box<Failure>,
    },
    /// A part of the index cannot be used.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
    /// A trained model cannot be used.
    #[error(transparent)]
    Model(#[from] TrainError),
}

impl SystemError {
    /// Whether the name itself is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Arguments { .. } | Self::Nested)
    }

    /// Returns a remedy to show below the message, if there is one.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { nearest, .. } => format!("did you mean {:?}?", (*nearest)?),
            Self::NoModel(_) => "name a model with --model, and a service if needed".to_owned(),
            Self::NoServerModel => "start the server with this bundle and --model".to_owned(),
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
