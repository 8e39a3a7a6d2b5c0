//! The registry of systems: everything that ranks nodes for a query, by the name it has on the
//! command line. Help, errors, `agent systems` and docs/systems.md are all made from [`SYSTEMS`].
//!
//! A further system is a file here with a `SPEC` constant, and a line in [`SYSTEMS`]. The file says
//! how the system is written, what it needs and how it is opened; the ranking itself may be made
//! elsewhere, in [`retrieve`](agent_retrieve) or [`infer`](agent_infer).
//!
//! Must not know: command lines, which answers are right.

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

/// All systems, in the order of help and tables.
pub static SYSTEMS: &[SystemSpec] = &[
    lexical::BM25,
    lexical::STARK,
    lexical::NAMES,
    dense::EXACT,
    dense::ANN,
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

/// Memory for answers of tool calls, bytes.
const CACHE_BYTES: usize = 256 << 20;
/// Systems that may stand within one another, as in `rerank:SYSTEM`.
const MAX_LEVELS: usize = 4;
/// Letters that a known name may differ in to be proposed.
const MAX_DISTANCE: usize = 2;
/// What begins the arguments of a system.
const SEPARATORS: [char; 2] = [':', '='];

/// One system: how it is named, what it does, what it needs.
#[derive(Clone, Copy, Debug)]
pub struct SystemSpec {
    /// What its name begins with; no two systems share it.
    pub name: &'static str,
    /// What is written behind the name: `:FILE`, or `[:SYSTEM]` where it may be left out; empty for
    /// a system without arguments.
    pub arguments: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What must be there for it to be opened.
    pub needs: &'static [Need],
    /// Opens it with the arguments that were written, separator included; empty for none.
    open: Open,
}

/// Opens a system with its arguments.
type Open = fn(&str, &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError>;

impl SystemSpec {
    /// The name with its arguments, as in `rerank[:SYSTEM]`.
    pub fn written(&self) -> String {
        format!("{}{}", self.name, self.arguments)
    }

    /// What follows the system's name in a name; none for the name of another system.
    fn arguments_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let arguments = name.strip_prefix(self.name)?;
        let first = arguments.chars().next();
        let fits = first.is_none_or(|c| SEPARATORS.contains(&c) && self.arguments.contains(c));
        fits.then_some(arguments)
    }

    /// That its arguments are wrong.
    fn wrong(&self, arguments: &str, why: &str) -> SystemError {
        let (name, written) = (format!("{}{arguments}", self.name), self.written());
        SystemError::Arguments { name, written, why: why.to_owned() }
    }
}

/// What a system needs beside the indexes that every base has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// An optional part of the index.
    Part(Part),
    /// A language model.
    Model,
    /// The file that its name gives.
    File,
    /// Queries with ids, known before the first is asked.
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

/// What systems are opened with.
#[derive(Clone, Copy)]
pub struct Opener<'a> {
    /// The base that is searched.
    pub base: &'a Arc<IndexedBase>,
    /// The language model, where one is configured: answers the tools of programs, reranks, calls
    /// tools.
    pub assistant: Option<&'a Arc<Assistant>>,
    /// How far a bundle leans on it.
    pub effort: Effort,
    /// Threads that programs run on.
    pub threads: usize,
    /// Where programs of an origin run.
    pub sandbox: &'a dyn Fn(Origin<'_>) -> SandboxOptions,
    /// The queries that will be asked, by id, where they are known beforehand.
    pub queries: &'a [(i64, String)],
    /// Tells the user something that is no fault.
    pub notice: &'a dyn Fn(&str),
    /// Set when programs are to end.
    pub stop: &'a Arc<AtomicBool>,
    /// How many systems this one stands within; 0 for one that nobody else opens.
    pub level: usize,
}

impl Opener<'_> {
    /// What programs of one origin run on, with a cache.
    ///
    /// # Errors
    /// That the operating system refuses the threads.
    pub fn runtime(&self, origin: Origin<'_>) -> Result<Arc<Runtime>, SystemError> {
        let workers = Workers::new(self.threads).map_err(SystemError::Threads)?;
        let cache = Arc::new(ToolCache::new(CACHE_BYTES));
        let options = (self.sandbox)(origin);
        let runtime =
            Runtime::in_sandbox(self.base.clone(), Arc::new(workers), Some(cache), &options);
        Ok(Arc::new(runtime.with_assistant(self.assistant.cloned()).stoppable(self.stop.clone())))
    }

    /// The language model that what is so named cannot do without.
    fn model(&self, name: &str) -> Result<Arc<Assistant>, SystemError> {
        self.assistant.cloned().ok_or_else(|| SystemError::NoModel(name.to_owned()))
    }

    /// Opens a system that another one stands on.
    fn inner(&self, name: &str) -> Result<Box<dyn Retriever>, SystemError> {
        let level = self.level + 1;
        if level >= MAX_LEVELS {
            return Err(SystemError::Nested);
        }
        open(name, &Opener { level, ..*self })
    }
}

/// Opens the system of a name.
///
/// # Errors
/// [`SystemError`].
pub fn open(name: &str, opener: &Opener<'_>) -> Result<Box<dyn Retriever>, SystemError> {
    let (spec, arguments) = find(name)?;
    (spec.open)(arguments, opener)
}

/// The system of a name, and the arguments that are written behind it.
///
/// # Errors
/// [`SystemError::Unknown`], [`SystemError::Arguments`] where a system needs some.
pub fn find(name: &str) -> Result<(&'static SystemSpec, &str), SystemError> {
    let fitting = |spec: &'static SystemSpec| Some((spec, spec.arguments_of(name)?));
    let Some((spec, arguments)) = SYSTEMS.iter().find_map(fitting) else {
        return Err(SystemError::Unknown { name: name.to_owned(), nearest: nearest(name) });
    };
    // A separator alone names no file.
    let optional = spec.arguments.is_empty() || spec.arguments.starts_with('[');
    if arguments.len() <= 1 && !optional {
        return Err(spec.wrong(arguments, "is not complete"));
    }
    Ok((spec, arguments))
}

/// Whether the system of a name answers with values alone, and ranks nothing.
pub fn answers_with_values(name: &str) -> bool {
    name == ask::SPEC.name
}

/// Whether the system of a name asks a language model as far as the effort says.
pub fn uses_effort(name: &str) -> bool {
    name == ask::SPEC.name || bundle::is_within(name)
}

/// The file that arguments `:FILE` name.
fn file_of(arguments: &str) -> &Path {
    Path::new(arguments.strip_prefix(':').unwrap_or_default())
}

/// All systems as they are written, in a line.
pub fn names() -> String {
    SYSTEMS.iter().map(SystemSpec::written).collect::<Vec<_>>().join(", ")
}

/// The same for a sentence of help.
pub fn choices() -> String {
    format!("one of {} (`agent systems` says what each is)", names())
}

/// The known name that is nearest, with what follows it or without.
fn nearest(name: &str) -> Option<&'static str> {
    let plain = name.split(SEPARATORS).next().unwrap_or_default();
    let near = |name| words::nearest(name, SYSTEMS.iter().map(|spec| spec.name), MAX_DISTANCE);
    near(plain).or_else(|| near(name))
}

/// Why a system cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// There is none of that name.
    #[error("no system {name:?}; there are {}", names())]
    Unknown {
        /// The name as given.
        name: String,
        /// One that is written nearly so.
        nearest: Option<&'static str>,
    },
    /// What is written behind its name cannot be understood.
    #[error("{name:?} {why}; write {written}")]
    Arguments {
        /// The name as given.
        name: String,
        /// How it is written.
        written: String,
        /// What is wrong with it.
        why: String,
    },
    /// Too many systems stand on one another.
    #[error("more than {MAX_LEVELS} systems stand within one another; name fewer")]
    Nested,
    /// It asks a language model.
    #[error("{0} needs a language model, and none is configured")]
    NoModel(String),
    /// A server has not what it needs.
    #[error("{0} needs a file, a model or labelled queries, and a server gives it none")]
    NotServed(String),
    /// Programs of a bundle ask a language model, and the server has none.
    #[error("programs of the bundle ask a language model, and the server was started without one")]
    NoServerModel,
    /// It answers queries that are known beforehand.
    #[error("{0} answers labelled queries only; measure it with `agent eval`")]
    NoQueries(String),
    /// A run file cannot be used.
    #[error("{file}: {why}")]
    Run {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refuses threads.
    #[error("cannot start threads for programs")]
    Threads(#[source] io::Error),
    /// A bundle cannot be read, or not be used on this base.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A file holds no program.
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
    /// What it needs of the index cannot be used.
    #[error(transparent)]
    Retrieve(#[from] RetrieveError),
    /// A trained model cannot be used.
    #[error(transparent)]
    Model(#[from] TrainError),
}

impl SystemError {
    /// Whether the name is wrong, whatever there is.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Arguments { .. } | Self::Nested)
    }

    /// What to do about it, where the message does not say so.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { nearest, .. } => format!("did you mean {:?}?", (*nearest)?),
            Self::NoModel(_) => "name a model with --model, and a service if needed".to_owned(),
            Self::NoServerModel => "start the server with this bundle and --model".to_owned(),
            Self::Bundle(BundleError::Changed { .. }) => {
                "take the file from the run's directory again, or optimize again".to_owned()
            }
            Self::Bundle(BundleError::OtherBase { .. }) => {
                "`agent query --force` answers with it all the same".to_owned()
            }
            _ => return None,
        })
    }
}
